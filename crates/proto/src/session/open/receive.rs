//! Processing of received segments in an open session. Each segment goes to the component that it concerns. Invalid
//! segments have no effect; in a sealed session, unauthenticated ones have none either.

use dfcp_secure::{ResetTicket, epoch_of};
use dfcp_time::Time;
use dfcp_wire::segment::{
    Ack, Clear, Data, Fin, KeyEpoch, Received, ReportHeader, Reset, ResetReason, Sealed, Segment,
};
use dfcp_wire::{StreamId, feedback};

use crate::error::{ConnectionError, Dropped};
use crate::message::send::Proven;
use crate::path::Demand;
use crate::path::credit::Spending;
use crate::path::ecn::Origin;
use crate::session::common::Common;
use crate::session::handshake::is_permitted;
use crate::session::messages::Messages;
use crate::session::open::{Open, unopened};
use crate::session::send_side::Heard;
use crate::session::stream_set::Direction;
use crate::session::{End, Stop};
use crate::shared::PushError;

/// Totals of the symbols that the peer has proven to have decoded.
#[derive(Clone, Copy, Debug)]
struct ProvenSymbols {
    symbols: u64,
    symbol_bytes: u64,
}

impl ProvenSymbols {
    fn now(common: &Common) -> Self {
        let counters = common.streams.send.counters();
        let messages = common.messages.as_ref().map_or_else(Proven::default, |messages| messages.proven);
        Self {
            symbols: counters.acknowledged_symbols + messages.symbols,
            symbol_bytes: counters.acknowledged_symbol_bytes + messages.symbol_bytes,
        }
    }

    /// Credits the path with everything proven since `self`.
    fn pay_off(self, now: Time, common: &mut Common) {
        let proven = Self::now(common);
        let symbols = proven.symbols - self.symbols;
        if symbols > 0 {
            let symbol_bytes = proven.symbol_bytes - self.symbol_bytes;
            let around_bytes = common.around_payload_bytes() as u64;
            common.paths.active_mut().on_proven(now, symbol_bytes + symbols * around_bytes);
        }
    }
}

impl Open {
    /// Decrypts a sealed datagram and processes its segment. State changes only once the datagram has proven to be new,
    /// authentic and well-formed.
    pub(in crate::session) fn take_sealed(
        &mut self,
        now: Time,
        common: &mut Common,
        Origin { remote, ecn }: Origin,
        header: &Sealed,
        datagram: &mut [u8],
    ) -> Result<(), Stop> {
        let bytes = datagram.len();
        let link = &mut common.link;
        let Some(keys) = &mut link.keys else { return Err(Dropped::Unexpected.into()) };
        let (head, sealed) = header.split(datagram)?;
        let number = link.arrivals.expand(header.number());
        // [seal-2]: the epoch must match the number.
        if header.connection_id() != link.local_id || header.epoch() != KeyEpoch::of(epoch_of(number)) {
            return Err(Dropped::Unexpected.into());
        }
        if !link.arrivals.is_new(number) {
            // Count it as a dropped segment, not as a duplicate symbol: its flags are not authenticated ([state-4]).
            return Err(Dropped::Duplicate.into());
        }
        let length = keys.open.open(number, head, sealed).map_err(|error| unopened(&error))?;
        let Received { segment, payload, .. } = header.opened(head, sealed.get(..length).unwrap_or_default())?;
        if !is_permitted(&segment, common.features) {
            return Err(Dropped::Unexpected.into());
        }
        let newest = link.arrivals.is_newest(number);
        link.arrivals.observe(now, number, bytes);
        link.marks.count(ecn);
        if newest {
            common.paths.on_newest(remote);
        }
        self.handshake.stop_timer();
        self.third = None;
        self.query.on_heard();
        // Path challenges, and responses to old challenges, do not prove that this path works in both directions, so
        // they do not restart the idle timeout ([idle-1]).
        if !matches!(segment, Segment::Ack(Ack::PathChallenge { .. } | Ack::PathResponse { .. })) {
            common.last_heard = now;
        }
        match segment {
            Segment::Reset(Reset { reason: ResetReason::NotAdmitted }) => {
                Err(End::because(ConnectionError::NotAdmitted).into())
            }
            Segment::Reset(reset) => Err(End::by_peer(reset).into()),
            Segment::Ack(Ack::PathChallenge { token }) => {
                common.paths.on_challenge(remote, token);
                Ok(())
            }
            Segment::Ack(Ack::PathResponse { token }) => self.take_path_response(now, common, token),
            Segment::Ack(Ack::ResetTicket) => self.take_ticket(payload),
            Segment::Ack(Ack::OfResetTicket) => {
                self.own_ticket.on_acknowledged();
                Ok(())
            }
            _ => self.take_segment(now, common, &segment, number, payload),
        }
    }

