//! Timed events of a path: outages, recorded rates and address changes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::LinkChange;
use crate::delivery_trace::{DeliveryTrace, TRACE_BIN_DEFAULT};

/// Direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the calling host to the called one.
    Up,
    /// From the called host to the calling one.
    Down,
}

impl Way {
    const BOTH: [Self; 2] = [Self::Up, Self::Down];
}

/// Event on a path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathEvent {
    /// Change of the link in one direction.
    Change(Way, LinkChange),
    /// Change of the calling host's address, as by a NAT rebinding.
    Rebind,
}

/// Events of a path in chronological order. Times are relative to a start that the caller chooses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Events other than rates, by time.
    events: VecDeque<(Duration, PathEvent)>,
    /// Recorded rates, by [`Way`].
    traces: [Option<Replay>; 2],
}

/// Replay of a recorded rate, repeated forever.
#[derive(Clone, Debug, PartialEq)]
struct Replay {
    trace: DeliveryTrace,
    next_bin: u32,
}

impl Replay {
    fn next_at(&self) -> Duration {
        TRACE_BIN_DEFAULT.saturating_mul(self.next_bin)
    }
}

impl Schedule {
    /// Adds an outage of both directions from `at` for `lasts`. Overlapping outages all end at the earliest of their
    /// ends.
    #[must_use]
    pub fn with_outage(mut self, at: Duration, lasts: Duration) -> Self {
        for (at, is_out) in [(at, true), (at.saturating_add(lasts), false)] {
            let change = LinkChange { outage: Some(is_out), ..LinkChange::default() };
            Way::BOTH.into_iter().for_each(|way| self.add(at, PathEvent::Change(way, change.clone())));
        }
        self
    }

    /// Adds a change of the calling host's address at `at`.
    #[must_use]
    pub fn with_rebind(mut self, at: Duration) -> Self {
        self.add(at, PathEvent::Rebind);
        self
    }

    /// Sets the rate of one direction from a trace, averaged over [`TRACE_BIN_DEFAULT`].
    #[must_use]
    pub fn with_trace(mut self, way: Way, trace: DeliveryTrace) -> Self {
        self.traces[way as usize] = Some(Replay { trace, next_bin: 0 });
        self
    }

    fn add(&mut self, at: Duration, event: PathEvent) {
        let place = self.events.partition_point(|(other, _)| *other <= at);
        self.events.insert(place, (at, event));
    }

    /// Returns the time of the next event; `None` if there are no more events.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        let rates = self.traces.iter().flatten().map(Replay::next_at);
        rates.chain(self.events.front().map(|(at, _)| *at)).min()
    }

    /// Removes and returns the next event, if it is due by `now`.
    pub fn pop(&mut self, now: Duration) -> Option<PathEvent> {
        let next_at = self.next_at().filter(|&at| at <= now)?;
        let replays = Way::BOTH.into_iter().zip(&mut self.traces);
        let mut replays = replays.filter_map(|(way, replay)| Some((way, replay.as_mut()?)));
        if let Some((way, replay)) = replays.find(|(_, replay)| replay.next_at() == next_at) {
            // The number of the bin wraps after 2.7 years.
            let rate_bps = replay.trace.rate_bps(TRACE_BIN_DEFAULT, replay.next_bin.into());
            replay.next_bin = replay.next_bin.wrapping_add(1);
            return Some(PathEvent::Change(way, LinkChange { rate_bps: Some(rate_bps), ..LinkChange::default() }));
        }
        self.events.pop_front().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn events_come_in_the_order_of_time_and_not_before() {
        let mut schedule = Schedule::default().with_rebind(30 * MS).with_outage(10 * MS, 20 * MS).with_rebind(5 * MS);
        let outage = |way, is_out| PathEvent::Change(way, LinkChange { outage: Some(is_out), ..LinkChange::default() });
        assert_eq!((schedule.next_at(), schedule.pop(4 * MS)), (Some(5 * MS), None));
        assert_eq!(schedule.pop(5 * MS), Some(PathEvent::Rebind));
        assert_eq!((schedule.next_at(), schedule.pop(9 * MS)), (Some(10 * MS), None));
        let rest: Vec<_> = std::iter::from_fn(|| schedule.pop(40 * MS)).collect();
        let (up, down) = (Way::Up, Way::Down);
        let expected =
            [outage(up, true), outage(down, true), PathEvent::Rebind, outage(up, false), outage(down, false)];
        assert_eq!(rest, expected);
        assert_eq!(schedule.next_at(), None);
    }

    #[test]
    fn a_trace_is_repeated_without_end_and_each_way_has_its_own() {
        let trace = |text: &str| DeliveryTrace::parse(text).unwrap();
        // Up: 2 packets at 1 and 2 ms of every 40, and one at 40 ms, which falls into the next bin. Down: a packet
        // every 10 ms.
        let mut schedule =
            Schedule::default().with_trace(Way::Up, trace("1\n2\n40\n")).with_trace(Way::Down, trace("10\n"));
        let mut rates = [Vec::new(), Vec::new()];
        for ms in 0..100 {
            while let Some(event) = schedule.pop(ms * MS) {
                let PathEvent::Change(way, change) = event else { panic!("{event:?}") };
                rates[way as usize].push((ms, change.rate_bps.unwrap()));
            }
        }
        let bps = |packets: u64| (packets * 12_000 * 50).max(1);
        assert_eq!(rates[0], [(0, bps(2)), (20, bps(0)), (40, bps(3)), (60, bps(0)), (80, bps(3))]);
        assert_eq!(rates[1], [(0, bps(1)), (20, bps(2)), (40, bps(2)), (60, bps(2)), (80, bps(2))]);
        assert_eq!(schedule.next_at(), Some(100 * MS));
    }
}
