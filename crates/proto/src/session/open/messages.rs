//! Messages of an open session. They precede streams, up to their share of the rate (`spec/protocol.md`
//! \[message-11\]).

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::DatagramBuffer;
use dfcp_wire::feedback::{LossRuns, MessageRuns, MessagesState, Record, Records, Report, ReportWriter};
use dfcp_wire::segment::{Coverage, Message, Segment};

use crate::message::rows;
use crate::message::send::PathView;
use crate::path::arrivals::expand;
use crate::path::credit::Spending;
use crate::path::in_flight::{Carried, Sent};
use crate::session::common::Common;
use crate::session::link::EmitError;
use crate::session::messages::Messages;
use crate::shared::events::EventKind;
use crate::shared::{Data, PushError};

/// Returns the path properties that the planning of messages needs.
pub(in crate::session) fn path_view(common: &Common) -> PathView {
    PathView::of(common.paths.active(), common.streams.send.packet_symbol_size())
}

/// Sending and receiving messages, if the session has them.
impl Messages {
    /// Writes the next datagram with a message's symbol, if one is due and may be sent.
    pub(super) fn next(now: Time, common: &mut Common, out: &mut DatagramBuffer) -> Result<Option<Data>, EmitError> {
        if common.messages.is_none() || !Self::may_send(now, common) {
            return Ok(None);
        }
        let (view, hint) = (path_view(common), common.hint());
        let Common { messages: Some(messages), paths, link, streams, .. } = common else { return Ok(None) };
        let path = paths.active_mut();
        let symbol = messages.send.next(now, &view);
        // Do this only once: it visits everything in flight, streams included, and the peer controls how much that is.
        if messages.are_in_flight && !messages.send.is_under_way() {
            path.flight_mut().forget_messages();
            messages.are_in_flight = false;
        }
        let Some(symbol) = symbol else { return Ok(None) };
        let is_blocked = path.is_blocked(now);
        let is_probe = is_blocked && now >= path.probe_at(Spending::Freely);
        if is_blocked && !is_probe {
            return Ok(None);
        }
        let (k, is_cut) = match symbol.segment.coverage {
            Coverage::One(info) => {
                let largest = rows::symbol_bytes_max(common.symbol_size.into()).max(1);
                let is_cut = usize::from(info.k) > (info.length_bytes as usize).div_ceil(largest);
                // A reliable message has as many symbols in larger packets ([message-4]).
                (info.k, is_cut && symbol.segment.lifetime_us != Message::LIFETIME_UNLIMITED)
            }
            Coverage::Several(group) => (group.source_symbols, false),
        };
        path.begin_rate_control(now, k, &link.numbers, hint);
        let mut numbered = link.begin(&Segment::Message(symbol.segment), out);
        if !messages.send.write(&symbol, numbered.draft.payload(symbol.payload_bytes)?) {
            return Err(EmitError::Code);
        }
        let number = numbered.number;
        messages.send.on_sent(now, &symbol, number, &view);
        messages.are_in_flight = true;
        let length = link.complete(numbered)?;
        let ip_bytes = path.ip_bytes(length, 0);
        let what = Carried::Message { is_large: path.is_telling(ip_bytes) };
        path.on_symbol_sent(Sent::new(number, now, what), is_probe);
        // Messages may use the whole rate while streams have nothing to send.
        if let Some(bps) = path.rate_bps().filter(|_| !streams.send.is_drained()) {
            let bps = bps / 100 * u64::from(common.config.message_share_percent);
            messages.share.on_sent(now, ip_bytes * 8, bps);
        }
        path.on_data_sent(now, ip_bytes, is_cut, &link.numbers);
        Ok(Some(Data { length, virtual_bytes: 0 }))
    }

    /// Returns true if credit and rate share permit a message.
    fn may_send(now: Time, common: &Common) -> bool {
        let is_ready = common.messages.as_ref().is_some_and(|messages| messages.share.ready_at() <= now);
        is_ready && Self::not_before(common).is_some_and(|at| now >= at)
    }

