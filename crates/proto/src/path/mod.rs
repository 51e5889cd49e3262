//! Paths of a session, from the sender's point of view. [`Path`] owns the state of one path. The modules are its parts,
//! and parts that both profiles share.

pub(crate) mod arrivals;
pub(crate) mod breaker;
pub(crate) mod credit;
pub(crate) mod delivery_control;
mod discovery;
pub(crate) mod ecn;
pub(crate) mod flight;
pub(crate) mod hint;
pub(crate) mod in_flight;
pub(crate) mod least_delay;
pub(crate) mod loss;
pub(crate) mod numbers;
pub(crate) mod pacing;
pub(crate) mod packet_size;
pub(crate) mod paths;
pub(crate) mod queue_delay;
pub(crate) mod rate;
pub(crate) mod rate_control;
pub(crate) mod receiver_flow_control;
pub(crate) mod rtt;
#[cfg(test)]
mod test_path;
pub(crate) mod unjudged;
pub(crate) mod windowed;

use std::net::SocketAddr;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::feedback::{Records, Report};

use self::breaker::Snapshot;
use self::credit::{Credit, Spending};
use self::flight::{Flight, Named, ReportedMarks};
use self::in_flight::Sent;
use self::numbers::DatagramNumbers;
use self::packet_size::black_hole::LargePackets;
use self::packet_size::{BASE_BYTES, PacketSize};
use self::rate::{RateBounds, SendRate};
use self::receiver_flow_control::{QUEUE_UNIT_BYTES, QueueReport};
use self::rtt::RttEstimator;
use self::unjudged::Judgement;
use crate::config::Config;
use crate::config::PathHint;
use crate::config::controller::PathStart;
use crate::error::PeerMisbehaved;
use crate::stats::Stats;

/// Identifier of a path within its session. Ids are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathId(u32);

impl PathId {
    /// Path of the handshake.
    pub(crate) const FIRST: Self = Self(0);
}

/// Sending state of one path (RFC 9000 §9.4, RFC 9002).
#[derive(Debug)]
pub(crate) struct Path {
    id: PathId,
    /// The peer's address.
    remote: SocketAddr,
    /// Bytes of an IP packet in front of a datagram: as configured, or as the path requires.
    overhead_bytes: u32,
    rtt: RttEstimator,
    flight: Flight,
    rate: SendRate,
    packet_size: PacketSize,
    large_packets: LargePackets,
    /// Number of the peer's newest packet size probe that is not answered yet.
    size_answer: Option<u32>,
    /// Account of the data that the peer has not yet proven to have decoded.
    credit: Credit,
    /// Bits of IP packets sent.
    sent_bits: u64,
}

/// Result of a handshake, as far as it concerns the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// True if reports carry the receiver's clock.
    pub(crate) reads_clock: bool,
    pub(crate) bounds: RateBounds,
    /// Size of the IP packet that carries a full symbol, bytes.
    pub(crate) packet_bytes: u16,
    /// True if both ends probe for larger packets, up to `packet_bytes`. Otherwise `packet_bytes` is the fixed size.
    pub(crate) has_discovery: bool,
}

/// Content of a report that concerns the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathNews {
    /// RTT sample: time since the highest reported datagram was sent, less the time for which the peer held the report.
    pub(crate) rtt_sample: Option<Duration>,
    /// Marks of arrivals in the report.
    pub(crate) marks: ReportedMarks,
    /// Judgement: the report's losses are evidence about the path, or are excluded.
    pub(crate) judgement: Judgement,
}

/// Inputs of flow control from a report: the queue in front of the receiver, and the demand of this sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Receive buffer of the peer's system for this connection, KiB; 0 if unknown.
    pub(crate) queue_kib: u32,
    pub(crate) arrival_rate_bps: u64,
    /// Data bytes per datagram.
    pub(crate) symbol_size: usize,
    /// True if all stream data are acknowledged.
    pub(crate) is_drained: bool,
    /// True if messages with deadlines are in flight or queued.
    pub(crate) has_messages: bool,
}

impl Path {
    /// Creates the first path of a session, in its initial state.
    pub(crate) fn new(remote: SocketAddr, overhead_bytes: u32, bounds: RateBounds) -> Self {
        Self {
            id: PathId::FIRST,
            remote,
            overhead_bytes,
            rtt: RttEstimator::default(),
            flight: Flight::default(),
            rate: SendRate::new(bounds),
            // Datagrams of the handshake do not exceed it.
            packet_size: PacketSize::fixed(BASE_BYTES),
            large_packets: LargePackets::default(),
            size_answer: None,
            credit: Credit::default(),
            sent_bits: 0,
        }
    }

