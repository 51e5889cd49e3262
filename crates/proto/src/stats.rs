//! Counters and estimates of a connection.

use std::time::Duration;

/// Counters and estimates of a connection since its beginning. Counters are exact; estimates are documented as such.
/// The feature `serde` serializes them, with the round-trip time as `rtt_ms`.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::Stats;
///
/// /// Overhead: bytes sent in excess of the bytes delivered, as a share of the bytes delivered.
/// fn overhead(stats: &Stats) -> Option<f64> {
///     let delivered = stats.stream_bytes_acknowledged;
///     (delivered > 0).then(|| stats.bytes_sent as f64 / delivered as f64 - 1.0)
/// }
/// assert_eq!(overhead(&Stats::default()), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stats {
    /// Segments given to the network (table 3.2, *Outgoing segments*).
    pub segments_sent: u64,
    /// Segments taken from the network (table 3.2, *Incoming segments*).
    pub segments_received: u64,
    /// Segments dropped on arrival, for any reason (table 3.2, *Dropped segments*).
    pub segments_dropped: u64,
    /// Encrypted segments among the dropped ones that did not authenticate.
    pub segments_forged: u64,
    /// Cookies received: requests of the peer's host to repeat the SYN with a cookie, before it spends computation on
    /// this connection.
    pub cookies_received: u32,
    /// Number of times that the peer moved to another address and proved it.
    pub path_changes: u64,
    /// Acknowledgements sent: classic block ACKs, modern reports (table 3.2, *ACKs sent*).
    pub acks_sent: u64,
    /// Acknowledgements received (table 3.2, *ACKs received*).
    pub acks_received: u64,
    /// Bytes of datagrams sent, without the headers of lower layers.
    pub bytes_sent: u64,
    /// Bytes of datagrams received, without the headers of lower layers.
    pub bytes_received: u64,
    /// Application bytes which the peer has acknowledged.
    pub stream_bytes_acknowledged: u64,
    /// Application bytes handed to the reader.
    pub stream_bytes_read: u64,
    /// Blocks which the peer has acknowledged.
    pub blocks_acknowledged: u64,
    /// Blocks that needed a second round of symbols, because the first round did not suffice. Zero in classic, which
    /// has no rounds.
    pub blocks_repeated: u64,
    /// Rounds after the first one, over all blocks. Divided by `blocks_repeated`: the mean number of later rounds of
    /// such a block.
    pub later_rounds: u64,
    /// Blocks decoded here.
    pub blocks_decoded: u64,
    /// Symbols sent, by reason.
    pub sent: SentSymbols,
    /// Sent symbols that arrived and were not needed, as the peer reports.
    pub wasted: WastedSymbols,
    /// Symbols that arrived, by use.
    pub received: ReceivedSymbols,
    /// Smoothed round-trip time; zero while unknown.
    #[cfg_attr(feature = "serde", serde(rename = "rtt_ms", with = "crate::serde_with::milliseconds"))]
    pub rtt: Duration,
    /// Queueing delay of our datagrams: the delay in the peer's newest report above the least recent delay. `None`
    /// while unknown. It includes the delay caused by other traffic in the same queue.
    #[cfg_attr(feature = "serde", serde(rename = "queue_ms", with = "crate::serde_with::optional_milliseconds"))]
    pub queue: Option<Duration>,
    /// The loss estimate p̂ of our sending direction, 0 to 1.
    pub loss: f64,
    /// Arrival rate at the peer, bits per second, as the peer reports.
    pub arrival_rate_bps: u64,
    /// Current sending rate, bits of IP packets per second; zero at line rate. It is the configured rate, or less when
    /// the peer's cap or the circuit breaker limits it. For an automatic rate it is the rate found, without the short
    /// probes at other rates.
    pub rate_bps: u64,
    /// Findings of an automatic rate. `None` with another kind of rate, and before enough data have been sent.
    pub rate_control: Option<RateControlStats>,
    /// State of the circuit breaker.
    pub breaker: BreakerState,
    /// Rate limit of the circuit breaker, bits per second; zero when it imposes none.
    pub breaker_rate_bps: u64,
    /// Rate that the path carries, as found by the circuit breaker, bits per second; zero until the breaker finds that
    /// more was sent. The breaker holds the sender close to this rate, at which only the path's own loss remains.
    pub carried_rate_bps: u64,
    /// Number of times that the circuit breaker tested the path.
    pub breaker_tests: u32,
    /// Largest IP packets that are sent with data now, bytes, as found by packet size discovery so far. Zero in
    /// classic.
    pub packet_bytes: u16,
    /// Black holes found: number of times that packets of a previously proven size no longer passed.
    pub black_holes: u16,
    /// Our datagrams that arrived at the peer with ECN marks, as the peer reports.
    pub ecn_reported: EcnStats,
    /// The peer's datagrams that arrived here with ECN marks.
    pub ecn_received: EcnStats,
    /// Fates of our messages.
    pub messages_sent: SentMessages,
    /// Fates of the peer's messages.
    pub messages_received: ReceivedMessages,
    /// Datagram numbers of the peer that never arrived here. A modern peer skips about one number in 128, and skipped
    /// numbers are included.
    pub datagrams_missing: u64,
}

