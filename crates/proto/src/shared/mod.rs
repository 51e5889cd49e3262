//! Parts that the two profiles share: names, timers and accounts, and no behaviour of either.

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

/// Room that a datagram buffer must have.
pub const DATAGRAM_BUFFER_BYTES: usize = dfcp_wire::DATAGRAM_BYTES_MAX;

/// The two ports of a classic connection, or of a modern SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// Ours.
    pub local: u16,
    /// The peer's.
    pub remote: u16,
}

impl Ports {
    /// As the segments which we send have them.
    pub(crate) fn outgoing(self) -> dfcp_wire::Ports {
        dfcp_wire::Ports { source: self.local, destination: self.remote }
    }

    /// As a segment which came from the peer has them.
    pub(crate) fn of_received(ports: dfcp_wire::Ports) -> Self {
        Self { local: ports.destination, remote: ports.source }
    }
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Bytes copied; at least one.
    Bytes(usize),
    /// Nothing is there yet.
    Blocked,
    /// The peer's stream has ended and all of it has been read.
    End,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Length of the datagram, at the front of the buffer.
    pub length: usize,
    /// Its destination.
    pub remote: SocketAddr,
    /// As many bytes more count as sent: those of a symbol that its codec does not carry
    /// ([`Codec::carried_bytes`](crate::codec::Codec::carried_bytes)). 0 with the codec of real connections.
    pub virtual_bytes: u32,
    /// To be given to the system alone: it is a probe whose size the path may not carry, and the system would refuse others together with
    /// it.
    pub is_alone: bool,
    /// The mark of its IP packet.
    pub ecn: Ecn,
}

/// A data segment which has been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) length: usize,
    pub(crate) virtual_bytes: u32,
}

/// One end of a connection: the one which opened it, or the one which accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Acceptor,
}

impl Role {
    /// As the ids of streams have it.
    pub(crate) const fn opener(self) -> Opener {
        match self {
            Self::Initiator => Opener::Initiator,
            Self::Acceptor => Opener::Acceptor,
        }
    }
}

/// Why a segment had no effect, or ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// Only this segment is of no use.
    Dropped(Dropped),
    /// The peer has broken the rules, which ends the connection (\[rst-5\]).
    Misbehaved(PeerMisbehaved),
}

impl From<Dropped> for PushError {
    fn from(dropped: Dropped) -> Self {
        Self::Dropped(dropped)
    }
}

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timer {
    /// The peer has been silent for the idle timeout.
    Idle,
    /// A copy of a handshake segment is due, or the attempt is given up.
    Handshake,
    /// A doubtful refusal is believed ([open-34] of `spec/protocol.md`).
    Doubt,
    /// A copy of FIN is due, closing is given up, or TIME_WAIT ends.
    Closing,
    /// A report is due.
    Report,
    /// An acknowledgement or an answer is due.
    Answer,
    /// A keep-alive is due.
    KeepAlive,
    /// A silent peer is to be asked whether it has lost the session.
    Query,
    /// The peer is to be told the reset ticket.
    Ticket,
    /// Data may be sent.
    Data,
    /// A new address is to be challenged, or a challenge to be answered.
    Path,
    /// The peer has yet to be told that the connection is over.
    Reset,
}

/// The earliest of some timers; of several at one time, the first.
pub(crate) fn earliest(timers: impl IntoIterator<Item = (Option<Time>, Timer)>) -> Option<(Time, Timer)> {
    let set = timers.into_iter().filter_map(|(at, timer)| at.map(|at| (at, timer)));
    set.min_by_key(|&(at, _)| at)
}

/// The earlier of two times, if there is one.
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}
