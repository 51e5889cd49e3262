//! Counters and estimates of a connection.

use std::time::Duration;

/// Figures of a connection so far. Counters are exact; estimates say so. With the feature `serde` it can be written, the round-trip time as
/// `rtt_ms`.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::Stats;
///
/// /// Bytes sent beyond those delivered, as a share of these.
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
    /// Segments dropped on arrival, for whatever reason (table 3.2, *Dropped segments*).
    pub segments_dropped: u64,
    /// Sealed segments among these which did not authenticate.
    pub segments_forged: u64,
    /// Cookies which the peer's host asked this side to come back with, before it computed anything.
    pub cookies_received: u32,
    /// Number of times that the peer has moved to another address, and has proven it.
    pub path_changes: u64,
    /// Acknowledgements sent: classic block ACKs, modern reports (table 3.2, *ACKs sent*).
    pub acks_sent: u64,
    /// Acknowledgements received (table 3.2, *ACKs received*).
    pub acks_received: u64,
    /// Bytes of datagrams sent, without the headers below ours.
    pub bytes_sent: u64,
    /// Bytes of datagrams received, likewise.
    pub bytes_received: u64,
    /// Application bytes which the peer has acknowledged.
    pub stream_bytes_acknowledged: u64,
    /// Application bytes handed to the reader.
    pub stream_bytes_read: u64,
    /// Blocks which the peer has acknowledged.
    pub blocks_acknowledged: u64,
    /// Blocks for which a second round was planned, because what had been sent first did not suffice. Zero in classic, which has
    /// no rounds.
    pub blocks_repeated: u64,
    /// All rounds planned after the first ones of their blocks; divided by `blocks_repeated`, how many such a block took.
    pub later_rounds: u64,
    /// Blocks decoded here.
    pub blocks_decoded: u64,
    /// Symbols sent.
    pub sent: SentSymbols,
    /// Symbols among these that arrived in vain, as the peer reports.
    pub wasted: WastedSymbols,
    /// Symbols that arrived.
    pub received: ReceivedSymbols,
    /// Smoothed round-trip time; zero while unknown.
    #[cfg_attr(feature = "serde", serde(rename = "rtt_ms", with = "crate::serde_with::milliseconds"))]
    pub rtt: Duration,
    /// Queueing delay of our datagrams: that above the least lately, by the clock of the peer's newest report; `None` while
    /// unknown. It includes what others send through the same queue.
    #[cfg_attr(feature = "serde", serde(rename = "queue_ms", with = "crate::serde_with::optional_milliseconds"))]
    pub queue: Option<Duration>,
    /// The loss estimate p̂ of our sending direction, 0 to 1.
    pub loss: f64,
    /// Bits per second which the peer says arrive there.
    pub arrival_rate_bps: u64,
    /// The rate at which data leave now, bits of IP packets per second: the configured one, or less where the peer or the
    /// circuit breaker holds it down; of an automatic rate the one it has found, without the moments at which it sends faster or
    /// slower to learn something. Zero at line rate.
    pub rate_bps: u64,
    /// Findings of an automatic rate; `None` with another rate, and while too few data have been sent to begin.
    pub rate_control: Option<RateControlStats>,
    /// State of the circuit breaker.
    pub breaker: BreakerState,
    /// The rate the circuit breaker allows now; zero when it imposes none.
    pub breaker_rate_bps: u64,
    /// The rate the path was found to carry by the circuit breaker, which holds the sender to about as much; zero while it has
    /// not found that more was offered. At this rate no more is lost than the path loses by itself.
    pub carried_rate_bps: u64,
    /// Number of times that the circuit breaker tested the path.
    pub breaker_tests: u32,
    /// Bytes of the largest IP packets which data are sent in now: what packet size discovery has found so far. Zero in classic.
    pub packet_bytes: u16,
    /// Number of times that packets of the size before were found to pass no more.
    pub black_holes: u16,
    /// Our datagrams which came to the peer with marks, as it says.
    pub ecn_reported: EcnStats,
    /// The peer's datagrams which came here with marks.
    pub ecn_received: EcnStats,
    /// Our messages.
    pub messages_sent: SentMessages,
    /// The peer's messages.
    pub messages_received: ReceivedMessages,
    /// Datagrams numbered by the peer and never seen here. A modern peer skips about one number in 128, which counts, too.
    pub datagrams_missing: u64,
}

