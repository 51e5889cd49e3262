//! ARQ alone, as in SRT: a missing message is requested as soon as a later one arrives, and again after an RTT and a margin, until its
//! deadline. Nothing is sent without a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dfcp_time::Time;

use super::{LATE, Messages};

/// SRT's initial RTT (draft-sharabayko-srt-01, §4.10).
const RTT_INITIAL: Duration = Duration::from_millis(100);
/// Margin beyond the RTT before a repeated request: the period of SRT's timers.
const PATIENCE: Duration = Duration::from_millis(10);

/// Missing message.
#[derive(Clone, Copy, Debug)]
struct Missing {
    asked_at: Time,
    /// Number of requests.
    times: u32,
    /// Time of the next request, if that is before the deadline.
    again_at: Option<Time>,
}

/// Receiver of the model.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    messages: Messages,
    began: Time,
    /// One past the highest number received.
    next: u64,
    /// Missing messages, until a while after their deadline.
    missing: BTreeMap<u64, Missing>,
    /// Times of the next requests, by message.
    timers: BTreeSet<(Time, u64)>,
    /// Time from a single request to the last retransmission.
    rtt: Duration,
}

impl Receiver {
    pub(super) fn new(messages: Messages) -> Self {
        Self {
            messages,
            began: Time::ZERO,
            next: 0,
            missing: BTreeMap::new(),
            timers: BTreeSet::new(),
            rtt: RTT_INITIAL,
        }
    }

    /// Processes a message; returns true if it is new, and requests missing ones before it.
    pub(super) fn on_data(&mut self, now: Time, number: u64, began: Time, ask: impl FnMut(u64)) -> bool {
        self.began = began;
        self.forget(now);
        if number < self.next {
            let Some(missing) = self.missing.remove(&number) else { return false };
            missing.again_at.map(|at| self.timers.remove(&(at, number)));
            if missing.times == 1 {
                self.rtt = now.since(missing.asked_at);
            }
            return true;
        }
        let over_ns = now.as_ns().saturating_sub(self.messages.deadline.as_nanos() as u64);
        let first_open = self.messages.handed_over_before(began, Time::from_ns(over_ns));
        let gap = self.next.max(first_open)..number;
        self.next = number + 1;
        self.ask_for(now, gap, ask);
        true
    }

    /// Repeats overdue requests.
    pub(super) fn handle_timeout(&mut self, now: Time, ask: impl FnMut(u64)) {
        let mut due = Vec::new();
        while let Some(&(at, number)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, number));
            due.push(number);
        }
        self.ask_for(now, due, ask);
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.first().map(|&(at, _)| at)
    }

    fn ask_for(&mut self, now: Time, numbers: impl IntoIterator<Item = u64>, mut ask: impl FnMut(u64)) {
        for number in numbers {
            ask(number);
            let again_at = now + self.rtt + PATIENCE;
            let over_at = self.messages.handed_over_at(self.began, number) + self.messages.deadline;
            let again_at = (again_at <= over_at).then_some(again_at);
            again_at.map(|at| self.timers.insert((at, number)));
            let times = self.missing.get(&number).map_or(1, |missing| missing.times + 1);
            self.missing.insert(number, Missing { asked_at: now, times, again_at });
        }
    }

    /// Drops lost messages, which have no timer: timers end at the deadline.
    fn forget(&mut self, now: Time) {
        while let Some(oldest) = self.missing.first_entry() {
            if now <= self.messages.handed_over_at(self.began, *oldest.key()) + self.messages.deadline + LATE {
                break;
            }
            oldest.remove();
        }
    }
}
