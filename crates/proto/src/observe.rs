//! Typed events of connections, for traces, tools and tests. The protocol itself logs nothing.
//!
//! A [`Config`](crate::Config) names an [`Observer`], which is called once per connection and may return a
//! [`ConnectionObserver`]. An unobserved connection costs one branch per datagram. Events are delivered synchronously,
//! in the call that caused them, and are not stored: they need no queue and no bound.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_wire::{Outline, Profile, SegmentKind, StreamId};

use crate::error::{ConnectionError, Dropped};
use crate::identity::Identity;
use crate::state::State;
use crate::stats::Stats;

/// Factory of [`ConnectionObserver`]s: called once for each connection that begins.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// use dfcp::{Config, ConnectionObserver, Observed, Observer};
///
/// /// Sends the states of a connection to another thread.
/// struct States(mpsc::SyncSender<(Duration, &'static str)>);
///
/// impl ConnectionObserver for States {
///     fn on_event(&mut self, at: Duration, event: &Observed<'_>) {
///         if let Observed::StateChanged { to, .. } = event {
///             // If it falls behind, this event is lost: a connection must not wait for it.
///             let _ = self.0.try_send((at, to.name()));
///         }
///     }
/// }
///
/// let (sender, receiver) = mpsc::sync_channel(100);
/// let observer = Observer::new(move |_| Some(Box::new(States(sender.clone()))));
/// let config = Config::danger_unsealed().with_observer(Some(observer));
/// # drop((config, receiver));
/// ```
#[derive(Clone)]
pub struct Observer(Arc<Begin>);

type Begin = dyn Fn(&Beginning) -> Option<Box<dyn ConnectionObserver>> + Send + Sync;

/// Receives the events of one connection. Dropped together with the connection.
///
/// Calls come from the driver of the connection, which waits meanwhile. A call must return immediately; slow work
/// belongs on another thread.
pub trait ConnectionObserver: Send {
    /// Called for each event, with the time since the beginning of the connection.
    fn on_event(&mut self, at: Duration, event: &Observed<'_>);
}

/// Properties of a connection at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beginning {
    /// True if this side opens the connection.
    pub opened_here: bool,
    /// Profile of the connection.
    pub profile: Profile,
    /// Initial address of the peer.
    pub remote: SocketAddr,
    /// Connection id in modern segments to this end. `None` in classic.
    pub local_id: Option<u32>,
    /// Connection id chosen by the initiator, known to both ends from the beginning. `None` in classic.
    pub initiator_id: Option<u32>,
}

/// Header fields of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramInfo {
    /// Kind of the segment.
    pub kind: SegmentKind,
    /// Length of the datagram, bytes, without the headers of lower layers. Includes the bytes of symbols that a
    /// simulator only counts.
    pub bytes: u64,
    /// Lower 32 bits of the datagram number; field S3 of a classic datagram.
    pub number: u32,
    /// Field *block ID*.
    pub block_id: u32,
    /// Field S1: in data and messages, the encoding symbol id.
    pub s1: u32,
    /// Stream that the segment names, if its kind can name a stream.
    pub stream: StreamId,
    /// True if the datagram is encrypted.
    pub is_sealed: bool,
}

impl DatagramInfo {
    pub(crate) fn new(outline: &Outline, bytes: u64) -> Self {
        let Outline { kind, s3, block_id, s1, stream, is_sealed, .. } = *outline;
        Self { kind, bytes, number: s3, block_id, s1, stream, is_sealed }
    }
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A datagram was handed to the network.
    DatagramSent(DatagramInfo),
    /// A datagram was accepted. On encrypted connections it is authentic.
    DatagramReceived(DatagramInfo),
    /// A datagram was dropped without effect.
    DatagramDropped {
        /// Unverified header of the datagram; `None` if it has no header.
        datagram: Option<DatagramInfo>,
        /// Length of the datagram, bytes.
        bytes: u64,
        /// Reason for the drop.
        why: Dropped,
    },
    /// The connection has changed its state (thesis §3.6, §3.11).
    StateChanged {
        /// State before the change.
        from: State,
        /// State after the change.
        to: State,
    },
    /// The handshake has proven the peer's static key, or that the peer has the pre-shared key.
    KeysAgreed(&'a Identity),
    /// The peer has proven another address.
    PathChanged {
        /// New address of the peer.
        remote: SocketAddr,
    },
    /// Estimates, rate or circuit breaker have changed. Sent at most once per report of the peer and once per timeout.
    MetricsUpdated(&'a Stats),
    /// The connection has ended. An RST may still be sent; received datagrams are dropped.
    Closed {
        /// Reason for the end. `None` if both sides closed the connection.
        error: Option<&'a ConnectionError>,
        /// Final figures of the connection.
        stats: &'a Stats,
    },
}

impl Observer {
    /// Calls `begin` for each connection of a configuration. The returned observer receives the connection's events;
    /// with `None` the connection is not observed.
    pub fn new(begin: impl Fn(&Beginning) -> Option<Box<dyn ConnectionObserver>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(begin))
    }

    pub(crate) fn begin(&self, beginning: &Beginning) -> Option<Box<dyn ConnectionObserver>> {
        (self.0)(beginning)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(..)")
    }
}
