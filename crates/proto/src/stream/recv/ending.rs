//! End of a receiving half, and disposal of the blocks that will not be read.

use crate::error::PeerMisbehaved;
use crate::stream::recv::slot::Slot;
use crate::stream::recv::{Fate, RecvCommon, RecvStream};

impl RecvStream {
    /// The stream ends before block `end`, and nowhere else (\[close-5\]).
    ///
    /// # Errors
    /// If it is known to end elsewhere, or not to end there.
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

    /// The peer gives the stream up before block `end`. What has not been read is lost, unless everything up to
    /// a known end was decoded (\[end-2\]).
    ///
    /// # Errors
    /// As [`set_end`](Self::set_end).
    pub(crate) fn reset(&mut self, common: &mut RecvCommon, error: u32, end: u32) -> Result<(), PeerMisbehaved> {
        // An end that only the reset tells is no sign that this was all which the peer had to say.
        let has_all = self.is_finished();
        self.set_end(end)?;
        self.is_reset_answered = true;
        if has_all || self.is_reset() {
            return Ok(());
        }
        self.release(common);
        // An application that wants no more need not be told.
        self.is_end_told = self.is_stopped();
        self.fate = Fate::Reset { error };
        Ok(())
    }

    /// The application wants no more of it: what has come and what comes is discarded (\[end-3\]).
    pub(crate) fn stop(&mut self, common: &mut RecvCommon) {
        if self.is_reset() {
            self.is_end_told = true;
            return;
        }
        self.fate = Fate::Discarded;
        self.discard(common);
    }

    /// Lets go of the decoded blocks at the head, as if they had been read.
    pub(super) fn discard(&mut self, common: &mut RecvCommon) {
        let before = self.shared_bytes(common);
        while let Some(Slot::Complete { .. }) = self.slots.front() {
            self.pop_front(common);
        }
        common.memory.on_change(before, self.shared_bytes(common));
    }

    /// Lets go of all blocks, which will not be read.
    fn release(&mut self, common: &mut RecvCommon) {
        let before = self.shared_bytes(common);
        for (slot, block_id) in std::mem::take(&mut self.slots).into_iter().zip(self.first_id..) {
            self.let_go(common, slot, block_id);
        }
        common.memory.give_back(self.places_bytes());
        (self.places, self.held_bytes) = (0, 0);
        // There is no block any more which needs anything, nor one to be read.
        self.first_id = self.next_needed;
        common.memory.on_change(before, self.shared_bytes(common));
    }

    /// The half is not needed any more: gives back what it has cost, except what was paid for opening it.
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
