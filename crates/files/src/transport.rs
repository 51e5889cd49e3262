//! Interface between the commands and a connection: bytes both ways, and path statistics.

mod connection;
mod found;
#[cfg(any(test, feature = "memory"))]
pub mod memory;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use dfcp::Session;
#[cfg(feature = "classic")]
use dfcp::classic::ParameterError;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use self::found::{FoundRate, Losses, Phase};
use crate::seal::Seal;

/// Source symbols sent before a loss is shown. The transport's estimate starts from a prior of 5 % worth 100 datagrams: after a thousand
/// its bias is at most half a percentage point.
const LOSS_EVIDENCE_DATAGRAMS: u64 = 1000;

/// IP bytes sent before overhead and waste are shown to people.
const SURPLUS_EVIDENCE_BYTES: u64 = 1_000_000;

/// Path statistics of one end at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PathSample {
    /// The transport's estimate of the loss in this end's sending direction, 0 to 1; see [`PathSample::evident_loss`].
    pub loss: Option<f64>,
    /// Share of the peer's datagrams that were lost, 0 to 1, within 1 %; `None` until enough were counted.
    pub incoming_loss: Option<f64>,
    /// Smoothed round-trip time, ms; `None` before the first measurement.
    pub rtt_ms: Option<f64>,
    /// Queueing delay of this end's datagrams, ms, including cross traffic; `None` while unknown.
    pub queue_ms: Option<f64>,
    /// State of the automatic rate; `None` for other rates.
    pub found: Option<FoundRate>,
    /// Datagrams sent by this end, of every kind.
    pub datagrams_sent: u64,
    /// Data datagrams among them, by reason.
    pub data_datagrams: DataDatagrams,
    /// Data datagrams that arrived and were not needed, as the peer reports; see [`PathSample::waste`].
    #[serde(skip)]
    pub wasted: Wasted,
    /// Bytes of the IP packets sent by this end.
    pub ip_bytes_sent: u64,
    /// Bytes of this end's stream which the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Rate that the path carried, bit/s of IP packets, if this end offered more.
    pub carried_rate_bps: Option<u64>,
    /// ECN marks on this end's datagrams at the other end; `None` without any. Known to this end only.
    pub marks: Option<Marks>,
    /// Size of the largest IP packets with data, bytes; known to this end only.
    pub packet_bytes: Option<u16>,
}

/// Datagrams by the ECN field of their IP packets on arrival (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Packets with CE: marked by a queue on the path.
    pub ce: u64,
    /// Packets with ECT(0) or ECT(1): unmarked.
    pub ect: u64,
}

impl Marks {
    /// Counts of marks; `None` without any.
    pub fn known(ce: u64, ect: u64) -> Option<Self> {
        (ce > 0 || ect > 0).then_some(Self { ce, ect })
    }

    fn since(self, earlier: Option<Self>) -> Self {
        let Self { ce, ect } = earlier.unwrap_or(Self { ce: 0, ect: 0 });
        Self { ce: self.ce.saturating_sub(ce), ect: self.ect.saturating_sub(ect) }
    }

    /// Share of packets that queues have marked.
    fn marked(self) -> f64 {
        self.ce as f64 / self.ce.saturating_add(self.ect).max(1) as f64
    }
}

/// Data datagrams sent, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DataDatagrams {
    /// Source symbols; none in the classic profile.
    pub source: u64,
    /// Repair symbols sent against known losses; in classic, all data datagrams.
    pub repair: u64,
    /// Repair symbols sent in idle time, to save a round trip.
    pub proactive: u64,
    /// Repair symbols sent to elicit a report from a silent peer.
    pub probe: u64,
}

impl DataDatagrams {
    /// Sum of all kinds.
    pub fn total(&self) -> u64 {
        [self.source, self.repair, self.proactive, self.probe].into_iter().fold(0, u64::saturating_add)
    }
}

/// Data datagrams that arrived and were not needed, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wasted {
    /// Linearly dependent on earlier symbols.
    pub dependent: u64,
    /// Arrived after their block was decoded.
    pub late: u64,
    /// Dropped by the receiver for lack of room.
    pub refused: u64,
}

