//! Processing of acknowledgements in Linux 6.12 (`tcp_ack` and the functions called by it in `net/ipv4/tcp_input.c`).
//! The model follows the kernel where it differs from the RFCs.

mod send;
mod timer;
mod undo;

use std::time::Duration;

use dfcp_time::Time;

use super::super::config::Reduction;
use super::super::congestion::{Ack, BbrAck, Controller};
use super::super::recovery::{Phase, RecoveryAck, RecoveryWindow};
use super::super::scoreboard::{Advance, Report};
use super::super::segment::Segment;
use super::Sender;
use super::ack::Change;

/// Resolution of timestamps on the wire, ns.
const TIMESTAMP_NS: u64 = 1_000_000;

/// Purpose of the timer that is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pending {
    /// The timer is not set, or has lost its purpose.
    #[default]
    Nothing,
    Retransmission,
    /// Tail loss probe (RFC 8985, section 7).
    Probe,
    /// Wait for segments that may be reordered.
    Reordering,
}

/// Kind of data that may be sent after an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resend {
    #[default]
    Nothing,
    Lost,
    /// New data instead of lost data, for F-RTO (RFC 5682, section 3.1, step 2b).
    New,
}

/// State of the Linux sender, in addition to the common state.
#[derive(Clone, Debug, Default)]
pub(super) struct Linux {
    /// True if segments are or were missing without being marked as lost (`TCP_CA_Disorder`).
    pub(super) disorder: bool,
    pub(super) pending: Pending,
    pub(super) resend: Resend,
    /// Send the first outstanding segment again, even if the window is full.
    pub(super) head_due: bool,
    /// Send a probe, even if the window is full.
    pub(super) probe_due: bool,
    /// Probe in flight: the next new segment at the time of the probe, and whether the probe was a retransmission.
    pub(super) probe: Option<(u64, bool)>,
    /// First outstanding segment at the start of a reduction that may be undone.
    pub(super) undo_from: Option<u64>,
    /// Retransmissions since the start of the reduction that were not reported as needless; `None` before the first
    /// retransmission.
    pub(super) undo_retransmissions: Option<u64>,
    /// Time of the first retransmission since the start of the reduction.
    pub(super) first_retransmission: Option<Time>,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    /// True while F-RTO checks whether the timeout was spurious.
    pub(super) frto: bool,
    /// Timeouts since the cumulative acknowledgement last advanced.
    pub(super) timeouts: u32,
    duplicates: u64,
    /// True if the window was the limit in the current RTT. `outstanding_max` is the largest number of outstanding
    /// segments, and `usage_end` the end of the RTT.
    pub(super) is_limited: bool,
    pub(super) outstanding_max: u64,
    pub(super) usage_end: u64,
    /// Segments left of the current burst; `burst_push` is true if the last one carries PSH.
    pub(super) burst_left: u32,
    pub(super) burst_push: bool,
    pub(super) last_sent: Time,
    /// Segments queued in the host's network device; `waits_for_device` is true if they block sending.
    pub(super) device_waiting: u64,
    pub(super) waits_for_device: bool,
    min_rtt_ns: Option<u64>,
}

/// Findings about an acknowledgement, for the state machine.
#[derive(Clone, Copy, Debug)]
struct Finding {
    advanced: bool,
    sacked: bool,
    duplicate: bool,
    /// True if the acknowledgement echoes a mark.
    is_echo: bool,
    report: Report,
    echoed: Option<Time>,
}

