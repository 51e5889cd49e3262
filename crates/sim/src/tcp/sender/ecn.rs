//! ECN at a sender (RFC 3168, section 6.1): it negotiates ECN, responds to marks, and confirms the response. A mark
//! reduces the window as a loss does, once per window of data, without a retransmission.

use dfcp_netem::Ecn;

use super::super::congestion::Controller;
use super::super::recovery::{Phase, RecoveryWindow};
use super::super::segment::{Flags, Segment};
use super::Sender;
use super::ack::Change;

/// ECN state of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SenderEcn {
    /// True if both ends have agreed on ECN.
    pub(super) is_agreed: bool,
    /// True if the next new segment must carry CWR.
    pub(super) cwr_due: bool,
    /// BBR only: end of the window of data whose marks were confirmed. BBR does not respond to marks, but confirms
    /// them.
    answered_end: u64,
}

impl Sender {
    /// Returns true if the sender's SYN requests ECN. A retransmitted SYN does not, because some paths drop SYNs with
    /// ECN (section 6.1.1.1).
    pub(super) fn asks_for_ecn(&self) -> bool {
        self.config.uses_ecn() && self.stats.syn_retransmissions == 0
    }

    /// Processes the answer to the SYN. Without ECN, DCTCP falls back to Reno.
    pub(super) fn agree_on_ecn(&mut self, answer: &Segment) {
        self.ecn.is_agreed = self.config.uses_ecn() && answer.flags.ece && !answer.flags.cwr;
        if !self.ecn.is_agreed && matches!(self.controller, Controller::Dctcp(_)) {
            self.controller = Controller::Reno;
        }
    }

    /// Returns true if an acknowledgement echoes a mark.
    pub(super) fn is_echo(&self, segment: &Segment) -> bool {
        self.ecn.is_agreed && segment.flags.ece && !segment.flags.syn
    }

    /// Sets ECN codepoint and CWR of a segment. Retransmissions (section 6.1.5) and segments without data are Not-ECT.
    /// DCTCP sends every segment as ECT (`tcp_ecn_send`).
    pub(super) fn mark_outgoing(&mut self, segment: &mut Segment, is_new_data: bool) {
        let needs_ecn = matches!(self.controller, Controller::Dctcp(_));
        if self.ecn.is_agreed && is_new_data {
            segment.ecn = Ecn::Ect0;
            segment.flags.cwr = std::mem::take(&mut self.ecn.cwr_due);
        } else if needs_ecn {
            segment.ecn = Ecn::Ect0;
        }
    }

    /// Records a reduction of the window, after a mark or a loss.
    pub(super) fn note_reduction(&mut self) {
        self.ecn.cwr_due = self.ecn.is_agreed;
    }

    /// Passes an acknowledgement to DCTCP. `early` segments were reported as delivered by other means than the
    /// cumulative acknowledgement.
    pub(super) fn tell_dctcp(&mut self, early: u64, is_echo: bool) {
        let marked = if is_echo { early } else { 0 };
        if let Controller::Dctcp(dctcp) = &mut self.controller {
            let (delivered, delivered_ce) =
                (self.stats.delivered_segments + early, self.stats.delivered_ce_segments + marked);
            dctcp.on_ack(self.board.una(), self.board.end(), delivered, delivered_ce);
        }
    }

    /// Starts a reduction by the rules of the RFCs, unless one is in progress.
    pub(super) fn enter_cwr(&mut self, prior_pipe: u64) {
        if self.phase != Phase::Open {
            return;
        }
        self.stats.ecn_reductions += 1;
        self.window.ssthresh = self.controller.cwr_threshold(&self.window);
        let floor = self.controller.halving_floor(&self.window, self.config.reduction);
        self.recovery = RecoveryWindow::new(self.config.reduction, prior_pipe, floor);
        self.phase = Phase::Cwr;
        self.recovery_point = self.board.end();
        self.note_reduction();
    }

    /// Returns true once data sent after the start of the reduction is acknowledged, so that the receiver has seen CWR.
    pub(super) fn is_cwr_over(&self) -> bool {
        self.phase == Phase::Cwr && self.board.una() > self.recovery_point
    }

    /// Confirms marks for BBR, whose model ignores them.
    pub(super) fn answer_without_reduction(&mut self) {
        if self.board.una() >= self.ecn.answered_end {
            self.ecn.answered_end = self.board.end() + 1;
            self.ecn.cwr_due = true;
        }
    }

    /// Processes an acknowledgement during a reduction by the rules of the RFCs.
    pub(super) fn continue_cwr(&mut self, change: Change) {
        if self.found_loss() {
            self.enter_recovery(change);
        } else {
            self.reduce(change);
        }
    }

    /// Returns the flags of the SYN.
    pub(super) fn syn_flags(&self) -> Flags {
        let asks = self.asks_for_ecn();
        Flags { syn: true, ece: asks, cwr: asks, ..Flags::default() }
    }
}
