//! Reads of the application from a receiving half.

use crate::error::StreamError;
use crate::shared::Read;
use crate::stream::recv::slot::Slot;
use crate::stream::recv::{Fate, RecvCommon, RecvStream};

impl RecvStream {
    /// Copies available bytes to `out`, in order, including the first source symbols of a block that is not decoded yet
    /// (\[stream-1\]).
    ///
    /// # Errors
    /// [`StreamError::Reset`] if the peer has reset the stream, [`StreamError::Ended`] if the application has stopped
    /// it.
    pub(crate) fn read(&mut self, common: &mut RecvCommon, out: &mut [u8]) -> Result<Read, StreamError> {
        match self.fate {
            Fate::Read => {}
            Fate::Discarded => return Err(StreamError::Ended),
            Fate::Reset { error } => {
                self.is_end_told = true;
                return Err(StreamError::Reset(error));
            }
        }
        let before = self.shared_bytes(common);
        let copied = self.copy(common, out);
        common.memory.on_change(before, self.shared_bytes(common));
        common.bytes_read += copied as u64;
        self.application_bytes += copied as u64;
        if copied > 0 {
            return Ok(Read::Bytes(copied));
        }
        self.is_end_told |= self.is_drained();
        Ok(if self.is_drained() { Read::End } else { Read::Blocked })
    }

    fn copy(&mut self, common: &mut RecvCommon, out: &mut [u8]) -> usize {
        let mut copied = 0;
        while copied < out.len() {
            let (rows, layout, known) = match self.slots.front() {
                Some(Slot::Complete { rows, layout, .. }) => (rows.as_slice(), layout, layout.data().length_bytes()),
                Some(Slot::Open(decoder, layout)) => {
                    (decoder.rows(), layout, layout.data_bytes(decoder.available_bytes()))
                }
                Some(Slot::Empty) | None => break,
            };
            let (out, read) = (&mut out[copied..], self.read_offset as usize);
            let due = out.len().min(known - read);
            let mut take = layout.copy(rows, read..known, out);
            if take < due {
                take += common.read_virtual(&mut out[take..due]);
            }
            copied += take;
            self.read_offset += take as u32;
            let Some(Slot::Complete { layout, .. }) = self.slots.front() else { break };
            if (self.read_offset as usize) < layout.data().length_bytes() {
                break;
            }
            self.pop_front(common);
        }
        copied
    }

    pub(super) fn pop_front(&mut self, common: &mut RecvCommon) {
        if let Some(slot) = self.slots.pop_front() {
            let bytes = slot.counted_bytes();
            self.held_bytes -= bytes;
            self.read_bytes += bytes;
            self.let_go(common, slot, self.first_id);
            self.first_id += 1;
            self.read_offset = 0;
        }
    }

    /// Returns true if there is no block yet, but one may come: [`read`](Self::read) would change nothing.
    pub(crate) fn is_waiting(&self) -> bool {
        self.slots.is_empty() && self.fate == Fate::Read && !self.is_drained()
    }

    /// Returns true if [`read`](Self::read) would return bytes.
    pub(crate) fn is_readable(&self) -> bool {
        match self.slots.front() {
            Some(Slot::Complete { .. }) => true,
            Some(Slot::Open(decoder, layout)) => {
                layout.data_bytes(decoder.available_bytes()) > self.read_offset as usize
            }
            Some(Slot::Empty) | None => false,
        }
    }
}