impl Sender {
    /// Port of `tcp_ack`.
    pub(super) fn on_ack_linux(&mut self, now: Time, segment: &Segment) {
        let una = self.segments_below(segment.ack);
        if una > self.board.end() {
            return;
        }
        self.take_peer_window(segment);
        let (prior_pipe, prior_lost) = (self.board.pipe(), self.board.lost_total());
        let had_outstanding = self.board.outstanding() > 0;
        let prior_una = self.board.una();
        let echoed = self.config.timestamps.then_some(segment.ts_ecr);
        self.board.begin_report(now, echoed, self.min_rtt_ns(), self.recovery_point);
        let repeats = segment.sack.duplicate().map_or(0, |block| self.note_duplicate(block, prior_una));
        let sacked = self.note_blocks(segment);
        let advance = self.board.advance(una);
        let is_echo = self.is_echo(segment);
        self.tell_dctcp(sacked + repeats, is_echo);
        let is_probe_duplicate = self
            .linux
            .probe
            .is_some_and(|(end, _)| segment.sack.duplicate().is_some_and(|(_, last)| last == self.seq(end)));
        let report = self.board.end_report(repeats > 0 && !is_probe_duplicate);
        if advance.segments > 0 {
            self.stats.acked_bytes = self.seq(self.board.una()) - 1;
            self.linux.timeouts = 0;
        }
        let rtt_ns = self.measure_linux(now, advance, &report, echoed);
        let finding = Finding {
            advanced: advance.segments > 0,
            sacked: sacked > 0,
            duplicate: repeats > 0,
            is_echo,
            report,
            echoed,
        };
        let mut sets_timer = finding.advanced || self.is_sack_newer_than_head(&report);
        self.linux.resend = Resend::Nothing;
        self.on_probe_acknowledged(una, &finding, is_probe_duplicate);
        let is_dubious = !finding.advanced || finding.sacked || finding.duplicate || is_echo || self.is_alert();
        if had_outstanding && is_dubious || finding.duplicate {
            sets_timer &= !self.respond_to_losses(now, &finding);
        }
        if self.board.una() >= self.total_segments {
            self.state = super::State::Finished;
            self.deadline = None;
        } else if sets_timer {
            self.set_transmit_timer(now);
        }
        let delivered = advance.delivered + sacked + repeats;
        self.note_delivered(delivered, is_echo);
        let newly_lost = self.board.lost_total() - prior_lost;
        self.control(&Change { now, advance, delivered, newly_lost, prior_pipe, rtt_ns }, &finding);
    }

    fn min_rtt_ns(&self) -> u64 {
        self.linux.min_rtt_ns.unwrap_or(u64::MAX)
    }

    pub(super) fn is_alert(&self) -> bool {
        self.phase != Phase::Open || self.linux.disorder
    }

    /// Processes SACK blocks in ascending order, as the kernel does. Returns the number of segments newly reported.
    fn note_blocks(&mut self, segment: &Segment) -> u64 {
        let mut blocks = [(0, 0); super::super::segment::SACK_BLOCKS_MAX];
        let mut count = 0;
        for block in segment.sack.iter(segment.ack) {
            blocks[count] = block;
            count += 1;
        }
        blocks[..count].sort_unstable();
        let mut fresh = 0;
        for &(start, end) in &blocks[..count] {
            fresh += self.board.sack(self.segments_reached(start), self.segments_below(end));
        }
        fresh
    }

    /// Port of `tcp_check_dsack`. Returns the number of segments that arrived needlessly.
    fn note_duplicate(&mut self, (start, end): (u64, u64), prior_una: u64) -> u64 {
        let (first, last) = (self.segments_reached(start), self.segments_below(end));
        let count = last.saturating_sub(first).max(1);
        self.linux.duplicates += count;
        // There were more duplicates than retransmissions, so the network itself has duplicated a segment.
        if self.linux.duplicates > self.stats.retransmissions {
            return 0;
        }
        let was_repeated = last <= prior_una || self.board.note_duplicate(first);
        if was_repeated && self.linux.undo_from.is_some_and(|from| last > from) {
            self.linux.undo_retransmissions =
                self.linux.undo_retransmissions.map(|repeats| repeats.saturating_sub(count));
        }
        count
    }

