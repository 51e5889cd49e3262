//! What to send: each owner is asked in turn whether it has something to say.

use std::net::SocketAddr;

use dfcp_secure::{SealError, TAG_BYTES};
use dfcp_time::Time;
use dfcp_wire::feedback::{REPORT_BYTES, Report, ReportWriter};
use dfcp_wire::{Flags, Header, Options, Profile, finish, write_header};

use crate::error::ConnectionError;
use crate::path::receiver_flow_control::QUEUE_UNIT_BYTES;
use crate::session::handshake::{ACK_KEEP_ALIVE, ACK_OF_FIN, ACK_OF_SYNACK, ACK_PATH_CHALLENGE, ACK_PATH_RESPONSE};
use crate::session::noise::syn_options;
use crate::session::paths::PathMessage;
use crate::session::{Phase, Seal, Session, protection};
use crate::shared::state::State;
use crate::shared::{DATAGRAM_BUFFER_BYTES, Data, Role, Transmit};

/// What may follow a payload: a tag, or a CRC.
const TRAILER_BYTES_MAX: usize = TAG_BYTES;

/// A report has room for so many bytes of its list however small the symbols are.
const LIST_BYTES_MIN: usize = 24;

impl Session {
    /// Writes the next datagram to send at `now` into `out`, which must hold [`DATAGRAM_BUFFER_BYTES`]; `None` if there is
    /// nothing to send before [`next_timeout`](Self::next_timeout).
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        if out.len() < DATAGRAM_BUFFER_BYTES {
            return None;
        }
        let mut remote = self.paths.active();
        let control = self
            .reset_segment(out)
            .or_else(|| self.handshake_segment(now, out))
            .or_else(|| self.path_segment(now, out, &mut remote))
            .or_else(|| self.report_segment(now, out))
            .or_else(|| self.fin_ack_segment(out))
            .or_else(|| self.fin_segment(now, out));
        let data = if control.is_none() { self.data_segment(now, out) } else { None };
        let elided_bytes = data.map_or(0, |data| data.elided_bytes);
        let length = control.or_else(|| data.map(|data| data.length)).or_else(|| self.keep_alive_segment(now, out))?;
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
        Some(Transmit { length, remote, elided_bytes })
    }

    /// Where the peer is known to be. Changes when it has moved (`spec/protocol.md`, "Paths").
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.paths.active()
    }

    /// A header from us to the peer, numbered.
    fn header(&mut self, flags: Flags, block_id: u32) -> Header {
        let mut header = Header {
            source_port: self.ports.local,
            destination_port: self.ports.remote,
            block_id,
            s1: 0,
            flags,
            profile: Profile::Modern,
            epoch: 0,
            s2: 0,
            s3: 0,
        };
        let number = self.numbers.take();
        if let Some(id) = self.handshake.peer_id {
            header = header.with_connection_id(id);
        }
        header.s3 = number as u32;
        if matches!(self.seal, Seal::On(_)) {
            header.flags |= Flags::SEC;
            header.epoch = protection::epoch_bits(number);
        }
        header
    }

    /// The header of a sealed connection's SYN or of its ACK with the third message, which are not sealed themselves.
    pub(super) fn handshake_header(&mut self, flags: Flags) -> Header {
        let header = Header {
            source_port: self.ports.local,
            destination_port: self.ports.remote,
            s3: self.handshake.next_number(),
            ..Header::modern(flags)
        };
        self.handshake.peer_id.map_or(header, |id| header.with_connection_id(id))
    }

    /// Writes a segment without options; the buffer has room for every segment we make.
    fn emit(&mut self, out: &mut [u8], header: &Header, payload: &[u8]) -> Option<usize> {
        let offset = write_header(out, header, &Options::default()).ok()?;
        let end = offset + payload.len();
        out.get_mut(offset..end)?.copy_from_slice(payload);
        self.complete(out, offset, end)
    }

    /// Completes the segment whose header ends at `offset` and whose payload ends at `end`, the one that was numbered
    /// last: checksum, CRC or seal.
    fn complete(&mut self, out: &mut [u8], offset: usize, end: usize) -> Option<usize> {
        let end = finish(out, end).ok()?;
        let Seal::On(protection) = &mut self.seal else { return Some(end) };
        match protection.seal(self.numbers.last(), out, offset, end) {
            Ok(length) => Some(length),
            Err(error) => {
                debug_assert!(error == SealError::Cipher, "{error}");
                self.close(Some(ConnectionError::CipherFailed));
                None
            }
        }
    }

    fn reset_segment(&mut self, out: &mut [u8]) -> Option<usize> {
        let reason = self.reset.take()?;
        if matches!(self.seal, Seal::Opening(_)) {
            // Nobody would believe it, nor is anybody's id known.
            return None;
        }
        let mut header = self.header(Flags::RST, 0);
        header.s1 = reason;
        self.emit(out, &header, &[])
    }

    fn handshake_segment(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        let repeat = self.handshake.timer.is_some_and(|timer| timer.is_due(now));
        if !repeat && !self.handshake.owes() {
            return None;
        }
        match (&self.phase, self.handshake.role) {
            (Phase::SynSent, _) if matches!(self.seal, Seal::Opening(_)) => self.sealed_syn(now, out),
            (Phase::Open, Role::Initiator) if self.handshake.third.is_some() => self.third_message(now, out),
            (Phase::Open, _) if matches!(self.seal, Seal::On(_)) => self.handshake_ack(now, out),
            (Phase::SynSent, _) => self.syn(now, Flags::SYN, out),
            (Phase::SynReceived, _) => self.syn(now, Flags::SYN | Flags::ACK, out),
            // The initiator is open; the acceptor may not have heard so.
            (Phase::Open, Role::Initiator) => self.handshake_ack(now, out),
            (Phase::Open, Role::Acceptor) if self.handshake.owes() => self.syn(now, Flags::SYN | Flags::ACK, out),
            (Phase::Open, Role::Acceptor) | (Phase::Closed(_), _) => None,
        }
    }

    pub(super) fn note_handshake_sent(&mut self, now: Time, header: &Header) {
        self.handshake.on_sent(now, header.s3);
        if let Some(timer) = self.handshake.timer.as_mut().filter(|timer| timer.is_due(now)) {
            timer.on_sent(now);
        }
    }

    fn syn(&mut self, now: Time, flags: Flags, out: &mut [u8]) -> Option<usize> {
        let mut header = self.header(flags, 0);
        let echo = self.handshake.answer();
        self.note_handshake_sent(now, &header);
        header.s2 = echo;
        let mut payload = [0; 128];
        let length = self.own_parameters().encode(&mut payload).ok()?;
        dfcp_wire::encode(out, &header, &syn_options(self.symbol_size), payload.get(..length)?).ok()
    }

    fn handshake_ack(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        let mut header = self.header(Flags::ACK, 0);
        self.note_handshake_sent(now, &header);
        self.handshake.answer();
        header.s1 = ACK_OF_SYNACK;
        header.s2 = self.handshake.echo();
        self.emit(out, &header, &[])
    }

    fn path_segment(&mut self, now: Time, out: &mut [u8], remote: &mut SocketAddr) -> Option<usize> {
        if self.phase != Phase::Open {
            return None;
        }
        let (to, message) = self.paths.next_message(now)?;
        *remote = to;
        let (what, number) = match message {
            PathMessage::Challenge(number) => (ACK_PATH_CHALLENGE, number),
            PathMessage::Response(number) => (ACK_PATH_RESPONSE, number),
        };
        let mut header = self.header(Flags::ACK, (number >> 32) as u32);
        header.s1 = what;
        header.s2 = number as u32;
        self.emit(out, &header, &[])
    }

    fn report_segment(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
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
            window_blocks: receiver.window_blocks(),
            window_bytes: receiver.window_bytes(),
            wasted: receiver.wasted(),
            proof_cumulative: receiver.proof(),
            proof_listed: 0, // known when the list is written
        };
        let block_id = receiver.next_needed();
        self.reported_window = (report.window_blocks, report.window_bytes);
        let mut header = self.header(Flags::FBK, block_id);
        header.s1 = self.receive_queue();
        let offset = write_header(out, &header, &Options::default()).ok()?;
        let room = (offset + usize::from(self.symbol_size)).min(out.len() - TRAILER_BYTES_MAX);
        let mut writer =
            ReportWriter::new(out.get_mut(offset..room.max(offset + REPORT_BYTES + LIST_BYTES_MIN))?, &report).ok()?;
        self.recv.write_runs(&mut writer);
        let length = writer.finish();
        self.reporter.on_sent(now);
        if let Some(at) = self.arrivals.settles_at().filter(|&at| at > now) {
            self.reporter.again_at(at);
        }
        self.arrivals.decay();
        self.counters.acks_sent += 1;
        self.complete(out, offset, offset + length)
    }

    /// What our system holds of what arrives, as reports tell it: 0 for unknown.
    fn receive_queue(&self) -> u32 {
        u32::try_from(self.receive_queue_bytes.div_ceil(QUEUE_UNIT_BYTES)).unwrap_or(u32::MAX)
    }

    fn fin_ack_segment(&mut self, out: &mut [u8]) -> Option<usize> {
        let end = self.closing.due_ack().filter(|_| self.phase == Phase::Open)?;
        self.closing.on_ack_sent();
        let mut header = self.header(Flags::ACK, end);
        [header.s1, header.s2] = [ACK_OF_FIN, self.recv.proof()];
        self.emit(out, &header, &[])
    }

    fn fin_segment(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if self.phase != Phase::Open {
            return None;
        }
        let end = self.closing.due_fin(now)?;
        self.closing.on_fin_sent(now);
        // A FINACK also acknowledges the peer's FIN (thesis §3.11).
        let flags = if self.closing.is_peer_done() { Flags::FIN | Flags::ACK } else { Flags::FIN };
        let mut header = self.header(flags, end);
        if flags.contains(Flags::ACK) {
            header.s2 = self.recv.proof();
        }
        self.emit(out, &header, &[])
    }

    fn keep_alive_segment(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if self.keep_alive_at().is_none_or(|at| now < at) {
            return None;
        }
        self.last_keep_alive = now;
        let mut header = self.header(Flags::ACK, 0);
        header.s1 = ACK_KEEP_ALIVE;
        self.emit(out, &header, &[])
    }

    fn data_segment(&mut self, now: Time, out: &mut [u8]) -> Option<Data> {
        if self.phase != Phase::Open || self.state() == State::TimeWait {
            return None;
        }
        if self.was_idle {
            self.pacer.resume(now);
        }
        if self.pacer.ready_at() > now {
            self.may_send = true;
            return None;
        }
        let data = self.next_data(now, out);
        self.may_send = data.is_some();
        self.was_idle = data.is_none();
        self.sender_asked_at = now;
        self.wake_writer();
        // The last block may just have been cut: FIN follows at once.
        if self.was_idle || !self.closing.is_started() {
            self.update_closing(now);
        }
        data
    }

    fn next_data(&mut self, now: Time, out: &mut [u8]) -> Option<Data> {
        let spending = self.spending();
        let symbol = self.send.next_symbol(now, &self.rtt, spending)?;
        let mut header = self.header(Flags::default(), symbol.block_id);
        header.s1 = symbol.esi;
        header.s2 = symbol.info.to_s2();
        let number = self.numbers.last();
        let offset = write_header(out, &header, &Options::default()).ok()?;
        let end = offset + symbol.payload_bytes;
        if !self.send.stream.write_symbol(symbol, out.get_mut(offset..end)?) {
            return None;
        }
        self.send.on_sent(now, symbol, number);
        let length = self.complete(out, offset, end)?;
        let elided_bytes = (symbol.symbol_size - symbol.payload_bytes) as u32;
        self.credit.on_sent(now, length as u64 + u64::from(elided_bytes) + u64::from(self.overhead_bytes));
        Some(Data { length, elided_bytes })
    }
}
