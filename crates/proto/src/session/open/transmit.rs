//! Transmission in an open session: polls each component in turn for a segment to send.

use std::net::SocketAddr;

use dfcp_secure::{RESET_QUESTION_BYTES, ResetTicket};
use dfcp_time::Time;
use dfcp_wire::feedback::{Report, ReportWriter};
use dfcp_wire::handshake::Payload;
use dfcp_wire::segment::{Ack, Fin, RESET_TICKET_BYTES, ReportHeader, Segment, SynAck};
use dfcp_wire::{DatagramBuffer, EncodeError, Features, StreamId};
use rand_chacha::rand_core::Rng;

use crate::limits;
use crate::path::arrivals::MarksForReport;
use crate::path::paths::PathMessage;
use crate::session::common::Common;
use crate::session::handshake::syn_options;
use crate::session::link::EmitError;
use crate::session::messages::Messages;
use crate::session::open::Open;
use crate::shared::{Data, Role, Transmit};
use crate::state::State;

/// A segment without stream or message data.
#[derive(Debug)]
enum Control {
    /// A segment without payload.
    Bare(Segment),
    /// A handshake segment. It has a payload unless it is a bare ACK, and the time of sending is recorded.
    Handshake(Segment),
    /// A report, to which the records of streams are still to be added.
    Report(ReportHeader, Report, Option<Clock>),
    /// A query to a peer that may have lost the session.
    Query([u8; RESET_QUESTION_BYTES]),
    /// Our reset ticket, with which the peer can query us.
    Ticket([u8; RESET_TICKET_BYTES]),
}

/// The report's record of our clock, if both ends have chosen this feature (\[report-16\]).
#[derive(Debug)]
struct Clock {
    /// Arrival time of the highest datagram, µs modulo 2³².
    arrived_us: u32,
    marks: MarksForReport,
}

impl Clock {
    /// Writes the record. Parts that do not fit are omitted.
    fn write(&self, writer: &mut ReportWriter<'_>) {
        let marks = self.marks.as_slice();
        if writer.arrival_clock(self.arrived_us) && !marks.is_empty() {
            // Marks that do not fit their fields are too old for any peer to need them.
            let _ = writer.marks(marks);
        }
    }
}

impl Control {
    /// Returns true if a live peer answers this segment.
    fn wants_answer(&self) -> bool {
        match self {
            Self::Bare(segment) | Self::Handshake(segment) => matches!(
                segment,
                Segment::Fin(_)
                    | Segment::Ack(
                        Ack::OfSynAck { .. } | Ack::Noise | Ack::ResetStream { .. } | Ack::StopSending { .. }
                    )
            ),
            Self::Ticket(_) => true,
            Self::Report(..) | Self::Query(_) => false,
        }
    }
}

