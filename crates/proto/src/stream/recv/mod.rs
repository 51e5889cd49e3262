//! The receiving half of a stream: blocks being decoded, and decoded blocks until they are read.

mod ending;
pub(crate) mod fragments;
pub(crate) mod memory;
mod reading;
mod record;
pub(crate) mod slot;

use std::collections::VecDeque;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, K_MAX, Pushed};
use dfcp_wire::segment::Data;
use dfcp_wire::{BlockInfo, Fragment};

use crate::codec::{Codec, Progress};
use crate::config::Config;
use crate::error::{Dropped, PeerMisbehaved};
use crate::limits;
use crate::proof::{self, Layout};
use crate::shared::PushError;
use crate::spare::SpareBlocks;
use crate::stats::{ReceivedSymbols, StreamStats};
use crate::stream::recv::fragments::{Added, Fragments};
use crate::stream::recv::memory::ReceiveMemory;
use crate::stream::recv::slot::{SLOTS_MIN, Slot, counted_bytes, open_bytes};
use crate::stream::send::shared::own_place_bytes;

/// State shared by the receiving halves of a session.
#[derive(Debug)]
pub(crate) struct RecvCommon {
    kernel: Kernel,
    symbol_size: usize,
    codec: &'static dyn Codec,
    /// True if source symbols end with secrets, whose XOR proves that a block was decoded.
    proofs: bool,
    window_blocks: u32,
    pub(crate) memory: ReceiveMemory,
    pub(crate) fragments: Fragments,
    /// Memory pool for blocks.
    pub(crate) spare: SpareBlocks,
    pub(crate) symbols: ReceivedSymbols,
    pub(crate) blocks_decoded: u64,
    pub(crate) bytes_read: u64,
}

impl RecvCommon {
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: bool) -> Self {
        Self {
            kernel,
            symbol_size: proof::data_bytes_max(config.symbol_size, proofs),
            codec: config.codec,
            proofs,
            window_blocks: config.blocks_in_window(),
            memory: ReceiveMemory::new(config.receive_memory_bytes),
            fragments: Fragments::default(),
            spare: SpareBlocks::default(),
            symbols: ReceivedSymbols::default(),
            blocks_decoded: 0,
            bytes_read: 0,
        }
    }

    pub(crate) fn set_symbol_size(&mut self, symbol_size: u16) {
        self.symbol_size = self.symbol_size.min(usize::from(symbol_size)); // a bound by proofs stays
    }

    pub(crate) fn symbol_size(&self) -> usize {
        self.symbol_size
    }

    /// Fills the bytes of `out` that the codec does not carry (in a simulator) with zeros. Returns their number.
    fn read_virtual(&self, out: &mut [u8]) -> usize {
        let bytes = out.len().saturating_sub(self.codec.carried_bytes(out.len()));
        out[..bytes].fill(0);
        bytes
    }

    /// Returns the layout of a block, from a received symbol or its part `fragment`. `None` if the sizes are impossible
    /// in this session.
    fn layout(&self, info: BlockInfo, fragment: Fragment, payload_bytes: usize) -> Option<Layout> {
        let shape = BlockShape::new(info.k.into(), info.length_bytes as usize).ok()?;
        // K is between the least for the session's symbol size and four times as much ([stream-2]), so the decoder of
        // many small symbols costs no more than it is accounted for.
        let least = shape.length_bytes().div_ceil(self.symbol_size);
        let most = (least * limits::SYMBOLS_PER_LENGTH_FACTOR).min(K_MAX);
        let layout = Layout::new(shape, self.proofs);
        // The sizes must agree with the payload and the connection ([stream-3]).
        let part_bytes = fragment.range(layout.symbol_size()).len();
        let fits = part_bytes > 0
            && payload_bytes == self.codec.carried_bytes(part_bytes)
            && (least..=most).contains(&shape.k());
        fits.then_some(layout)
    }
}

/// Fate of arriving data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Fate {
    /// The data wait for the application.
    #[default]
    Read,
    /// The data are discarded, because the application has stopped the stream.
    Discarded,
    /// The peer has reset the stream, with its application's error code.
    Reset { error: u32 },
}

