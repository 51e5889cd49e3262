//! The effects of a report on the rest of a session, once its sending side believes it.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::feedback::Report;

use crate::path::breaker::Snapshot;
use crate::path::credit::Spending;
use crate::path::flight::ReportedMarks;
use crate::path::receiver_flow_control::{QUEUE_UNIT_BYTES, QueueReport};
use crate::path::unjudged::Judgement;
use crate::session::common::Common;
use crate::session::open::Open;

impl Open {
    /// Applies the other contents of a report that is news: `queue_kib` is the queue in front of the peer.
    pub(super) fn on_news(
        &mut self,
        now: Time,
        common: &mut Common,
        report: &Report,
        (sample, marks): (Option<Duration>, &ReportedMarks),
        queue_kib: u32,
    ) {
        common.counters.arrival_rate_bps = report.arrival_rate_bps;
        if let Some(sample) = sample {
            common.path.sample_rtt(sample);
        }
        let queue = QueueReport {
            queue_bytes: u64::from(queue_kib) * QUEUE_UNIT_BYTES,
            arrival_rate_bps: report.arrival_rate_bps,
            rate_bps: self.configured_bps(&common.config),
            rtt: sample,
            interval: common.path.rtt().report_interval(),
        };
        common.path.on_queue(now, common.streams.send.packet_symbol_size(), queue);
        if let Some(control) = &mut self.rate_control {
            let has_messages = common.messages.as_ref().is_some_and(|messages| messages.send.is_under_way());
            control.set_spares_queue(has_messages);
            control.on_report(now, sample, marks.as_slice(), self.is_limited);
            self.is_limited = false;
            if common.streams.send.is_drained() && !has_messages {
                self.forget_vain_start();
            }
            self.update_rate(&common.config);
        }
        self.credit.on_report(sample);
    }

    pub(super) fn feed_breaker(&mut self, now: Time, common: &Common, bytes: u64, judgement: Judgement) {
        let is_credit_short = self.spending(common) != Spending::Freely;
        let Some(rate_bps) = self.guarded_bps(&common.config) else { return };
        let Some(reported) = common.path.flight().reported() else { return };
        if !self.is_at_guarded(rate_bps) {
            self.breaker.pass_over();
            return;
        }
        self.reported_bytes = self.reported_bytes.max(bytes.min(common.counters.bytes_sent));
        let overhead = reported.received * u64::from(common.overhead_bytes);
        let numbers = &common.link.numbers;
        let snapshot = Snapshot {
            at: now,
            numbered: numbers.sent_before(numbers.end()),
            settled: reported.passed,
            arrived: reported.received,
            arrived_bits: (self.reported_bytes + overhead) * 8,
            sent_bits: common.sent_bits,
            is_credit_short,
        };
        let Some(snapshot) = self.watched.see(snapshot, judgement) else { return };
        self.breaker.observe(snapshot, common.path.rtt().smoothed(), rate_bps);
        self.update_rate(&common.config);
    }
}
