//! Written bytes that have not been cut into blocks yet.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

use crate::codec::Codec;
use crate::proof;
use crate::spare::SpareBlocks;

/// Cuts a stream of writes into blocks: full blocks immediately, a partial block after a flush or [`LINGER`].
#[derive(Debug)]
pub(crate) struct Source {
    spare: SpareBlocks,
    ready: VecDeque<Waiting>,
    filling: Waiting,
    filling_since: Time,
    /// Bytes of data per symbol of a full block.
    row_bytes: usize,
    /// Codec of the blocks, which determines if bytes are stored.
    codec: &'static dyn Codec,
    /// True if each row is followed by room for its secret, so that a full block need not be copied to another layout.
    proofs: bool,
    /// Size of the block being filled when it will be full, bytes.
    target_bytes: usize,
    /// True if the block being filled may be cut although it is not full.
    flushed: bool,
    shut_down: bool,
    /// Bytes in `ready` and `filling`.
    waiting_bytes: u64,
    /// Bytes written in total.
    written_bytes: u64,
}

/// A full block that waits to be cut, or the part of a block written so far.
#[derive(Debug, Default)]
struct Waiting {
    /// Stored bytes, in rows if there are proofs; empty if the codec carries no bytes.
    laid: Vec<u8>,
    data_bytes: usize,
}

/// A block that has been cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes of the block. With proofs, they are in rows of the source's `row_bytes`, with room for a secret behind
    /// each full row.
    pub(crate) laid: Vec<u8>,
    /// Number of bytes that the application wrote.
    pub(crate) data_bytes: usize,
    /// True if the stream ends with this block.
    pub(crate) end_of_stream: bool,
}

/// Least initial memory of a block, bytes. A second write allocates all memory that the block may need.
const FIRST_BYTES_MIN: usize = 512;

/// Time for which a partial block waits for more data, without a flush (`spec/protocol.md` \[stream-4\]).
const LINGER: Duration = Duration::from_millis(1);

impl Source {
    /// Creates a source of blocks whose symbols have `row_bytes` of data.
    pub(crate) fn new(row_bytes: usize, proofs: bool, codec: &'static dyn Codec) -> Self {
        Self {
            spare: SpareBlocks::default(),
            ready: VecDeque::new(),
            filling: Waiting::default(),
            filling_since: Time::ZERO,
            row_bytes,
            codec,
            proofs,
            target_bytes: row_bytes,
            flushed: false,
            shut_down: false,
            waiting_bytes: 0,
            written_bytes: 0,
        }
    }

