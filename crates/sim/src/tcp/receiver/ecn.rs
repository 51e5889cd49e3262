//! ECN at a receiver. By RFC 3168, section 6.1.3, it echoes a mark until the sender confirms its response. For DCTCP,
//! it reports exactly which segments were marked (RFC 8257, section 3.2).

use dfcp_netem::Ecn;

use super::super::config::{AckPolicy, Congestion};
use super::super::segment::Segment;
use super::Receiver;

/// Number of undelayed acknowledgements after a mark, for senders with a very small window, and around retransmissions
/// (`__tcp_ecn_check_ce`).
const QUICK_ACKS: u32 = 2;

/// Acknowledgement that is sent ahead of the regular one: the acknowledgement number, and whether it carries ECE.
pub(super) type EarlyAck = (u64, bool);

/// ECN state of a receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiverEcn {
    /// True if both ends have agreed on ECN.
    pub(super) is_agreed: bool,
    /// True while acknowledgements carry ECE.
    pub(super) echoes: bool,
    /// True once an ECN-capable segment has arrived.
    was_seen: bool,
    /// DCTCP: true if the last segment was marked; `prior_next` is the sequence number expected after that segment.
    was_marked: bool,
    prior_next: u64,
    /// DCTCP: acknowledgement to be sent ahead of the regular one.
    pub(super) early_ack: Option<EarlyAck>,
}

impl Receiver {
    pub(super) fn is_dctcp(&self) -> bool {
        self.config.congestion == Congestion::Dctcp
    }

    /// Negotiates ECN at the first SYN. A SYN that is itself ECN-capable comes from DCTCP, or was modified on the path
    /// (`tcp_ecn_create_request`).
    pub(super) fn agree_on_ecn(&mut self, syn: &Segment) {
        let may = self.is_dctcp() || self.config.uses_ecn() && !syn.ecn.is_capable();
        self.ecn.is_agreed = may && syn.flags.ece && syn.flags.cwr;
        self.ecn.prior_next = self.data.next();
    }

    /// Processes the CWR flag. The segment is acknowledged immediately, because the sender's window may be very small.
    pub(super) fn accept_cwr(&mut self, segment: &Segment) {
        if segment.flags.cwr {
            self.ecn.echoes = false;
            self.ack_now |= segment.len_bytes > 0;
        }
    }

    /// Processes the ECN codepoint of a segment with new data.
    pub(super) fn note_codepoint(&mut self, segment: &Segment) {
        if !self.ecn.is_agreed {
            return;
        }
        self.stats.ce_segments += u64::from(segment.ecn == Ecn::Ce);
        match segment.ecn {
            // A Not-ECT segment is probably a retransmission.
            Ecn::NotEct if self.ecn.was_seen => self.acknowledge_quickly(),
            Ecn::NotEct => {}
            _ if self.is_dctcp() => self.echo_exactly(segment.ecn == Ecn::Ce),
            Ecn::Ce if !self.ecn.echoes => {
                self.acknowledge_quickly();
                self.ecn.echoes = true;
            }
            Ecn::Ce | Ecn::Ect0 | Ecn::Ect1 => {}
        }
        self.ecn.was_seen |= segment.ecn.is_capable();
    }

    /// Port of `dctcp_ece_ack_update`. At the first and after the last marked segment, the data before is acknowledged
    /// separately.
    fn echo_exactly(&mut self, is_marked: bool) {
        if self.ecn.was_marked != is_marked {
            if self.delayed_deadline.is_some() {
                self.ecn.early_ack = Some((self.ecn.prior_next, self.ecn.was_marked));
            }
            self.ack_now = true;
        }
        self.ecn.prior_next = self.ack();
        self.ecn.was_marked = is_marked;
        self.ecn.echoes = is_marked;
    }

    fn acknowledge_quickly(&mut self) {
        if self.config.ack_policy == AckPolicy::Linux {
            self.quick_acks = self.quick_acks.max(QUICK_ACKS);
            self.linux.forget_pace();
        }
    }
}