/// Figures of one stream so far, in both directions, on this side; those of a direction that the stream does not have stay 0.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::StreamStats;
///
/// /// Bytes written which the peer has not acknowledged.
/// fn under_way_bytes(stats: &StreamStats) -> u64 {
///     stats.bytes_written - stats.bytes_acknowledged
/// }
/// assert_eq!(under_way_bytes(&StreamStats::default()), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StreamStats {
    /// Bytes which the application has written.
    pub bytes_written: u64,
    /// Bytes among these which the peer has acknowledged, block by block.
    pub bytes_acknowledged: u64,
    /// Blocks which the peer has acknowledged.
    pub blocks_acknowledged: u64,
    /// Symbols sent.
    pub sent: SentSymbols,
    /// Bytes which the application has read.
    pub bytes_read: u64,
    /// Blocks decoded here.
    pub blocks_decoded: u64,
    /// Symbols received which brought a block forward. What came in vain is counted for the whole connection alone
    /// ([`Stats::received`]).
    pub symbols_useful: u64,
}

impl StreamStats {
    /// Adds what another part of the same stream has done, such as its other direction.
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
    /// Came in time, and the application has them or can.
    pub in_time: u64,
    /// Were complete within a second after their lifetime, and not delivered.
    pub late: u64,
    /// Came in time, but the application did not take them while there was room.
    pub unread: u64,
    /// All others up to the newest of which anything has come: what is still on its way counts until it comes.
    pub lost: u64,
    /// Symbols which came for a message that was complete.
    pub symbols_in_vain: u64,
}

/// Fates of our messages (`spec/protocol.md` §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SentMessages {
    /// Handed over by the application.
    pub accepted: u64,
    /// Begun.
    pub begun: u64,
    /// Not begun before their time was over: more was handed over than there was room for.
    pub expired_unsent: u64,
    /// Proven by the peer to be complete, in time or not.
    pub complete: u64,
    /// Datagrams with symbols of messages.
    pub datagrams: u64,
    /// Source symbols among them.
    pub source_symbols: u64,
    /// Time over which a loss of one datagram says something of the next, as found; 0 where losses are independent.
    #[cfg_attr(feature = "serde", serde(rename = "burst_ms", with = "crate::serde_with::milliseconds"))]
    pub burst: Duration,
}

/// Findings of an automatic rate (`spec/protocol.md`, "Automatic rate").
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{RatePhase, Stats};
///
/// /// One line for a user who asks why it is not faster.
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
    /// Its phase.
    pub phase: RatePhase,
    /// The rate found, bits of IP packets per second, within the bounds of [`Rate::Auto`](crate::Rate::Auto); what the peer's cap makes of it
    /// is [`Stats::rate_bps`].
    pub rate_bps: u64,
    /// Capacity of the whole bottleneck, others' traffic included, bits of IP packets per second, as the latest trains of datagrams say;
    /// `None` while unknown.
    pub capacity_bps: Option<u64>,
    /// The queueing delay which it aims at; that which there is, is [`Stats::queue`].
    #[cfg_attr(feature = "serde", serde(rename = "target_queue_ms", with = "crate::serde_with::milliseconds"))]
    pub target_queue: Duration,
    /// The loss that it takes for the path's own, which does not lower the rate, 0 to 0.9: a careful figure. What the path lost is better told
    /// by the counts below.
    pub path_loss: f64,
    /// Datagrams whose losses the controller has attributed to the path or to a queue. Those of the start, except its first datagrams, are
    /// attributed when the start is over.
    pub datagrams_judged: u64,
    /// Datagrams among them which were lost, for whatever reason.
    pub datagrams_lost: u64,
    /// Datagrams among these which found a queue full, as far as that exceeds chance: an estimate. The flow has done that itself, alone or
    /// together with others.
    pub datagrams_lost_in_queue: u64,
}