    /// Port of `tcp_ack_update_rtt`. Takes the RTT sample from segments that were sent once, or from the timestamp if
    /// there are none. Returns the RTT of the segment that arrived last, for congestion control.
    fn measure_linux(&mut self, now: Time, advance: Advance, report: &Report, echoed: Option<Time>) -> Option<u64> {
        let since = |sent: Time| now.as_ns().saturating_sub(sent.as_ns());
        let acked = report.acked.filter(|_| !report.retransmitted_acked);
        let mut sample = acked.or(report.sacked).map(|(first, _)| since(first));
        let mut latest = report.sacked.or(acked).map(|(_, last)| since(last));
        if sample.is_none() && advance.segments > 0 {
            let ticks = |time: Time| time.as_ns() / TIMESTAMP_NS;
            sample = echoed.map(|echoed| (ticks(now).saturating_sub(ticks(echoed)) * TIMESTAMP_NS).max(TIMESTAMP_NS));
            latest = sample;
        }
        let rtt_ns = latest?;
        self.linux.min_rtt_ns = Some(self.min_rtt_ns().min(rtt_ns));
        self.rtt.on_sample(sample?);
        self.rtt.end_back_off();
        latest
    }

    /// Returns true if a selectively acknowledged segment was sent before the first outstanding one. The timer is set
    /// again only then; otherwise, acknowledgements during a recovery could defer it for ever.
    fn is_sack_newer_than_head(&self, report: &Report) -> bool {
        match (report.sacked, self.board.head_sent()) {
            (Some((first, _)), Some(head)) => first < head,
            _ => false,
        }
    }

    /// Port of `tcp_process_tlp_ack`. If data beyond the probe is acknowledged, the segment that was probed had been
    /// lost.
    fn on_probe_acknowledged(&mut self, una: u64, finding: &Finding, is_duplicate: bool) {
        let Some((end, repeated)) = self.linux.probe.filter(|&(end, _)| una >= end) else { return };
        if !repeated || is_duplicate {
            self.linux.probe = None;
        } else if una > end {
            let ssthresh = self.controller.cwr_threshold(&self.window);
            self.begin_reduction(ssthresh);
            if !matches!(self.controller, Controller::Bbr(_)) {
                self.window.cwnd = self.window.ssthresh;
            }
            self.phase = Phase::Open;
            self.keep_open();
        } else if !finding.advanced && !finding.sacked {
            self.linux.probe = None;
        }
    }

    /// Port of `tcp_fastretrans_alert`. Returns true if the timer now waits for segments that may be reordered.
    fn respond_to_losses(&mut self, now: Time, finding: &Finding) -> bool {
        if finding.is_echo {
            // A reduction after a mark is never undone.
            self.linux.prior_ssthresh = 0;
        }
        if self.is_cwr_over() {
            self.end_cwr_linux();
        } else if self.phase == Phase::Recovery && self.board.una() >= self.recovery_point {
            self.end_recovery_linux(finding);
        }
        let mut waits = false;
        match self.phase {
            Phase::Recovery => {
                if finding.advanced && self.undo_partial(finding) {
                    return false;
                }
                if self.undo_by_duplicates() {
                    self.phase = Phase::Open;
                    self.try_to_open(finding.is_echo);
                }
                waits = self.identify_losses(now).0;
                if self.phase != Phase::Recovery {
                    if self.board.lost() == 0 {
                        return waits;
                    }
                    self.enter_recovery_linux(finding.is_echo);
                }
                self.linux.resend = Resend::Lost;
                return waits;
            }
            Phase::Loss => {
                self.process_loss(finding);
                let lost_again;
                (waits, lost_again) = self.identify_losses(now);
                if self.phase != Phase::Open && !lost_again {
                    return waits;
                }
            }
            Phase::Open | Phase::Cwr => {}
        }
        if self.phase == Phase::Open {
            self.undo_by_duplicates();
        }
        waits |= self.identify_losses(now).0;
        if self.board.lost() == 0 {
            self.try_to_open(finding.is_echo);
        } else {
            self.enter_recovery_linux(finding.is_echo);
            self.linux.resend = Resend::Lost;
        }
        waits
    }

    /// Port of `tcp_identify_packet_loss`. Returns whether the timer waits for segments that may be reordered, and
    /// whether retransmissions were lost.
    fn identify_losses(&mut self, now: Time) -> (bool, bool) {
        if self.board.outstanding() == 0 {
            return (false, false);
        }
        let before = self.board.retransmissions_in_flight();
        let rtts_ns = (self.min_rtt_ns(), self.rtt.srtt_ns().unwrap_or(0));
        let (_, wait_ns) = self.board.detect_by_time(now, self.phase.is_repairing(), rtts_ns, false);
        if wait_ns > 0 {
            self.wait_for_reordering(now, wait_ns);
        }
        (wait_ns > 0, self.board.retransmissions_in_flight() < before)
    }

