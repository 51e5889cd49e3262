//! Packet size discovery in an open session: what probes measure, and what follows from it for blocks and reports.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Segment};
use dfcp_wire::{DatagramBuffer, STREAM_ID_BYTES};

use crate::limits::REPORTS_LOST;
use crate::path::credit::Spending;
use crate::path::packet_size::{BASE_BYTES, NEARLY_FULL_BYTES, Pace, PacketSize, PathView};
use crate::path::unjudged::Judgement;
use crate::proof;
use crate::session::common::Common;
use crate::session::handshake::DISCOVERY;
use crate::session::link::EmitError;
use crate::session::open::Open;
use crate::shared::state::State;

/// Datagrams of known fate from which on the path's loss is known well enough for a verdict.
const KNOWN_DATAGRAMS: u64 = 32;

/// So many probes of silence without a report make one.
const SILENT_PROBES: u32 = 2;

/// Standard errors by which an estimate of loss is raised: a size that passes must not fail.
const DOUBT: f64 = 1.5;

/// A probe that has been written.
pub(super) struct SizeProbe {
    pub(super) length: usize,
}

/// The packet sizes of a session which has just opened.
pub(super) fn packet_size(now: Time, common: &Common) -> PacketSize {
    let symbol_bytes = proof::data_bytes_max(common.symbol_size, common.link.is_sealed);
    let bytes = u16::try_from(symbol_bytes + around_symbol_bytes(common)).unwrap_or(u16::MAX);
    if common.features.contains(DISCOVERY) { PacketSize::new(now, bytes) } else { PacketSize::fixed(bytes) }
}

/// Bytes of data in a symbol for which packets of this size have room.
pub(super) fn symbol_bytes(size: &PacketSize, common: &Common) -> usize {
    usize::from(size.bytes()).saturating_sub(around_symbol_bytes(common)).max(1)
}

/// Bytes of an IP packet besides the data of a symbol, of whatever stream.
fn around_symbol_bytes(common: &Common) -> usize {
    let secret_bytes = if common.link.is_sealed { proof::SECRET_BYTES } else { 0 };
    around_payload_bytes(common) + STREAM_ID_BYTES + secret_bytes
}

fn around_payload_bytes(common: &Common) -> usize {
    common.overhead_bytes as usize + dfcp_wire::overhead_bytes(common.link.is_sealed)
}

impl Open {
    /// Lets something change the packet size, and adapts to the new one.
    fn change_packet_size(&mut self, now: Time, common: &mut Common, change: impl FnOnce(&mut PacketSize)) {
        let before = self.packet_size.bytes();
        change(&mut self.packet_size);
        if self.packet_size.bytes() != before {
            self.large_packets.on_size_changed(common.path.flight().len());
            let bytes = symbol_bytes(&self.packet_size, common);
            common.streams.send.set_packet_symbol_size(now, &common.path, bytes);
            if let Some(control) = &mut self.rate_control {
                control.set_datagram_bytes(self.packet_size.bytes().into());
            }
            self.update_rate(&common.config);
            self.may_send = true;
        }
    }

    /// The path is another one.
    pub(super) fn on_new_path_size(&mut self, now: Time, common: &mut Common) {
        self.change_packet_size(now, common, |size| size.on_new_path(now));
        self.large_packets = Default::default();
    }

    /// A datagram of data has been sent, which would be another in a larger packet if it `is_cut` to fit.
    pub(super) fn note_size(&mut self, ip_bytes: u64, is_cut: bool) {
        if is_cut || self.is_full(ip_bytes) {
            self.packet_size.on_full_sent(ip_bytes);
        }
        if self.is_telling(ip_bytes) {
            self.large_packets.on_sent();
        }
    }

    fn is_full(&self, ip_bytes: u64) -> bool {
        ip_bytes + u64::from(NEARLY_FULL_BYTES) >= self.packet_size.bytes().into()
    }

    /// True if the fate of a packet tells what the path carries: it is above the base size, or full where all have the base size.
    pub(super) fn is_telling(&self, ip_bytes: u64) -> bool {
        ip_bytes > BASE_BYTES.into() || !self.packet_size.is_above_base() && self.is_full(ip_bytes)
    }

    /// A report that is news has passed datagrams by, `large` of them data in packets above the base size.
    pub(super) fn on_sizes_reported(
        &mut self,
        now: Time,
        common: &mut Common,
        large: u64,
        before: (u64, u64),
        judgement: Judgement,
    ) {
        let Some(reported) = common.path.flight().reported() else { return };
        let (passed, received) = (reported.passed.saturating_sub(before.0), reported.received - before.1);
        if judgement != Judgement::LeftOut {
            self.large_packets.on_report(large, passed.saturating_sub(large), received);
        }
        let view = PathView {
            settled: Some(reported.highest),
            loss: two_way_loss(common),
            patience: common.path.probe_timeout(),
        };
        self.change_packet_size(now, common, |size| size.on_report(now, view));
    }