impl RateControlStats {
    /// The share of what was sent that the path lost by itself, 0 to 1; `None` before anything was judged.
    #[must_use]
    pub fn loss_of_path(&self) -> Option<f64> {
        let lost = self.datagrams_lost.saturating_sub(self.datagrams_lost_in_queue);
        (self.datagrams_judged > 0).then(|| lost as f64 / self.datagrams_judged as f64)
    }

    /// The share of what was sent that found a queue full, 0 to 1; `None` before anything was judged.
    #[must_use]
    pub fn own_loss(&self) -> Option<f64> {
        (self.datagrams_judged > 0).then(|| self.datagrams_lost_in_queue as f64 / self.datagrams_judged as f64)
    }
}

/// Phase of an automatic rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum RatePhase {
    /// It learns what the path carries.
    #[default]
    Start,
    /// The rate goes by the queueing delay which it causes.
    Steady,
    /// Flows which do not yield fill the queue: it behaves as one of them.
    Compete,
}

/// State of the circuit breaker (`spec/protocol.md`, "Circuit breaker").
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{BreakerState, Stats};
///
/// /// A remark to a user whose transfer is slower than the rate that was asked for.
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
    /// There is none: it is switched off, the rate is the line's, or the connection is classic.
    #[default]
    Off,
    /// It watches the loss.
    Watching,
    /// It sends less for a moment, to learn whether the loss is this sender's own doing.
    Testing,
    /// The loss was found to be the path's own, and is not tested again for a while.
    LossAccepted,
    /// The path was found to be full: the rate follows what the path delivers.
    Limiting,
}

/// Distinct datagrams by their marks on arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EcnStats {
    /// Came with CE.
    pub ce: u64,
    /// Came with ECT(0) or ECT(1).
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
    /// Source symbols.
    pub source: u64,
    /// Repair symbols which a report had shown to be needed, or classic's symbols.
    pub repair: u64,
    /// Repair symbols sent into idle time, to save a round trip.
    pub proactive: u64,
    /// Repair symbols sent to make a silent peer speak.
    pub probe: u64,
}

impl SentSymbols {
    /// All data datagrams sent.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.source + self.repair + self.proactive + self.probe
    }
}

/// Data datagrams sent which arrived and were not needed, by cause, as the peer's newest report tells. A classic peer
/// does not report: then all are zero, and what was wasted is in the peer's [`ReceivedSymbols`] alone.
///
/// ```
/// # use dfcp_proto as dfcp;
/// /// The share of what was sent that was of no use.
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
    /// Came for a block which was already decoded.
    pub late: u64,
    /// Had no place at the peer: outside its window, or no memory.
    pub refused: u64,
}

impl WastedSymbols {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dependent + self.late + self.refused
    }
}

/// Data datagrams received, by use. All but `useful` are waste.
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
    /// Brought the decoder forward.
    pub useful: u64,
    /// Symbols that were linear combinations of symbols already received.
    pub dependent: u64,
    /// Came for a block which was already decoded.
    pub late: u64,
    /// The network delivered them twice.
    pub duplicate: u64,
    /// Had no place: outside the window, or no memory.
    pub refused: u64,
}

impl ReceivedSymbols {
    /// A symbol has come to an open block which lacked `before` symbols, and now lacks `after`. That one was dependent on
    /// another may turn out later than when it came, so `useful` can fall: it is always what the blocks have.
    pub(crate) fn count_collected(&mut self, before: usize, after: usize) {
        let gained = before as i64 - after as i64;
        self.useful = self.useful.saturating_add_signed(gained);
        self.dependent = self.dependent.saturating_add_signed(1 - gained);
    }

    /// Distinct data datagrams which arrived.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.useful + self.dependent + self.late + self.refused
    }
}
