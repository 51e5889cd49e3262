//! What the rest of a session learns from a report that its sending side believes.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::feedback::Report;

use crate::path::breaker::Snapshot;
use crate::path::credit::Spending;
use crate::path::receiver_flow_control::{QUEUE_UNIT_BYTES, QueueReport};
use crate::session::Session;

impl Session {
    /// What else a report that is news says: `queue_kib` is the queue in front of the peer.
    pub(super) fn on_news(&mut self, now: Time, report: &Report, sample: Option<Duration>, queue_kib: u32) {
        self.counters.arrival_rate_bps = report.arrival_rate_bps;
        if let Some(sample) = sample {
            self.rtt.sample(sample);
        }
        let queue = QueueReport {
            queue_bytes: u64::from(queue_kib) * QUEUE_UNIT_BYTES,
            arrival_rate_bps: report.arrival_rate_bps,
            rate_bps: self.configured_bps(),
            rtt: sample,
            interval: self.rtt.report_interval(),
        };
        self.send.on_queue(now, queue);
        self.credit.on_report(sample);
    }

    pub(super) fn feed_breaker(&mut self, now: Time, bytes: u64) {
        let is_credit_short = self.spending() != Spending::Freely;
        let Some(reported) = self.send.flight.reported().filter(|_| self.breaker_is_on()) else { return };
        let Some(rate_bps) = self.configured_bps() else { return };
        self.reported_bytes = self.reported_bytes.max(bytes.min(self.counters.bytes_sent));
        let overhead = reported.received * u64::from(self.overhead_bytes);
        let snapshot = Snapshot {
            at: now,
            numbered: self.numbers.sent_before(self.numbers.end()),
            settled: reported.passed,
            arrived: reported.received,
            arrived_bits: (self.reported_bytes + overhead) * 8,
            sent_bits: self.sent_bits,
            is_credit_short,
        };
        self.breaker.observe(snapshot, self.rtt.smoothed(), rate_bps);
        self.update_rate();
    }
}
