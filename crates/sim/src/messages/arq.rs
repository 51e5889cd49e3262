//! Model of pure ARQ, as in SRT. A missing message is requested as soon as a later message arrives. The request is
//! repeated after an RTT and a margin, until the message's deadline. Nothing is retransmitted without a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dfcp_time::Time;

use super::{LATE, Messages};

/// Initial RTT of SRT (draft-sharabayko-srt-01, §4.10).
const RTT_INITIAL: Duration = Duration::from_millis(100);
/// Margin added to the RTT before a request is repeated: the period of SRT's timers.
const PATIENCE: Duration = Duration::from_millis(10);

/// Message that is missing at the receiver.
#[derive(Clone, Copy, Debug)]
struct Missing {
    asked_at: Time,
    /// Number of requests sent for the message.
    times: u32,
    /// Time of the next request; `None` if that would be after the deadline.
    again_at: Option<Time>,
}

/// Receiver of the ARQ model.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    messages: Messages,
    began: Time,
    /// One past the highest message number received.
    next: u64,
    /// Missing messages. They are kept until a while after their deadline.
    missing: BTreeMap<u64, Missing>,
    /// Times of the next requests, with the message number.
    timers: BTreeSet<(Time, u64)>,
    /// RTT: the time between request and arrival of the last message that was requested only once.
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

    /// Processes a message. Returns true if it is new, and requests the missing messages before it.
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

    /// Repeats the requests that are due.
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

    /// Drops lost messages. They have no timer any more, because requests end at the deadline.
    fn forget(&mut self, now: Time) {
        while let Some(oldest) = self.missing.first_entry() {
            if now <= self.messages.handed_over_at(self.began, *oldest.key()) + self.messages.deadline + LATE {
                break;
            }
            oldest.remove();
        }
    }
}