    /// Returns the bytes that the application has written in total.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Uses `spare` as the pool for the memory of blocks.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.spare = spare;
    }

    /// Returns the memory of an acknowledged block to the pool.
    pub(crate) fn recycle(&mut self, block: Vec<u8>) {
        self.spare.give(block);
    }

    /// Takes as much of `data` as fits into `space_bytes`. Blocks begun by this call hold `target_bytes`. Returns the
    /// number of bytes taken.
    pub(crate) fn write(&mut self, now: Time, data: &[u8], space_bytes: u64, target_bytes: usize) -> usize {
        let take = data.len().min(usize::try_from(space_bytes).unwrap_or(usize::MAX));
        let kept = data.get(..self.codec.carried_bytes(take)).unwrap_or_default();
        self.put(now, take, kept, target_bytes);
        if take > 0 {
            self.flushed = false;
        }
        self.written_bytes += take as u64;
        take
    }

    /// Appends `bytes` bytes to the blocks. `kept` holds these bytes, or is empty if the codec only counts them.
    fn put(&mut self, now: Time, bytes: usize, kept: &[u8], target_bytes: usize) {
        let (mut left, mut kept) = (bytes, kept);
        while left > 0 {
            let now_in = self.room(now, left, target_bytes);
            let (first, later) = kept.split_at(now_in.min(kept.len()));
            if self.proofs {
                proof::append(&mut self.filling.laid, self.filling.data_bytes, self.row_bytes, first);
            } else {
                self.filling.laid.extend_from_slice(first);
            }
            self.added(now_in);
            (left, kept) = (left - now_in, later);
        }
    }

    /// Returns how many of `bytes` further bytes fit into the block being filled. Begins a block if there is none.
    fn room(&mut self, now: Time, bytes: usize, target_bytes: usize) -> usize {
        if self.filling.data_bytes == 0 {
            self.target_bytes = target_bytes;
            self.filling_since = now;
            // A small message gets only the memory it needs, unless the pool has memory for a whole block.
            let soon = self.laid_bytes(target_bytes.min(bytes.max(FIRST_BYTES_MIN)));
            let spare = self.spare.take(self.laid_bytes(target_bytes));
            self.filling.laid = spare.unwrap_or_else(|| Vec::with_capacity(soon));
        }
        let bytes = self.target_bytes.saturating_sub(self.filling.data_bytes).min(bytes);
        let laid_bytes = self.laid_bytes(self.filling.data_bytes + bytes);
        if laid_bytes > self.filling.laid.capacity() {
            let whole_bytes = self.laid_bytes(self.target_bytes);
            self.filling.laid.reserve_exact(whole_bytes - self.filling.laid.len());
        }
        bytes
    }

    /// Returns the memory of `data_bytes` with their secrets, in bytes.
    fn laid_bytes(&self, data_bytes: usize) -> usize {
        let secrets = if self.proofs { data_bytes.div_ceil(self.row_bytes) * proof::SECRET_BYTES } else { 0 };
        self.codec.carried_bytes(data_bytes + secrets)
    }

    /// Records that `bytes` have been added to the block being filled.
    fn added(&mut self, bytes: usize) {
        self.filling.data_bytes += bytes;
        self.waiting_bytes += bytes as u64;
        if self.filling.data_bytes >= self.target_bytes {
            self.ready.push_back(std::mem::take(&mut self.filling));
        }
    }

    /// Cuts the waiting bytes anew, into blocks of `target_bytes` whose symbols have `row_bytes` of data.
    pub(crate) fn recut(&mut self, now: Time, row_bytes: usize, target_bytes: usize) {
        let before = std::mem::replace(&mut self.row_bytes, row_bytes);
        let ready = std::mem::take(&mut self.ready);
        let filling = std::mem::take(&mut self.filling);
        self.waiting_bytes = 0;
        for block in ready.iter().chain([&filling]) {
            if !self.proofs {
                self.put(now, block.data_bytes, &block.laid, target_bytes);
                continue;
            }
            let rows = block.laid.chunks(before + proof::SECRET_BYTES);
            rows.map(|row| &row[..row.len().min(before)]).for_each(|row| self.put(now, row.len(), row, target_bytes));
        }
    }

    pub(crate) fn flush(&mut self) {
        self.flushed = true;
    }

    /// Records that nothing more will be written, and flushes.
    pub(crate) fn shut_down(&mut self) {
        self.shut_down = true;
        self.flushed = true;
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Returns the bytes missing in the block being filled; 0 if no block has been begun.
    pub(crate) fn room_in_begun_block(&self) -> usize {
        if self.filling.data_bytes == 0 { 0 } else { self.target_bytes.saturating_sub(self.filling.data_bytes) }
    }

    /// Returns the size of the next block if it were cut now, bytes; 0 if nothing is waiting.
    pub(crate) fn next_bytes(&self) -> usize {
        self.ready.front().unwrap_or(&self.filling).data_bytes
    }

    /// Returns true if all written bytes have been cut into blocks and no more will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.waiting_bytes == 0
    }

    /// Returns the size of the next block, if one can be cut at `now`.
    pub(crate) fn next_block_bytes(&self, now: Time) -> Option<usize> {
        if let Some(block) = self.ready.front() {
            return Some(block.data_bytes);
        }
        let due = self.flushed || now.since(self.filling_since) >= LINGER;
        (due && self.filling.data_bytes > 0).then_some(self.filling.data_bytes)
    }

    /// Returns the time at which a partial block will be cut without further calls.
    pub(crate) fn cut_at(&self) -> Option<Time> {
        if !self.ready.is_empty() || self.filling.data_bytes == 0 {
            return None;
        }
        Some(if self.flushed { Time::ZERO } else { self.filling_since + LINGER })
    }

    /// Cuts one symbol off the next block, if that block may be cut at `now`.
    pub(crate) fn take_symbol(&mut self, now: Time) -> Option<Cut> {
        if self.next_block_bytes(now)? <= self.row_bytes {
            return self.take_block(now);
        }
        let (row_bytes, laid_bytes) = (self.row_bytes, self.laid_bytes(self.row_bytes));
        let next = self.ready.front_mut().unwrap_or(&mut self.filling);
        next.data_bytes -= row_bytes;
        let laid = next.laid.drain(..laid_bytes).collect();
        self.waiting_bytes -= row_bytes as u64;
        Some(Cut { laid, data_bytes: row_bytes, end_of_stream: false })
    }

    /// Drops all waiting bytes.
    pub(crate) fn discard(&mut self) {
        self.ready.clear();
        self.filling = Waiting::default();
        self.waiting_bytes = 0;
    }

    /// Cuts the next block, if one can be cut at `now`.
    pub(crate) fn take_block(&mut self, now: Time) -> Option<Cut> {
        self.next_block_bytes(now)?;
        let Waiting { laid, data_bytes } = self.ready.pop_front().unwrap_or_else(|| std::mem::take(&mut self.filling));
        self.waiting_bytes -= data_bytes as u64;
        Some(Cut { laid, data_bytes, end_of_stream: self.is_finished() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::RandomLinear;

    fn cut(laid: &[u8], end_of_stream: bool) -> Option<Cut> {
        Some(Cut { laid: laid.to_vec(), data_bytes: laid.len(), end_of_stream })
    }

    #[test]
    fn full_blocks_leave_at_once_and_partial_ones_linger() {
        let mut source = Source::new(10, false, &RandomLinear);
        assert_eq!(source.write(Time::ZERO, &[1; 25], 100, 10), 25);
        assert_eq!(source.take_block(Time::ZERO), cut(&[1; 10], false));
        assert_eq!(source.take_block(Time::ZERO), cut(&[1; 10], false));
        assert_eq!(source.take_block(Time::ZERO), None);
        assert_eq!(source.cut_at(), Some(Time::ZERO + LINGER));
        source.flush();
        assert_eq!(source.take_block(Time::ZERO), cut(&[1; 5], false));
        assert_eq!(source.cut_at(), None);
    }

    #[test]
    fn the_last_block_knows_that_it_is_the_last() {
        let mut source = Source::new(10, false, &RandomLinear);
        source.write(Time::ZERO, &[2; 10], 100, 10);
        source.shut_down();
        assert_eq!(source.take_block(Time::ZERO), cut(&[2; 10], true));
        assert!(source.is_finished());
    }

    #[test]
    fn no_more_is_taken_than_there_is_space() {
        let mut source = Source::new(10, false, &RandomLinear);
        assert_eq!(source.write(Time::ZERO, &[0; 9], 4, 10), 4);
        assert_eq!(source.waiting_bytes(), 4);
    }

    #[test]
    fn with_proofs_full_rows_are_followed_by_room_and_cut_anew_without_it() {
        let mut source = Source::new(4, true, &RandomLinear);
        source.write(Time::ZERO, &[1, 2, 3, 4, 5, 6], 100, 8);
        source.write(Time::ZERO, &[7, 8, 9, 10, 11], 100, 8);
        source.recut(Time::ZERO, 3, 6);
        assert_eq!(source.waiting_bytes(), 11);
        let laid = vec![1, 2, 3, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0];
        assert_eq!(source.take_block(Time::ZERO), Some(Cut { laid, data_bytes: 6, end_of_stream: false }));
        source.shut_down();
        let laid = vec![7, 8, 9, 0, 0, 0, 0, 10, 11];
        assert_eq!(source.take_block(Time::ZERO), Some(Cut { laid, data_bytes: 5, end_of_stream: true }));
    }
}
