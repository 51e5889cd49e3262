//! The accounts and pools that the blocks of a session take memory from.

use crate::session::Session;
use crate::shared::memory::MemoryReservation;
use crate::spare::SpareBlocks;

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
}
