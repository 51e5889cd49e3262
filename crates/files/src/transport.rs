//! Interface between the commands and a connection: bytes both ways, and figures about the path.

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

/// Source symbols sent before a loss is shown. The transport's estimate starts from a guess of 5 %, worth 100 datagrams:
/// after a thousand it is at most half a percentage point off on its account, and soon not at all.
const LOSS_EVIDENCE_DATAGRAMS: u64 = 1000;

/// IP bytes sent before overhead and waste are shown to people.
const SURPLUS_EVIDENCE_BYTES: u64 = 1_000_000;

/// One end's figures of the path at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PathSample {
    /// The transport's estimate of the loss in this end's sending direction, 0 to 1; see [`PathSample::evident_loss`].
    pub loss: Option<f64>,
    /// The share of the peer's datagrams that did not come, 0 to 1, give or take 1 %; `None` until there were enough to tell.
    pub incoming_loss: Option<f64>,
    /// Smoothed round-trip time, ms; `None` before the first measurement.
    pub rtt_ms: Option<f64>,
    /// Queueing delay of this end's datagrams, ms, whoever fills the queue; `None` while it is unknown.
    pub queue_ms: Option<f64>,
    /// Findings of the automatic rate; `None` with another one.
    pub found: Option<FoundRate>,
    /// Datagrams sent by this end, of every kind.
    pub datagrams_sent: u64,
    /// Data datagrams among them, by reason.
    pub data_datagrams: DataDatagrams,
    /// Data datagrams which arrived and were not needed, as the peer reports; see [`PathSample::waste`].
    #[serde(skip)]
    pub wasted: Wasted,
    /// Bytes of the IP packets sent by this end.
    pub ip_bytes_sent: u64,
    /// Bytes of this end's stream which the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// The rate that the path was found to carry, bit/s of IP packets, where this end offered more.
    pub carried_rate_bps: Option<u64>,
    /// ECN marks of this end's datagrams on arrival at the other one; `None` while none has come with a mark. Not told to the other end.
    pub marks: Option<Marks>,
    /// Bytes of the largest IP packets which this end sends data in; not told to the other end.
    pub packet_bytes: Option<u16>,
}

/// Datagrams by the ECN field of their IP packets on arrival (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// With CE: a queue on the path has marked them.
    pub ce: u64,
    /// With ECT(0) or ECT(1), as they were sent.
    pub ect: u64,
}

impl Marks {
    /// `None` if none has come with a mark.
    pub fn known(ce: u64, ect: u64) -> Option<Self> {
        (ce > 0 || ect > 0).then_some(Self { ce, ect })
    }

    fn since(self, earlier: Option<Self>) -> Self {
        let Self { ce, ect } = earlier.unwrap_or(Self { ce: 0, ect: 0 });
        Self { ce: self.ce.saturating_sub(ce), ect: self.ect.saturating_sub(ect) }
    }

    /// The share which queues have marked.
    fn marked(self) -> f64 {
        self.ce as f64 / self.ce.saturating_add(self.ect).max(1) as f64
    }
}

/// Data datagrams sent, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DataDatagrams {
    /// Source symbols; none in the classic profile.
    pub source: u64,
    /// Repair symbols which were known to be needed; all of classic's.
    pub repair: u64,
    /// Repair symbols sent into idle time, to save a round trip.
    pub proactive: u64,
    /// Repair symbols sent to make a silent peer speak.
    pub probe: u64,
}

impl DataDatagrams {
    /// All of them.
    pub fn total(&self) -> u64 {
        [self.source, self.repair, self.proactive, self.probe].into_iter().fold(0, u64::saturating_add)
    }
}

/// Data datagrams which arrived and were not needed, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wasted {
    /// Linearly dependent on what was there.
    pub dependent: u64,
    /// Came for a block which was decoded.
    pub late: u64,
    /// Had no place at the receiver.
    pub refused: u64,
}

