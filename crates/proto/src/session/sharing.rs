//! Resources shared by connections that one driver serves: a socket's buffer, the processor's caches, and the receive
//! queue of a common peer.

use crate::config::SendBuffering;
use crate::path::receiver_flow_control::QUEUE_UNIT_BYTES;
use crate::session::{Phase, Session};
use crate::shared::memory::MemoryReservation;
use crate::spare::SpareBlocks;
use crate::stream::send::write_turns::WriteAllowance;

/// Summary of the data that a connection has to send. The driver uses it to let connections to one peer take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// More than [`PEER_QUEUE_DATAGRAMS_MIN`](crate::limits::PEER_QUEUE_DATAGRAMS_MIN) datagrams are in flight, or wait
    /// to be sent while the peer has room for them.
    pub is_under_way: bool,
    /// `is_under_way`, or the application waits to write while the peer has room.
    pub is_busy: bool,
    /// The connection has no rate limit, and its path is short
    /// ([`SHORT_PATH_RTT_MAX`](crate::limits::SHORT_PATH_RTT_MAX)): a few blocks are sent and reported within
    /// milliseconds.
    pub takes_turns: bool,
    /// The bytes permitted by [`Connection::allow_writing`](crate::Connection::allow_writing) have been written, or the
    /// application has nothing more to write.
    pub has_used_allowance: bool,
}

impl Session {
    /// Charges received blocks to `reservation`. Must be called before the first block is received.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.common.streams.recv.charge_to(reservation);
    }

    /// Takes memory for blocks from `spare`, and returns it there.
    pub(crate) fn take_from(&mut self, spare: &SpareBlocks) {
        self.common.streams.send.take_from(spare.clone());
        self.common.streams.recv.take_from(spare.clone());
    }

    /// Sets the size of the receive queue, bytes: the part of the socket's buffer for datagrams of this peer, on all
    /// connections with it. 0, the default, means unknown or unlimited. The size is reported to the peer, which limits
    /// its bytes in flight to this queue and the path.
    pub fn set_receive_queue_bytes(&mut self, bytes: u64) {
        self.common.receive_queue_kib = u32::try_from(bytes.div_ceil(QUEUE_UNIT_BYTES)).unwrap_or(u32::MAX);
    }

    /// Sets how far ahead of sending a modern connection accepts data from the application. Default
    /// [`SendBuffering::Deep`].
    pub fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        self.common.streams.send.set_send_buffering(send_buffering);
    }

    /// Describes the data waiting to be sent. Default values for a session that is not open.
    #[must_use]
    pub fn sending(&self) -> Sending {
        match &self.phase {
            Phase::Open(open) => open.sending(&self.common),
            Phase::Opening(_) | Phase::Closed(_) => Sending::default(),
        }
    }

    /// Sets how much more may be written. Default [`WriteAllowance::Any`]. Applications waiting for room get
    /// [`StreamEvent::Writable`](crate::StreamEvent::Writable).
    pub fn allow_writing(&mut self, allowance: WriteAllowance) {
        self.common.streams.send.allow(allowance);
        self.common.streams.send.wake_writers(self.common.paths.active());
    }

    /// Sets the number of connections, this one included, that currently send to the same peer. Each of them is told
    /// the size of the peer's whole receive queue, and divides it by this number (`spec/protocol.md` \[plan-7\]).
    /// Default 1.
    pub fn set_queue_sharers(&mut self, sharers: usize) {
        self.common.paths.active_mut().flight_mut().set_queue_sharers(sharers);
    }
}
