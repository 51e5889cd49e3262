//! Streams that wait for a time, sorted by time, so that no stream is visited before it is due.

use std::collections::BTreeSet;
use std::ops::Bound;

use dfcp_time::Time;
use dfcp_wire::StreamId;

use crate::stream::send::Due;

/// Streams sorted by one kind of due time.
#[derive(Debug, Default)]
struct ByTime {
    /// Due time of the first stream. Most sessions have no other stream, and then need no memory here.
    first: Option<Time>,
    /// Not freed when empty: short-lived streams must not allocate each time.
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

    /// Returns the earliest time, and its stream.
    fn earliest(&self) -> Option<(Time, StreamId)> {
        let first = self.first.map(|at| (at, StreamId::FIRST));
        first.into_iter().chain(self.others.first().copied()).min()
    }

    fn first_due(&self, now: Time) -> Option<StreamId> {
        self.earliest().filter(|&(at, _)| at <= now).map(|(_, id)| id)
    }

    /// Returns the earliest time later than `asked`.
    fn next_after(&self, asked: Time) -> Option<Time> {
        let past = Bound::Excluded((asked, StreamId::from_word(u32::MAX)));
        let others = self.others.range((past, Bound::Unbounded)).next().map(|&(at, _)| at);
        self.first.filter(|&at| at > asked).into_iter().chain(others).min()
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Frees the memory of an empty set. Sessions whose streams are gone do not need it.
    fn give_back(&mut self) {
        if self.others.is_empty() {
            self.others = BTreeSet::new();
        }
    }
}

/// Streams that wait for a time. Streams with equal times are sorted by id.
#[derive(Debug)]
pub(super) struct TimedStreams {
    cuts: ByTime,
    asks: ByTime,
    ends: ByTime,
    /// Earliest time of all. `Time::MAX` if no stream waits.
    earliest: Time,
}

impl Default for TimedStreams {
    fn default() -> Self {
        let [cuts, asks, ends] = [(); 3].map(|()| ByTime::default());
        Self { cuts, asks, ends, earliest: Time::MAX }
    }
}

impl TimedStreams {
    /// Lists the stream under the times `due`, instead of those in `listed`.
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

    /// Returns true if any stream is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.earliest <= now
    }

    /// Returns the stream whose partial block is due to be cut.
    pub(super) fn cut(&self, now: Time) -> Option<StreamId> {
        self.cuts.first_due(now)
    }

    /// Returns the stream for which a question to the peer is due.
    pub(super) fn ask(&self, now: Time) -> Option<StreamId> {
        self.asks.first_due(now)
    }

    /// Number of streams for which a question is scheduled.
    pub(super) fn asking(&self) -> usize {
        self.asks.len()
    }

    /// Returns the stream whose end is due to be announced.
    pub(super) fn end(&self, now: Time) -> Option<StreamId> {
        self.ends.first_due(now)
    }

    /// Returns the earliest time later than `asked`. Streams that were due before wait for another event.
    pub(super) fn next_after(&self, asked: Time) -> Option<Time> {
        // The usual case. This runs several times per datagram.
        if self.earliest > asked {
            return (self.earliest < Time::MAX).then_some(self.earliest);
        }
        [&self.cuts, &self.asks, &self.ends].into_iter().filter_map(|by_time| by_time.next_after(asked)).min()
    }

    /// Returns true if a stream is listed with at least these times.
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

    /// Frees unused memory after streams have gone.
    pub(super) fn give_back(&mut self) {
        [&mut self.cuts, &mut self.asks, &mut self.ends].into_iter().for_each(ByTime::give_back);
    }
}