    /// Returns the time from which the credit permits a message. `None` if a report of the peer is needed first.
    fn not_before(common: &Common) -> Option<Time> {
        match common.spending() {
            Spending::Freely | Spending::Needed => Some(Time::ZERO),
            // The next proof may be that of a block, or that of a message if no block is in flight.
            Spending::OldestBlock => common.streams.send.is_idle().then_some(Time::ZERO),
            Spending::Trickle { not_before } => common.streams.send.is_idle().then_some(not_before),
        }
    }

    /// Returns the earliest time when a message may be due that was not due at `asked`.
    pub(super) fn next_at(asked: Time, common: &Common) -> Option<Time> {
        let messages = common.messages.as_ref()?;
        // A silent peer must be probed even if nothing else happens. Streams schedule probes only if one of them has
        // data ([silence-2]).
        let probe = messages.send.is_due().then(|| common.path().probe_at(Spending::Freely));
        let at = messages.send.next_timeout(asked).into_iter().chain(probe.filter(|&at| at > asked)).min()?;
        let at = at.max(Self::not_before(common)?);
        let ready = if common.path().rate_bps().is_some() { messages.share.ready_at() } else { at };
        Some(at.max(ready))
    }

    /// Processes a received datagram with a message's symbol.
    pub(super) fn take(
        now: Time,
        common: &mut Common,
        (segment, number): (&Message, u64),
        payload: &[u8],
    ) -> Result<(), PushError> {
        let Common { messages: Some(messages), streams, events, .. } = common else { return Ok(()) };
        let was_readable = messages.recv.is_readable();
        messages.recv.push(now, number, segment, payload, streams.recv.memory())?;
        if !was_readable && messages.recv.is_readable() {
            events.push(EventKind::Message);
        }
        Ok(())
    }

    /// Writes the records of lost datagrams and of messages into a report.
    pub(super) fn write_records(now: Time, common: &mut Common, highest: u32, writer: &mut ReportWriter<'_>) {
        let Common { messages: Some(messages), link, streams, .. } = common else { return };
        // Forget expired messages here: reports also answer keep-alives, so this works even if no message arrives any
        // more.
        messages.recv.forget(now, streams.recv.memory());
        let highest = link.arrivals.expand(highest);
        // Loss runs that do not fit are omitted.
        let _written = writer.loss_runs(link.arrivals.loss_runs(highest));
        let room = writer.room_bytes() / 2;
        messages.recv.write_record(writer, room);
    }

    /// Returns an RTT sample from a report whose highest datagram is a keep-alive.
    pub(super) fn asked_sample(now: Time, common: &Common, report: &Report) -> Option<Duration> {
        let messages = common.messages.as_ref()?;
        let highest = expand(report.highest_datagram, common.link.numbers.end());
        let sample =
            now.since(messages.send.asked_at(highest)?).checked_sub(Duration::from_micros(report.hold_us.into()))?;
        (!sample.is_zero()).then_some(sample)
    }

    /// Processes the records of messages and of lost datagrams, in a report that no later report has overtaken.
    pub(super) fn on_report(
        now: Time,
        common: &mut Common,
        report: &Report,
        all: &Records<'_>,
    ) -> Result<(), PushError> {
        if common.messages.is_none() {
            return Ok(());
        }
        let path = path_view(common);
        let highest = expand(report.highest_datagram, common.link.numbers.end());
        let Some(messages) = &mut common.messages else { return Ok(()) };
        let (runs, record) = records(all);
        messages.send.on_report(now, highest, runs, &path);
        if let Some((state, list)) = record {
            let proven = messages.send.take_record(now, state, &list, &path).map_err(PushError::Misbehaved)?;
            messages.proven.symbols += proven.symbols;
            messages.proven.symbol_bytes += proven.symbol_bytes;
            messages.proven.messages += proven.messages;
        }
        Ok(())
    }
}

/// Returns the loss record and the message record of a report.
fn records<'a>(records: &Records<'a>) -> (Option<LossRuns<'a>>, Option<(MessagesState, MessageRuns<'a>)>) {
    let (mut losses, mut messages) = (None, None);
    for record in records.clone() {
        match record {
            Record::LossRuns(runs) => losses = Some(runs),
            Record::Messages(state, runs) => messages = Some((state, runs)),
            _ => {}
        }
    }
    (losses, messages)
}
