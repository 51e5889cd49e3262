//! Streams that wait for a time, by what they wait for, so that none of them is visited before it is due.

use std::collections::BTreeSet;
use std::ops::Bound;

use dfcp_time::Time;
use dfcp_wire::StreamId;

use crate::stream::send::Due;

/// Streams in the order of one of their times.
#[derive(Debug, Default)]
struct ByTime {
    /// That of the first stream. Most sessions have no other, and take no memory for them.
    first: Option<Time>,
    /// Kept when it is empty: streams that come and go must not allocate each time.
    others: BTreeSet<(Time, StreamId)>,
}

impl ByTime {
    fn change(&mut self, id: StreamId, before: Option<Time>, after: Option<Time>) {
        if id == StreamId::FIRST {
            self.first = after;
        } else if before != after {
            if let Some(at) = before {
                self.others.remove(&(at, id));
            }
            if let Some(at) = after {
                self.others.insert((at, id));
            }
        }
    }

    /// The earliest, and its stream.
    fn earliest(&self) -> Option<(Time, StreamId)> {
        let first = self.first.map(|at| (at, StreamId::FIRST));
        first.into_iter().chain(self.others.first().copied()).min()
    }

    fn first_due(&self, now: Time) -> Option<StreamId> {
        self.earliest().filter(|&(at, _)| at <= now).map(|(_, id)| id)
    }

    /// The earliest time past `asked`.
    fn next_after(&self, asked: Time) -> Option<Time> {
        let past = Bound::Excluded((asked, StreamId::from_word(u32::MAX)));
        let others = self.others.range((past, Bound::Unbounded)).next().map(|&(at, _)| at);
        self.first.filter(|&at| at > asked).into_iter().chain(others).min()
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// An empty set keeps its memory, which sessions whose streams are gone have no use for.
    fn give_back(&mut self) {
        if self.others.is_empty() {
            self.others = BTreeSet::new();
        }
    }
}

/// Streams that wait for a time. Those of equal time come in the order of their ids.
#[derive(Debug)]
pub(super) struct TimedStreams {
    cuts: ByTime,
    asks: ByTime,
    ends: ByTime,
    /// Nothing is due before.
    earliest: Time,
}

impl Default for TimedStreams {
    fn default() -> Self {
        let [cuts, asks, ends] = [(); 3].map(|()| ByTime::default());
        Self { cuts, asks, ends, earliest: Time::MAX }
    }
}

impl TimedStreams {
    /// The stream, which was listed with `listed`, waits for `due`.
    pub(super) fn list(&mut self, id: StreamId, listed: &mut Due, due: Due) {
        if *listed == due {
            return;
        }
        self.cuts.change(id, listed.cut, due.cut);
        self.asks.change(id, listed.ask, due.ask);
        self.ends.change(id, listed.end, due.end);
        *listed = due;
        let firsts = [&self.cuts, &self.asks, &self.ends].map(ByTime::earliest);
        self.earliest = firsts.into_iter().flatten().map(|(at, _)| at).min().unwrap_or(Time::MAX);
    }

    /// True if anything is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.earliest <= now
    }

    /// The stream whose partial block is due to be cut.
    pub(super) fn cut(&self, now: Time) -> Option<StreamId> {
        self.cuts.first_due(now)
    }

    /// The stream of which the peer is to be asked.
    pub(super) fn ask(&self, now: Time) -> Option<StreamId> {
        self.asks.first_due(now)
    }

    /// Number of streams that wait to be told of, or to ask.
    pub(super) fn asking(&self) -> usize {
        self.asks.len()
    }

    /// The stream whose end is to be said.
    pub(super) fn end(&self, now: Time) -> Option<StreamId> {
        self.ends.first_due(now)
    }

    /// The earliest time past `asked`: what was due then waits for something else.
    pub(super) fn next_after(&self, asked: Time) -> Option<Time> {
        // Nearly always, and asked several times for each datagram.
        if self.earliest > asked {
            return (self.earliest < Time::MAX).then_some(self.earliest);
        }
        [&self.cuts, &self.asks, &self.ends].into_iter().filter_map(|by_time| by_time.next_after(asked)).min()
    }

    /// True if a stream is listed with these times, at least.
    #[cfg(debug_assertions)]
    pub(super) fn holds(&self, id: StreamId, due: Due) -> bool {
        let is_listed = |by_time: &ByTime, at: Option<Time>| match at {
            _ if id == StreamId::FIRST => by_time.first == at,
            Some(at) => by_time.others.contains(&(at, id)),
            None => true,
        };
        is_listed(&self.cuts, due.cut) && is_listed(&self.asks, due.ask) && is_listed(&self.ends, due.end)
    }

    /// Number of streams in each list.
    #[cfg(debug_assertions)]
    pub(super) fn lengths(&self) -> [usize; 3] {
        [self.cuts.len(), self.asks.len(), self.ends.len()]
    }

    /// Streams have gone, and with them what was listed of them.
    pub(super) fn give_back(&mut self) {
        [&mut self.cuts, &mut self.asks, &mut self.ends].into_iter().for_each(ByTime::give_back);
    }
}
