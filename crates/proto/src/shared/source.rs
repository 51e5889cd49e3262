//! Bytes that the application has written and no block has been cut from yet.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

use crate::codec::Codec;
use crate::proof;
use crate::spare::SpareBlocks;

/// Cuts a stream of writes into blocks: full ones at once, a partial one when it is flushed or has lingered.
#[derive(Debug)]
pub(crate) struct Source {
    spare: SpareBlocks,
    ready: VecDeque<Waiting>,
    filling: Waiting,
    filling_since: Time,
    /// Bytes of data per symbol of a full block.
    row_bytes: usize,
    /// Decides which bytes are kept.
    codec: &'static dyn Codec,
    /// Each row is followed by room for its secret, so that a full block need not be laid out anew.
    proofs: bool,
    /// Bytes the block being filled will have when full.
    target_bytes: usize,
    /// Cut the block being filled even though it is not full.
    flushed: bool,
    shut_down: bool,
    /// Bytes in `ready` and `filling`.
    waiting_bytes: u64,
    /// Bytes taken in all.
    written_bytes: u64,
}

/// A block which waits to be cut, or the part of it that is there.
#[derive(Debug, Default)]
struct Waiting {
    /// Bytes kept, in rows if there are proofs; empty if the codec carries none.
    laid: Vec<u8>,
    data_bytes: usize,
}

/// A block which has been cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The block's bytes; with proofs in rows of the source's `row_bytes`, each full one followed by room for a secret.
    pub(crate) laid: Vec<u8>,
    /// Bytes which the application wrote.
    pub(crate) data_bytes: usize,
    /// The stream ends with this block.
    pub(crate) end_of_stream: bool,
}

/// The least memory a block begins with; with a second write it gets all that it may need.
const FIRST_BYTES_MIN: usize = 512;

/// Wait of a partial block for more to be written, without a flush (`spec/protocol.md` \[stream-4\]).
const LINGER: Duration = Duration::from_millis(1);

impl Source {
    /// Blocks have symbols of `row_bytes` of data.
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

    /// Bytes which the application has written in all.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Memory of blocks comes from there.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.spare = spare;
    }

    /// The memory of a block which is acknowledged.
    pub(crate) fn recycle(&mut self, block: Vec<u8>) {
        self.spare.give(block);
    }

    /// Takes as much of `data` as fits into `space_bytes`; blocks begun from here on hold `target_bytes`.
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

    /// The part of `bytes` more that the block being filled takes; begins a block if there is none.
    fn room(&mut self, now: Time, bytes: usize, target_bytes: usize) -> usize {
        if self.filling.data_bytes == 0 {
            self.target_bytes = target_bytes;
            self.filling_since = now;
            // A small message gets no more than it needs, unless there is a whole block's memory to spare.
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

    /// Bytes which `data_bytes` take in memory, with their secrets.
    fn laid_bytes(&self, data_bytes: usize) -> usize {
        let secrets = if self.proofs { data_bytes.div_ceil(self.row_bytes) * proof::SECRET_BYTES } else { 0 };
        self.codec.carried_bytes(data_bytes + secrets)
    }

    /// `bytes` have been added to the block being filled.
    fn added(&mut self, bytes: usize) {
        self.filling.data_bytes += bytes;
        self.waiting_bytes += bytes as u64;
        if self.filling.data_bytes >= self.target_bytes {
            self.ready.push_back(std::mem::take(&mut self.filling));
        }
    }

    /// Cuts what is waiting anew, into blocks of `target_bytes` whose symbols have `row_bytes` of data.
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

    /// Nothing will be written any more.
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

    /// Bytes which the block being filled lacks, if one has been begun.
    pub(crate) fn room_in_begun_block(&self) -> usize {
        if self.filling.data_bytes == 0 { 0 } else { self.target_bytes.saturating_sub(self.filling.data_bytes) }
    }

    /// The size of the next block, were it cut now; 0 if nothing waits.
    pub(crate) fn next_bytes(&self) -> usize {
        self.ready.front().unwrap_or(&self.filling).data_bytes
    }

    /// True if everything written is in blocks and nothing more will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.waiting_bytes == 0
    }

    /// The next block's size, if one can be cut at `now`.
    pub(crate) fn next_block_bytes(&self, now: Time) -> Option<usize> {
        if let Some(block) = self.ready.front() {
            return Some(block.data_bytes);
        }
        let due = self.flushed || now.since(self.filling_since) >= LINGER;
        (due && self.filling.data_bytes > 0).then_some(self.filling.data_bytes)
    }

    /// Time at which a partial block will be cut by itself.
    pub(crate) fn cut_at(&self) -> Option<Time> {
        if !self.ready.is_empty() || self.filling.data_bytes == 0 {
            return None;
        }
        Some(if self.flushed { Time::ZERO } else { self.filling_since + LINGER })
    }

    /// Cuts one symbol off the next block, if that may be cut at `now`.
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

    /// Drops all that waits.
    pub(crate) fn discard(&mut self) {
        self.ready.clear();
        self.filling = Waiting::default();
        self.waiting_bytes = 0;
    }

    /// Cuts the next block.
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
