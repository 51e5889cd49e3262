//! Resources that connections share which are driven together: a socket's buffer, the processor's caches, and the queue in front of a
//! common peer.

use crate::config::SendBuffering;
use crate::path::receiver_flow_control::QUEUE_UNIT_BYTES;
use crate::session::{Phase, Session};
use crate::shared::memory::MemoryReservation;
use crate::spare::SpareBlocks;
use crate::stream::send::write_turns::WriteAllowance;

/// The data that a connection has to send: its driver lets those with one peer take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// More than [`PEER_QUEUE_DATAGRAMS_MIN`](crate::limits::PEER_QUEUE_DATAGRAMS_MIN) datagrams are in flight, or wait to be
    /// and the peer has room for them.
    pub is_under_way: bool,
    /// That, or the application waits to write and the peer has room.
    pub is_busy: bool,
    /// It keeps to no rate, and its path is short ([`SHORT_PATH_RTT_MAX`](crate::limits::SHORT_PATH_RTT_MAX)): a few blocks are
    /// sent and reported within milliseconds.
    pub takes_turns: bool,
    /// All that [`Connection::allow_writing`](crate::Connection::allow_writing) allowed has been written, or all that there was.
    pub has_used_allowance: bool,
}

impl Session {
    /// Received blocks are charged to `reservation`. To be called before the first one comes.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.common.streams.recv.charge_to(reservation);
    }

    /// Memory of blocks comes from `spare`, and goes back to it.
    pub(crate) fn take_from(&mut self, spare: &SpareBlocks) {
        self.common.streams.send.take_from(spare.clone());
        self.common.streams.recv.take_from(spare.clone());
    }

    /// Says how many bytes of what comes from the peer, on all connections with it, the system holds until it is handed in, a
    /// socket's buffer; 0, as at first, if that is unknown or without limit. The peer is told, and keeps no more in flight
    /// than fits into that and the path.
    pub fn set_receive_queue_bytes(&mut self, bytes: u64) {
        self.common.receive_queue_kib = u32::try_from(bytes.div_ceil(QUEUE_UNIT_BYTES)).unwrap_or(u32::MAX);
    }

    /// Says how far ahead of sending a modern connection takes what is written; at first [`SendBuffering::Deep`].
    pub fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        self.common.streams.send.set_send_buffering(send_buffering);
    }

    /// The data that it has to send; none for a session that is not open.
    #[must_use]
    pub fn sending(&self) -> Sending {
        match &self.phase {
            Phase::Open(open) => open.sending(&self.common),
            Phase::Opening(_) | Phase::Closed(_) => Sending::default(),
        }
    }

    /// Says how much more may be written; at first [`WriteAllowance::Any`]. An application that waits for room gets
    /// [`StreamEvent::Writable`](crate::StreamEvent::Writable).
    pub fn allow_writing(&mut self, allowance: WriteAllowance) {
        self.common.streams.send.allow(allowance);
        self.common.streams.send.wake_writers(self.common.paths.active());
    }

    /// Tells how many connections, this one included, send to the same peer now, whose reports tell each of them of the whole
    /// queue in front of it (`spec/protocol.md` \[plan-7\]). At first 1.
    pub fn set_queue_sharers(&mut self, sharers: usize) {
        self.common.paths.active_mut().flight_mut().set_queue_sharers(sharers);
    }
}
