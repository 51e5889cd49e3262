//! Typed events of connections, for traces, tools and tests. The protocol itself logs nothing.
//!
//! A [`Config`](crate::Config) names an [`Observer`], which is asked once for each of its connections. One that is not watched costs a branch for each
//! datagram. Events are told where they happen, in the call which made them, and none is kept: so they
//! need no queue and no bound.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_wire::{Outline, Profile, SegmentKind, StreamId};

use crate::error::{ConnectionError, Dropped};
use crate::identity::Identity;
use crate::state::State;
use crate::stats::Stats;

/// Is asked, for each connection that begins, which observer it gets.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// use dfcp::{Config, ConnectionObserver, Observed, Observer};
///
/// /// Tells another thread which states a connection passes.
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

/// Hears what happens to one connection. Dropped when the connection is.
///
/// It is called by what drives the connection, which waits meanwhile: it must return at once, and hand on to another thread what may
/// take time.
pub trait ConnectionObserver: Send {
    /// An event, and the time since the connection's beginning.
    fn on_event(&mut self, at: Duration, event: &Observed<'_>);
}

/// A connection that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beginning {
    /// This side opens it.
    pub opened_here: bool,
    /// The profile whose rules it follows.
    pub profile: Profile,
    /// The peer's address at first.
    pub remote: SocketAddr,
    /// The id which modern segments to this end carry.
    pub local_id: Option<u32>,
    /// The id which the side that opens the connection has chosen: both ends know it from the beginning. `None` in classic.
    pub initiator_id: Option<u32>,
}

/// A datagram, as its header shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramInfo {
    /// The kind of its segment.
    pub kind: SegmentKind,
    /// Its bytes, without the headers below ours, and with symbols which are only counted.
    pub bytes: u64,
    /// The lower 32 bits of its number; of a classic one, S3.
    pub number: u32,
    /// The field *block ID*.
    pub block_id: u32,
    /// The field S1: of data and messages the encoding symbol id.
    pub s1: u32,
    /// The stream that it names, if it is of a kind that may name one.
    pub stream: StreamId,
    /// It is encrypted.
    pub is_sealed: bool,
}

impl DatagramInfo {
    pub(crate) fn new(outline: &Outline, bytes: u64) -> Self {
        let Outline { kind, s3, block_id, s1, stream, is_sealed, .. } = *outline;
        Self { kind, bytes, number: s3, block_id, s1, stream, is_sealed }
    }
}

/// Something that has happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A datagram was handed to the network.
    DatagramSent(DatagramInfo),
    /// A datagram was taken: it is authentic, where there are keys.
    DatagramReceived(DatagramInfo),
    /// A datagram had no effect.
    DatagramDropped {
        /// Its header, which is not verified; `None` if it has none.
        datagram: Option<DatagramInfo>,
        /// Its bytes.
        bytes: u64,
        /// Why.
        why: Dropped,
    },
    /// The connection is in another state (thesis §3.6, §3.11).
    StateChanged {
        /// The one before.
        from: State,
        /// The one now.
        to: State,
    },
    /// The handshake has proven the peer's static key, or that it has the pre-shared key.
    KeysAgreed(&'a Identity),
    /// The peer has proven another address.
    PathChanged {
        /// Its new address.
        remote: SocketAddr,
    },
    /// Estimates, rate or circuit breaker have changed. Told at most once for each report of the peer and each timeout.
    MetricsUpdated(&'a Stats),
    /// The connection is over. An RST may still leave, and what comes is dropped.
    Closed {
        /// Why, unless both sides closed it.
        error: Option<&'a ConnectionError>,
        /// The connection's figures at its end.
        stats: &'a Stats,
    },
}

impl Observer {
    /// Calls `begin` for each connection of a configuration: what it returns hears of it, and with `None` nothing is observed.
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
