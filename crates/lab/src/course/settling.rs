//! Measurement of the time until the first bottleneck is used, after the start and after each change of the link.

use std::collections::VecDeque;

use super::{LinkReading, TICK_NS};
use crate::scenario::Scenario;

/// A bottleneck counts as used if it delivers this share of its capacity.
const SHARE: f64 = 0.9;
/// Least length of a window in packets, so that the initial burst alone does not count as use.
const WINDOW_PACKETS: u64 = 32;
const PACKET_BITS: u64 = 1500 * 8;

/// Cumulative bytes that a bottleneck has delivered, and could have delivered, at a tick.
#[derive(Clone, Copy, Debug)]
struct Carried {
    bytes: u64,
    could_bytes: f64,
}

/// Detector of the first window in which a bottleneck delivers 90 % of its capacity. A window lasts one round trip, the
/// longest of all flows.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    window_ticks: usize,
    /// Counters at the ticks of the present window, oldest first.
    past: VecDeque<Carried>,
    could_bytes: f64,
    /// Times of future changes of the link, ns; the earliest is last.
    changes_ns: Vec<u64>,
    /// Time of the last change, ns; `None` after the bottleneck was used again.
    changed_ns: Option<u64>,
    longest_ns: Option<u64>,
    /// Start of the first window in which the bottleneck was used, ns.
    started_ns: Option<u64>,
    /// Packets (offered, dropped) at the end of the start phase, one window after the first window of use.
    at_start: Option<(u64, u64)>,
    last: (u64, u64),
}

/// Results of the detector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Settled {
    pub(super) started_ns: Option<u64>,
    /// Longest time from a change until the bottleneck was used again, ns.
    pub(super) recovery_ns: Option<u64>,
    /// Drop rate up to the end of the start phase, as a share.
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

    /// Records the bottleneck's state at `now_ns`, the end of a tick.
    pub(super) fn tick(&mut self, now_ns: u64, link: &LinkReading) {
        self.could_bytes += link.capacity_bps as f64 / 8.0 * (TICK_NS as f64 / 1e9);
        let present = Carried { bytes: link.carried_bytes, could_bytes: self.could_bytes };
        self.past.push_back(present);
        self.last = (link.offered, link.queue_drops);
        while self.changes_ns.last().is_some_and(|&at_ns| at_ns < now_ns) {
            let at_ns = self.changes_ns.pop();
            // The bottleneck was not used between the previous change and this one.
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
        // During an outage the capacity is 0, so that the bottleneck cannot be used.
        if could_bytes == 0.0 || ((present.bytes - first.bytes) as f64) < SHARE * could_bytes {
            return;
        }
        self.started_ns.get_or_insert(began_ns);
        if let Some(changed_ns) = self.changed_ns.take_if(|changed_ns| *changed_ns <= began_ns) {
            self.longest_ns = self.longest_ns.max(Some(began_ns - changed_ns));
        }
    }

    /// Counts an unfinished recovery as lasting until `now_ns`.
    fn give_up(&mut self, now_ns: u64) {
        if let Some(changed_ns) = self.changed_ns.take() {
            self.longest_ns = self.longest_ns.max(Some(now_ns.saturating_sub(changed_ns)));
        }
    }

    /// Ends the run at `now_ns` and returns the results.
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
