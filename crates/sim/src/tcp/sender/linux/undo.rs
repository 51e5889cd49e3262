//! Undo of needless window reductions in Linux 6.12: by timestamps (Eifel, RFC 3522) and by D-SACK (RFC 3708).

use dfcp_time::Time;

use super::super::super::congestion::Controller;
use super::super::super::recovery::Phase;
use super::super::Sender;
use super::{Finding, TIMESTAMP_NS};

impl Sender {
    /// Port of `tcp_init_undo`.
    pub(super) fn begin_undo(&mut self) {
        self.linux.undo_from = Some(self.board.una());
        let probes = u64::from(self.linux.probe.is_some_and(|(_, repeated)| repeated));
        let in_flight = self.board.retransmissions_in_flight() + probes;
        self.linux.undo_retransmissions = (in_flight > 0).then_some(in_flight);
    }

    /// Port of `tcp_packet_delayed`. Returns true if the acknowledged segment was sent before the first retransmission,
    /// so that it was only delayed.
    pub(super) fn is_packet_delayed(&self, finding: &Finding) -> bool {
        let ticks = |time: Time| time.as_ns() / TIMESTAMP_NS;
        match (self.linux.first_retransmission, finding.echoed) {
            (None, _) => true,
            (Some(first), Some(echoed)) => ticks(echoed) < ticks(first),
            (Some(_), None) => false,
        }
    }

    pub(super) fn may_undo(&self, finding: &Finding) -> bool {
        let all_needless = self.linux.undo_retransmissions == Some(0);
        self.linux.undo_from.is_some() && (all_needless || self.is_packet_delayed(finding))
    }

    /// Port of `tcp_undo_cwnd_reduction`.
    pub(super) fn undo(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost();
        }
        if self.linux.prior_ssthresh > 0 {
            if !matches!(self.controller, Controller::Bbr(_)) {
                self.window.cwnd = self.window.cwnd.max(self.linux.prior_cwnd).min(self.window.limit);
            }
            if self.linux.prior_ssthresh > self.window.ssthresh {
                self.window.ssthresh = self.linux.prior_ssthresh;
                self.ecn.cwr_due = false;
            }
        }
        self.linux.undo_from = None;
        self.board.look_again();
    }

    /// Port of `tcp_try_undo_recovery`.
    pub(super) fn undo_recovery(&mut self, finding: &Finding) {
        if self.may_undo(finding) {
            self.undo(false);
        } else {
            self.board.note_recovery_end(false);
        }
        self.phase = Phase::Open;
        self.linux.disorder = false;
    }

    /// Port of `tcp_try_undo_dsack`. Returns true if every retransmission was reported as needless.
    pub(super) fn undo_by_duplicates(&mut self) -> bool {
        let is_needless = self.linux.undo_from.is_some() && self.linux.undo_retransmissions == Some(0);
        if is_needless {
            self.board.note_recovery_end(true);
            self.undo(false);
        }
        is_needless
    }

    /// Port of `tcp_try_undo_loss`, for the phase after a timeout. Returns true if the reduction was undone.
    pub(super) fn undo_loss(&mut self, finding: &Finding, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo(finding) {
            return false;
        }
        self.undo(true);
        self.linux.timeouts = 0;
        self.phase = Phase::Open;
        true
    }

    /// Port of `tcp_try_undo_partial`. Returns true if nothing is to be retransmitted for now.
    pub(super) fn undo_partial(&mut self, finding: &Finding) -> bool {
        if self.linux.undo_from.is_none() || !self.is_packet_delayed(finding) {
            return false;
        }
        if self.board.retransmissions_in_flight() > 0 {
            return true;
        }
        self.undo(true);
        self.phase = Phase::Open;
        self.keep_open();
        false
    }
}
