//! Memory that the receiving halves of a session hold together.

use crate::limits;
use crate::shared::memory::MemoryReservation;
use crate::stream::window::GrowingWindow;

/// Memory that all halves hold, its bound, and the reservation that pays for it.
#[derive(Debug)]
pub(crate) struct ReceiveMemory {
    window: GrowingWindow,
    /// Bytes in flow control of all blocks that have begun to arrive, of each stream beyond its own place.
    held_bytes: u64,
    /// That part of it which belongs to streams of which everything is decoded.
    delivered_bytes: u64,
    reservation: MemoryReservation,
    /// A block is on the reservation's reserve.
    is_reserve_taken: bool,
}

impl ReceiveMemory {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            window: GrowingWindow::new(bytes_max),
            held_bytes: 0,
            delivered_bytes: 0,
            reservation: MemoryReservation::default(),
            is_reserve_taken: false,
        }
    }

    /// From now on, `reservation` pays for what is held.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.reservation = reservation;
    }

    /// Bytes that may be held at present.
    pub(crate) fn bytes(&self) -> u64 {
        self.window.bytes()
    }

    /// The application has read as many bytes.
    pub(super) fn on_read(&mut self, bytes: u64) {
        self.window.on_carried(bytes);
    }

    /// A half which held `before` holds `after`.
    pub(super) fn on_change(&mut self, before: u64, after: u64) {
        self.held_bytes = self.held_bytes - before + after;
    }

    /// Of a half of which everything is decoded, `after` is held and not `before`.
    pub(crate) fn on_delivered_change(&mut self, before: u64, after: u64) {
        self.delivered_bytes = self.delivered_bytes - before + after;
    }

    /// True if as many bytes more keep the bound. A conforming peer is never refused here: its knowledge of the bound and of
    /// reading lags behind the true values.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.held_bytes.saturating_add(bytes) <= self.window.bytes()
    }

    /// Bytes held of delivered streams.
    #[cfg(debug_assertions)]
    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Memory advertised for all blocks of the peer: bytes held plus bytes still available, at most the bound, less those of
    /// delivered streams, which the peer counts no more (\[window-3\]).
    pub(crate) fn told_bytes(&self) -> u64 {
        // An open block takes at least twice its bytes. What is told here is kept as well as others permit.
        let room = self.reservation.room_bytes() / 9 * 4;
        let reserve = if self.is_reserve_taken { 0 } else { limits::BLOCK_BYTES_MAX as u64 };
        let bytes = self.window.bytes().min(self.held_bytes.saturating_add(room).saturating_add(reserve));
        bytes.saturating_sub(self.delivered_bytes)
    }

    /// Pays for what a stream takes besides its blocks, or for a block.
    pub(crate) fn pay(&mut self, bytes: u64) -> bool {
        self.reservation.take(bytes)
    }

    /// Returns bytes that were paid for and are not needed any more.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.reservation.give_back(bytes);
    }

    /// The reserve pays for a block, unless it does for another one. It is for blocks which are needed next alone: such a
    /// block can be decoded and read without any other, and then the reserve is free for the next one, of any stream.
    pub(super) fn pay_from_reserve(&mut self, bytes: u64) -> bool {
        let pays = !self.is_reserve_taken && self.reservation.take_reserve(bytes);
        self.is_reserve_taken |= pays;
        pays
    }

    /// Frees the reserved memory: the block that used it has been read or dropped.
    pub(super) fn release_reserve(&mut self) {
        self.is_reserve_taken = false;
        self.reservation.release_reserve();
    }

    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    #[cfg(test)]
    pub(crate) fn paid_bytes(&self) -> u64 {
        self.reservation.shared_bytes()
    }
}