    /// Stores the peer's reset ticket, for queries if the peer falls silent (\[rst-9\]).
    fn take_ticket(&mut self, payload: &[u8]) -> Result<(), Stop> {
        let ticket = payload.try_into().map_err(|_| Dropped::Unexpected)?;
        self.query.on_ticket(ResetTicket::from_bytes(ticket));
        self.owes_ticket_ack = true;
        Ok(())
    }

    /// Processes a cleartext datagram in a sealed session. It is dropped without any computation, unless it answers our
    /// session query. A correct answer proves that the peer has lost the session (\[rst-7\]).
    pub(in crate::session) fn take_clear(&self, common: &Common, header: &Clear, datagram: &[u8]) -> Result<(), Stop> {
        if !self.query.is_asked() || !header.is_reset() || header.connection_id() != common.link.local_id {
            return Err(Dropped::Unexpected.into());
        }
        let Received { segment, payload, .. } = header.verify(datagram)?;
        let is_answer = matches!(segment, Segment::Reset(Reset { reason: ResetReason::SessionUnknown }));
        if is_answer && self.query.is_answered_by(payload) {
            return Err(End::because(ConnectionError::PeerLostSession).into());
        }
        Err(Dropped::Forged.into())
    }

    fn take_path_response(&mut self, now: Time, common: &mut Common, token: u64) -> Result<(), Stop> {
        let mut moved = None;
        common.change_paths(now, |paths, link| moved = paths.on_response(now, token, &link.numbers));
        moved.ok_or(Dropped::Unexpected)?;
        common.last_heard = now;
        self.reporter.on_own_news(now);
        Ok(())
    }

    /// Records that our datagrams leave from another address from now on. The peer must be notified (\[path-6\]).
    pub(in crate::session) fn on_own_move(&mut self, now: Time, common: &mut Common, is_other_host: bool) {
        if is_other_host {
            common.change_paths(now, |paths, _| paths.on_own_move(now));
        }
        self.keep_alive.owe();
    }

    /// Answers a copy of the peer's SYN or SYNACK with this number, as our first answer was lost.
    pub(in crate::session) fn on_copy(&mut self, number: u32) {
        self.handshake.owe(number);
    }

    /// Stops handshake retransmission in plaintext, after a segment with our connection id: the peer knows that we are
    /// open (\[open-12\]).
    pub(in crate::session) fn on_named(&mut self) {
        self.handshake.stop_timer();
    }

    /// Processes a segment of an open session. `number` is the full datagram number.
    pub(in crate::session) fn take_segment(
        &mut self,
        now: Time,
        common: &mut Common,
        segment: &Segment,
        number: u64,
        payload: &[u8],
    ) -> Result<(), Stop> {
        let result = match segment {
            Segment::Data(data) => self.take_data(now, common, data, payload),
            Segment::Message(message) => {
                common.paths.active_mut().on_peer_data();
                // Report a gap immediately: the peer may still have time for another round of repair.
                if common.link.arrivals.has_gap_before(number) {
                    self.reporter.on_urgent(now);
                } else {
                    self.reporter.on_arrival(now);
                }
                Messages::take(now, common, (message, number), payload)
            }
            Segment::Report(header) => self.take_report(now, common, header, number, payload),
            Segment::Fin(_) | Segment::Ack(_) => {
                // An acknowledged end of a stream may cover symbols that no report has acknowledged.
                let before = ProvenSymbols::now(common);
                let result = self.take_fin_or_ack(now, common, segment, number);
                before.pay_off(now, common);
                result
            }
            Segment::Syn(_) | Segment::SynAck(_) | Segment::Reset(_) => Err(Dropped::Unexpected.into()),
        };
        // Do this also after a refused segment: it may have been the last one of its stream.
        if common.streams.settle_gone(now) {
            self.reporter.on_own_news(now);
        }
        if result.is_ok() && may_give_data(segment) {
            common.inputs += 1;
        }
        match result {
            Ok(()) => self.update_closing(now, common).map_or(Ok(()), |end| Err(end.into())),
            Err(PushError::Dropped(dropped)) => Err(dropped.into()),
            Err(PushError::Misbehaved(what)) => {
                let error = Some(ConnectionError::PeerMisbehaved(what));
                Err(End { error, reset: Some(ResetReason::Unspecified) }.into())
            }
        }
    }