/// Wasted data datagrams, for JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waste {
    /// Data datagrams that arrived and were not needed, as a share of all sent.
    pub share: f64,
    /// Wasted datagrams linearly dependent on earlier symbols.
    pub dependent: u64,
    /// Wasted datagrams that arrived after their block was decoded.
    pub late: u64,
    /// Wasted datagrams dropped by the receiver for lack of room.
    pub refused: u64,
    /// Data datagrams sent.
    pub data_datagrams: u64,
    /// Repair symbols sent in idle time, to save a round trip, needed or not.
    pub proactive: u64,
    /// Repair symbols sent to elicit a report from a silent peer.
    pub probe: u64,
}

impl PathSample {
    /// Loss estimate worth showing: `None` until it outweighs its prior, and in the classic profile, which has no estimate.
    pub fn evident_loss(estimate: f64, source_symbols_sent: u64) -> Option<f64> {
        (source_symbols_sent >= LOSS_EVIDENCE_DATAGRAMS).then_some(estimate)
    }

    /// Share of the peer's numbered datagrams that were lost; the peer skips one number in 128.
    pub fn evident_incoming_loss(missing: u64, received: u64) -> Option<f64> {
        let numbered = missing.saturating_add(received);
        let lost = missing.saturating_sub(numbered / 128);
        (numbered >= LOSS_EVIDENCE_DATAGRAMS).then(|| lost as f64 / numbered as f64)
    }

    /// IP bytes sent beyond the acknowledged stream bytes, as a share of the latter: headers, repair and waste, and data in flight. `None`
    /// before the first acknowledgement.
    pub fn overhead(&self) -> Option<f64> {
        let share = || (self.ip_bytes_sent as f64 / self.bytes_acknowledged as f64 - 1.0).max(0.0);
        (self.bytes_acknowledged > 0).then(share)
    }

    /// Wasted data datagrams; `None` before the first acknowledgement, and in the classic profile, whose receivers do not report them.
    pub fn waste(&self) -> Option<Waste> {
        let (sent, Wasted { dependent, late, refused }) = (self.data_datagrams, self.wasted);
        let wasted = dependent.saturating_add(late).saturating_add(refused);
        (sent.source > 0 && self.bytes_acknowledged > 0).then(|| Waste {
            // The peer's counts may be inconsistent.
            share: (wasted as f64 / sent.total() as f64).min(1.0),
            dependent,
            late,
            refused,
            data_datagrams: sent.total(),
            proactive: sent.proactive,
            probe: sent.probe,
        })
    }

    /// Increase of datagrams, waste and acknowledged bytes since `earlier` on the same connection; loss and RTT are copied.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (sent, before) = (self.data_datagrams, earlier.data_datagrams);
        let (wasted, wasted_before) = (self.wasted, earlier.wasted);
        Self {
            loss: self.loss,
            incoming_loss: self.incoming_loss,
            rtt_ms: self.rtt_ms,
            queue_ms: self.queue_ms,
            found: self.found.map(|found| found.since(&earlier.found.unwrap_or_default())),
            datagrams_sent: self.datagrams_sent.saturating_sub(earlier.datagrams_sent),
            data_datagrams: DataDatagrams {
                source: sent.source.saturating_sub(before.source),
                repair: sent.repair.saturating_sub(before.repair),
                proactive: sent.proactive.saturating_sub(before.proactive),
                probe: sent.probe.saturating_sub(before.probe),
            },
            wasted: Wasted {
                dependent: wasted.dependent.saturating_sub(wasted_before.dependent),
                late: wasted.late.saturating_sub(wasted_before.late),
                refused: wasted.refused.saturating_sub(wasted_before.refused),
            },
            ip_bytes_sent: self.ip_bytes_sent.saturating_sub(earlier.ip_bytes_sent),
            bytes_acknowledged: self.bytes_acknowledged.saturating_sub(earlier.bytes_acknowledged),
            carried_rate_bps: self.carried_rate_bps,
            marks: self.marks.map(|marks| marks.since(earlier.marks)),
            packet_bytes: self.packet_bytes,
        }
    }

    /// Known statistics for display beside a goodput: `loss 9.9 %`, ...
    pub fn describe(&self, goodput_bps: f64) -> Vec<String> {
        let losses = self.found.and_then(|found| found.losses());
        let known =
            [self.found.map(|found| found.describe(goodput_bps)), self.describe_queue(), self.describe_loss(losses)];
        known.into_iter().flatten().chain(self.describe_surplus()).collect()
    }

    /// Queueing delay for display; `None` without an automatic rate, the only one that targets a delay.
    pub fn describe_queue(&self) -> Option<String> {
        let queue_ms = self.queue_ms.filter(|_| self.found.is_some())?;
        Some(format!("queue {queue_ms:.1} ms"))
    }

    /// Loss for display; path loss and self-inflicted loss separately, if known.
    pub fn describe_loss(&self, losses: Option<Losses>) -> Option<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match losses {
            Some(losses) => Some(format!("loss {} + {} own", percent(losses.path), percent(losses.own))),
            None => self.loss.map(|loss| format!("loss {}", percent(loss))),
        }
    }

    /// Overhead, waste and marks for display: `overhead 12.0 %`, ...; empty for a connection that sent too little, because the handshake is
    /// many times a file of five bytes.
    pub fn describe_surplus(&self) -> Vec<String> {
        if self.ip_bytes_sent <= SURPLUS_EVIDENCE_BYTES {
            return Vec::new();
        }
        let marked = self.marks.map(Marks::marked);
        let waste = self.waste().map(|waste| waste.share);
        let figures = [("overhead", self.overhead()), ("waste", waste), ("marked", marked)];
        let known = figures.into_iter().filter_map(|(name, share)| share.map(|share| (name, share)));
        known.map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect()
    }
}

