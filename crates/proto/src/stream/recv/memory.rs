//! Memory that the receiving halves of a session share.

use crate::limits;
use crate::shared::memory::MemoryReservation;
use crate::stream::window::GrowingWindow;

/// Memory held by all receiving halves, its limit, and the reservation that it is charged to.
#[derive(Debug)]
pub(crate) struct ReceiveMemory {
    window: GrowingWindow,
    /// Bytes in flow control of all blocks that have begun to arrive, without each stream's own place.
    held_bytes: u64,
    /// Part of `held_bytes` in streams that are wholly decoded.
    delivered_bytes: u64,
    reservation: MemoryReservation,
    /// True if a block uses the reservation's reserve.
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

    /// Charges all further memory to `reservation`.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.reservation = reservation;
    }

    /// Returns the number of bytes that may be held at present.
    pub(crate) fn bytes(&self) -> u64 {
        self.window.bytes()
    }

    /// Records that a block of `bytes` is decoded. A peer has to send all its bytes for that, so the memory that it may
    /// fill is earned (\[window-6\]).
    pub(super) fn on_decoded(&mut self, bytes: u64) {
        self.window.on_carried(bytes);
    }

    /// Records that a receiving half that held `before` bytes now holds `after` bytes.
    pub(super) fn on_change(&mut self, before: u64, after: u64) {
        self.held_bytes = self.held_bytes - before + after;
    }

    /// Records that a wholly decoded receiving half that held `before` bytes now holds `after` bytes.
    pub(crate) fn on_delivered_change(&mut self, before: u64, after: u64) {
        self.delivered_bytes = self.delivered_bytes - before + after;
    }

    /// Returns true if `bytes` more stay within the limit. A conforming peer is never refused here, because it knows
    /// only older, lower values of the limit and of the bytes read.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.held_bytes.saturating_add(bytes) <= self.window.bytes()
    }

    /// Returns the bytes held by wholly decoded streams.
    #[cfg(debug_assertions)]
    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Returns the memory to advertise for all blocks of the peer: bytes held plus bytes available, at most the limit,
    /// minus the bytes of wholly decoded streams, which the peer no longer counts (\[window-3\]).
    pub(crate) fn told_bytes(&self) -> u64 {
        // An open block takes at least twice its bytes. Other connections share the room, so the advertised value is
        // not guaranteed.
        let room = self.reservation.room_bytes() / 9 * 4;
        let reserve = if self.is_reserve_taken { 0 } else { limits::BLOCK_BYTES_MAX as u64 };
        let bytes = self.window.bytes().min(self.held_bytes.saturating_add(room).saturating_add(reserve));
        bytes.saturating_sub(self.delivered_bytes)
    }

    /// Charges `bytes` for a block, or for a stream's state. Returns true on success.
    pub(crate) fn pay(&mut self, bytes: u64) -> bool {
        self.reservation.take(bytes)
    }

    /// Returns `bytes` that were charged and are no longer needed.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.reservation.give_back(bytes);
    }

    /// Charges a block to the reserve, unless another block uses it. Returns true on success. Only for the block that a
    /// stream needs next: that block can be decoded and read without any other block, after which the reserve is free
    /// for the next block of any stream.
    pub(super) fn pay_from_reserve(&mut self, bytes: u64) -> bool {
        let pays = !self.is_reserve_taken && self.reservation.take_reserve(bytes);
        self.is_reserve_taken |= pays;
        pays
    }

    /// Frees the reserve, after its block has been read or dropped.
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
