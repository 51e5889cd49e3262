//! End of a receiving half, and disposal of unread blocks.

use crate::error::PeerMisbehaved;
use crate::stream::recv::slot::Slot;
use crate::stream::recv::{Fate, RecvCommon, RecvStream};

impl RecvStream {
    /// Sets the end of the stream before block `end` (\[close-5\]).
    ///
    /// # Errors
    /// The stream already has another end, or data past `end`.
    pub(crate) fn set_end(&mut self, end: u32) -> Result<(), PeerMisbehaved> {
        if let Some(earlier) = self.end.filter(|&earlier| earlier != end) {
            return Err(PeerMisbehaved::InconsistentEnd { earlier, later: end });
        }
        let known = self.first_id + self.slots.len() as u32;
        if end < known {
            return Err(PeerMisbehaved::InconsistentEnd { earlier: end, later: known });
        }
        self.end = Some(end);
        Ok(())
    }

    /// Handles a reset by the peer, which ends the stream before block `end`. Unread data are lost, unless the stream
    /// was wholly decoded up to an end known before (\[end-2\]).
    ///
    /// # Errors
    /// See [`set_end`](Self::set_end).
    pub(crate) fn reset(&mut self, common: &mut RecvCommon, error: u32, end: u32) -> Result<(), PeerMisbehaved> {
        // Tested before `set_end`: an end known only from the reset does not show that the stream is complete.
        let has_all = self.is_finished();
        self.set_end(end)?;
        self.is_reset_answered = true;
        if has_all || self.is_reset() {
            return Ok(());
        }
        self.release(common);
        // An application that has stopped the stream is not notified.
        self.is_end_told = self.is_stopped();
        self.fate = Fate::Reset { error };
        Ok(())
    }

    /// Stops the stream for the application: received and future data are discarded (\[end-3\]).
    pub(crate) fn stop(&mut self, common: &mut RecvCommon) {
        if self.is_reset() {
            self.is_end_told = true;
            return;
        }
        self.fate = Fate::Discarded;
        self.discard(common);
    }

    /// Frees the decoded blocks at the head, as if they had been read.
    pub(super) fn discard(&mut self, common: &mut RecvCommon) {
        let before = self.shared_bytes(common);
        while let Some(Slot::Complete { .. }) = self.slots.front() {
            self.pop_front(common);
        }
        common.memory.on_change(before, self.shared_bytes(common));
    }

    /// Frees all blocks, without reading them.
    fn release(&mut self, common: &mut RecvCommon) {
        let before = self.shared_bytes(common);
        for (slot, block_id) in std::mem::take(&mut self.slots).into_iter().zip(self.first_id..) {
            self.let_go(common, slot, block_id);
        }
        common.memory.give_back(self.places_bytes());
        (self.places, self.held_bytes) = (0, 0);
        // No block is needed or readable any more.
        self.first_id = self.next_needed;
        common.memory.on_change(before, self.shared_bytes(common));
    }

    /// Closes the receiving half and returns its memory, except the charge for opening it.
    pub(crate) fn close(mut self, common: &mut RecvCommon) {
        self.release(common);
    }

    pub(super) fn let_go(&mut self, common: &mut RecvCommon, slot: Slot, block_id: u32) {
        if self.on_reserve == Some(block_id) {
            self.on_reserve = None;
            common.memory.release_reserve();
        } else if self.on_own_place == Some(block_id) {
            self.on_own_place = None;
        } else {
            common.memory.give_back(slot.paid_bytes());
        }
        match slot {
            Slot::Complete { rows, .. } => common.spare.give(rows),
            Slot::Open(..) | Slot::Empty => {}
        }
    }
}