    fn take_fin_or_ack(
        &mut self,
        now: Time,
        common: &mut Common,
        segment: &Segment,
        number: u64,
    ) -> Result<(), PushError> {
        match segment {
            Segment::Fin(fin) => self.take_fin(now, common, fin, number),
            Segment::Ack(ack) => self.take_ack(now, common, ack, number),
            _ => Err(Dropped::Unexpected.into()),
        }
    }

    fn take_data(&mut self, now: Time, common: &mut Common, data: &Data, payload: &[u8]) -> Result<(), PushError> {
        let streams = &mut common.streams;
        common.paths.active_mut().on_peer_data();
        if let Err(error) = streams.admit(now, data.stream, Direction::FromPeer) {
            // There is no memory for the symbol's stream. Count the symbol, so that reported counts do not lack it.
            streams.recv.count_refused();
            self.reporter.on_arrival(now);
            return Err(error);
        }
        let result = streams.recv.push(data, payload);
        if result == Ok(true) && !streams.recv.has_open_blocks() {
            self.reporter.on_urgent(now);
        } else {
            // Report also if there was no room for the symbol: the sender must learn the window.
            self.reporter.on_arrival(now);
        }
        result.map(|_is_decoded| ())
    }

    fn take_report(
        &mut self,
        now: Time,
        common: &mut Common,
        header: &ReportHeader,
        number: u64,
        payload: &[u8],
    ) -> Result<(), PushError> {
        // Records of messages are read bit by bit, so their bytes are charged, too.
        let bytes = if common.messages.is_some() { payload.len() } else { 0 };
        if !self.reading.take(now, common.streams.send.items_under_way() + bytes) {
            return Err(Dropped::TooManyReports.into());
        }
        let (report, records) = feedback::decode(payload).map_err(|e| PushError::Dropped(e.into()))?;
        let streams = &mut common.streams;
        let was_drained = streams.send.is_drained();
        streams.check_records(&records)?;
        let proven = ProvenSymbols::now(common);
        let reported = common.path().flight().reported().map_or((0, 0), |before| (before.passed, before.received));
        let numbers = &common.link.numbers;
        let heard = common.streams.send.on_report(now, common.paths.active_mut(), number, (&report, &records), numbers);
        let heard = heard.map_err(PushError::Misbehaved)?;
        common.counters.acks_received += 1;
        if let Heard::News { path: mut news, large_passed } = heard {
            // FIN cannot be acknowledged before the last block is decoded, however long that takes. Reports that were
            // overtaken on their way show no progress.
            if !was_drained {
                self.closing.progress(now);
            }
            let received = common.path().flight().reported().map_or(0, |reported| reported.received);
            common.link.marks.on_report(&records, received);
            news.rtt_sample = news.rtt_sample.or_else(|| Messages::asked_sample(now, common, &report));
            Messages::on_report(now, common, &report, &records)?;
            common.counters.arrival_rate_bps = report.arrival_rate_bps;
            let demand = Demand {
                queue_kib: header.receive_queue_kib,
                arrival_rate_bps: report.arrival_rate_bps,
                symbol_size: common.streams.send.packet_symbol_size(),
                is_drained: common.streams.send.is_drained(),
                has_messages: common.messages.as_ref().is_some_and(|messages| messages.send.is_under_way()),
            };
            common.paths.active_mut().on_news(now, &news, demand);
            let sizes = (large_passed, reported);
            common.change_paths(now, |paths, link| {
                paths.active_mut().on_sizes_reported(now, &link.arrivals, sizes, news.judgement);
            });
            proven.pay_off(now, common);
            let is_credit_short = common.spending() != Spending::Freely;
            let arrived_bytes = report.bytes_received.min(common.counters.bytes_sent);
            common.paths.active_mut().watch(now, &common.link.numbers, arrived_bytes, news.judgement, is_credit_short);
            common.streams.on_peer_limits(report.streams);
        }
        Ok(())
    }

