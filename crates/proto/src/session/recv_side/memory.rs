//! The account that pays for the blocks, streams and messages of a session's receiving side.

use super::RecvSide;
use crate::shared::memory::MemoryReservation;
use crate::stream::recv::memory::ReceiveMemory;
use crate::stream::send::shared::KIB_BYTES;

impl RecvSide {
    /// From now on, `reservation` pays for blocks and streams.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.common.memory.charge_to(reservation);
    }

    /// The account that pays for what is held.
    pub(crate) fn memory(&mut self) -> &mut ReceiveMemory {
        &mut self.common.memory
    }

    /// Memory that the peer's blocks may take in all, beyond one symbol of each stream, in KiB.
    pub(crate) fn memory_kib(&self) -> u32 {
        u32::try_from(self.common.memory.told_bytes() / KIB_BYTES).unwrap_or(u32::MAX)
    }
}