/// Connection: an ordered byte stream each way. Shutting down the writing half closes only that direction, and completes when the peer has
/// everything.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Current path statistics; `None` if the transport keeps none.
    fn path_sample(&self) -> Option<PathSample> {
        None
    }

    /// Effective datagrams received from the peer; `None` if they are not counted. While the count grows, the peer is alive.
    fn datagrams_heard(&self) -> Option<u64> {
        None
    }

    /// Current address of the peer; `None` if it has no address.
    fn peer_address(&self) -> Option<IpAddr> {
        None
    }

    /// Encryption of the connection; `None` for plaintext.
    fn seal(&self) -> Option<Seal> {
        None
    }

    /// Additional one-way streams; `None` if unsupported. The peer's are accepted from this call on: earlier ones are refused.
    fn streams(&self) -> Option<Arc<dyn Streams>> {
        None
    }

    /// Session that carries messages; `None` if unsupported.
    fn messages(&self) -> Option<Session> {
        None
    }

    /// Leaves blocks undecoded from now on: their bytes are counted, and read as zeros (*Decoding* of thesis table 3.2). No effect without
    /// a codec.
    ///
    /// # Errors
    /// Fails unless the connection is of the classic profile.
    #[cfg(feature = "classic")]
    fn stop_decoding(&self) -> Result<(), ParameterError> {
        Ok(())
    }
}

impl Transport for tokio::io::DuplexStream {}

/// Stream on which this side sends. Dropped before shutdown, it is reset.
pub type SendStream = Box<dyn AsyncWrite + Send + Unpin>;

/// Stream on which the peer sends. Dropped before its end, it is stopped.
pub type RecvStream = Box<dyn AsyncRead + Send + Unpin>;

/// Future returned by [`Streams`].
pub type Opened<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One-way streams of a connection besides the first one. Loss on one delays no other.
pub trait Streams: Send + Sync {
    /// Opens a stream; waits for the peer's permission. `None` if the peer permits none at all.
    ///
    /// # Errors
    /// Fails if the connection is over.
    fn open(&self) -> Opened<'_, io::Result<Option<SendStream>>>;

    /// Waits for the peer's next stream; `None` once the connection is over.
    fn accept(&self) -> Opened<'_, Option<RecvStream>>;
}

/// Source of connections.
pub trait Acceptor: Send {
    /// Type of the accepted connections.
    type Connection: Transport;

    /// Waits for the next connection; returns it with a name of its peer.
    ///
    /// # Errors
    /// Fails if no further connection can be accepted. A fault of a single peer is logged and skipped.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Connection, String)>> + Send;
}

/// Shared handle of a connection. Unlike the halves of `tokio::io::split`, each handle has the connection's statistics. At most one handle
/// may read, and one write, at a time.
pub struct Handle<T>(Arc<Mutex<Counted<T>>>);

struct Counted<T> {
    transport: T,
    written_bytes: u64,
}