    /// Ends the handshake. The peer's silence is measured from now on.
    pub(crate) fn establish(&mut self, now: Time, agreed: Agreement) {
        self.flight.establish(now);
        self.flight.set_reads_clock(agreed.reads_clock);
        self.rate.set_bounds(agreed.bounds);
        let (new, bytes) = (agreed.has_discovery, agreed.packet_bytes);
        self.packet_size = if new { PacketSize::new(now, bytes) } else { PacketSize::fixed(bytes) };
    }

    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Returns the peer's address.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    // ---- round trip ----

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Takes in the duration of a handshake or a path validation; see [`RttEstimator::guess`].
    pub(crate) fn guess_rtt(&mut self, rtt: Duration) {
        self.rtt.guess(rtt);
    }

    /// Returns the time to wait for feedback before a probe.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.rtt.probe_timeout(self.rtt.report_interval())
    }

    // ---- datagrams in flight ----

    /// Returns the datagrams in flight, with the estimates that reports update.
    pub(crate) fn flight(&self) -> &Flight {
        &self.flight
    }

    pub(crate) fn flight_mut(&mut self) -> &mut Flight {
        &mut self.flight
    }

    /// Returns true if the automatic rate's limit of datagrams in flight is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.rate.in_flight_max().is_some_and(|most| self.flight.on_path() >= most)
    }

    /// Returns true if only probes may be sent: the path [`is_full`](Self::is_full), too many datagrams are in flight
    /// for the receiver (\[plan-6\]), or valid reports have been missing for too long (\[silence-1\]).
    pub(crate) fn is_blocked(&self, now: Time) -> bool {
        self.is_full() || self.flight.is_blocked(now, &self.rtt)
    }

    /// Returns the time of the next probe of a silent peer (\[silence-2\]).
    pub(crate) fn probe_at(&self, spending: Spending) -> Time {
        self.flight.probe_at(&self.rtt, spending)
    }

    /// Records a sent symbol whose fate matters.
    pub(crate) fn on_symbol_sent(&mut self, sent: Sent, is_probe: bool) {
        self.flight.on_sent(sent, is_probe);
    }

    /// Records that a data datagram of the peer has arrived.
    pub(crate) fn on_peer_data(&mut self) {
        self.flight.on_data();
    }

    /// Forgets all stream symbols in flight, which are useless now. Otherwise a lost symbol of a decoded block would
    /// make the peer look silent when the next block is sent.
    pub(crate) fn forget_streams(&mut self) {
        self.flight.forget();
    }

    // ---- sizes and times of datagrams ----

    /// Returns the bytes of an IP packet in front of a datagram.
    pub(crate) fn overhead_bytes(&self) -> u32 {
        self.overhead_bytes
    }

    pub(crate) fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        self.overhead_bytes = overhead_bytes;
    }

    /// Returns the IP packet size of a datagram of `length` bytes. `virtual_bytes` bytes of its content are elided, but
    /// count.
    pub(crate) fn ip_bytes(&self, length: usize, virtual_bytes: u32) -> u64 {
        length as u64 + u64::from(virtual_bytes) + u64::from(self.overhead_bytes)
    }

    /// Counts a sent IP packet of this size.
    pub(crate) fn count_sent(&mut self, ip_bytes: u64) {
        self.sent_bits += ip_bytes * 8;
    }

    /// Returns the earliest departure of the next data datagram.
    pub(crate) fn ready_at(&self) -> Time {
        self.rate.pacer().ready_at()
    }

    /// Restarts pacing after a pause.
    pub(crate) fn resume(&mut self, now: Time) {
        self.rate.pacer_mut().resume(now);
    }

    /// Accounts for a data datagram in the pacing.
    pub(crate) fn pace_data(&mut self, now: Time, ip_bytes: u64) {
        self.rate.pacer_mut().sent(now, ip_bytes);
    }

    /// Accounts for a control datagram, which is never delayed, in the pacing.
    pub(crate) fn pace_control(&mut self, now: Time, ip_bytes: u64) {
        let datagram_bytes = self.packet_bytes();
        self.rate.pacer_mut().sent_control(now, ip_bytes, datagram_bytes);
    }

    // ---- rate and credit ----

    /// Applies a changed configuration of the rate.
    pub(crate) fn set_config(&mut self, config: &Config) {
        self.rate.set_bounds(self.rate.bounds().with_config(config));
    }

    /// Returns the current rate, bit/s; `None` is the line rate.
    pub(crate) fn rate_bps(&self) -> Option<u64> {
        self.rate.bps()
    }

    /// Returns the transmission time of a full data datagram; zero at the line rate.
    pub(crate) fn datagram_time(&self) -> Duration {
        self.rate.time_of(self.packet_bytes())
    }

    /// Starts rate control if necessary. Called before a symbol of a block of `k` symbols is sent, after `numbers`.
    /// `hint` is the rate that an earlier connection found, on the session's first path only.
    pub(crate) fn begin_rate_control(&mut self, now: Time, k: u16, numbers: &DatagramNumbers, hint: Option<PathHint>) {
        let Self { rate, rtt, packet_size, flight, .. } = self;
        rate.begin_control(k, flight.len(), |policy, max_bps| PathStart {
            now,
            datagram_bytes: packet_size.bytes().into(),
            rtt: rtt.smoothed(),
            sent: numbers.sent_before(numbers.end()),
            hint_bps: hint.filter(|hint| rtt.is_known() && hint.matches(rtt.smoothed())).map(|hint| hint.rate_bps),
            policy,
            max_bps,
        });
    }

    /// Records that the application has no data to send. Ignored if the path [`is_full`](Self::is_full).
    pub(crate) fn on_nothing_to_send(&mut self) {
        if !self.is_full() {
            self.rate.on_limited();
        }
    }

    /// Records a data datagram that leaves with the last of `numbers`, in a packet of `ip_bytes`. `is_cut` means that
    /// its data were cut to fit.
    pub(crate) fn on_data_sent(&mut self, now: Time, ip_bytes: u64, is_cut: bool, numbers: &DatagramNumbers) {
        self.credit.on_sent(now, ip_bytes);
        self.note_size(ip_bytes, is_cut);
        self.rate.on_sent(numbers);
    }

    /// Returns the traffic that the credit permits. `symbol_bytes` is the IP packet size of a full symbol.
    /// `oldest_block_bytes` is called only if needed.
    pub(crate) fn spending(&self, symbol_bytes: u64, oldest_block_bytes: impl FnOnce() -> u64) -> Spending {
        let last_sent = (self.flight.last_sent(), symbol_bytes);
        self.credit.spending(self.rate.bounds().credit_bps(), last_sent, oldest_block_bytes)
    }

    /// Takes in a proof that the peer has decoded blocks of `ip_bytes` IP bytes.
    pub(crate) fn on_proven(&mut self, now: Time, ip_bytes: u64) {
        self.credit.on_proven(now, ip_bytes);
        self.rate.on_proven(now, ip_bytes);
    }

    /// Returns the proven rate and RTT of this path, for later connections.
    pub(crate) fn hint(&self) -> Option<PathHint> {
        self.rate.hint()
    }

    // ---- path changes ----

    /// Switches to the peer's proven address `remote`. Datagrams in flight went to the old one, which explains the
    /// silence until now.
    fn on_moved(&mut self, now: Time, remote: SocketAddr, numbers: &DatagramNumbers) {
        self.remote = remote;
        self.flight.on_moved(now, numbers.sent_before(numbers.end()));
    }

    /// Replaces this path by one to another host, with the RTT guess `rtt`. The new path begins without state (RFC 9000
    /// §9.4), except for state that belongs to the session: datagrams in flight, credit, the agreed packet sizes, and
    /// the breaker's evidence, so that endless moves cannot blind the breaker (\[loss-3\]).
    fn become_other(&mut self, now: Time, id: PathId, rtt: Duration) {
        let fresh = Self::new(self.remote, self.overhead_bytes, self.rate.bounds());
        let Self { flight, rate, packet_size, credit, sent_bits, .. } = std::mem::replace(self, fresh);
        self.id = id;
        self.rtt.guess(rtt);
        self.flight = flight.onto_other_path();
        self.rate = rate.onto_other_path();
        self.packet_size = packet_size.of_other_path(now);
        self.credit = credit.onto_other_path();
        self.sent_bits = sent_bits;
    }

    // ---- reports ----

    /// Takes in a report on our datagrams. Calls `on_fate` for each datagram whose fate the report settles.
    ///
    /// # Errors
    /// The report counts more datagrams than were sent.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        named: Named,
        (report, records): (&Report, &Records<'_>),
        numbers: &DatagramNumbers,
        on_fate: impl FnMut(Sent),
    ) -> Result<PathNews, PeerMisbehaved> {
        // Before the report settles its datagrams, because that removes their sending times.
        let marks = self.flight.on_clock(now, named, (report, records), numbers);
        let (rtt_sample, judgement) = self.flight.on_report(now, named, report, (numbers, &self.rtt), on_fate)?;
        let marks = self.flight.judged_marks(marks, judgement);
        Ok(PathNews { rtt_sample, marks, judgement })
    }

    /// Updates RTT, flow control, rate and credit from a report with news.
    pub(crate) fn on_news(&mut self, now: Time, news: &PathNews, demand: Demand) {
        let sample = news.rtt_sample;
        if let Some(sample) = sample {
            self.rtt.sample(sample);
        }
        let queue = QueueReport {
            queue_bytes: u64::from(demand.queue_kib) * QUEUE_UNIT_BYTES,
            arrival_rate_bps: demand.arrival_rate_bps,
            rate_bps: self.rate.unguarded_bps(),
            rtt: sample,
            interval: self.rtt.report_interval(),
        };
        self.flight.on_queue(now, demand.symbol_size, queue);
        self.rate.on_report(now, (sample, news.marks.as_slice()), demand.is_drained, demand.has_messages);
        self.credit.on_report(sample);
    }

    /// Passes the report to the breaker. `arrived_bytes` is the session's total. `is_credit_short` means that half of
    /// the credit, the bytes that may be sent without proof of decoding, is used up.
    pub(crate) fn watch(
        &mut self,
        now: Time,
        numbers: &DatagramNumbers,
        arrived_bytes: u64,
        judgement: Judgement,
        is_credit_short: bool,
    ) {
        let Some(reported) = self.flight.reported() else { return };
        if !self.rate.is_guarded() {
            return;
        }
        let snapshot = Snapshot {
            at: now,
            numbered: numbers.sent_before(numbers.end()),
            settled: reported.passed,
            arrived: reported.received,
            arrived_bits: reported.received * u64::from(self.overhead_bytes) * 8,
            sent_bits: self.sent_bits,
            is_credit_short,
        };
        self.rate.watch(snapshot, arrived_bytes, judgement, self.rtt.smoothed());
    }

    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        self.rate.add_stats(stats);
        stats.packet_bytes = self.packet_size.bytes();
        stats.black_holes = self.packet_size.black_holes();
    }
}

