//! A simple path for tests of rate controllers.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

use crate::config::controller::{Mark, RateController, ReportSeen};

const MBIT: f64 = 1e6;
/// Datagrams of a first train, all of which are reported.
const TRAIN: u64 = 16;
pub(crate) const DATAGRAM_BYTES: u64 = 1_500;

pub(crate) fn seen(now: Time, rtt: Duration, marks: &[Mark], is_limited: bool) -> ReportSeen<'_> {
    ReportSeen { now, rtt: Some(rtt), marks, is_limited, has_messages: false }
}

/// A bottleneck with a queue, and a receiver which tells of every fourth datagram. It knows no more than a path does.
pub(crate) struct Path {
    pub(crate) per_s: f64,
    pub(crate) rtt_s: f64,
    pub(crate) buffer: f64,
    /// One in this number of datagrams is lost behind the bottleneck; 0 for none.
    pub(crate) loses_every: u64,
    /// Time at which the bottleneck's queue is empty.
    pub(crate) free_s: f64,
    pub(crate) now_s: f64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Arrivals that the sender does not know of.
    pub(crate) on_their_way: VecDeque<(f64, Mark)>,
    queue_sum_s: f64,
    /// Highest number in a report.
    reported: u64,
    /// Rate of a policer in front of the queue, datagrams per second, its bucket, and its tokens.
    pub(crate) policer: Option<(f64, f64)>,
    tokens: f64,
    refilled_s: f64,
}

impl Path {
    pub(crate) fn new(mbps: f64, rtt_ms: f64, buffer: f64, loses_every: u64) -> Self {
        let per_s = mbps * MBIT / 8.0 / DATAGRAM_BYTES as f64;
        Self {
            per_s,
            rtt_s: rtt_ms / 1e3,
            buffer,
            loses_every,
            free_s: 0.0,
            now_s: 0.0,
            sent: 0,
            received: 0,
            on_their_way: VecDeque::new(),
            queue_sum_s: 0.0,
            reported: 0,
            policer: None,
            tokens: 0.0,
            refilled_s: 0.0,
        }
    }

    pub(crate) fn at(seconds: f64) -> Time {
        Time::from_ns((seconds * 1e9) as u64)
    }

    pub(crate) fn send(&mut self) {
        self.sent += 1;
        if !self.takes_token() {
            return;
        }
        let waits_s = (self.free_s - self.now_s).max(0.0);
        self.queue_sum_s += waits_s;
        if waits_s * self.per_s >= self.buffer {
            return;
        }
        self.free_s = self.now_s.max(self.free_s) + 1.0 / self.per_s;
        if self.loses_every > 0 && self.sent.is_multiple_of(self.loses_every) {
            return;
        }
        self.received += 1;
        if self.received.is_multiple_of(4) || self.sent <= TRAIN + 2 {
            let arrives_s = self.free_s + self.rtt_s / 2.0;
            let mark = Mark {
                sent: self.sent,
                received: self.received,
                sent_at: Self::at(self.now_s),
                // Its clock is another.
                arrived_us: ((arrives_s * 1e6) as u32).wrapping_add(u32::MAX - 1_000_000),
            };
            self.on_their_way.push_back((arrives_s + self.rtt_s / 2.0, mark));
        }
    }

    /// False if a policer drops the datagram.
    fn takes_token(&mut self) -> bool {
        let Some((per_s, bucket)) = self.policer else { return true };
        self.tokens = (self.tokens + per_s * (self.now_s - self.refilled_s)).min(bucket);
        self.refilled_s = self.now_s;
        let is_taken = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(is_taken));
        is_taken
    }

    fn in_flight(&self) -> usize {
        (self.sent - self.reported) as usize
    }

    /// Lets a controller send for `seconds`; returns the share of the bottleneck which arrived, and the mean queue in seconds.
    pub(crate) fn run(&mut self, control: &mut dyn RateController, seconds: f64) -> (f64, f64) {
        let (end_s, received, sent) = (self.now_s + seconds, self.received, self.sent);
        self.queue_sum_s = 0.0;
        let mut next_s = self.now_s;
        while self.now_s < end_s {
            let known = self.on_their_way.front().map_or(f64::INFINITY, |(at_s, _)| *at_s);
            self.now_s = next_s.min(known).max(self.now_s);
            if known <= next_s {
                let (_, mark) = self.on_their_way.pop_front().expect("there is one");
                self.reported = self.reported.max(mark.sent);
                let rtt = Duration::from_secs_f64(self.now_s - mark.sent_at.as_ns() as f64 / 1e9);
                control.on_report(seen(Self::at(self.now_s), rtt, &[mark], false));
            } else if self.in_flight() >= control.in_flight_max() && !self.on_their_way.is_empty() {
                next_s = known;
            } else {
                self.send();
                control.on_sent(self.sent);
                let bps = control.rate_bps().map_or(10.0 * self.per_s, |bps| bps as f64 / 8.0 / DATAGRAM_BYTES as f64);
                next_s = self.now_s + 1.0 / bps;
            }
        }
        let received = (self.received - received) as f64 / seconds / self.per_s;
        (received, self.queue_sum_s / (self.sent - sent).max(1) as f64)
    }
}