impl Open {
    pub(in crate::session) fn next_datagram(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<Transmit>, EmitError> {
        if common.path().suspect_at().is_some_and(|at| now >= at) {
            common.change_paths(now, |paths, _| paths.active_mut().suspect_size(now));
        }
        let mut remote = common.paths.active().remote();
        let (length, data) = if let Some(control) = self.control(now, common, &mut remote) {
            if control.wants_answer() {
                self.query.on_sent(now, || common.path().rtt().smoothed());
            }
            if remote != common.paths.active().remote() {
                common.paths.active_mut().flight_mut().on_sent_elsewhere(common.link.numbers.end());
            }
            (self.write_control(now, common, &control, out)?, None)
        } else if let Some(length) = self.size_probe(now, common, out)? {
            let sent = common.on_sent(now, length, None, remote);
            return Ok(Some(Transmit { is_alone: true, ..sent }));
        } else if let Some(data) = self.data_segment(now, common, out)? {
            self.query.on_sent(now, || common.path().rtt().smoothed());
            (data.length, Some(data))
        } else if let Some(segment) = self.keep_alive_segment(now, common) {
            self.query.on_sent(now, || common.path().rtt().smoothed());
            let numbered = common.link.begin(&segment, out);
            if let Some(messages) = &mut common.messages {
                messages.send.on_asked(now, numbered.number);
            }
            (common.link.complete(numbered)?, None)
        } else {
            return Ok(None);
        };
        let path = common.paths.active_mut();
        match data {
            Some(data) => path.pace_data(now, path.ip_bytes(length, data.virtual_bytes)),
            None => path.pace_control(now, path.ip_bytes(length, 0)),
        }
        Ok(Some(common.on_sent(now, length, data, remote)))
    }

    // ---- control ----

    /// Returns the next control segment. Control segments precede data. Changes `remote` if the segment goes to another
    /// address.
    fn control(&mut self, now: Time, common: &mut Common, remote: &mut SocketAddr) -> Option<Control> {
        let first = self.handshake_segment(now, common).map(Control::Handshake);
        first
            .or_else(|| path_segment(now, common, remote).map(Control::Bare))
            .or_else(|| self.query(now, common))
            .or_else(|| size_answer(common).map(Control::Bare))
            .or_else(|| self.ticket(now, common))
            .or_else(|| self.report(now, common))
            .or_else(|| self.fin_ack_segment(common).map(Control::Bare))
            .or_else(|| self.fin_segment(now, common).map(Control::Bare))
            .or_else(|| stream_segment(now, common).map(Control::Bare))
    }

    /// Writes a datagram without data. Returns its length, bytes.
    fn write_control(
        &mut self,
        now: Time,
        common: &mut Common,
        control: &Control,
        out: &mut DatagramBuffer,
    ) -> Result<usize, EmitError> {
        match control {
            Control::Bare(segment) => common.link.write(segment, out),
            Control::Handshake(segment) => self.write_handshake(now, common, segment, out),
            Control::Report(header, report, clock) => {
                self.write_report(now, common, *header, (report, clock.as_ref()), out)
            }
            Control::Query(question) => {
                let segment = Segment::Ack(Ack::SessionQuery { from: common.link.local_id });
                let payload = |out: &mut [u8]| write_padded(question, limits::SESSION_QUERY_PAYLOAD_BYTES, out);
                Ok(common.link.write_with_payload(&segment, out, payload)?.1)
            }
            Control::Ticket(ticket) => {
                let payload = |out: &mut [u8]| write_padded(ticket, ticket.len(), out);
                Ok(common.link.write_with_payload(&Segment::Ack(Ack::ResetTicket), out, payload)?.1)
            }
        }
    }

    fn write_handshake(
        &mut self,
        now: Time,
        common: &mut Common,
        segment: &Segment,
        out: &mut DatagramBuffer,
    ) -> Result<usize, EmitError> {
        let (parameters, third) = (common.own_parameters(), self.third.as_deref());
        let (number, length) = common.link.write_with_payload(segment, out, |out| match segment {
            Segment::SynAck(_) => parameters.encode(out),
            Segment::Ack(Ack::Noise) => {
                let noise = third.map(|third| (dfcp_secure::Pattern::FirstContact.id(), third));
                Payload { noise, ..Payload::default() }.encode(out)
            }
            _ => Ok(0),
        })?;
        self.handshake.on_sent(now, number);
        Ok(length)
    }

    fn write_report(
        &mut self,
        now: Time,
        common: &mut Common,
        header: ReportHeader,
        (report, clock): (&Report, Option<&Clock>),
        out: &mut DatagramBuffer,
    ) -> Result<usize, EmitError> {
        let mut numbered = common.link.begin(&Segment::Report(header), out);
        let room = common.packet_symbol_bytes().max(limits::REPORT_ROOM_BYTES_MIN);
        let mut writer = ReportWriter::new(numbered.draft.payload_up_to(room), report)?;
        if let Some(clock) = clock {
            clock.write(&mut writer);
        }
        if let Some(counts) = common.link.marks.record().filter(|_| common.features.contains(Features::ECN_COUNTS)) {
            // The counts are cumulative: counts that do not fit go into the next report.
            let _written = writer.ecn(counts);
        }
        Messages::write_records(now, common, report.highest_datagram, &mut writer);
        let streams = &mut common.streams;
        streams.recv.write_records(&mut writer, streams.ids.unseen());
        let length = writer.finish();
        numbered.draft.truncate(length);
        if streams.recv.owes_naming() || common.messages.as_ref().is_some_and(|messages| messages.recv.owes_news()) {
            self.reporter.owe_another();
        }
        // This report may have contained the last news of a stream, which can then be released.
        if streams.settle_gone(now) {
            self.reporter.on_own_news(now);
        }
        common.link.complete(numbered)
    }

    fn handshake_segment(&mut self, now: Time, common: &Common) -> Option<Segment> {
        if !self.handshake.is_due(now) {
            return None;
        }
        let echo = self.handshake.echo();
        let segment = match common.role {
            Role::Initiator if self.third.is_some() => Segment::Ack(Ack::Noise),
            Role::Acceptor if !common.link.is_sealed => {
                // The SYNACK is repeated only to answer a copy of the SYN.
                self.handshake.owes().then_some(())?;
                Segment::SynAck(SynAck { echo, options: Some(syn_options(common.symbol_size, common.features)) })
            }
            // The peer may not know yet that this end is open.
            Role::Initiator | Role::Acceptor => Segment::Ack(Ack::OfSynAck { echo }),
        };
        self.handshake.on_answer();
        Some(segment)
    }

    fn report(&mut self, now: Time, common: &mut Common) -> Option<Control> {
        if self.credit_report_at(common).is_some_and(|at| at <= now) {
            self.reporter.on_own_news(now);
        }
        if self.report_due_at(common).is_none_or(|due| now < due) {
            return None;
        }
        let arrivals = &mut common.link.arrivals;
        let Some((highest, arrived_at)) = arrivals.settled(now) else {
            self.reporter.again_at(arrivals.settles_at()?);
            self.reporter.on_sent(now);
            return None;
        };
        let hold = now.since(arrived_at).as_micros();
        let report = Report {
            highest_datagram: highest as u32,
            datagrams_received: arrivals.received() as u32,
            bytes_received: arrivals.bytes(),
            hold_us: u32::try_from(hold).unwrap_or(u32::MAX),
            arrival_rate_bps: arrivals.rate_bps(now),
            memory_kib: common.streams.recv.memory_kib(),
            streams: common.streams.ids.granted(now),
            wasted: common.streams.recv.wasted(),
        };
        self.reporter.on_sent(now);
        if let Some(at) = arrivals.settles_at().filter(|&at| at > now) {
            self.reporter.again_at(at);
        }
        let clock = common.features.contains(Features::ARRIVAL_CLOCK).then(|| Clock {
            arrived_us: (arrived_at.as_ns() / 1_000) as u32,
            marks: arrivals.marks_for_report((highest, arrived_at)),
        });
        arrivals.on_reported(arrived_at);
        common.counters.acks_sent += 1;
        Some(Control::Report(ReportHeader { receive_queue_kib: common.receive_queue_kib }, report, clock))
    }

    fn fin_ack_segment(&mut self, common: &Common) -> Option<Segment> {
        let end = self.closing.due_ack()?;
        self.closing.on_ack_sent();
        Some(Segment::Ack(Ack::OfFin { stream: StreamId::FIRST, end, proof: common.streams.recv.first_proof() }))
    }

    fn fin_segment(&mut self, now: Time, common: &Common) -> Option<Segment> {
        let end = self.closing.due_fin(now)?;
        self.closing.on_fin_sent(now);
        // A FINACK also acknowledges the peer's FIN (thesis §3.11, [close-4]).
        let ack_proof = self.closing.is_peer_done().then(|| common.streams.recv.first_proof());
        Some(Segment::Fin(Fin { stream: StreamId::FIRST, end, ack_proof }))
    }

    fn query(&mut self, now: Time, common: &Common) -> Option<Control> {
        self.query_at().filter(|&at| now >= at)?;
        self.query.take_due(now, common.path().rtt().smoothed()).map(Control::Query)
    }

    /// Returns our reset ticket, or the acknowledgement of the peer's ticket, if one is due.
    fn ticket(&mut self, now: Time, common: &Common) -> Option<Control> {
        if std::mem::take(&mut self.owes_ticket_ack) {
            return Some(Control::Bare(Segment::Ack(Ack::OfResetTicket)));
        }
        self.own_ticket_at(common)?;
        self.own_ticket.take_due(now, common.last_heard).map(ResetTicket::to_bytes).map(Control::Ticket)
    }

    fn keep_alive_segment(&mut self, now: Time, common: &Common) -> Option<Segment> {
        if self.keep_alive_at(common).is_none_or(|at| now < at) {
            return None;
        }
        self.keep_alive.on_sent(now);
        Some(Segment::Ack(Ack::KeepAlive { stream: common.streams.send.stuck().unwrap_or_default() }))
    }

    // ---- data ----

    /// Writes the packet size probe that is due. Returns its length, bytes.
    fn size_probe(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<usize>, EmitError> {
        if self.size_probe_at(common).is_none_or(|at| now < at) {
            return Ok(None);
        }
        let Some(bytes) = common.paths.active_mut().next_size_probe(now, &common.link.arrivals) else {
            return Ok(None);
        };
        let mut numbered = common.link.begin(&Segment::Ack(Ack::PathProbe), out);
        let payload_bytes = usize::from(bytes).saturating_sub(common.around_payload_bytes());
        numbered.draft.payload(payload_bytes)?.fill(0);
        let number = numbered.number;
        let length = common.link.complete(numbered)?;
        let path = common.paths.active_mut();
        path.on_size_probe_sent(now, bytes, number, path.ip_bytes(length, 0));
        Ok(Some(length))
    }

    fn data_segment(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<Data>, EmitError> {
        if self.state() == State::TimeWait {
            return Ok(None);
        }
        if self.asked.had_nothing() {
            common.paths.active_mut().resume(now);
        }
        if common.path().ready_at() > now {
            self.asked.on_held_back();
            return Ok(None);
        }
        let data = self.next_data(now, common, out)?;
        self.asked.on_answer(now, data.is_some(), common);
        // The last block may just have been formed, which fixes the end of the stream: FIN then follows immediately.
        self.start_closing(now, common);
        Ok(data)
    }

    fn next_data(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<Data>, EmitError> {
        if let Some(data) = Messages::next(now, common, out)? {
            return Ok(Some(data));
        }
        let (spending, hint) = (common.spending(), common.hint());
        let Common { link, paths, streams, .. } = common;
        let path = paths.active_mut();
        let Some(mut ready) = streams.send.next_symbol(now, path, spending)? else {
            path.on_nothing_to_send();
            return Ok(None);
        };
        let segment = ready.segment();
        path.begin_rate_control(now, segment.block.k, &link.numbers, hint);
        let mut numbered = link.begin(&Segment::Data(segment), out);
        let payload_bytes = ready.payload_bytes();
        ready.write(numbered.draft.payload(payload_bytes)?)?;
        let virtual_bytes = ready.symbol_bytes().saturating_sub(payload_bytes) as u32;
        ready.sent(now, path, numbered.number);
        let length = link.complete(numbered)?;
        path.on_data_sent(now, path.ip_bytes(length, virtual_bytes), false, &link.numbers);
        Ok(Some(Data { length, virtual_bytes }))
    }
}

/// Returns the answer to the peer's packet size probe.
fn size_answer(common: &mut Common) -> Option<Segment> {
    common.paths.active_mut().take_size_answer().map(|echo| Segment::Ack(Ack::OfPathProbe { echo }))
}

fn path_segment(now: Time, common: &mut Common, remote: &mut SocketAddr) -> Option<Segment> {
    let Common { paths, random, .. } = common;
    let (to, message) = paths.next_message(now, || random.with(|random| random.next_u64()))?;
    *remote = to;
    Some(Segment::Ack(match message {
        PathMessage::Challenge(token) => Ack::PathChallenge { token },
        PathMessage::Response(token) => Ack::PathResponse { token },
    }))
}

/// Writes `content` into a payload of `bytes` bytes, padded with zeros. Padding makes the datagram of a query longer
/// than its answer.
fn write_padded(content: &[u8], bytes: usize, out: &mut [u8]) -> Result<usize, EncodeError> {
    let have = out.len();
    let room = out.get_mut(..bytes).ok_or(EncodeError::BufferTooSmall { have, need: bytes })?;
    let (front, padding) = room.split_at_mut(content.len().min(bytes));
    front.copy_from_slice(&content[..front.len()]);
    padding.fill(0);
    Ok(bytes)
}

/// Returns answers to the peer's segments about streams, or segments about the ends of our own streams.
fn stream_segment(now: Time, common: &mut Common) -> Option<Segment> {
    let answer = common.streams.recv.next_answer(now).map(Segment::Ack);
    answer.or_else(|| common.streams.send.next_ending(now, common.paths.active()))
}
