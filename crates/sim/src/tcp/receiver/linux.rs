//! Timing of acknowledgements in Linux 6.12 (`__tcp_ack_snd_check`, `tcp_event_data_recv` and `tcp_send_delayed_ack`),
//! for an application that reads immediately.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use super::super::config::Config;
use super::super::segment::Segment;
use super::Receiver;

/// Number of undelayed acknowledgements after a needless retransmission (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Minimum delay of a delayed acknowledgement, ns (`TCP_ATO_MIN`, `TCP_DELACK_MIN`).
const DELAY_MIN_NS: u64 = 40_000_000;
/// Maximum delay of a delayed acknowledgement, ns (`TCP_DELACK_MAX`).
const DELAY_MAX_NS: u64 = 200_000_000;
/// Number of duplicate acknowledgements that are sent without compression (`TCP_FASTRETRANS_THRESH`).
const PROMPT_DUPLICATES: u32 = 3;
/// Maximum number of acknowledgements compressed into one (`tcp_comp_sack_nr`).
const COMPRESSED_MAX: u32 = 44;
/// Maximum delay by compression (`tcp_comp_sack_delay_ns`). With a short RTT, `COMPRESSION_RTT_PART` gives a smaller
/// one.
const COMPRESSION_MAX: Duration = Duration::from_millis(1);
/// Divisor of the RTT that gives the maximum delay by compression.
const COMPRESSION_RTT_PART: u32 = 20;
/// Slack of the compression timer (`tcp_comp_sack_slack_ns`), which lets the kernel coalesce timers. Without other
/// timers, it always expires late by the slack.
const COMPRESSION_SLACK: Duration = Duration::from_micros(100);

/// Arrival of a data segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) segment: &'a Segment,
    pub(super) in_order: bool,
    /// True if all data of the segment had already been acknowledged.
    pub(super) is_old: bool,
    /// True if there was a gap when the segment arrived.
    pub(super) filled: bool,
}

/// State for the timing of acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinuxAcks {
    /// Delay of the next delayed acknowledgement, ns; 0 before the first segment.
    delay_ns: u64,
    last_arrival: Time,
    /// True if the end of a burst has arrived since the last acknowledgement.
    pushed: bool,
    /// Number of duplicate acknowledgements sent without compression since the stream last advanced, to the position
    /// `duplicates_of`.
    prompt_duplicates: u32,
    duplicates_of: u64,
    compressed: u32,
    compressed_until: Option<Time>,
}

impl LinuxAcks {
    pub(super) fn on_ack_sent(&mut self) {
        self.pushed = false;
        self.compressed = 0;
        self.compressed_until = None;
    }

    /// Returns the time at which the compressed acknowledgement is due.
    pub(super) fn compressed_until(&self) -> Option<Time> {
        self.compressed_until
    }

    pub(super) fn forget_pace(&mut self) {
        self.delay_ns = DELAY_MIN_NS;
    }

    /// Port of `tcp_delack_timer_handler`: the second segment did not arrive within the expected time.
    pub(super) fn on_delayed_ack_missed(&mut self, config: &Config) {
        self.delay_ns = (2 * self.delay_ns).min(DELAY_MAX_NS).min(duration_ns(config.max_rto));
    }
}

impl Receiver {
    pub(super) fn schedule_ack_linux(&mut self, now: Time, arrival: Arrival<'_>) {
        if arrival.in_order {
            self.note_pace(now);
        } else if arrival.is_old {
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
            self.linux.delay_ns = DELAY_MIN_NS;
        }
        self.linux.pushed |= arrival.segment.flags.psh;
        let has_gap = self.data.has_gap();
        let unacknowledged = self.ack().saturating_sub(self.last_ack);
        let is_due = unacknowledged > u64::from(self.config.mss_bytes)
            || self.quick_acks > 0
            || self.fin_received
            || arrival.filled && !has_gap
            // The application reads when the end of a burst arrives, and reading sends the acknowledgement
            // (`__tcp_cleanup_rbuf`).
            || self.linux.pushed && arrival.in_order && !has_gap;
        if is_due {
            self.quick_acks = self.quick_acks.saturating_sub(1);
            self.ack_now = true;
        } else if !has_gap {
            self.delay_ack(now);
        } else if self.config.uses_sack() {
            self.compress_ack(now);
        } else {
            self.ack_now = true;
        }
    }

    /// Port of `tcp_event_data_recv`.
    fn note_pace(&mut self, now: Time) {
        let gap_ns = duration_ns(now.since(self.linux.last_arrival));
        let delay_ns = &mut self.linux.delay_ns;
        if *delay_ns == 0 {
            *delay_ns = DELAY_MIN_NS;
        } else if gap_ns <= DELAY_MIN_NS / 2 {
            *delay_ns = *delay_ns / 2 + DELAY_MIN_NS / 2;
        } else if gap_ns < *delay_ns {
            *delay_ns = (*delay_ns / 2 + gap_ns).min(DELAY_MAX_NS);
        } else if gap_ns > self.handshake_timer.rto_ns() {
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
        }
        self.linux.last_arrival = now;
    }

    /// Port of `tcp_send_delayed_ack`.
    fn delay_ack(&mut self, now: Time) {
        if self.delayed_deadline.is_some() {
            return;
        }
        let rtt_ns = self.handshake_timer.srtt_ns().unwrap_or(DELAY_MAX_NS);
        let delay_ns = self.linux.delay_ns.min(rtt_ns.max(DELAY_MIN_NS)).min(DELAY_MAX_NS);
        self.delayed_deadline = Some(self.config.deadline(now, delay_ns));
    }

    fn compress_ack(&mut self, now: Time) {
        let linux = &mut self.linux;
        if linux.duplicates_of != self.data.next() {
            linux.duplicates_of = self.data.next();
            linux.prompt_duplicates = 0;
        }
        if linux.prompt_duplicates < PROMPT_DUPLICATES {
            linux.prompt_duplicates += 1;
            self.ack_now = true;
        } else if linux.compressed >= COMPRESSED_MAX {
            self.ack_now = true;
        } else {
            linux.compressed += 1;
            let rtt = Duration::from_nanos(self.handshake_timer.srtt_ns().unwrap_or(0));
            let delay = (rtt / COMPRESSION_RTT_PART).min(COMPRESSION_MAX);
            linux.compressed_until.get_or_insert(now + delay + COMPRESSION_SLACK);
        }
    }
}