/// The receiving half of one stream. State and sums of the whole session are in [`RecvCommon`].
#[derive(Debug, Default)]
pub(crate) struct RecvStream {
    /// Blocks from `first_id` on.
    slots: VecDeque<Slot>,
    /// Number of slots whose memory has been charged; values below [`SLOTS_MIN`] count as [`SLOTS_MIN`].
    places: u32,
    /// Id of the oldest block that is not wholly read.
    first_id: u32,
    /// Id of the oldest block that is not decoded.
    next_needed: u32,
    /// Bytes already read of block `first_id`.
    read_offset: u32,
    /// Id behind the last block, once known.
    end: Option<u32>,
    /// Id of the block that is charged to the reservation's reserve.
    on_reserve: Option<u32>,
    /// Id of the block that is charged to the stream's own place.
    on_own_place: Option<u32>,
    /// XOR of the proofs of all blocks before `next_needed`.
    proof: u32,
    /// Symbols that brought a block closer to decoding.
    served: u64,
    /// Bytes read by the application.
    application_bytes: u64,
    /// Number of decoded blocks.
    blocks_decoded: u32,
    /// Bytes in flow control of the blocks in `slots`.
    held_bytes: u64,
    /// Bytes in flow control of all blocks before `first_id`.
    read_bytes: u64,
    /// Value of `read_bytes` in the newest record.
    told_read_bytes: u64,
    /// Number of read blocks in the newest record.
    told_read_blocks: u32,
    fate: Fate,
    /// True if the peer has reset the stream after the last block. The reset has no effect, but must be answered.
    is_reset_answered: bool,
    /// True if the application knows that nothing more will come.
    is_end_told: bool,
}

impl RecvStream {
    /// Returns the bytes that the stream takes of the memory shared by all streams.
    pub(crate) fn shared_bytes(&self, common: &RecvCommon) -> u64 {
        self.held_bytes.saturating_sub(own_place_bytes(common.symbol_size))
    }

    // ---- arrivals ----

    /// Adds an encoding symbol, or a part of one. `Ok(true)` means that its block is decoded now.
    ///
    /// # Errors
    /// The symbol has no place, or contradicts earlier segments.
    pub(crate) fn push(&mut self, common: &mut RecvCommon, data: &Data, payload: &[u8]) -> Result<bool, PushError> {
        let Data { block_id, block: info, .. } = *data;
        if block_id < self.next_needed {
            common.symbols.late += 1;
            return Ok(false);
        }
        if info.end_of_stream {
            self.set_end(block_id.saturating_add(1)).map_err(PushError::Misbehaved)?;
        } else if let Some(earlier) = self.end.filter(|&end| block_id >= end) {
            return Err(PushError::Misbehaved(PeerMisbehaved::InconsistentEnd { earlier, later: block_id }));
        }
        if self.is_reset() {
            common.symbols.late += 1;
            return Ok(false);
        }
        if !data.fragment.is_whole() {
            return self.push_part(common, data, payload);
        }
        self.collect(common, data, payload)
    }

