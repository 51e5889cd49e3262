//! Parts shared by the two profiles: names, timers and accounting, without behaviour of either profile.

pub(crate) mod bucket;
pub(crate) mod closing;
pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod memory;
#[cfg(feature = "classic")]
pub(crate) mod parameters;
pub(crate) mod retransmit;
pub(crate) mod room;
pub(crate) mod source;

use std::net::SocketAddr;

use dfcp_time::Time;
use dfcp_wire::Opener;

use crate::error::{Dropped, PeerMisbehaved};
use crate::path::ecn::Ecn;

/// Least size of a datagram buffer, bytes.
pub const DATAGRAM_BUFFER_BYTES: usize = dfcp_wire::DATAGRAM_BYTES_MAX;

/// The two ports of a classic connection, or of a modern SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// Our port.
    pub local: u16,
    /// The peer's port.
    pub remote: u16,
}

impl Ports {
    /// Returns the ports for a segment to the peer.
    pub(crate) fn outgoing(self) -> dfcp_wire::Ports {
        dfcp_wire::Ports { source: self.local, destination: self.remote }
    }

    /// Returns the ports of a segment from the peer.
    pub(crate) fn of_received(ports: dfcp_wire::Ports) -> Self {
        Self { local: ports.destination, remote: ports.source }
    }
}

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Number of bytes copied; at least one.
    Bytes(usize),
    /// No data are available yet.
    Blocked,
    /// The peer's stream has ended, and all of it has been read.
    End,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Length of the datagram at the front of the buffer, bytes.
    pub length: usize,
    /// Destination.
    pub remote: SocketAddr,
    /// Bytes that count as sent although the codec does not carry them
    /// ([`Codec::carried_bytes`](crate::codec::Codec::carried_bytes)). 0 with the codec of real connections.
    pub virtual_bytes: u32,
    /// True if the datagram must be passed to the system alone: it is a probe whose size the path may not carry, and in
    /// a batch the system would refuse the other datagrams, too.
    pub is_alone: bool,
    /// ECN mark of the IP packet.
    pub ecn: Ecn,
}

/// Size of a data segment that has been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) length: usize,
    pub(crate) virtual_bytes: u32,
}

/// Role of this end: it opened the connection, or accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Acceptor,
}

impl Role {
    /// Returns the role as an opener of streams, for stream ids.
    pub(crate) const fn opener(self) -> Opener {
        match self {
            Self::Initiator => Opener::Initiator,
            Self::Acceptor => Opener::Acceptor,
        }
    }
}

/// Reason for which a segment had no effect, or ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// Only this segment is dropped.
    Dropped(Dropped),
    /// The peer has broken the protocol, which ends the connection (\[rst-5\]).
    Misbehaved(PeerMisbehaved),
}

impl From<Dropped> for PushError {
    fn from(dropped: Dropped) -> Self {
        Self::Dropped(dropped)
    }
}

/// Kinds of timers of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timer {
    /// The peer has been silent for the idle timeout.
    Idle,
    /// A copy of a handshake segment is due, or the attempt is given up.
    Handshake,
    /// An unauthenticated refusal is accepted, because no better answer came ([open-34] of `spec/protocol.md`).
    Doubt,
    /// A copy of FIN is due, closing is given up, or TIME_WAIT ends.
    Closing,
    /// A report is due.
    Report,
    /// An acknowledgement or an answer is due.
    Answer,
    /// A keep-alive is due.
    KeepAlive,
    /// A session query to a silent peer is due.
    Query,
    /// A copy of the reset ticket is due.
    Ticket,
    /// Data may be sent.
    Data,
    /// A challenge to a new address, or the response to a challenge, is due.
    Path,
    /// The RST that ends the connection is due.
    Reset,
}

/// Returns the earliest timer. Of several timers at the same time, the first one in `timers`.
pub(crate) fn earliest(timers: impl IntoIterator<Item = (Option<Time>, Timer)>) -> Option<(Time, Timer)> {
    let set = timers.into_iter().filter_map(|(at, timer)| at.map(|at| (at, timer)));
    set.min_by_key(|&(at, _)| at)
}

/// Returns the earlier of two times, or the only one.
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}