/// Figures of one stream since its beginning, as seen by this side, in both directions. Figures of a direction that the
/// stream does not have are 0.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::StreamStats;
///
/// /// Bytes written that the peer has not acknowledged.
/// fn under_way_bytes(stats: &StreamStats) -> u64 {
///     stats.bytes_written - stats.bytes_acknowledged
/// }
/// assert_eq!(under_way_bytes(&StreamStats::default()), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StreamStats {
    /// Bytes written by the application.
    pub bytes_written: u64,
    /// Written bytes that the peer has acknowledged, block by block.
    pub bytes_acknowledged: u64,
    /// Blocks that the peer has acknowledged.
    pub blocks_acknowledged: u64,
    /// Symbols sent, by reason.
    pub sent: SentSymbols,
    /// Bytes read by the application.
    pub bytes_read: u64,
    /// Blocks decoded here.
    pub blocks_decoded: u64,
    /// Symbols received that brought a block closer to decoding. All other symbols are counted for the connection as a
    /// whole ([`Stats::received`]).
    pub symbols_useful: u64,
}

impl StreamStats {
    /// Adds the figures of another part of the same stream, such as its other direction.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (mine, others) = (self.sent, other.sent);
        Self {
            bytes_written: self.bytes_written + other.bytes_written,
            bytes_acknowledged: self.bytes_acknowledged + other.bytes_acknowledged,
            blocks_acknowledged: self.blocks_acknowledged + other.blocks_acknowledged,
            sent: SentSymbols {
                source: mine.source + others.source,
                repair: mine.repair + others.repair,
                proactive: mine.proactive + others.proactive,
                probe: mine.probe + others.probe,
            },
            bytes_read: self.bytes_read + other.bytes_read,
            blocks_decoded: self.blocks_decoded + other.blocks_decoded,
            symbols_useful: self.symbols_useful + other.symbols_useful,
        }
    }
}

/// Fates of the peer's messages (`spec/protocol.md` §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ReceivedMessages {
    /// Messages that came in time and were delivered, or wait for the application.
    pub in_time: u64,
    /// Messages that were complete only after their lifetime, and were not delivered. Symbols of an incomplete message
    /// are discarded 0.1 s after its lifetime.
    pub late: u64,
    /// Messages that came in time, but were dropped because the application did not read them while there was room.
    pub unread: u64,
    /// All other messages up to the newest known one. A message still on its way counts as lost until it arrives.
    pub lost: u64,
    /// Symbols that came for a message that was already complete.
    pub symbols_in_vain: u64,
}