    fn take_ack(&mut self, now: Time, common: &mut Common, ack: &Ack, number: u64) -> Result<(), PushError> {
        match *ack {
            Ack::OfFin { stream: StreamId::FIRST, end, proof } => {
                self.take_fin_ack(common, Some(end), proof, number)?;
            }
            Ack::OfSynAck { echo } => {
                // Copies of the ACK name the same SYNACK: only the first ACK gives a valid RTT sample.
                if let Some(sample) = self.handshake.rtt(now, echo).filter(|_| !common.path().rtt().is_known()) {
                    common.paths.active_mut().guess_rtt(sample);
                }
                self.reporter.on_urgent(now);
            }
            Ack::KeepAlive { stream } => {
                common.streams.admit(now, stream, Direction::Any)?;
                common.streams.recv.on_question(stream);
                self.reporter.on_arrival(now);
            }
            Ack::OfFin { .. }
            | Ack::ResetStream { .. }
            | Ack::OfReset { .. }
            | Ack::StopSending { .. }
            | Ack::Gone { .. } => {
                common.streams.take_ack(now, common.paths.active_mut(), ack, number)?;
            }
            Ack::PathProbe => common.paths.active_mut().on_size_asked(number),
            Ack::OfPathProbe { echo } => {
                common.change_paths(now, |paths, _| paths.active_mut().on_size_answer(now, echo));
            }
            Ack::PathChallenge { .. }
            | Ack::PathResponse { .. }
            | Ack::Noise
            | Ack::SessionQuery { .. }
            | Ack::ResetTicket
            | Ack::OfResetTicket => {
                return Err(Dropped::Unexpected.into());
            }
        }
        Ok(())
    }

    /// Processes an acknowledgement of our FIN. With `Some(end)` it counts only for the FIN that names `end`.
    fn take_fin_ack(
        &mut self,
        common: &mut Common,
        end: Option<u32>,
        proof: u32,
        number: u64,
    ) -> Result<(), PushError> {
        let send = &mut common.streams.send;
        if self.closing.is_repeating() {
            send.check_first_end(end, proof).map_err(PushError::Misbehaved)?;
        }
        if self.closing.on_fin_acknowledged(end) {
            send.on_first_finished(common.paths.active_mut(), number);
        }
        Ok(())
    }

    fn take_fin(&mut self, now: Time, common: &mut Common, fin: &Fin, number: u64) -> Result<(), PushError> {
        common.streams.admit(now, fin.stream, Direction::FromPeer)?;
        common.streams.recv.on_fin(fin.stream, fin.end)?;
        if fin.stream != StreamId::FIRST {
            self.reporter.on_arrival(now);
            return Ok(());
        }
        self.closing.on_peer_fin(fin.end);
        if let Some(proof) = fin.ack_proof {
            self.take_fin_ack(common, None, proof, number)?;
        }
        self.reporter.on_arrival(now);
        Ok(())
    }
}

/// Returns true for segments that may permit sending more of streams or messages.
fn may_give_data(segment: &Segment) -> bool {
    matches!(
        segment,
        Segment::Report(_)
            | Segment::Ack(
                Ack::OfFin { .. }
                    | Ack::ResetStream { .. }
                    | Ack::OfReset { .. }
                    | Ack::StopSending { .. }
                    | Ack::Gone { .. }
            )
    )
}