    /// Adds a part of a symbol.
    fn push_part(&mut self, common: &mut RecvCommon, data: &Data, payload: &[u8]) -> Result<bool, PushError> {
        let inconsistent = PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id: data.block_id });
        let layout = common.layout(data.block, data.fragment, payload.len()).ok_or(inconsistent)?;
        let index = (data.block_id - self.first_id) as usize;
        if index >= common.window_blocks as usize || data.block_id == u32::MAX {
            common.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::OutsideWindow));
        }
        match self.slots.get(index) {
            Some(Slot::Complete { .. }) => {
                common.symbols.late += 1;
                return Ok(false);
            }
            Some(Slot::Open(_, earlier)) if earlier.data() != layout.data() => return Err(inconsistent),
            Some(Slot::Open(..) | Slot::Empty) | None => {}
        }
        let symbol_bytes = common.codec.carried_bytes(layout.symbol_size());
        match common.fragments.add(&mut common.memory, data, payload, symbol_bytes) {
            Added::Kept => Ok(false),
            Added::Duplicate => {
                common.symbols.duplicate += 1;
                Ok(false)
            }
            Added::Inconsistent => Err(inconsistent),
            Added::Whole(symbol) => self.collect(common, &Data { fragment: Fragment::WHOLE, ..*data }, &symbol),
        }
    }

    /// Adds a whole symbol.
    fn collect(&mut self, common: &mut RecvCommon, data: &Data, payload: &[u8]) -> Result<bool, PushError> {
        let Data { block_id, block: info, esi, .. } = *data;
        let index = self.open(common, block_id, info, payload.len())?;
        let Some(Slot::Open(decoder, layout)) = self.slots.get_mut(index) else {
            common.symbols.late += 1;
            return Ok(false);
        };
        let inconsistent = PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id });
        let shape = layout.data();
        if shape.k() != usize::from(info.k) || shape.length_bytes() != info.length_bytes as usize {
            return Err(inconsistent);
        }
        let Progress { pushed, missing_before, missing, is_complete } =
            decoder.push(esi, payload).map_err(|_| inconsistent)?;
        match pushed {
            Pushed::Complete => common.symbols.late += 1,
            Pushed::Useful | Pushed::Redundant | Pushed::Duplicate => {
                common.symbols.count_collected(missing_before, missing);
                // A linear dependence may be noticed late: `served` can fall, like the session's sum.
                self.served = self.served.saturating_add_signed(missing_before as i64 - missing as i64);
            }
        }
        if is_complete {
            common.fragments.forget(&mut common.memory, data.stream, Some(block_id));
            self.complete(common, index);
        }
        Ok(is_complete)
    }

    /// Returns the index of the block's slot, which is opened if window and memory permit.
    fn open(
        &mut self,
        common: &mut RecvCommon,
        block_id: u32,
        info: BlockInfo,
        payload_bytes: usize,
    ) -> Result<usize, PushError> {
        let index = (block_id - self.first_id) as usize;
        // The last id is never a block's id: the id behind a stream's last block must exist ([stream-6]).
        if index >= common.window_blocks as usize || block_id == u32::MAX {
            common.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::OutsideWindow));
        }
        if !matches!(self.slots.get(index), None | Some(Slot::Empty)) {
            return Ok(index);
        }
        let inconsistent = PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id });
        let layout = common.layout(info, Fragment::WHOLE, payload_bytes).ok_or(inconsistent)?;
        let coded = layout.coded().map_err(|_| inconsistent)?;
        let bytes = counted_bytes(layout.data());
        if !self.make_room(common, index, layout) {
            common.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::NoMemory));
        }
        if self.slots.capacity() == 0 {
            self.slots.reserve_exact(SLOTS_MIN);
        }
        while self.slots.len() <= index {
            self.slots.push_back(Slot::Empty);
        }
        let before = self.shared_bytes(common);
        self.held_bytes += bytes;
        common.memory.on_change(before, self.shared_bytes(common));
        self.slots[index] = Slot::Open(common.codec.decoder(common.kernel, coded, &common.spare), layout);
        Ok(index)
    }

    /// Finds memory for a block, and pays for it. A block of one symbol always has the stream's own place if the block
    /// is needed next and the stream holds nothing.
    fn make_room(&mut self, common: &mut RecvCommon, index: usize, layout: Layout) -> bool {
        let block_id = self.first_id + index as u32;
        let shape = layout.data();
        if self.slots.is_empty() && block_id == self.next_needed && shape.k() == 1 {
            self.on_own_place = Some(block_id);
            return true;
        }
        let is_needed = block_id == self.next_needed;
        let (bytes, own) = (counted_bytes(shape), own_place_bytes(common.symbol_size));
        let more = (self.held_bytes + bytes).saturating_sub(own) - self.held_bytes.saturating_sub(own);
        if !common.memory.has_room(more) || !self.pay_for_places(common, index) {
            return false;
        }
        let bytes = open_bytes(shape.k(), layout.symbol_size());
        if common.memory.pay(bytes) {
            return true;
        }
        let is_reserved = is_needed && common.memory.pay_from_reserve(bytes);
        if is_reserved {
            self.on_reserve = Some(block_id);
        }
        is_reserved
    }

    fn pay_for_places(&mut self, common: &mut RecvCommon, index: usize) -> bool {
        let have = (self.places as usize).max(SLOTS_MIN);
        if index < have {
            return true;
        }
        let places = (index + 1).next_power_of_two();
        if !common.memory.pay(((places - have) * size_of::<Slot>()) as u64) {
            return false;
        }
        self.places = places as u32;
        self.slots.reserve_exact(places - self.slots.len());
        true
    }

    /// Returns the bytes charged for slots.
    pub(crate) fn places_bytes(&self) -> u64 {
        (self.places as usize).saturating_sub(SLOTS_MIN) as u64 * size_of::<Slot>() as u64
    }

    fn complete(&mut self, common: &mut RecvCommon, index: usize) {
        let slot = std::mem::replace(&mut self.slots[index], Slot::Empty);
        let before = slot.paid_bytes();
        let Slot::Open(decoder, layout) = slot else { return };
        let rows = decoder.into_rows(&common.spare);
        let proof = layout.proof(&rows);
        common.memory.on_decoded(layout.data().length_bytes() as u64);
        self.slots[index] = Slot::Complete { rows, layout, proof };
        if !self.is_paid_otherwise(self.first_id + index as u32) {
            common.memory.give_back(before.saturating_sub(self.slots[index].paid_bytes()));
        }
        common.blocks_decoded += 1;
        self.blocks_decoded += 1;
        while let Some(Slot::Complete { proof, .. }) = self.slots.get((self.next_needed - self.first_id) as usize) {
            self.proof ^= proof;
            self.next_needed += 1;
        }
        if self.fate == Fate::Discarded {
            self.discard(common);
        }
    }

    /// Returns true if the block is charged to the reserve or the stream's own place instead of the shared memory.
    fn is_paid_otherwise(&self, block_id: u32) -> bool {
        self.on_reserve == Some(block_id) || self.on_own_place == Some(block_id)
    }

    // ---- state ----

    /// Returns the id behind the last block, if that is known.
    pub(crate) fn end(&self) -> Option<u32> {
        self.end
    }

    /// Returns the proof of all blocks before the next needed one; 0 without proofs.
    pub(crate) fn proof(&self) -> u32 {
        self.proof
    }

    /// Returns the number of symbols that brought a block closer to decoding, modulo 2³².
    pub(crate) fn served(&self) -> u32 {
        self.served as u32
    }

    /// Returns the figures of the stream's receiving direction.
    pub(crate) fn stats(&self) -> StreamStats {
        StreamStats {
            bytes_read: self.application_bytes,
            blocks_decoded: self.blocks_decoded.into(),
            symbols_useful: self.served,
            ..StreamStats::default()
        }
    }

    /// Returns true if the whole stream is decoded.
    pub(crate) fn is_finished(&self) -> bool {
        !self.is_reset() && self.end.is_some_and(|end| self.next_needed >= end)
    }

    /// Returns the stream's unread bytes in the memory that all streams share if the whole stream is decoded, otherwise
    /// 0. The sender no longer counts the bytes of a decoded stream.
    pub(crate) fn delivered_bytes(&self, common: &RecvCommon) -> u64 {
        if self.is_finished() { self.shared_bytes(common) } else { 0 }
    }

    /// Returns true if the whole stream is decoded and read.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.slots.is_empty()
    }

    /// Returns true if the peer has reset the stream before everything was decoded.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.fate, Fate::Reset { .. })
    }

    /// Returns true if a reset of the peer waits for its answer, also after everything was decoded.
    pub(crate) fn is_reset_answered(&self) -> bool {
        self.is_reset_answered
    }

    /// Returns true once neither the peer nor the application needs the stream any more.
    pub(crate) fn is_done(&self) -> bool {
        self.is_end_told || self.fate == Fate::Discarded && self.is_drained()
    }

    /// Returns true if the application has stopped the stream.
    pub(crate) fn is_stopped(&self) -> bool {
        self.fate == Fate::Discarded
    }

    /// Returns true if the application knows that nothing more will come.
    pub(crate) fn is_end_told(&self) -> bool {
        self.is_end_told
    }

    /// Returns true if any known block lacks symbols.
    pub(crate) fn has_open_blocks(&self) -> bool {
        self.first_id + (self.slots.len() as u32) > self.next_needed
    }

    /// Returns the bytes allocated for slots, without the rows of blocks.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