/// Fates of our messages (`spec/protocol.md` §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SentMessages {
    /// Messages written by the application.
    pub accepted: u64,
    /// Messages of which at least one symbol was sent.
    pub begun: u64,
    /// Messages whose lifetime ended before their first symbol was sent, because more was written than the rate
    /// permits.
    pub expired_unsent: u64,
    /// Messages that the peer has proven to be complete, in time or not.
    pub complete: u64,
    /// Datagrams sent with symbols of messages.
    pub datagrams: u64,
    /// Source symbols in these datagrams.
    pub source_symbols: u64,
    /// Estimated time over which losses are correlated: the loss of one datagram says something about the next. 0 where
    /// losses are independent.
    #[cfg_attr(feature = "serde", serde(rename = "burst_ms", with = "crate::serde_with::milliseconds"))]
    pub burst: Duration,
}

/// Findings of an automatic rate (`spec/protocol.md`, "Automatic rate").
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{RatePhase, Stats};
///
/// /// One line for a user who wants to know why the transfer is not faster.
/// fn remark(stats: &Stats) -> Option<String> {
///     let found = stats.rate_control?;
///     Some(match (found.phase, found.own_loss()) {
///         (RatePhase::Compete, _) => "others fill the queue, and take as much as they give us".to_owned(),
///         (_, Some(loss)) => format!("{:.1} Mbit/s, of which {:.1} % find a full queue", found.rate_bps as f64 / 1e6, 100.0 * loss),
///         (_, None) => "too little was sent to say".to_owned(),
///     })
/// }
/// assert_eq!(remark(&Stats::default()), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RateControlStats {
    /// Phase of the controller.
    pub phase: RatePhase,
    /// Rate found by the controller, bits of IP packets per second, within the bounds of
    /// [`Rate::Auto`](crate::Rate::Auto). [`Stats::rate_bps`] is the rate after the peer's cap.
    pub rate_bps: u64,
    /// Capacity of the bottleneck, other traffic included, bits of IP packets per second, measured by the latest packet
    /// trains. `None` while unknown.
    pub capacity_bps: Option<u64>,
    /// Target of the queueing delay. The actual queueing delay is [`Stats::queue`].
    #[cfg_attr(feature = "serde", serde(rename = "target_queue_ms", with = "crate::serde_with::milliseconds"))]
    pub target_queue: Duration,
    /// Loss that is attributed to the path itself and does not lower the rate, 0 to 0.9. This is a cautious figure; use
    /// the counts below to know the path's loss.
    pub path_loss: f64,
    /// Datagrams whose loss or arrival the controller has evaluated. Datagrams of the start phase, except its first
    /// ones, are evaluated at the end of that phase.
    pub datagrams_judged: u64,
    /// Evaluated datagrams that were lost, for any reason.
    pub datagrams_lost: u64,
    /// Evaluated datagrams that were lost in a full queue: an estimate, the excess over chance. This flow filled the
    /// queue, alone or together with others.
    pub datagrams_lost_in_queue: u64,
}

impl RateControlStats {
    /// Returns the share of the evaluated datagrams that the path lost by itself, 0 to 1. `None` before any were
    /// evaluated.
    #[must_use]
    pub fn loss_of_path(&self) -> Option<f64> {
        let lost = self.datagrams_lost.saturating_sub(self.datagrams_lost_in_queue);
        (self.datagrams_judged > 0).then(|| lost as f64 / self.datagrams_judged as f64)
    }

    /// Returns the share of the evaluated datagrams that were lost in a full queue, 0 to 1. `None` before any were
    /// evaluated.
    #[must_use]
    pub fn own_loss(&self) -> Option<f64> {
        (self.datagrams_judged > 0).then(|| self.datagrams_lost_in_queue as f64 / self.datagrams_judged as f64)
    }
}

/// Phase of the controller of an automatic rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum RatePhase {
    /// Measures the capacity of the path.
    #[default]
    Start,
    /// Controls the rate by the queueing delay that this flow causes.
    Steady,
    /// Competes with flows that fill the queue and do not yield: behaves like one of these flows.
    Compete,
}