    /// Port of `tcp_enter_recovery`.
    pub(super) fn enter_recovery_linux(&mut self, is_echo: bool) {
        self.stats.recoveries += 1;
        if !self.board.is_any_retransmitted() {
            self.linux.first_retransmission = None;
        }
        self.linux.prior_ssthresh = 0;
        self.begin_undo();
        if !self.phase.is_reducing() {
            self.linux.prior_ssthresh = if is_echo { 0 } else { self.current_ssthresh() };
            let ssthresh = self.controller.threshold(&self.window);
            self.begin_reduction(ssthresh);
        } else if self.phase == Phase::Cwr && matches!(self.controller, Controller::Dctcp(_)) {
            // `dctcp_react_to_loss` does the same, because a mark may have reduced the window only slightly.
            self.window.ssthresh = self.controller.threshold(&self.window);
        }
        self.phase = Phase::Recovery;
        self.linux.disorder = false;
    }

    /// Port of `tcp_enter_cwr`.
    fn enter_cwr_linux(&mut self) {
        self.linux.prior_ssthresh = 0;
        if self.phase != Phase::Open {
            return;
        }
        self.stats.ecn_reductions += u64::from(!matches!(self.controller, Controller::Bbr(_)));
        self.linux.undo_from = None;
        let ssthresh = self.controller.cwr_threshold(&self.window);
        self.begin_reduction(ssthresh);
        self.phase = Phase::Cwr;
        self.linux.disorder = false;
    }

    /// Port of `tcp_end_cwnd_reduction`.
    fn end_cwr_linux(&mut self) {
        if !matches!(self.controller, Controller::Bbr(_)) {
            self.recovery.finish(&mut self.window);
        }
        self.phase = Phase::Open;
    }

    /// Port of `tcp_init_cwnd_reduction`.
    fn begin_reduction(&mut self, ssthresh: u32) {
        self.recovery_point = self.board.end();
        self.linux.probe = None;
        self.window.credit = 0;
        self.linux.prior_cwnd = self.window.cwnd;
        self.recovery = RecoveryWindow::new(Reduction::Prr, u64::from(self.window.cwnd), 1);
        self.window.ssthresh = ssthresh;
        self.note_reduction();
    }

    /// Port of `tcp_enter_loss`, without its handling of the timer.
    pub(super) fn enter_loss_linux(&mut self, now: Time) {
        let was_repairing = self.phase.is_repairing();
        self.board.mark_overdue_lost(now);
        let is_new = self.phase == Phase::Open
            || self.recovery_point <= self.board.una()
            || self.phase == Phase::Loss && self.linux.timeouts == 0;
        if is_new {
            self.linux.prior_ssthresh = self.current_ssthresh();
            self.linux.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.controller.threshold(&self.window);
            self.begin_undo();
        }
        self.controller.on_timeout();
        self.window.cwnd = u32::try_from(self.board.pipe()).unwrap_or(u32::MAX).saturating_add(1);
        self.window.credit = 0;
        self.phase = Phase::Loss;
        self.linux.disorder = false;
        self.recovery_point = self.board.end();
        self.linux.probe = None;
        self.linux.frto = !was_repairing || self.linux.timeouts > 0;
        self.note_reduction();
    }

    /// Port of `tcp_current_ssthresh`.
    fn current_ssthresh(&self) -> u32 {
        match self.phase {
            Phase::Recovery | Phase::Cwr => self.window.ssthresh,
            Phase::Open | Phase::Loss => self.window.ssthresh.max(self.window.cwnd - self.window.cwnd / 4),
        }
    }

    fn end_recovery_linux(&mut self, finding: &Finding) {
        self.undo_recovery(finding);
        let has_model = matches!(self.controller, Controller::Bbr(_));
        if !has_model && self.linux.undo_from.is_some() {
            self.recovery.finish(&mut self.window);
        }
    }

