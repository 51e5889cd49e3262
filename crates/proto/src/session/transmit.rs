//! What to send: each owner is asked in turn whether it has something to say.

use std::net::SocketAddr;

use dfcp_time::Time;
use dfcp_wire::feedback::Report;
use dfcp_wire::segment::{self, Ack, Fin, ReportHeader, Reset, Segment, Syn, SynAck};
use dfcp_wire::{DatagramBuffer, StreamId, StreamLimits};

use crate::path::receiver_flow_control::QUEUE_UNIT_BYTES;
use crate::session::emit::{Control, EmitError};
use crate::session::handshake::syn_options;
use crate::session::paths::PathMessage;
use crate::session::{Phase, Seal, Session};
use crate::shared::state::State;
use crate::shared::{Data, Role, Transmit};

impl Session {
    /// Writes the next datagram to send at `now` into `out`, which must hold
    /// [`DATAGRAM_BUFFER_BYTES`](crate::DATAGRAM_BUFFER_BYTES); `None` if there is nothing to send before
    /// [`next_timeout`](Self::next_timeout).
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        match self.next_datagram(now, out.first_chunk_mut()?) {
            Ok(transmit) => transmit,
            Err(error) => {
                self.on_emit_error(error);
                None
            }
        }
    }

    fn next_datagram(&mut self, now: Time, out: &mut DatagramBuffer) -> Result<Option<Transmit>, EmitError> {
        let mut remote = self.paths.active();
        let (length, data) = if let Some(control) = self.control(now, &mut remote) {
            (self.write_control(now, &control, out)?, None)
        } else if let Some(data) = self.data_segment(now, out)? {
            (data.length, Some(data))
        } else if let Some(segment) = self.keep_alive_segment(now) {
            (self.write_control(now, &Control::Bare(segment), out)?, None)
        } else {
            return Ok(None);
        };
        let elided_bytes = data.map_or(0, |data| data.elided_bytes);
        let overhead_bytes = u64::from(self.overhead_bytes);
        let ip_bytes = length as u64 + u64::from(elided_bytes) + overhead_bytes;
        if data.is_some() {
            self.pacer.sent(now, ip_bytes);
        } else {
            self.pacer.sent_control(now, ip_bytes, u64::from(self.symbol_size) + overhead_bytes);
        }
        self.sent_bits += ip_bytes * 8;
        self.counters.segments_sent += 1;
        self.counters.bytes_sent += length as u64 + u64::from(elided_bytes);
        self.last_sent = now;
        Ok(Some(Transmit { length, remote, elided_bytes }))
    }

    /// What goes before data. `remote` is changed if it goes elsewhere than these.
    fn control(&mut self, now: Time, remote: &mut SocketAddr) -> Option<Control> {
        let first = self.reset_segment().map(Control::Bare);
        first
            .or_else(|| self.handshake_segment(now).map(Control::Handshake))
            .or_else(|| self.path_segment(now, remote).map(Control::Bare))
            .or_else(|| self.report(now))
            .or_else(|| self.fin_ack_segment().map(Control::Bare))
            .or_else(|| self.fin_segment(now).map(Control::Bare))
    }

    /// Where the peer is known to be. Changes when it has moved (`spec/protocol.md`, "Paths").
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.paths.active()
    }

    fn reset_segment(&mut self) -> Option<Segment> {
        let reason = self.reset.take()?;
        // An initiator's would not be believed before there are keys, nor does it know the peer's id.
        let is_known = !matches!(self.seal, Seal::Opening(_));
        is_known.then_some(Segment::Reset(Reset { reason }))
    }

    fn handshake_segment(&mut self, now: Time) -> Option<Segment> {
        let repeat = self.handshake.timer.is_some_and(|timer| timer.is_due(now));
        if !repeat && !self.handshake.owes() {
            return None;
        }
        let is_unsealed = matches!(self.seal, Seal::Off);
        let options = Some(syn_options(self.symbol_size));
        let echo = self.handshake.echo();
        let segment = match (&self.phase, self.handshake.role) {
            (Phase::SynSent, _) => Segment::Syn(Syn { options }),
            (Phase::SynReceived, _) => Segment::SynAck(SynAck { echo, options }),
            (Phase::Open, Role::Initiator) if self.handshake.third.is_some() => Segment::Ack(Ack::Noise),
            (Phase::Open, Role::Acceptor) if is_unsealed && self.handshake.owes() => {
                Segment::SynAck(SynAck { echo, options })
            }
            (Phase::Open, Role::Acceptor) if is_unsealed => return None,
            // The other end may not have heard that this one is open.
            (Phase::Open, _) => Segment::Ack(Ack::OfSynAck { echo }),
            (Phase::Closed(_), _) => return None,
        };
        self.handshake.on_answer();
        Some(segment)
    }

    fn path_segment(&mut self, now: Time, remote: &mut SocketAddr) -> Option<Segment> {
        if self.phase != Phase::Open {
            return None;
        }
        let (to, message) = self.paths.next_message(now)?;
        *remote = to;
        Some(Segment::Ack(match message {
            PathMessage::Challenge(token) => Ack::PathChallenge { token },
            PathMessage::Response(token) => Ack::PathResponse { token },
        }))
    }

    fn report(&mut self, now: Time) -> Option<Control> {
        if self.report_due_at().is_none_or(|due| now < due) {
            return None;
        }
        let settled = self.arrivals.settled(now);
        let Some((highest, arrived_at)) = settled else {
            self.reporter.again_at(self.arrivals.settles_at()?);
            self.reporter.on_sent(now);
            return None;
        };
        let receiver = &self.recv;
        let hold = now.since(arrived_at).as_micros();
        let report = Report {
            highest_datagram: highest as u32,
            datagrams_received: self.arrivals.received() as u32,
            bytes_received: self.arrivals.bytes(),
            hold_us: u32::try_from(hold).unwrap_or(u32::MAX),
            arrival_rate_bps: self.arrivals.rate_bps(now),
            memory_kib: u32::try_from(receiver.memory_bytes() >> 10).unwrap_or(u32::MAX),
            streams: StreamLimits::default(),
            wasted: receiver.wasted(),
        };
        let header = ReportHeader { receive_queue_kib: self.receive_queue_kib() };
        self.reported_room = (receiver.blocks_read(), receiver.room_end_bytes());
        self.reporter.on_sent(now);
        if let Some(at) = self.arrivals.settles_at().filter(|&at| at > now) {
            self.reporter.again_at(at);
        }
        self.arrivals.decay();
        self.counters.acks_sent += 1;
        Some(Control::Report(header, report))
    }

    /// What our system holds of what arrives, as reports tell it: 0 for unknown (\[report-11\]).
    fn receive_queue_kib(&self) -> u32 {
        u32::try_from(self.receive_queue_bytes.div_ceil(QUEUE_UNIT_BYTES)).unwrap_or(u32::MAX)
    }

    fn fin_ack_segment(&mut self) -> Option<Segment> {
        let end = self.closing.due_ack().filter(|_| self.phase == Phase::Open)?;
        self.closing.on_ack_sent();
        Some(Segment::Ack(Ack::OfFin { stream: StreamId::FIRST, end, proof: self.recv.proof() }))
    }

    fn fin_segment(&mut self, now: Time) -> Option<Segment> {
        if self.phase != Phase::Open {
            return None;
        }
        let end = self.closing.due_fin(now)?;
        self.closing.on_fin_sent(now);
        // A FINACK also acknowledges the peer's FIN (thesis §3.11, [close-4]).
        let ack_proof = self.closing.is_peer_done().then(|| self.recv.proof());
        Some(Segment::Fin(Fin { stream: StreamId::FIRST, end, ack_proof }))
    }

    fn keep_alive_segment(&mut self, now: Time) -> Option<Segment> {
        if self.keep_alive_at().is_none_or(|at| now < at) {
            return None;
        }
        self.last_keep_alive = now;
        Some(Segment::Ack(Ack::KeepAlive { stream: StreamId::FIRST }))
    }

    fn data_segment(&mut self, now: Time, out: &mut DatagramBuffer) -> Result<Option<Data>, EmitError> {
        // No data before the peer's address is proven ([open-2]).
        if self.phase != Phase::Open || self.state() == State::TimeWait {
            return Ok(None);
        }
        if self.was_idle {
            self.pacer.resume(now);
        }
        if self.pacer.ready_at() > now {
            self.may_send = true;
            return Ok(None);
        }
        let data = self.next_data(now, out)?;
        self.may_send = data.is_some();
        self.was_idle = data.is_none();
        self.sender_asked_at = now;
        self.wake_writer();
        // The last block may just have been cut: FIN follows at once.
        if self.was_idle || !self.closing.is_started() {
            self.update_closing(now);
        }
        Ok(data)
    }

    fn next_data(&mut self, now: Time, out: &mut DatagramBuffer) -> Result<Option<Data>, EmitError> {
        let spending = self.spending();
        let Some(symbol) = self.send.next_symbol(now, &self.rtt, spending) else { return Ok(None) };
        let data =
            segment::Data { stream: StreamId::FIRST, block_id: symbol.block_id, esi: symbol.esi, block: symbol.info };
        let mut numbered = self.begin(&Segment::Data(data), out);
        if !self.send.stream.write_symbol(symbol, numbered.draft.payload(symbol.payload_bytes)?) {
            return Ok(None);
        }
        self.send.on_sent(now, symbol, numbered.number);
        let length = self.complete(numbered)?;
        let elided_bytes = (symbol.symbol_size - symbol.payload_bytes) as u32;
        self.credit.on_sent(now, length as u64 + u64::from(elided_bytes) + u64::from(self.overhead_bytes));
        Ok(Some(Data { length, elided_bytes }))
    }
}