    /// Full packets seem to be lost, and only these: large ones are not used until the path has been asked.
    pub(super) fn watch_packet_size(&mut self, now: Time, common: &mut Common) {
        if self.suspect_at(common).is_some_and(|at| now >= at) {
            self.large_packets.on_suspected(self.packet_size.is_above_base());
            self.change_packet_size(now, common, |size| size.suspect(now));
        }
    }

    pub(super) fn suspect_at(&self, common: &Common) -> Option<Time> {
        if !self.packet_size.may_be_suspected() {
            return None;
        }
        if self.large_packets.are_lost_among_small(self.packet_size.is_above_base()) {
            return Some(Time::ZERO);
        }
        // Asked for each datagram: the patience is reckoned for silence alone.
        let (since, probes) = common.path.flight().unheard_since()?;
        let patience = || common.path.probe_timeout() + REPORTS_LOST;
        self.large_packets.are_unheard(probes).then(|| since + patience())
    }

    /// Time of the next probe of the packet size. Without data in flight, nothing needs to be known, and nothing would tell what
    /// else gets through.
    pub(super) fn size_probe_at(&self, common: &Common) -> Option<Time> {
        if !self.packet_size.may_probe() || common.path.flight().len() == 0 || self.state() == State::TimeWait {
            return None;
        }
        // In silence its own probes ask ([silence-2]); ours go on when something is heard.
        let unheard = common.path.flight().unheard_since().map_or(0, |(_, probes)| probes);
        if self.packet_size.is_unanswered() && unheard >= SILENT_PROBES {
            return None;
        }
        // Credit is for what can be proven.
        if matches!(self.spending(common), Spending::Trickle { .. }) {
            return None;
        }
        let at = self.packet_size.probe_at(two_way_loss(common))?;
        Some(at.max(self.pacer.ready_at()))
    }

    /// Writes the probe that is due. It counts as data do.
    pub(super) fn size_probe(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<SizeProbe>, EmitError> {
        if self.size_probe_at(common).is_none_or(|at| now < at) {
            return Ok(None);
        }
        let Some(bytes) = self.packet_size.next_probe(now, two_way_loss(common)) else { return Ok(None) };
        let mut numbered = common.link.begin(&Segment::Ack(Ack::PathProbe), out);
        let payload_bytes = usize::from(bytes).saturating_sub(around_payload_bytes(common));
        numbered.draft.payload(payload_bytes)?.fill(0);
        let number = numbered.number;
        let length = common.link.complete(numbered)?;
        let ip_bytes = common.ip_bytes(length, 0);
        let time_ns = (ip_bytes * 8_000_000_000).checked_div(self.pacer.rate_bps().unwrap_or(0)).unwrap_or(0);
        let datagram_time = Duration::from_nanos(time_ns);
        self.packet_size.on_probe_sent(now, bytes, number, Pace { srtt: common.path.rtt().smoothed(), datagram_time });
        self.credit.on_sent(now, ip_bytes);
        Ok(Some(SizeProbe { length }))
    }

    /// The peer asks whether a datagram of this size arrives.
    pub(super) fn on_size_probe(&mut self, number: u64) {
        // A sender leaves so much time between probes that the newest one alone needs to be remembered.
        self.size_answer = Some(number as u32);
    }

    pub(super) fn next_size_answer(&mut self) -> Option<Segment> {
        let echo = self.size_answer.take()?;
        Some(Segment::Ack(Ack::OfPathProbe { echo }))
    }

    pub(super) fn on_size_answer(&mut self, now: Time, common: &mut Common, echo: u32) {
        self.change_packet_size(now, common, |size| size.on_answer(now, echo));
    }
}

/// The share of probes which get no answer although their size passes, with a margin; nothing if too little is known.
fn two_way_loss(common: &Common) -> Option<f64> {
    let flight = common.path.flight();
    let reported = flight.reported().filter(|reported| reported.passed >= KNOWN_DATAGRAMS)?;
    let lost = reported.passed.saturating_sub(reported.received);
    let there = raised(lost, reported.passed).max(flight.loss().high());
    let arrivals = &common.link.arrivals;
    let (missing, received) = (arrivals.missing(), arrivals.received());
    let numbered = missing + received;
    let back = raised(missing.saturating_sub(numbered / 128), numbered);
    Some(1.0 - (1.0 - there).max(0.0) * (1.0 - back).max(0.0))
}

/// The share `lost` of `sent`, raised by what chance may have hidden.
fn raised(lost: u64, sent: u64) -> f64 {
    let sent = sent as f64 + 4.0;
    let share = ((lost as f64 + 2.0) / sent).min(1.0);
    (share + DOUBT * (share * (1.0 - share) / sent).sqrt()).min(1.0)
}
