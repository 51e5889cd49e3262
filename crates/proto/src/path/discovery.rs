//! Packet size discovery on a path: its own losses and round trips say when to probe, when to judge and when to suspect.

use dfcp_time::Time;

use crate::limits::REPORTS_LOST;
use crate::path::Path;
use crate::path::arrivals::Arrivals;
use crate::path::credit::Spending;
use crate::path::packet_size::{BASE_BYTES, NEARLY_FULL_BYTES, Pace, PacketSize, PathView};
use crate::path::unjudged::Judgement;

/// Datagrams of known fate from which on the path's loss is known well enough for a verdict.
const KNOWN_DATAGRAMS: u64 = 32;

/// So many probes of silence without a report make one.
const SILENT_PROBES: u32 = 2;

/// Standard errors by which an estimate of loss is raised: a size that passes must not fail.
const DOUBT: f64 = 1.5;

/// Packet sizes of a path.
impl Path {
    /// Bytes of packets of data now.
    pub(crate) fn packet_bytes(&self) -> u64 {
        self.packet_size.bytes().into()
    }

    /// True if the path carries no packets of the base size, only smaller ones.
    pub(crate) fn is_too_narrow(&self) -> bool {
        self.packet_size.is_too_narrow()
    }

    /// Lets something change the packet size; what else there is on the path follows.
    fn change_packet_size(&mut self, change: impl FnOnce(&mut PacketSize)) {
        let before = self.packet_size.bytes();
        change(&mut self.packet_size);
        if self.packet_size.bytes() != before {
            self.large_packets.on_size_changed(self.flight.len());
            self.rate.set_datagram_bytes(self.packet_size.bytes().into());
        }
    }

    /// A datagram of data has been sent, which would be another in a larger packet if it `is_cut` to fit.
    pub(super) fn note_size(&mut self, ip_bytes: u64, is_cut: bool) {
        if is_cut || self.is_full_packet(ip_bytes) {
            self.packet_size.on_full_sent(ip_bytes);
        }
        if self.is_telling(ip_bytes) {
            self.large_packets.on_sent();
        }
    }

    fn is_full_packet(&self, ip_bytes: u64) -> bool {
        ip_bytes + u64::from(NEARLY_FULL_BYTES) >= self.packet_size.bytes().into()
    }

    /// True if the fate of a packet tells what the path carries: it is above the base size, or full where all have the base size.
    pub(crate) fn is_telling(&self, ip_bytes: u64) -> bool {
        ip_bytes > BASE_BYTES.into() || !self.packet_size.is_above_base() && self.is_full_packet(ip_bytes)
    }

    /// A report that is news has passed datagrams by, `large` of them data in packets above the base size; `before` it this many had been passed,
    /// and received.
    pub(crate) fn on_sizes_reported(
        &mut self,
        now: Time,
        arrivals: &Arrivals,
        (large, before): (u64, (u64, u64)),
        judgement: Judgement,
    ) {
        let Some(reported) = self.flight.reported() else { return };
        let (passed, received) = (reported.passed.saturating_sub(before.0), reported.received - before.1);
        if judgement != Judgement::LeftOut {
            self.large_packets.on_report(large, passed.saturating_sub(large), received);
        }
        let view = PathView {
            settled: Some(reported.highest),
            loss: self.two_way_loss(arrivals),
            patience: self.probe_timeout(),
        };
        self.change_packet_size(|size| size.on_report(now, view));
    }

    /// Time from which full packets seem to be lost, and only these.
    pub(crate) fn suspect_at(&self) -> Option<Time> {
        if !self.packet_size.may_be_suspected() {
            return None;
        }
        if self.large_packets.are_lost_among_small(self.packet_size.is_above_base()) {
            return Some(Time::ZERO);
        }
        // Asked for each datagram: the patience is reckoned for silence alone.
        let (since, probes) = self.flight.unheard_since()?;
        self.large_packets.are_unheard(probes).then(|| since + self.probe_timeout() + REPORTS_LOST)
    }