/// State of the circuit breaker (`spec/protocol.md`, "Circuit breaker").
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{BreakerState, Stats};
///
/// /// A remark for a user whose transfer is slower than the configured rate.
/// fn remark(stats: &Stats) -> Option<String> {
///     let carried = || stats.carried_rate_bps as f64 / 1e6;
///     (stats.breaker == BreakerState::Limiting).then(|| format!("the path carries about {:.1} Mbit/s", carried()))
/// }
/// assert_eq!(remark(&Stats::default()), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum BreakerState {
    /// No circuit breaker: it is switched off, the rate is the line rate, or the connection is classic.
    #[default]
    Off,
    /// The breaker monitors the loss.
    Watching,
    /// The breaker lowers the rate for a moment, to learn if the sender causes the loss itself.
    Testing,
    /// The loss was attributed to the path, and is not tested again for a while.
    LossAccepted,
    /// The path was found to be full: the rate follows the arrival rate at the peer.
    Limiting,
}

/// Counts of distinct datagrams by their ECN marks on arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EcnStats {
    /// Datagrams that arrived with CE.
    pub ce: u64,
    /// Datagrams that arrived with ECT(0) or ECT(1).
    pub ect: u64,
}

/// Data datagrams sent, by reason.
///
/// ```
/// # use dfcp_proto as dfcp;
/// let sent = dfcp::SentSymbols::default();
/// assert_eq!(sent.total(), sent.source + sent.repair + sent.proactive + sent.probe);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SentSymbols {
    /// Source symbols of blocks.
    pub source: u64,
    /// Repair symbols that a report had shown to be needed; in classic, all symbols.
    pub repair: u64,
    /// Repair symbols sent in idle time without a report, to save a round trip.
    pub proactive: u64,
    /// Repair symbols sent as probes, to make a silent peer report.
    pub probe: u64,
}

impl SentSymbols {
    /// Returns the number of data datagrams sent.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.source + self.repair + self.proactive + self.probe
    }
}

/// Data datagrams that arrived and were not needed, by cause, as the peer's newest report says. A classic peer does not
/// report such datagrams, so all counts are zero; the peer's own [`ReceivedSymbols`] has them.
///
/// ```
/// # use dfcp_proto as dfcp;
/// /// Share of the sent symbols that were of no use.
/// fn waste(stats: &dfcp::Stats) -> f64 {
///     stats.wasted.total() as f64 / stats.sent.total().max(1) as f64
/// }
/// assert_eq!(waste(&dfcp::Stats::default()), 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WastedSymbols {
    /// Symbols that were linear combinations of symbols already received.
    pub dependent: u64,
    /// Symbols of a block that was already decoded.
    pub late: u64,
    /// Symbols that the peer dropped, because they were outside its window or it had no memory.
    pub refused: u64,
}

impl WastedSymbols {
    /// Returns the sum of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dependent + self.late + self.refused
    }
}

/// Data datagrams received, by use. All except `useful` are waste.
///
/// ```
/// # use dfcp_proto as dfcp;
/// let received = dfcp::ReceivedSymbols::default();
/// assert_eq!(received.distinct(), received.useful + received.dependent + received.late + received.refused);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ReceivedSymbols {
    /// Symbols that brought a decoder closer to its block.
    pub useful: u64,
    /// Symbols that were linear combinations of symbols already received.
    pub dependent: u64,
    /// Symbols of a block that was already decoded.
    pub late: u64,
    /// Copies of datagrams, made by the network.
    pub duplicate: u64,
    /// Symbols that were dropped, because they were outside the window or there was no memory.
    pub refused: u64,
}

impl ReceivedSymbols {
    /// Counts a symbol of an open block that lacked `before` symbols without it, and lacks `after` with it. The decoder
    /// may notice a linear dependence later than on the dependent symbol's arrival, so `useful` can fall: it is always
    /// the rank of all blocks.
    pub(crate) fn count_collected(&mut self, before: usize, after: usize) {
        let gained = before as i64 - after as i64;
        self.useful = self.useful.saturating_add_signed(gained);
        self.dependent = self.dependent.saturating_add_signed(1 - gained);
    }

    /// Returns the number of distinct data datagrams that arrived.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.useful + self.dependent + self.late + self.refused
    }
}