impl<T> Handle<T> {
    /// Creates the first handle.
    pub fn new(transport: T) -> Self {
        Self(Arc::new(Mutex::new(Counted { transport, written_bytes: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Counted<T>> {
        // A panic inside the transport poisons the lock; the transport itself then reports the fault.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> Handle<T> {
    /// Returns [`Transport::path_sample`].
    pub fn path_sample(&self) -> Option<PathSample> {
        self.lock().transport.path_sample()
    }

    /// Returns [`Transport::datagrams_heard`].
    pub fn datagrams_heard(&self) -> Option<u64> {
        self.lock().transport.datagrams_heard()
    }

    /// Returns [`Transport::seal`].
    pub fn seal(&self) -> Option<Seal> {
        self.lock().transport.seal()
    }

    /// Returns [`Transport::streams`].
    pub fn streams(&self) -> Option<Arc<dyn Streams>> {
        self.lock().transport.streams()
    }

    /// Returns [`Transport::messages`].
    pub fn messages(&self) -> Option<Session> {
        self.lock().transport.messages()
    }

    /// Calls [`Transport::stop_decoding`].
    ///
    /// # Errors
    /// Passes on the transport's error.
    #[cfg(feature = "classic")]
    pub fn stop_decoding(&self) -> Result<(), ParameterError> {
        self.lock().transport.stop_decoding()
    }

    /// Bytes written by any handle.
    pub fn written_bytes(&self) -> u64 {
        self.lock().written_bytes
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Handle<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().transport).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Handle<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut counted = self.lock();
        let written = Pin::new(&mut counted.transport).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = &written {
            counted.written_bytes += *bytes as u64;
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().transport).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().transport).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_claimed_before_there_is_evidence() {
        let sent = DataDatagrams { source: 999, repair: 5000, ..DataDatagrams::default() };
        assert_eq!(PathSample::evident_loss(0.05, sent.source), None);
        assert_eq!(PathSample::evident_loss(0.05, 1000), Some(0.05));
        assert_eq!(PathSample::evident_incoming_loss(3, 5), None);
        assert_eq!(PathSample::evident_incoming_loss(10, 1_270), Some(0.0));
        assert_eq!(PathSample::evident_incoming_loss(138, 1_142), Some(0.1));
        let unheard = PathSample { data_datagrams: sent, ip_bytes_sent: 10_000, ..PathSample::default() };
        assert_eq!((unheard.overhead(), unheard.waste()), (None, None));
        assert!(unheard.describe(0.0).is_empty());
        let classic = DataDatagrams { repair: 5000, ..DataDatagrams::default() };
        assert_eq!(PathSample { data_datagrams: classic, bytes_acknowledged: 1, ..unheard }.waste(), None);
    }

    #[test]
    fn waste_is_what_arrived_in_vain_of_all_data_sent() {
        let path = PathSample {
            loss: Some(0.1),
            data_datagrams: DataDatagrams { source: 900, repair: 80, proactive: 15, probe: 5 },
            wasted: Wasted { dependent: 3, late: 6, refused: 1 },
            ip_bytes_sent: 1_250_000,
            bytes_acknowledged: 1_000_000,
            ..PathSample::default()
        };
        let waste = path.waste().unwrap();
        assert_eq!((waste.share, waste.data_datagrams), (0.01, 1000));
        assert_eq!((waste.dependent, waste.late, waste.refused, waste.proactive, waste.probe), (3, 6, 1, 15, 5));
        assert_eq!(path.describe(1e6), ["loss 10.0 %", "overhead 25.0 %", "waste 1.0 %"]);
        let little = PathSample { ip_bytes_sent: 1_000_000, bytes_acknowledged: 5, ..path };
        assert_eq!(little.describe(1e6), ["loss 10.0 %"]);
        assert!(little.overhead().is_some() && little.waste().is_some(), "programs get it all the same");
    }

    #[test]
    fn a_part_of_a_connection_is_the_difference_of_its_counters() {
        let counted = |by: u64| PathSample {
            incoming_loss: None,
            loss: Some(by as f64),
            rtt_ms: None,
            datagrams_sent: by,
            data_datagrams: DataDatagrams { source: 2 * by, repair: 3 * by, proactive: 4 * by, probe: 5 * by },
            wasted: Wasted { dependent: 6 * by, late: 7 * by, refused: 8 * by },
            ip_bytes_sent: 9 * by,
            bytes_acknowledged: 10 * by,
            carried_rate_bps: None,
            queue_ms: None,
            found: Some(FoundRate {
                datagrams_judged: 11 * by,
                datagrams_lost: 2 * by,
                datagrams_lost_in_queue: by,
                ..FoundRate::default()
            }),
            marks: None,
            packet_bytes: None,
        };
        assert_eq!(counted(7).since(&counted(5)), PathSample { loss: Some(7.0), ..counted(2) });
        assert_eq!(counted(5).since(&counted(7)), PathSample { loss: Some(5.0), ..counted(0) });
    }
}