    /// Large packets are not used until the path has been asked, if they seem to be lost.
    pub(crate) fn suspect_size(&mut self, now: Time) {
        if self.suspect_at().is_some_and(|at| now >= at) {
            self.large_packets.on_suspected(self.packet_size.is_above_base());
            self.change_packet_size(|size| size.suspect(now));
        }
    }

    /// Time of the next probe of the packet size. Without data in flight, nothing needs to be known, and nothing would tell what
    /// else gets through.
    pub(crate) fn size_probe_at(&self, arrivals: &Arrivals, spending: impl FnOnce() -> Spending) -> Option<Time> {
        if !self.packet_size.may_probe() || self.flight.len() == 0 {
            return None;
        }
        // In silence its own probes ask ([silence-2]); ours go on when something is heard.
        let unheard = self.flight.unheard_since().map_or(0, |(_, probes)| probes);
        if self.packet_size.is_unanswered() && unheard >= SILENT_PROBES {
            return None;
        }
        // Credit is for what can be proven.
        if matches!(spending(), Spending::Trickle { .. }) {
            return None;
        }
        let at = self.packet_size.probe_at(self.two_way_loss(arrivals))?;
        Some(at.max(self.ready_at()))
    }

    /// The size of the probe that is due, if it is by [`size_probe_at`](Self::size_probe_at).
    pub(crate) fn next_size_probe(&mut self, now: Time, arrivals: &Arrivals) -> Option<u16> {
        let loss = self.two_way_loss(arrivals);
        self.packet_size.next_probe(now, loss)
    }

    /// A probe of `bytes` has left as datagram `number`. It counts as data do.
    pub(crate) fn on_size_probe_sent(&mut self, now: Time, bytes: u16, number: u64, ip_bytes: u64) {
        let pace = Pace { srtt: self.rtt.smoothed(), datagram_time: self.rate.time_of(ip_bytes) };
        self.packet_size.on_probe_sent(now, bytes, number, pace);
        self.credit.on_sent(now, ip_bytes);
        self.pace_data(now, ip_bytes);
    }

    /// The peer has got the probe that was sent as datagram `echo`.
    pub(crate) fn on_size_answer(&mut self, now: Time, echo: u32) {
        self.change_packet_size(|size| size.on_answer(now, echo));
    }

    /// The peer asks whether its datagram `number` arrives, which has a certain size.
    pub(crate) fn on_size_asked(&mut self, number: u64) {
        // A sender leaves so much time between probes that the newest one alone needs to be remembered.
        self.size_answer = Some(number as u32);
    }

    pub(crate) fn owes_size_answer(&self) -> bool {
        self.size_answer.is_some()
    }

    /// The number of the peer's probe that is to be answered now.
    pub(crate) fn take_size_answer(&mut self) -> Option<u32> {
        self.size_answer.take()
    }

    /// The share of probes which get no answer although their size passes, with a margin; nothing if too little is known.
    fn two_way_loss(&self, arrivals: &Arrivals) -> Option<f64> {
        let reported = self.flight.reported().filter(|reported| reported.passed >= KNOWN_DATAGRAMS)?;
        let lost = reported.passed.saturating_sub(reported.received);
        let there = raised(lost, reported.passed).max(self.flight.loss().high());
        let (missing, received) = (arrivals.missing(), arrivals.received());
        let numbered = missing + received;
        let back = raised(missing.saturating_sub(numbered / 128), numbered);
        Some(1.0 - (1.0 - there).max(0.0) * (1.0 - back).max(0.0))
    }
}

/// The share `lost` of `sent`, raised by what chance may have hidden.
fn raised(lost: u64, sent: u64) -> f64 {
    let sent = sent as f64 + 4.0;
    let share = ((lost as f64 + 2.0) / sent).min(1.0);
    (share + DOUBT * (share * (1.0 - share) / sent).sqrt()).min(1.0)
}