/// Data datagrams sent in vain, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waste {
    /// Data datagrams which arrived and were not needed, as a share of all data datagrams sent.
    pub share: f64,
    /// Of them: linearly dependent on what was there.
    pub dependent: u64,
    /// Of them: came for a block which was decoded.
    pub late: u64,
    /// Of them: had no place at the receiver.
    pub refused: u64,
    /// All data datagrams sent.
    pub data_datagrams: u64,
    /// Among these: repair symbols sent into idle time, to save a round trip, whether or not they were needed.
    pub proactive: u64,
    /// Among these: repair symbols sent to make a silent peer speak.
    pub probe: u64,
}

impl PathSample {
    /// A loss estimate worth showing: `None` until enough was sent for it to be more than its first guess, and in the
    /// classic profile, which has neither source symbols nor an estimate.
    pub fn evident_loss(estimate: f64, source_symbols_sent: u64) -> Option<f64> {
        (source_symbols_sent >= LOSS_EVIDENCE_DATAGRAMS).then_some(estimate)
    }

    /// Share of the datagrams which the peer numbered that did not come; the peer skips one number in 128.
    pub fn evident_incoming_loss(missing: u64, received: u64) -> Option<f64> {
        let numbered = missing.saturating_add(received);
        let lost = missing.saturating_sub(numbered / 128);
        (numbered >= LOSS_EVIDENCE_DATAGRAMS).then(|| lost as f64 / numbered as f64)
    }

    /// IP bytes sent beyond the stream's acknowledged ones, as a share of those: headers, repair for the loss and waste
    /// together, and while data are under way, those too. `None` until anything was acknowledged.
    pub fn overhead(&self) -> Option<f64> {
        let share = || (self.ip_bytes_sent as f64 / self.bytes_acknowledged as f64 - 1.0).max(0.0);
        (self.bytes_acknowledged > 0).then(share)
    }

    /// Data datagrams sent in vain; `None` until anything was acknowledged, and in the classic profile, whose receivers do not report
    /// it.
    pub fn waste(&self) -> Option<Waste> {
        let (sent, Wasted { dependent, late, refused }) = (self.data_datagrams, self.wasted);
        let wasted = dependent.saturating_add(late).saturating_add(refused);
        (sent.source > 0 && self.bytes_acknowledged > 0).then(|| Waste {
            // A peer's figures need not make sense.
            share: (wasted as f64 / sent.total() as f64).min(1.0),
            dependent,
            late,
            refused,
            data_datagrams: sent.total(),
            proactive: sent.proactive,
            probe: sent.probe,
        })
    }

    /// Datagrams sent and wasted, and bytes acknowledged, since `earlier` on the same connection; loss and round-trip time as they are.
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

    /// Rate found, queue, loss, overhead and waste for display, beside a goodput, as far as they are known: `loss 9.9 %`, ...
    pub fn describe(&self, goodput_bps: f64) -> Vec<String> {
        let losses = self.found.and_then(|found| found.losses());
        let known =
            [self.found.map(|found| found.describe(goodput_bps)), self.describe_queue(), self.describe_loss(losses)];
        known.into_iter().flatten().chain(self.describe_surplus()).collect()
    }

    /// The queue for display; `None` without an automatic rate, the only one that aims at a queueing delay.
    pub fn describe_queue(&self) -> Option<String> {
        let queue_ms = self.queue_ms.filter(|_| self.found.is_some())?;
        Some(format!("queue {queue_ms:.1} ms"))
    }

    /// The loss for display: the path's own and the sender's apart, if both are known.
    pub fn describe_loss(&self, losses: Option<Losses>) -> Option<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match losses {
            Some(losses) => Some(format!("loss {} + {} own", percent(losses.path), percent(losses.own))),
            None => self.loss.map(|loss| format!("loss {}", percent(loss))),
        }
    }

    /// Overhead, waste and marks for display: `overhead 12.0 %`, ...; nothing of a connection which sent too little for shares to say
    /// anything, because the handshake and a few datagrams are many times a file of five bytes.
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

