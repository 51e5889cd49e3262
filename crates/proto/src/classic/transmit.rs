//! What to send: each owner is asked in turn whether it has something to say.

use dfcp_fountain::raptor::{SEGMENT_BYTES, State as GeneratorState};
use dfcp_time::Time;
use dfcp_wire::{EncodeError, Flags, Header, Options, Profile, encode, finish, write_header};

use crate::classic::{ClassicConnection, Phase};
use crate::config::Content;
use crate::shared::state::State;
use crate::shared::{DATAGRAM_BUFFER_BYTES, Data, Role, Transmit};

impl ClassicConnection {
    /// Writes the next datagram to send at `now` into `out`; `None` if there is nothing to send before
    /// [`next_timeout`](Self::next_timeout).
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        if out.len() < DATAGRAM_BUFFER_BYTES {
            return None;
        }
        let control = self
            .reset_segment()
            .or_else(|| self.handshake_segment(now))
            .or_else(|| self.block_ack_segment())
            .or_else(|| self.fin_ack_segment())
            .or_else(|| self.fin_segment(now));
        let data = if control.is_none() { self.data_segment(now, out) } else { None };
        let elided_bytes = data.map_or(0, |data| data.elided_bytes);
        let length = match data {
            Some(data) => data.length,
            None => {
                let header = control.or_else(|| self.keep_alive_segment(now))?;
                written(encode(out, &header, &Options::default(), &[]))?
            }
        };
        let counted_bytes = length as u64 + u64::from(elided_bytes);
        let overhead_bytes = u64::from(self.overhead_bytes);
        if data.is_some() {
            self.pacer.sent(now, counted_bytes + overhead_bytes);
        } else {
            self.pacer.sent_control(now, counted_bytes + overhead_bytes, SEGMENT_BYTES as u64 + overhead_bytes);
        }
        self.counters.segments_sent += 1;
        self.counters.bytes_sent += counted_bytes;
        self.last_sent = now;
        Some(Transmit { length, remote: self.remote, elided_bytes })
    }

    fn header(&self, flags: Flags, block_id: u32) -> Header {
        Header {
            source_port: self.ports.local,
            destination_port: self.ports.remote,
            block_id,
            profile: Profile::Classic,
            ..Header::modern(flags)
        }
    }

    /// A header whose three fields are a generator state.
    fn header_with_state(&self, flags: Flags, block_id: u32, state: GeneratorState) -> Header {
        let [s1, s2, s3] = state.words();
        Header { s1, s2, s3, ..self.header(flags, block_id) }
    }

    fn reset_segment(&mut self) -> Option<Header> {
        self.reset.take()?;
        // A peer which has announced no state yet cannot tell our RST from anyone's; it drops this one.
        let header = self.header(Flags::RST, 0);
        Some(self.handshake.peer_initial.map_or(header, |peer| self.header_with_state(Flags::RST, 0, peer)))
    }

    fn handshake_segment(&mut self, now: Time) -> Option<Header> {
        let is_due = self.handshake.timer.is_some_and(|timer| timer.is_due(now));
        let owes_answer = self.handshake.owes_answer();
        if !is_due && !owes_answer {
            return None;
        }
        let own = self.handshake.local_initial;
        let header = match (&self.phase, self.handshake.role) {
            (Phase::SynSent, _) => self.header_with_state(Flags::SYN, 0, own),
            (Phase::SynReceived, _) => self.header_with_state(Flags::SYN | Flags::ACK, 0, own),
            // The initiator is open; the acceptor may not have heard so.
            (Phase::Open, Role::Initiator) => self.header_with_state(Flags::ACK, 0, self.handshake.peer_initial?),
            (Phase::Open, Role::Acceptor) if owes_answer => self.header_with_state(Flags::SYN | Flags::ACK, 0, own),
            (Phase::Open, Role::Acceptor) | (Phase::Closed(_), _) => return None,
        };
        self.handshake.on_sent(now);
        Some(header)
    }

    fn block_ack_segment(&mut self) -> Option<Header> {
        if self.phase != Phase::Open {
            return None;
        }
        let block_id = self.receiver.next_ack()?;
        self.counters.acks_sent += 1;
        Some(self.header(Flags::ACK, block_id))
    }

    fn fin_ack_segment(&mut self) -> Option<Header> {
        let end = self.closing.due_ack().filter(|_| self.phase == Phase::Open)?;
        self.closing.on_ack_sent();
        self.counters.acks_sent += 1;
        Some(self.header(Flags::ACK, end))
    }

    fn fin_segment(&mut self, now: Time) -> Option<Header> {
        if self.phase != Phase::Open {
            return None;
        }
        let end = self.closing.due_fin(now)?;
        self.closing.on_fin_sent(now);
        // A FINACK also acknowledges the peer's FIN (thesis §3.11).
        let flags = if self.closing.is_peer_done() { Flags::FIN | Flags::ACK } else { Flags::FIN };
        Some(self.header(flags, end))
    }

    fn keep_alive_segment(&mut self, now: Time) -> Option<Header> {
        if self.keep_alive_at().is_none_or(|at| now < at) {
            return None;
        }
        self.last_keep_alive = now;
        // The handshake's ACK again: nothing else in the documents is without effect.
        Some(self.header_with_state(Flags::ACK, 0, self.handshake.peer_initial?))
    }

    fn data_segment(&mut self, now: Time, out: &mut [u8]) -> Option<Data> {
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
        // The last block may just have been cut: FIN follows at once.
        if self.was_idle || !self.closing.is_started() {
            self.update_closing(now);
        }
        data
    }

    fn next_data(&mut self, now: Time, out: &mut [u8]) -> Option<Data> {
        let segment = self.sender.next_segment(now, &self.rtt)?;
        let header = self.header_with_state(Flags::default(), segment.block_id, segment.state);
        let options = Options { block_length: segment.short_length, ..Options::default() };
        let offset = written(write_header(out, &header, &options))?;
        let payload_bytes = if self.config.content == Content::Counted { 0 } else { SEGMENT_BYTES };
        let end = offset + payload_bytes;
        if !self.sender.write_segment(segment, out.get_mut(offset..end)?) {
            return None;
        }
        let length = written(finish(out, end))?;
        self.sender.on_sent(now, segment);
        self.bucket.take(SEGMENT_BYTES as u32);
        Some(Data { length, elided_bytes: (SEGMENT_BYTES - payload_bytes) as u32 })
    }
}

/// What was written. Encoding cannot fail here: every value comes from this module, and the buffer holds any datagram.
fn written(result: Result<usize, EncodeError>) -> Option<usize> {
    match result {
        Ok(length) => Some(length),
        Err(error) => unreachable!("a classic segment could not be encoded: {error}"),
    }
}
