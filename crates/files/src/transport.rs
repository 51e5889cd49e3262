//! Interface between the file transfer and a connection: a byte stream in each direction, more streams, and path
//! statistics.

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

/// Source symbols sent before a loss is shown. The transport's loss estimate starts at a prior of 5 % with the weight
/// of 100 datagrams. After 1000 datagrams, its bias is at most half a percentage point.
const LOSS_EVIDENCE_DATAGRAMS: u64 = 1000;

/// IP bytes sent before overhead and waste are shown to users.
const SURPLUS_EVIDENCE_BYTES: u64 = 1_000_000;

/// Path statistics measured by one end of a connection at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PathSample {
    /// Estimated loss in this end's sending direction, 0 to 1; see [`PathSample::evident_loss`].
    pub loss: Option<f64>,
    /// Loss in the receiving direction, 0 to 1, accurate to 0.01; `None` until enough datagrams were counted.
    pub incoming_loss: Option<f64>,
    /// Smoothed round-trip time, ms; `None` before the first measurement.
    pub rtt_ms: Option<f64>,
    /// Queueing delay of this end's datagrams, ms, including the queue of cross traffic; `None` while unknown.
    pub queue_ms: Option<f64>,
    /// State of the automatic rate; `None` if the rate is not automatic.
    pub found: Option<FoundRate>,
    /// Datagrams of every kind that this end sent.
    pub datagrams_sent: u64,
    /// Data datagrams that this end sent, by reason.
    pub data_datagrams: DataDatagrams,
    /// Data datagrams that arrived at the peer and were not needed, by the peer's reports; see [`PathSample::waste`].
    #[serde(skip)]
    pub wasted: Wasted,
    /// Bytes of the IP packets sent by this end.
    pub ip_bytes_sent: u64,
    /// Bytes of this end's stream that the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Rate that the path carried, bit/s of IP packets; `None` unless this end offered more.
    pub carried_rate_bps: Option<u64>,
    /// ECN counts of this end's datagrams on arrival at the peer; `None` without any. Not known to the peer itself.
    pub marks: Option<Marks>,
    /// Size of the largest IP packets with data, bytes. Not known to the peer.
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
    /// Returns the counts, or `None` if both are zero.
    pub fn known(ce: u64, ect: u64) -> Option<Self> {
        (ce > 0 || ect > 0).then_some(Self { ce, ect })
    }

    fn since(self, earlier: Option<Self>) -> Self {
        let Self { ce, ect } = earlier.unwrap_or(Self { ce: 0, ect: 0 });
        Self { ce: self.ce.saturating_sub(ce), ect: self.ect.saturating_sub(ect) }
    }

    /// Returns the share of packets with CE, 0 to 1.
    fn marked(self) -> f64 {
        self.ce as f64 / self.ce.saturating_add(self.ect).max(1) as f64
    }
}

/// Data datagrams sent, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DataDatagrams {
    /// Source symbols; 0 in the classic profile.
    pub source: u64,
    /// Repair symbols sent to replace known losses; in the classic profile, all data datagrams.
    pub repair: u64,
    /// Repair symbols sent ahead of any known loss while the sender was idle, to save a round trip.
    pub proactive: u64,
    /// Repair symbols sent to elicit a report from a silent peer.
    pub probe: u64,
}

impl DataDatagrams {
    /// Returns the sum of all kinds.
    pub fn total(&self) -> u64 {
        [self.source, self.repair, self.proactive, self.probe].into_iter().fold(0, u64::saturating_add)
    }
}

/// Data datagrams that arrived but were not needed, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wasted {
    /// Datagrams whose symbol was linearly dependent on earlier symbols.
    pub dependent: u64,
    /// Datagrams that arrived after their block was decoded.
    pub late: u64,
    /// Datagrams that the receiver dropped for lack of buffer space.
    pub refused: u64,
}

/// Wasted data datagrams, for JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waste {
    /// Data datagrams that arrived but were not needed, as a share of all data datagrams sent, 0 to 1.
    pub share: f64,
    /// Wasted datagrams whose symbol was linearly dependent on earlier symbols.
    pub dependent: u64,
    /// Wasted datagrams that arrived after their block was decoded.
    pub late: u64,
    /// Wasted datagrams that the receiver dropped for lack of buffer space.
    pub refused: u64,
    /// Data datagrams sent.
    pub data_datagrams: u64,
    /// Repair symbols sent ahead of any known loss while the sender was idle, whether needed or not.
    pub proactive: u64,
    /// Repair symbols sent to elicit a report from a silent peer.
    pub probe: u64,
}

impl PathSample {
    /// Returns the loss estimate if enough source symbols were sent to outweigh its prior. Always `None` in the classic
    /// profile, which sends no source symbols.
    pub fn evident_loss(estimate: f64, source_symbols_sent: u64) -> Option<f64> {
        (source_symbols_sent >= LOSS_EVIDENCE_DATAGRAMS).then_some(estimate)
    }

    /// Returns the share of the peer's numbered datagrams that were lost, 0 to 1. The peer deliberately skips one
    /// number in 128, which is not counted as a loss.
    pub fn evident_incoming_loss(missing: u64, received: u64) -> Option<f64> {
        let numbered = missing.saturating_add(received);
        let lost = missing.saturating_sub(numbered / 128);
        (numbered >= LOSS_EVIDENCE_DATAGRAMS).then(|| lost as f64 / numbered as f64)
    }

    /// Returns the IP bytes sent beyond the acknowledged stream bytes, divided by the latter. The excess consists of
    /// headers, repair, waste, and bytes in flight. `None` before the first acknowledgement.
    pub fn overhead(&self) -> Option<f64> {
        let share = || (self.ip_bytes_sent as f64 / self.bytes_acknowledged as f64 - 1.0).max(0.0);
        (self.bytes_acknowledged > 0).then(share)
    }

