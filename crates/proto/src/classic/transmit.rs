//! Transmission in a classic connection: polls each component in turn for a segment to send.

use dfcp_fountain::raptor::SEGMENT_BYTES;
use dfcp_time::Time;
use dfcp_wire::DatagramBuffer;
use dfcp_wire::classic::{Segment, StateWords};

use crate::classic::sender::ClassicSegment;
use crate::classic::{ClassicConnection, Phase};
use crate::path::ecn::Ecn;
use crate::shared::{Data, Role, Transmit};
use crate::state::State;

/// Echo of an RST to a peer that has announced no state. Zeros are no valid state.
const NO_STATE: StateWords = [0; 3];

impl ClassicConnection {
    /// Writes the next datagram to send at `now` into `out`. Returns `None` if nothing can be sent before
    /// [`next_timeout`](Self::next_timeout).
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        let out = out.first_chunk_mut()?;
        let control = self
            .reset_segment()
            .or_else(|| self.handshake_segment(now))
            .or_else(|| self.block_ack_segment())
            .or_else(|| self.fin_ack_segment())
            .or_else(|| self.fin_segment(now));
        let data = if control.is_none() { self.data_segment(now, out) } else { None };
        let virtual_bytes = data.map_or(0, |data| data.virtual_bytes);
        let length = match data {
            Some(data) => data.length,
            None => {
                let segment = control.or_else(|| self.keep_alive_segment(now))?;
                segment.begin(self.ports.outgoing(), out).finish()
            }
        };
        let counted_bytes = length as u64 + u64::from(virtual_bytes);
        let overhead_bytes = u64::from(self.overhead_bytes);
        if data.is_some() {
            self.pacer.sent(now, counted_bytes + overhead_bytes);
        } else {
            self.pacer.sent_control(now, counted_bytes + overhead_bytes, SEGMENT_BYTES as u64 + overhead_bytes);
        }
        self.counters.segments_sent += 1;
        self.counters.bytes_sent += counted_bytes;
        self.last_sent = now;
        Some(Transmit { length, remote: self.remote, virtual_bytes, is_alone: false, ecn: Ecn::NotCapable })
    }

    fn reset_segment(&mut self) -> Option<Segment> {
        self.reset.take()?;
        // A peer that has announced no state yet cannot recognise our RST as genuine, so it drops this one ([rst-1]).
        let echo = self.handshake.peer_initial.map_or(NO_STATE, |peer| peer.words());
        Some(Segment::Reset { echo })
    }

    fn handshake_segment(&mut self, now: Time) -> Option<Segment> {
        let is_due = self.handshake.timer.is_some_and(|timer| timer.is_due(now));
        let owes_answer = self.handshake.owes_answer();
        if !is_due && !owes_answer {
            return None;
        }
        let initial = self.handshake.local_initial.words();
        let segment = match (&self.phase, self.handshake.role) {
            (Phase::SynSent, _) => Segment::Syn { initial },
            (Phase::SynReceived, _) => Segment::SynAck { initial },
            // The initiator is open, but the acceptor may not know it.
            (Phase::Open, Role::Initiator) => self.handshake_ack()?,
            (Phase::Open, Role::Acceptor) if owes_answer => Segment::SynAck { initial },
            (Phase::Open, Role::Acceptor) | (Phase::Closed(_), _) => return None,
        };
        self.handshake.on_sent(now);
        Some(segment)
    }

    fn handshake_ack(&self) -> Option<Segment> {
        Some(Segment::HandshakeAck { echo: self.handshake.peer_initial?.words() })
    }

    fn block_ack_segment(&mut self) -> Option<Segment> {
        if self.phase != Phase::Open {
            return None;
        }
        let block_id = self.receiver.next_ack()?;
        self.counters.acks_sent += 1;
        Some(Segment::BlockAck { block_id })
    }

    fn fin_ack_segment(&mut self) -> Option<Segment> {
        let end = self.closing.due_ack().filter(|_| self.phase == Phase::Open)?;
        self.closing.on_ack_sent();
        self.counters.acks_sent += 1;
        Some(Segment::BlockAck { block_id: end })
    }

    fn fin_segment(&mut self, now: Time) -> Option<Segment> {
        if self.phase != Phase::Open {
            return None;
        }
        let end = self.closing.due_fin(now)?;
        self.closing.on_fin_sent(now);
        // A FINACK also acknowledges the peer's FIN (thesis §3.11).
        Some(if self.closing.is_peer_done() { Segment::FinAck { end } } else { Segment::Fin { end } })
    }

    fn keep_alive_segment(&mut self, now: Time) -> Option<Segment> {
        if self.keep_alive_at().is_none_or(|at| now < at) {
            return None;
        }
        self.last_keep_alive = now;
        // A copy of this ACK is the only segment of the documents without a side effect.
        self.handshake_ack()
    }

    fn data_segment(&mut self, now: Time, out: &mut DatagramBuffer) -> Option<Data> {
        if self.phase != Phase::Open || self.state() == State::TimeWait {
            return None;
        }
        if self.was_idle {
            self.pacer.resume(now);
        }
        self.bucket.advance(now);
        if self.pacer.ready_at() > now || self.bucket.wait_for(SEGMENT_BYTES as u32).is_some() {
            self.may_send = true;
            return None;
        }
        let data = self.next_data(now, out);
        self.may_send = data.is_some();
        self.was_idle = data.is_none();
        self.sender_asked_at = now;
        // The last block may just have been formed, which fixes the end of the stream: FIN then follows immediately.
        if self.was_idle || !self.closing.is_started() {
            self.update_closing(now);
        }
        data
    }

    fn next_data(&mut self, now: Time, out: &mut DatagramBuffer) -> Option<Data> {
        let segment = self.sender.next_segment(now, &self.rtt)?;
        let &ClassicSegment { block_id, state, block_length, .. } = &segment;
        let data = Segment::Data { block_id, state: state.words(), block_length };
        let payload_bytes = self.config.codec.carried_bytes(SEGMENT_BYTES);
        let mut draft = data.begin(self.ports.outgoing(), out);
        let payload = draft.payload_up_to(payload_bytes);
        if !payload.is_empty() && !self.sender.write_segment(segment, payload) {
            return None;
        }
        let length = draft.finish();
        self.sender.on_sent(now, segment);
        self.bucket.take(SEGMENT_BYTES as u32);
        Some(Data { length, virtual_bytes: (SEGMENT_BYTES - payload_bytes) as u32 })
    }
}