/// A connection: an ordered byte stream each way. Shutting the writing half down closes that direction only, and
/// completes when the peer has everything.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The figures of this moment, or `None` where the transport keeps none.
    fn path_sample(&self) -> Option<PathSample> {
        None
    }

    /// Datagrams of the peer that have come and had an effect, or `None` where nothing counts them. While this grows, the peer is there.
    fn datagrams_heard(&self) -> Option<u64> {
        None
    }

    /// Present address of the peer, or `None` where it has no address.
    fn peer_address(&self) -> Option<IpAddr> {
        None
    }

    /// Protection of the connection, or `None` where nothing protects it.
    fn seal(&self) -> Option<Seal> {
        None
    }

    /// One-way streams beside this one, or `None` where there are none. The peer's count from this call on: those which it opens
    /// before are refused.
    fn streams(&self) -> Option<Arc<dyn Streams>> {
        None
    }

    /// The session on which messages are sent and received, or `None` where there is none.
    fn messages(&self) -> Option<Session> {
        None
    }

    /// Leaves blocks that come from now on as they are: their bytes are counted, and read as zeros (*Decoding* of thesis table
    /// 3.2). Without a codec, nothing changes.
    ///
    /// # Errors
    /// The connection is not of the classic profile.
    #[cfg(feature = "classic")]
    fn stop_decoding(&self) -> Result<(), ParameterError> {
        Ok(())
    }
}

impl Transport for tokio::io::DuplexStream {}

/// A stream on which this side sends. Dropped before it is shut down, it is reset.
pub type SendStream = Box<dyn AsyncWrite + Send + Unpin>;

/// A stream on which the peer sends. Dropped before its end, it is stopped.
pub type RecvStream = Box<dyn AsyncRead + Send + Unpin>;

/// Future that [`Streams`] return.
pub type Opened<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One-way streams of a connection beside its first one. Loss in one holds up no other.
pub trait Streams: Send + Sync {
    /// Opens one; waits as long as the peer permits no more. `None` if the peer takes none at all.
    ///
    /// # Errors
    /// The connection is over.
    fn open(&self) -> Opened<'_, io::Result<Option<SendStream>>>;

    /// Waits for the next one that the peer opens; `None` if there will be none, because the connection is over.
    fn accept(&self) -> Opened<'_, Option<RecvStream>>;
}

/// Source of connections.
pub trait Acceptor: Send {
    /// Connections that it accepts.
    type Connection: Transport;

    /// Waits for the next connection; gives it with a name of its peer.
    ///
    /// # Errors
    /// No more can come. A fault of one peer only is logged and passed over.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Connection, String)>> + Send;
}

/// One of several handles to a connection. Unlike the halves of `tokio::io::split`, each still has the connection's figures.
/// At most one handle may read, and one write, at a time.
pub struct Handle<T>(Arc<Mutex<Counted<T>>>);

struct Counted<T> {
    transport: T,
    written_bytes: u64,
}

impl<T> Handle<T> {
    /// The first handle.
    pub fn new(transport: T) -> Self {
        Self(Arc::new(Mutex::new(Counted { transport, written_bytes: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Counted<T>> {
        // A panic inside the transport poisons the lock; the transport itself then reports what is wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> Handle<T> {
    /// See [`Transport::path_sample`].
    pub fn path_sample(&self) -> Option<PathSample> {
        self.lock().transport.path_sample()
    }

    /// See [`Transport::datagrams_heard`].
    pub fn datagrams_heard(&self) -> Option<u64> {
        self.lock().transport.datagrams_heard()
    }

    /// See [`Transport::seal`].
    pub fn seal(&self) -> Option<Seal> {
        self.lock().transport.seal()
    }

    /// See [`Transport::streams`].
    pub fn streams(&self) -> Option<Arc<dyn Streams>> {
        self.lock().transport.streams()
    }

    /// See [`Transport::messages`].
    pub fn messages(&self) -> Option<Session> {
        self.lock().transport.messages()
    }

    /// See [`Transport::stop_decoding`].
    ///
    /// # Errors
    /// The transport's.
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
