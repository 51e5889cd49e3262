//! Packet size discovery on a path. Loss and RTT of the path determine the times of probes, verdicts and suspicions.

use dfcp_time::Time;

use crate::limits::REPORTS_LOST;
use crate::path::Path;
use crate::path::arrivals::Arrivals;
use crate::path::credit::Spending;
use crate::path::packet_size::{BASE_BYTES, NEARLY_FULL_BYTES, Pace, PacketSize, PathView};
use crate::path::unjudged::Judgement;

/// Fewest datagrams of known fate before the loss rate can support a verdict.
const KNOWN_DATAGRAMS: u64 = 32;

/// Number of unanswered probes after which the peer counts as silent.
const SILENT_PROBES: u32 = 2;

/// Standard errors by which a loss estimate is raised, so that a size that passes is not rejected.
const DOUBT: f64 = 1.5;

/// Packet size discovery.
impl Path {
    /// Returns the current size of data packets, bytes.
    pub(crate) fn packet_bytes(&self) -> u64 {
        self.packet_size.bytes().into()
    }

    /// Returns true if the path carries only packets below the base size.
    pub(crate) fn is_too_narrow(&self) -> bool {
        self.packet_size.is_too_narrow()
    }

    /// Applies `change` to the packet size, and updates dependent state if the size has changed.
    fn change_packet_size(&mut self, change: impl FnOnce(&mut PacketSize)) {
        let before = self.packet_size.bytes();
        change(&mut self.packet_size);
        if self.packet_size.bytes() != before {
            self.large_packets.on_size_changed(self.flight.len());
            self.rate.set_datagram_bytes(self.packet_size.bytes().into());
        }
    }

    /// Records the size of a sent data packet. `is_cut` means that its data would have filled a larger packet.
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

    /// Returns true if the fate of this packet is evidence for discovery: it exceeds the base size, or is full while
    /// all packets have the base size.
    pub(crate) fn is_telling(&self, ip_bytes: u64) -> bool {
        ip_bytes > BASE_BYTES.into() || !self.packet_size.is_above_base() && self.is_full_packet(ip_bytes)
    }

    /// Takes in a report with news. It settles `large` data packets above the base size. `before` holds the numbers of
    /// datagrams settled and received before this report.
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

    /// Returns the time from which on full packets, and only these, seem to be lost.
    pub(crate) fn suspect_at(&self) -> Option<Time> {
        if !self.packet_size.may_be_suspected() {
            return None;
        }
        if self.large_packets.are_lost_among_small(self.packet_size.is_above_base()) {
            return Some(Time::ZERO);
        }
        // Called for every datagram, so compute the costly timeout last.
        let (since, probes) = self.flight.unheard_since()?;
        self.large_packets.are_unheard(probes).then(|| since + self.probe_timeout() + REPORTS_LOST)
    }

    /// Starts a test of the packet size if large packets seem to be lost. Packets have the base size during the test.
    pub(crate) fn suspect_size(&mut self, now: Time) {
        if self.suspect_at().is_some_and(|at| now >= at) {
            self.large_packets.on_suspected(self.packet_size.is_above_base());
            self.change_packet_size(|size| size.suspect(now));
        }
    }

    /// Returns the time of the next size probe. Without data in flight no probe is needed, and its loss could not be
    /// compared with other losses.
    pub(crate) fn size_probe_at(&self, arrivals: &Arrivals, spending: impl FnOnce() -> Spending) -> Option<Time> {
        if !self.packet_size.may_probe() || self.flight.len() == 0 {
            return None;
        }
        // A silent peer gets probes of its own ([silence-2]). Size probes continue when a report arrives.
        let unheard = self.flight.unheard_since().map_or(0, |(_, probes)| probes);
        if self.packet_size.is_unanswered() && unheard >= SILENT_PROBES {
            return None;
        }
        // Credit is reserved for data that the peer can prove to have decoded.
        if matches!(spending(), Spending::Trickle { .. }) {
            return None;
        }
        let at = self.packet_size.probe_at(self.two_way_loss(arrivals))?;
        Some(at.max(self.ready_at()))
    }

    /// Returns the size of the probe that is due by [`size_probe_at`](Self::size_probe_at).
    pub(crate) fn next_size_probe(&mut self, now: Time, arrivals: &Arrivals) -> Option<u16> {
        let loss = self.two_way_loss(arrivals);
        self.packet_size.next_probe(now, loss)
    }

    /// Records that a probe of `bytes` was sent as datagram `number`. It counts like data for credit and pacing.
    pub(crate) fn on_size_probe_sent(&mut self, now: Time, bytes: u16, number: u64, ip_bytes: u64) {
        let pace = Pace { srtt: self.rtt.smoothed(), datagram_time: self.rate.time_of(ip_bytes) };
        self.packet_size.on_probe_sent(now, bytes, number, pace);
        self.credit.on_sent(now, ip_bytes);
        self.pace_data(now, ip_bytes);
    }

    /// Takes in the peer's answer to the probe sent as datagram `echo`.
    pub(crate) fn on_size_answer(&mut self, now: Time, echo: u32) {
        self.change_packet_size(|size| size.on_answer(now, echo));
    }

    /// Records that the peer's size probe, datagram `number`, has arrived and must be answered.
    pub(crate) fn on_size_asked(&mut self, number: u64) {
        // Senders space their probes, so that remembering the newest one is enough.
        self.size_answer = Some(number as u32);
    }

    pub(crate) fn owes_size_answer(&self) -> bool {
        self.size_answer.is_some()
    }

    /// Removes and returns the number of the peer's probe to answer.
    pub(crate) fn take_size_answer(&mut self) -> Option<u32> {
        self.size_answer.take()
    }

    /// Returns the probability, with a margin, that a probe gets no answer although its size passes. `None` with too
    /// little evidence.
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

/// Returns the loss rate `lost` / `sent`, raised by the statistical uncertainty.
fn raised(lost: u64, sent: u64) -> f64 {
    let sent = sent as f64 + 4.0;
    let share = ((lost as f64 + 2.0) / sent).min(1.0);
    (share + DOUBT * (share * (1.0 - share) / sent).sqrt()).min(1.0)
}