#[cfg(test)]
impl Path {
    /// Returns an established path without bounds.
    pub(crate) fn open(remote: SocketAddr, now: Time, reads_clock: bool) -> Self {
        let bounds = RateBounds::new(&Config::danger_unsealed(), 0);
        let mut path = Self::new(remote, 0, bounds);
        path.establish(now, Agreement { reads_clock, bounds, packet_bytes: 1500, has_discovery: false });
        path
    }

    /// Takes in an RTT sample.
    pub(crate) fn sample_rtt(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Policy, Rate};
    use crate::security::PeerKey;

    fn automatic(max_bps: Option<u64>, min_bps: Option<u64>) -> Rate {
        Rate::Auto { policy: Policy::High, max_bps, min_bps }
    }

    #[test]
    fn no_rate_cap_of_the_peers_raises_the_credit() {
        let spent = |rate, cap_bps, megabytes: u64| {
            let config = Config::sealed(PeerKey::Any).with_rate(rate);
            let mut path = Path::new(([192, 0, 2, 1], 9).into(), 0, RateBounds::new(&config, cap_bps));
            path.credit.on_report(Some(Duration::from_millis(10)));
            path.credit.on_sent(Time::from_s(1), megabytes * 1_000_000);
            matches!(path.spending(1_500, || 0), Spending::Trickle { .. })
        };
        // Credit is 2 s of the rate: 1 Gbit/s at line rate, the cap if it is lower, or the configured rate.
        for (rate, cap_bps, megabytes) in [
            (Rate::Line, 0, 250),
            (Rate::Line, u64::MAX, 250),
            (Rate::Line, 2_000_000_000, 250),
            (Rate::Line, 100_000_000, 25),
            (Rate::Fixed { rate_bps: 40_000_000 }, u64::MAX, 10),
            // An automatically found rate does not raise the credit either: it depends on reports, which may be lies.
            (Rate::auto(Policy::Fair), u64::MAX, 25),
            (automatic(Some(40_000_000), None), u64::MAX, 10),
            (automatic(None, Some(200_000_000)), u64::MAX, 50),
            (automatic(None, Some(1_000_000)), u64::MAX, 25),
            (automatic(Some(40_000_000), Some(30_000_000)), 4_000_000, 1),
            (Rate::Fixed { rate_bps: 40_000_000 }, 4_000_000, 1),
        ] {
            assert!(!spent(rate, cap_bps, megabytes - 1), "{rate:?}, {cap_bps}");
            assert!(spent(rate, cap_bps, megabytes), "{rate:?}, {cap_bps}");
        }
    }
}