    /// Returns the wasted data datagrams. `None` before the first acknowledgement, and in the classic profile, whose
    /// receivers do not report waste.
    pub fn waste(&self) -> Option<Waste> {
        let (sent, Wasted { dependent, late, refused }) = (self.data_datagrams, self.wasted);
        let wasted = dependent.saturating_add(late).saturating_add(refused);
        (sent.source > 0 && self.bytes_acknowledged > 0).then(|| Waste {
            // The counts come from the peer and may be inconsistent.
            share: (wasted as f64 / sent.total() as f64).min(1.0),
            dependent,
            late,
            refused,
            data_datagrams: sent.total(),
            proactive: sent.proactive,
            probe: sent.probe,
        })
    }

    /// Returns the increase of all counters since `earlier` on the same connection. Values that are not counters, such
    /// as loss and RTT, are copied.
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

    /// Returns the known statistics for display beside a goodput: `loss 9.9 %`, ...
    pub fn describe(&self, goodput_bps: f64) -> Vec<String> {
        let losses = self.found.and_then(|found| found.losses());
        let known =
            [self.found.map(|found| found.describe(goodput_bps)), self.describe_queue(), self.describe_loss(losses)];
        known.into_iter().flatten().chain(self.describe_surplus()).collect()
    }

    /// Returns the queueing delay for display. `None` unless the rate is automatic, as only an automatic rate targets a
    /// delay.
    pub fn describe_queue(&self) -> Option<String> {
        let queue_ms = self.queue_ms.filter(|_| self.found.is_some())?;
        Some(format!("queue {queue_ms:.1} ms"))
    }

    /// Returns the loss for display. If `losses` is given, path loss and self-inflicted loss are shown separately.
    pub fn describe_loss(&self, losses: Option<Losses>) -> Option<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match losses {
            Some(losses) => Some(format!("loss {} + {} own", percent(losses.path), percent(losses.own))),
            None => self.loss.map(|loss| format!("loss {}", percent(loss))),
        }
    }

    /// Returns overhead, waste and marks for display: `overhead 12.0 %`, ... Empty for a connection that sent up to 1
    /// MB: the handshake alone is many times as long as a file of five bytes.
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

/// Connection with an ordered byte stream in each direction. Shutting down the writing half closes only that direction;
/// it completes once the peer has received everything.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns the current path statistics; `None` if the transport keeps none.
    fn path_sample(&self) -> Option<PathSample> {
        None
    }

    /// Returns the number of valid datagrams received from the peer; `None` if they are not counted. The peer is alive
    /// while the count grows.
    fn datagrams_heard(&self) -> Option<u64> {
        None
    }

    /// Returns the current address of the peer; `None` if it has no IP address.
    fn peer_address(&self) -> Option<IpAddr> {
        None
    }

    /// Returns the encryption of the connection; `None` for plaintext.
    fn seal(&self) -> Option<Seal> {
        None
    }

    /// Returns the interface to additional one-way streams; `None` if unsupported. Streams of the peer are accepted
    /// from this call on and refused before it.
    fn streams(&self) -> Option<Arc<dyn Streams>> {
        None
    }

    /// Returns the session that carries messages; `None` if unsupported.
    fn messages(&self) -> Option<Session> {
        None
    }

    /// Leaves blocks undecoded from now on: their bytes are counted but read as zeros (*Decoding* of thesis table 3.2).
    /// No effect on a transport without a codec.
    ///
    /// # Errors
    /// Fails unless the connection uses the classic profile.
    #[cfg(feature = "classic")]
    fn stop_decoding(&self) -> Result<(), ParameterError> {
        Ok(())
    }
}

impl Transport for tokio::io::DuplexStream {}

/// Stream on which this side sends. Dropping it before shutdown resets the stream.
pub type SendStream = Box<dyn AsyncWrite + Send + Unpin>;

/// Stream on which the peer sends. Dropping it before the end of the stream asks the peer to stop sending.
pub type RecvStream = Box<dyn AsyncRead + Send + Unpin>;

/// Future returned by [`Streams`].
pub type Opened<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One-way streams of a connection in addition to the first stream. Loss on one stream does not delay the others.
pub trait Streams: Send + Sync {
    /// Opens a stream, waiting for the peer's permission. `None` if the peer permits no additional stream.
    ///
    /// # Errors
    /// Fails if the connection has ended.
    fn open(&self) -> Opened<'_, io::Result<Option<SendStream>>>;

    /// Waits for the next stream that the peer opens; `None` once the connection has ended.
    fn accept(&self) -> Opened<'_, Option<RecvStream>>;
}

/// Source of connections.
pub trait Acceptor: Send {
    /// Type of the accepted connections.
    type Connection: Transport;

    /// Waits for the next connection; returns the connection and a display name of the peer.
    ///
    /// # Errors
    /// Fails if no further connection can be accepted. A fault of a single peer is logged, and the next connection is
    /// awaited.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Connection, String)>> + Send;
}

/// Shared handle of a connection. Unlike the halves of `tokio::io::split`, each handle gives access to the connection's
/// statistics. At most one handle may read at a time, and at most one may write.
pub struct Handle<T>(Arc<Mutex<Counted<T>>>);

struct Counted<T> {
    transport: T,
    written_bytes: u64,
}

impl<T> Handle<T> {
    /// Wraps a transport and returns its first handle; clones share the transport.
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

    /// Returns the number of bytes written through all handles together.
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