    /// Port of `tcp_process_loss`, with F-RTO for SACK (RFC 5682, section 3.1).
    fn process_loss(&mut self, finding: &Finding) {
        let is_repaired = self.board.una() >= self.recovery_point;
        if finding.advanced && self.undo_loss(finding, false) {
            return;
        }
        if self.linux.frto {
            // Step 3b: a segment that was not retransmitted has arrived, so the timeout was spurious.
            if finding.report.original_arrived && self.undo_loss(finding, true) {
                return;
            }
            if self.board.end() > self.recovery_point {
                // Step 3a: the loss was real.
                self.linux.frto &= !finding.sacked && finding.advanced;
            } else if finding.advanced && !is_repaired {
                // Step 2b: the timeout may be spurious, so send new data.
                self.recovery_point = self.board.end();
                if self.has_new_data() {
                    self.linux.resend = Resend::New;
                    return;
                }
                self.linux.frto = false;
            }
        }
        if is_repaired {
            self.undo_recovery(finding);
            return;
        }
        self.linux.resend = Resend::Lost;
    }

    /// Port of `tcp_try_to_open`.
    fn try_to_open(&mut self, is_echo: bool) {
        if !self.board.is_any_retransmitted() {
            self.linux.first_retransmission = None;
        }
        if is_echo {
            self.enter_cwr_linux();
        }
        self.keep_open();
    }

    /// Port of `tcp_try_keep_open`.
    fn keep_open(&mut self) {
        if self.phase != Phase::Open {
            return;
        }
        let disorder = self.board.left() > 0 || self.board.is_any_retransmitted();
        if self.linux.disorder != disorder {
            self.linux.disorder = disorder;
            self.recovery_point = self.board.end();
        }
    }

    /// Port of `tcp_cong_control`.
    fn control(&mut self, change: &Change, finding: &Finding) {
        if matches!(self.controller, Controller::Bbr(_)) {
            let ack: BbrAck = self.bbr_ack(change.now, Some(change));
            let Controller::Bbr(bbr) = &mut self.controller else { return };
            if bbr.on_ack(&mut self.window, &ack) {
                self.note_app_limited();
            }
            return;
        }
        let acked = u32::try_from(change.delivered).unwrap_or(u32::MAX);
        let ack = Ack {
            now: change.now,
            acked,
            segments: acked,
            rtt_ns: change.rtt_ns,
            burst_ns: self.hystart_burst_ns(),
            una: self.board.una(),
            end: self.board.end(),
        };
        self.controller.on_rtt(&mut self.window, &ack);
        if self.phase.is_reducing() {
            self.reduce_linux(change.delivered, change.newly_lost, finding.advanced);
        } else if (finding.advanced || self.board.is_reordering_high() && finding.sacked) && self.is_window_used() {
            self.controller.grow(&mut self.window, &ack);
        }
    }

    /// Port of `tcp_cwnd_reduction`.
    pub(super) fn reduce_linux(&mut self, delivered: u64, newly_lost: u64, advanced: bool) {
        if delivered > 0 {
            let ack =
                RecoveryAck { delivered, pipe: self.board.pipe(), safe: advanced && newly_lost == 0, counts: true };
            self.recovery.on_ack(&mut self.window, ack);
        }
    }

    /// Port of `tcp_is_cwnd_limited`.
    fn is_window_used(&self) -> bool {
        let doubles = u64::from(self.window.cwnd) < 2 * self.linux.outstanding_max;
        self.linux.is_limited || self.window.in_slow_start() && doubles
    }

    pub(super) fn has_new_data(&self) -> bool {
        let next = self.board.end();
        next < self.total_segments && next < self.offered_end
    }

    /// Returns the smoothed RTT divided by `parts`.
    pub(super) fn srtt_part(&self, parts: u64) -> Duration {
        Duration::from_nanos(self.rtt.srtt_ns().unwrap_or(0) / parts)
    }

    pub(super) fn smallest_rtt_ns(&self) -> Option<u64> {
        self.linux.min_rtt_ns
    }
}
