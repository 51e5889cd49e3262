//! Time until the first bottleneck is used, after the start of the flows and after each change of the link.

use std::collections::VecDeque;

use super::{LinkReading, TICK_NS};
use crate::scenario::Scenario;

/// Share of the capacity that counts as used.
const SHARE: f64 = 0.9;
/// Least length of a window, in packets, so that the initial burst alone cannot fill it.
const WINDOW_PACKETS: u64 = 32;
const PACKET_BITS: u64 = 1500 * 8;

/// Bytes that a bottleneck has delivered, and bytes that it could have delivered, up to some tick.
#[derive(Clone, Copy, Debug)]
struct Carried {
    bytes: u64,
    could_bytes: f64,
}

/// Detector of the time from which a bottleneck is used: the first window of one (longest) round trip in which it delivers 90 % of its
/// capacity.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    window_ticks: usize,
    /// Counters of the last ticks.
    past: VecDeque<Carried>,
    could_bytes: f64,
    /// Future changes, ns; the earliest is last.
    changes_ns: Vec<u64>,
    /// Time of the last change, until the bottleneck is used again.
    changed_ns: Option<u64>,
    longest_ns: Option<u64>,
    /// Start of the first window in which the bottleneck was used.
    started_ns: Option<u64>,
    /// Packets offered and dropped until one window after the end of the first one.
    at_start: Option<(u64, u64)>,
    last: (u64, u64),
}

/// Settling times, from the start of the run, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Settled {
    pub(super) started_ns: Option<u64>,
    /// Longest time from a change until the bottleneck was used again.
    pub(super) recovery_ns: Option<u64>,
    /// Share of the packets dropped until one window after the first one.
    pub(super) start_dropped: Option<f64>,
}

impl Settling {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let rate_bps = scenario.links.first().map_or(1, |link| link.rate_bps.max(1));
        let packets_ns = (u128::from(WINDOW_PACKETS * PACKET_BITS) * 1_000_000_000 / u128::from(rate_bps)) as u64;
        let window_ticks = scenario.longest_rtt_ns().max(packets_ns).div_ceil(TICK_NS).max(1) as usize;
        let of_path = |change: &&crate::scenario::ChangeSpec| {
            let is_new = change.rate_bps.is_some() || change.delay_ns.is_some() || change.outage == Some(false);
            change.link == 0 && !change.is_back && is_new
        };
        Self {
            window_ticks,
            past: VecDeque::new(),
            could_bytes: 0.0,
            changes_ns: scenario.changes.iter().rev().filter(of_path).map(|change| change.at_ns).collect(),
            changed_ns: None,
            longest_ns: None,
            started_ns: None,
            at_start: None,
            last: (0, 0),
        }
    }

    /// Records the state of the bottleneck at `now_ns`, the end of a tick.
    pub(super) fn tick(&mut self, now_ns: u64, link: &LinkReading) {
        self.could_bytes += link.capacity_bps as f64 / 8.0 * (TICK_NS as f64 / 1e9);
        let present = Carried { bytes: link.carried_bytes, could_bytes: self.could_bytes };
        self.past.push_back(present);
        self.last = (link.offered, link.queue_drops);
        while self.changes_ns.last().is_some_and(|&at_ns| at_ns < now_ns) {
            let at_ns = self.changes_ns.pop();
            // The next change happened before the bottleneck was used again.
            self.give_up(at_ns.unwrap_or(now_ns));
            self.changed_ns = at_ns;
        }
        if self.past.len() <= self.window_ticks {
            return;
        }
        let Some(first) = self.past.pop_front() else { return };
        let window_ns = self.window_ticks as u64 * TICK_NS;
        let began_ns = now_ns - window_ns;
        if self.started_ns.is_some_and(|started_ns| now_ns >= started_ns + 2 * window_ns) {
            self.at_start.get_or_insert(self.last);
        }
        let could_bytes = present.could_bytes - first.could_bytes;
        // In an outage there is no capacity to use.
        if could_bytes == 0.0 || ((present.bytes - first.bytes) as f64) < SHARE * could_bytes {
            return;
        }
        self.started_ns.get_or_insert(began_ns);
        if let Some(changed_ns) = self.changed_ns.take_if(|changed_ns| *changed_ns <= began_ns) {
            self.longest_ns = self.longest_ns.max(Some(began_ns - changed_ns));
        }
    }

    /// Ends the recovery after the last change, unfinished.
    fn give_up(&mut self, now_ns: u64) {
        if let Some(changed_ns) = self.changed_ns.take() {
            self.longest_ns = self.longest_ns.max(Some(now_ns.saturating_sub(changed_ns)));
        }
    }

    /// Ends the run.
    pub(super) fn finish(mut self, now_ns: u64) -> Settled {
        self.give_up(now_ns);
        let (offered, dropped) = self.at_start.unwrap_or(self.last);
        Settled {
            started_ns: self.started_ns,
            recovery_ns: self.longest_ns,
            start_dropped: (offered > 0).then(|| dropped as f64 / offered as f64),
        }
    }
}

#[cfg(test)]
mod tests;
