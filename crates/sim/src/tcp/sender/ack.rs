//! Effects of an acknowledgement on scoreboard, window and phase.

use dfcp_time::Time;

use super::super::config::{Congestion, LossDetection};
use super::super::congestion::{Ack, Controller};
use super::super::recovery::{Phase, RecoveryAck, RecoveryWindow};
use super::super::scoreboard::{Advance, DUP_THRESH};
use super::super::segment::Segment;
use super::{Sender, State};

/// Changes by one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) now: Time,
    pub(super) advance: Advance,
    /// Segments newly delivered.
    pub(super) delivered: u64,
    pub(super) newly_lost: u64,
    /// Segments in flight before the acknowledgement.
    pub(super) prior_pipe: u64,
    pub(super) rtt_ns: Option<u64>,
}

impl Sender {
    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let una = self.segments_below(segment.ack);
        if una > self.board.end() {
            // The acknowledged segment was never sent, so the acknowledgement is invalid.
            return;
        }
        self.take_peer_window(segment);
        let is_echo = self.is_echo(segment);
        let prior_pipe = self.board.pipe();
        let prior_arrived = self.board.duplicates();
        let advance = self.board.advance(una);
        let sacked = self.note_arrivals(segment, advance, una);
        let newly_lost = self.detect_losses();
        self.tell_dctcp(sacked, is_echo);
        let delivered = (advance.delivered + sacked + self.board.duplicates()).saturating_sub(prior_arrived);
        self.note_delivered(delivered, is_echo);
        let rtt_ns = self.measure(now, segment, advance);
        if advance.segments > 0 {
            self.stats.acked_bytes = self.seq(self.board.una()) - 1;
            self.rtt.end_back_off();
        }
        let change = Change { now, advance, delivered, newly_lost, prior_pipe, rtt_ns };
        if matches!(self.controller, Controller::Bbr(_)) {
            self.respond_by_model(change);
            if is_echo {
                self.answer_without_reduction();
            }
        } else {
            self.respond(change, is_echo);
        }
        if advance.segments > 0 {
            self.after_advance(now);
        }
    }

    /// Processes SACK blocks or, without SACK, a duplicate acknowledgement. Returns the number of segments newly
    /// reported by SACK.
    fn note_arrivals(&mut self, segment: &Segment, advance: Advance, una: u64) -> u64 {
        if self.config.uses_sack() {
            let mut fresh = 0;
            for (start, end) in segment.sack.iter(segment.ack) {
                fresh += self.board.sack(self.segments_reached(start), self.segments_below(end));
            }
            return fresh;
        }
        if advance.segments > 0 {
            match self.phase {
                Phase::Recovery => self.board.remove_duplicates(advance.segments),
                Phase::Open | Phase::Cwr | Phase::Loss => self.board.clear_duplicates(),
            }
        } else if una == self.board.una() && segment.len_bytes == 0 && self.phase != Phase::Loss {
            self.board.add_duplicate();
        }
        0
    }

    fn detect_losses(&mut self) -> u64 {
        if !self.config.uses_sack() {
            return 0;
        }
        // Linux 2.6.26 detects lost retransmissions only during a fast recovery.
        let again = self.config.loss_detection == LossDetection::Rfc6675 || self.phase == Phase::Recovery;
        let again = if again { self.board.detect_lost_retransmissions() } else { 0 };
        again + self.board.detect_losses()
    }

    fn measure(&mut self, now: Time, segment: &Segment, advance: Advance) -> Option<u64> {
        let sent = match (self.config.timestamps, advance.segments) {
            (_, 0) => None,
            (true, _) => Some(segment.ts_ecr),
            // Karn's algorithm: an ambiguous acknowledgement gives no RTT sample.
            (false, _) => advance.sent.filter(|_| !advance.repeated),
        };
        let rtt_ns = now.as_ns().saturating_sub(sent?.as_ns());
        self.rtt.on_sample(rtt_ns);
        Some(rtt_ns)
    }

    fn respond(&mut self, change: Change, is_echo: bool) {
        let ack = self.controller_ack(&change);
        if change.advance.segments > 0 {
            self.controller.on_rtt(&mut self.window, &ack);
        }
        if self.is_cwr_over() || self.phase.is_repairing() && self.is_repaired(&change) {
            self.end_recovery();
        }
        let found_loss = self.phase == Phase::Open && self.found_loss();
        if is_echo && !found_loss {
            self.enter_cwr(change.prior_pipe);
        }
        match self.phase {
            Phase::Open if found_loss => self.enter_recovery(change),
            Phase::Cwr => self.continue_cwr(change),
            Phase::Recovery => self.continue_recovery(change),
            Phase::Open | Phase::Loss => {
                if change.advance.segments > 0 {
                    self.grow(&change, &ack);
                }
            }
        }
    }

    fn controller_ack(&self, change: &Change) -> Ack {
        let segments = u32::try_from(change.delivered).unwrap_or(u32::MAX);
        Ack {
            now: change.now,
            acked: if self.config.byte_counting { segments } else { 1 },
            segments,
            rtt_ns: change.rtt_ns,
            burst_ns: 0,
            una: self.board.una(),
            end: self.board.end(),
        }
    }

    /// Grows the window if the window was the limit. RFC 9293 leaves this open; see `tcp_is_cwnd_limited` in Linux.
    fn grow(&mut self, change: &Change, ack: &Ack) {
        let doubling = self.window.in_slow_start() && u64::from(self.window.cwnd) < 2 * change.prior_pipe;
        if self.window_limited || doubling {
            self.controller.grow(&mut self.window, ack);
        }
    }

    pub(super) fn is_repaired(&self, change: &Change) -> bool {
        let plain_reno = self.config.congestion == Congestion::Reno && self.phase == Phase::Recovery;
        self.board.una() >= self.recovery_point || plain_reno && change.advance.segments > 0
    }

    fn end_recovery(&mut self) {
        if self.phase.is_reducing() {
            self.recovery.finish(&mut self.window);
        }
        self.board.clear_duplicates();
        self.phase = Phase::Open;
        self.force = false;
    }

    pub(super) fn found_loss(&self) -> bool {
        if self.config.uses_sack() {
            return self.board.lost() > 0;
        }
        // RFC 6582, section 3.2: duplicate acknowledgements of segments sent before the end of the last recovery start
        // no new recovery.
        let new = self.recovery_point == 0
            || self.board.una() > self.recovery_point
            || self.phase == Phase::Cwr
            || self.config.congestion == Congestion::Reno;
        self.board.duplicates() >= DUP_THRESH && new
    }

    pub(super) fn enter_recovery(&mut self, change: Change) {
        self.stats.recoveries += 1;
        // A mark in the same window of data has already reduced the window. With DCTCP, that reduction may have been
        // small.
        let is_reduced = self.phase == Phase::Cwr && !matches!(self.controller, Controller::Dctcp(_));
        if !is_reduced {
            self.window.ssthresh = self.controller.threshold(&self.window);
        }
        if self.is_tahoe() {
            self.start_over();
            return;
        }
        if !self.config.uses_sack() {
            self.board.mark_head_lost();
        }
        if !is_reduced {
            let floor = self.controller.halving_floor(&self.window, self.config.reduction);
            self.recovery = RecoveryWindow::new(self.config.reduction, change.prior_pipe, floor);
            self.note_reduction();
        }
        self.phase = Phase::Recovery;
        self.recovery_point = self.board.end();
        self.rescued = false;
        self.force = true;
        self.reduce(change);
    }

    fn continue_recovery(&mut self, change: Change) {
        if !self.config.uses_sack() && change.advance.segments > 0 {
            // A partial acknowledgement: the segment after it was lost, too.
            self.board.mark_head_lost();
            self.force = true;
        }
        self.reduce(change);
    }

    pub(super) fn reduce(&mut self, change: Change) {
        let ack = RecoveryAck {
            delivered: change.delivered,
            pipe: self.board.pipe(),
            safe: change.advance.segments > 0 && change.newly_lost == 0,
            counts: change.delivered > 0 || !self.config.uses_sack(),
        };
        self.recovery.on_ack(&mut self.window, ack);
    }

    fn after_advance(&mut self, now: Time) {
        if self.board.una() >= self.total_segments {
            self.state = State::Finished;
            self.deadline = None;
        } else if self.board.outstanding() == 0 {
            self.deadline = None;
        } else {
            self.restart_timer(now);
        }
    }

    pub(super) fn note_delivered(&mut self, segments: u64, is_echo: bool) {
        self.stats.delivered_segments += segments;
        if is_echo {
            self.stats.delivered_ce_segments += segments;
        }
    }

    /// Returns the number of segments that lie completely below a sequence number.
    pub(super) fn segments_below(&self, seq: u64) -> u64 {
        let bytes = seq.saturating_sub(1);
        match self.total_bytes {
            Some(total) if bytes > total || bytes == total && total > 0 => self.total_segments,
            _ => bytes / u64::from(self.config.mss_bytes),
        }
    }

    /// Returns the first segment that starts at or above a sequence number.
    pub(super) fn segments_reached(&self, seq: u64) -> u64 {
        seq.saturating_sub(1).div_ceil(u64::from(self.config.mss_bytes))
    }
}
