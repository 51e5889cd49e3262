//! The receiving half of a stream: blocks being decoded, and decoded ones until they are read.

pub(crate) mod collector;

use std::collections::VecDeque;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Pushed};
use dfcp_wire::feedback::{Run, StreamRecordWriter, StreamState, Wasted};
use dfcp_wire::{BlockInfo, StreamId};

use crate::config::{Config, Content};
use crate::error::{Dropped, PeerMisbehaved};
use crate::limits;
use crate::proof::{self, Layout};
use crate::shared::PushError;
use crate::shared::memory::MemoryReservation;
use crate::spare::SpareBlocks;
use crate::stats::ReceivedSymbols;
use crate::stream::recv::collector::Collector;
use crate::stream::window::{GrowingWindow, counted_bytes, free_bytes};

#[derive(Debug)]
enum Slot {
    Empty,
    Open(Collector, Layout),
    Complete { rows: Vec<u8>, layout: Layout, proof: u32 },
}

/// What an open block really takes at most: its rows, as many repair symbols again, the equations between them, and the
/// collector.
fn open_bytes(k: usize, symbol_size: usize) -> u64 {
    (2 * k * symbol_size + k * (k.next_multiple_of(32) + EQUATION_BYTES) + DECODER_BYTES) as u64
}

/// What a decoded block really takes: its rows, padding included.
fn complete_bytes(layout: Layout) -> u64 {
    (layout.data().k() * layout.symbol_size() + ALLOCATION_BYTES) as u64
}

/// Bytes per equation besides its coefficients.
const EQUATION_BYTES: usize = 64;
/// Bytes of a decoder which no symbol takes.
const DECODER_BYTES: usize = 1_024;
/// Bytes of an allocation which its owner does not see.
const ALLOCATION_BYTES: usize = 32;
/// Places for blocks which every connection has.
const SLOTS_MIN: usize = 2;

/// What any one block needs.
pub(crate) fn reserve_bytes(config: &Config) -> u64 {
    open_bytes(limits::SYMBOLS_PER_BLOCK_MAX, usize::from(config.symbol_size) + proof::SECRET_BYTES)
}

#[derive(Debug)]
pub(crate) struct RecvStream {
    kernel: Kernel,
    symbol_size: usize,
    content: Content,
    /// Whether source symbols end with secrets, whose XOR proves that a block was decoded.
    proofs: bool,
    /// XOR of the proofs of all blocks before `next_needed`.
    proof: u32,
    window_blocks_max: u32,
    window: GrowingWindow,
    /// What the blocks of `slots` count as. It is kept as the sender counts, or there would be no room for what was promised.
    held_bytes: u64,
    /// What the blocks before `first_id` counted as.
    read_bytes: u64,
    /// Pays for what blocks really take.
    reservation: MemoryReservation,
    /// Where the memory of blocks comes from, and goes to.
    spare: SpareBlocks,
    /// The block which the reservation's reserve pays for.
    on_reserve: Option<u32>,
    slots: VecDeque<Slot>,
    /// The block of `slots[0]`: the oldest not wholly read.
    first_id: u32,
    /// The oldest block not decoded.
    next_needed: u32,
    /// Bytes already read of block `first_id`.
    read_offset: usize,
    /// One past the last block, once known.
    end: Option<u32>,
    symbols: ReceivedSymbols,
    blocks_decoded: u64,
    bytes_read: u64,
}

impl RecvStream {
    pub(crate) fn new(config: &Config, kernel: Kernel, proofs: bool) -> Self {
        Self {
            kernel,
            symbol_size: proof::data_bytes_max(config.symbol_size, proofs),
            content: config.content,
            proofs,
            proof: 0,
            window_blocks_max: config.window_blocks,
            window: GrowingWindow::new(config.receive_memory_bytes),
            held_bytes: 0,
            read_bytes: 0,
            reservation: MemoryReservation::default(),
            spare: SpareBlocks::default(),
            on_reserve: None,
            slots: VecDeque::with_capacity(SLOTS_MIN),
            first_id: 0,
            next_needed: 0,
            read_offset: 0,
            end: None,
            symbols: ReceivedSymbols::default(),
            blocks_decoded: 0,
            bytes_read: 0,
        }
    }

    /// Memory of blocks comes from there.
    pub(crate) fn take_from(&mut self, spare: SpareBlocks) {
        self.spare = spare;
    }

    /// From now on, `reservation` pays for blocks.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.reservation = reservation;
    }

    /// Takes in an encoding symbol. `Ok(true)` means that its block is decoded now.
    pub(crate) fn push(&mut self, block_id: u32, info: BlockInfo, esi: u32, payload: &[u8]) -> Result<bool, PushError> {
        if block_id < self.next_needed {
            self.symbols.late += 1;
            return Ok(false);
        }
        if info.end_of_stream {
            self.set_end(block_id.saturating_add(1)).map_err(PushError::Misbehaved)?;
        } else if self.end.is_some_and(|end| block_id >= end) {
            let earlier = self.end.unwrap_or_default();
            return Err(PushError::Misbehaved(PeerMisbehaved::InconsistentEnd { earlier, later: block_id }));
        }
        let index = self.open(block_id, info, payload.len())?;
        let Some(Slot::Open(collector, layout)) = self.slots.get_mut(index) else {
            self.symbols.late += 1;
            return Ok(false);
        };
        let inconsistent = PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id });
        let shape = layout.data();
        if shape.k() != usize::from(info.k) || shape.length_bytes() != info.length_bytes as usize {
            return Err(inconsistent);
        }
        let missing = collector.missing();
        match collector.push(esi, payload) {
            Ok(Pushed::Complete) => self.symbols.late += 1,
            Ok(Pushed::Useful | Pushed::Redundant | Pushed::Duplicate) => {
                self.symbols.count_collected(missing, collector.missing());
            }
            Err(_) => return Err(inconsistent),
        }
        let complete = collector.is_complete();
        if complete {
            self.complete(index);
        }
        Ok(complete)
    }

    /// Makes sure that the block has a slot, opening it if window and memory permit.
    fn open(&mut self, block_id: u32, info: BlockInfo, payload_bytes: usize) -> Result<usize, PushError> {
        let index = (block_id - self.first_id) as usize;
        // The last id is no block's: the id after a stream's last block must exist ([stream-6]).
        if index >= self.window_blocks_max as usize || block_id == u32::MAX {
            self.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::OutsideWindow));
        }
        if !matches!(self.slots.get(index), None | Some(Slot::Empty)) {
            return Ok(index);
        }
        let inconsistent = PushError::Misbehaved(PeerMisbehaved::InconsistentBlock { block_id });
        let shape = BlockShape::new(info.k.into(), info.length_bytes as usize).map_err(|_| inconsistent)?;
        // A sender may cut smaller symbols than the connection's ([stream-2]), when packets must get smaller.
        let k_min = shape.length_bytes().div_ceil(self.symbol_size);
        let k_max = limits::SYMBOLS_PER_BLOCK_MAX.min(limits::SYMBOLS_PER_LENGTH_FACTOR * k_min);
        let layout = Layout::new(shape, self.proofs);
        // Sizes which contradict the payload or the connection's ([stream-3]).
        let payload_bytes_due = if self.content == Content::Elided { 0 } else { layout.symbol_size() };
        if payload_bytes != payload_bytes_due || !(k_min..=k_max).contains(&shape.k()) {
            return Err(inconsistent);
        }
        let coded = layout.coded().map_err(|_| inconsistent)?;
        // What the sender knows of our memory and reading is no more than there is: an honest one is never refused here.
        let counted_bytes = counted_bytes(shape.length_bytes());
        let fits = self.held_bytes + counted_bytes <= self.window.bytes() + free_bytes(self.symbol_size);
        if !fits || !self.pay(index, block_id, open_bytes(shape.k(), layout.symbol_size())) {
            self.symbols.refused += 1;
            return Err(PushError::Dropped(Dropped::NoMemory));
        }
        while self.slots.len() <= index {
            self.slots.push_back(Slot::Empty);
        }
        self.held_bytes += counted_bytes;
        let collector = match self.content {
            Content::Real => Collector::real(self.kernel, coded, &self.spare),
            Content::Elided => Collector::counted(coded),
        };
        self.slots[index] = Slot::Open(collector, layout);
        Ok(index)
    }

    /// Pays for opening a block and, where there are too few, for places. The reserve pays for the block needed next alone:
    /// it can be decoded and read without any other, and then the reserve is free for the next one.
    fn pay(&mut self, index: usize, block_id: u32, bytes: u64) -> bool {
        if index >= self.slots.capacity() {
            let places = (index + 1).next_power_of_two();
            if !self.reservation.take(((places - self.slots.capacity()) * size_of::<Slot>()) as u64) {
                return false;
            }
            self.slots.reserve_exact(places - self.slots.len());
        }
        if self.reservation.take(bytes) {
            return true;
        }
        let reserved =
            block_id == self.next_needed && self.on_reserve.is_none() && self.reservation.take_reserve(bytes);
        if reserved {
            self.on_reserve = Some(block_id);
        }
        reserved
    }

    fn complete(&mut self, index: usize) {
        let slot = std::mem::replace(&mut self.slots[index], Slot::Empty);
        let Slot::Open(collector, layout) = slot else { return };
        if self.on_reserve != Some(self.first_id + index as u32) {
            let before = open_bytes(layout.data().k(), layout.symbol_size());
            self.reservation.give_back(before.saturating_sub(complete_bytes(layout)));
        }
        let rows = collector.into_rows(&self.spare);
        let proof = layout.proof(&rows);
        self.slots[index] = Slot::Complete { rows, layout, proof };
        self.blocks_decoded += 1;
        while let Some(Slot::Complete { proof, .. }) = self.slots.get((self.next_needed - self.first_id) as usize) {
            self.proof ^= proof;
            self.next_needed += 1;
        }
    }

    /// The stream ends before block `end`, and nowhere else (\[close-5\]).
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

    /// What a report says of it as `stream`, besides the list.
    pub(crate) fn state(&self, stream: StreamId) -> StreamState {
        StreamState {
            stream,
            next_needed: self.next_needed,
            blocks_read: self.first_id,
            kib_read: (self.read_bytes >> 10) as u32,
            proof_cumulative: self.proof,
            proof_listed: 0, // known when the list is written
        }
    }

    /// Whether the whole stream is decoded.
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some_and(|end| self.next_needed >= end)
    }

    /// Whether the whole stream is decoded and read.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.slots.is_empty()
    }

    /// Whether any block lacks symbols, as far as is known.
    pub(crate) fn has_open_blocks(&self) -> bool {
        self.first_id + (self.slots.len() as u32) > self.next_needed
    }

    /// Bytes which can be read without waiting.
    pub(crate) fn is_readable(&self) -> bool {
        match self.slots.front() {
            Some(Slot::Complete { .. }) => true,
            Some(Slot::Open(collector, layout)) => layout.data_bytes(collector.available_bytes()) > self.read_offset,
            Some(Slot::Empty) | None => false,
        }
    }

    /// Copies what is there, in order, into `out`: also the first source symbols of a block which is not decoded yet
    /// (\[stream-1\]).
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let mut copied = 0;
        while copied < out.len() {
            let (rows, layout, known) = match self.slots.front() {
                Some(Slot::Complete { rows, layout, .. }) => (rows.as_slice(), layout, layout.data().length_bytes()),
                Some(Slot::Open(collector, layout)) => {
                    (collector.rows(), layout, layout.data_bytes(collector.available_bytes()))
                }
                Some(Slot::Empty) | None => break,
            };
            let out = &mut out[copied..];
            let take = match self.content {
                Content::Real => layout.copy(rows, self.read_offset..known, out),
                Content::Elided => {
                    let take = out.len().min(known - self.read_offset);
                    out[..take].fill(0);
                    take
                }
            };
            copied += take;
            self.read_offset += take;
            let Some(Slot::Complete { layout, .. }) = self.slots.front() else { break };
            if self.read_offset < layout.data().length_bytes() {
                break;
            }
            self.pop_front();
        }
        self.bytes_read += copied as u64;
        // An open block takes at least twice its bytes.
        self.window.on_carried(copied as u64, self.reservation.room_bytes() / 9 * 4);
        copied
    }

    fn pop_front(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            if let Slot::Complete { layout, .. } = &slot {
                let counted_bytes = counted_bytes(layout.data().length_bytes());
                self.held_bytes -= counted_bytes;
                self.read_bytes += counted_bytes;
            }
            if self.on_reserve == Some(self.first_id) {
                self.on_reserve = None;
                self.reservation.release_reserve();
            } else if let Slot::Complete { layout, .. } = &slot {
                self.reservation.give_back(complete_bytes(*layout));
            }
            if let Slot::Complete { rows, .. } = slot {
                self.spare.give(rows);
            }
            self.first_id += 1;
            self.read_offset = 0;
        }
    }

    /// Blocks which have been wholly read.
    pub(crate) fn blocks_read(&self) -> u32 {
        self.first_id
    }

    /// What it lends to blocks which have not been read (\[window-3\]). It never falls.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.window.bytes()
    }

    /// What the peer may have cut in all, as blocks count. It never falls.
    pub(crate) fn room_end_bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.window.bytes())
    }

    /// The proof of all blocks before the one needed next; 0 without proofs.
    pub(crate) fn proof(&self) -> u32 {
        self.proof
    }

    /// Writes the state of the blocks from the one needed next, oldest first, as far as there is room, and the proof of
    /// the complete ones among them (\[report-5\], \[proof-5\]).
    pub(crate) fn write_runs(&self, writer: &mut StreamRecordWriter<'_>) {
        let mut listed = 0;
        let from = (self.next_needed - self.first_id) as usize;
        for slot in self.slots.iter().skip(from) {
            let (run, proof) = match slot {
                Slot::Empty => (Run::Empty(1), 0),
                Slot::Complete { proof, .. } => (Run::Complete(1), *proof),
                Slot::Open(collector, _) => (Run::Open { missing: collector.missing().max(1) as u16 }, 0),
            };
            if !writer.push(run) {
                return writer.set_proof_listed(listed);
            }
            listed ^= proof;
        }
        writer.set_proof_listed(listed);
        let known = self.first_id.saturating_add(self.slots.len() as u32);
        let tail =
            self.end.map_or(limits::EMPTY_TAIL_BLOCKS, |end| end.saturating_sub(known).min(limits::EMPTY_TAIL_BLOCKS));
        if tail > 0 {
            // Whether it fits does not matter: a list which is cut says nothing about what follows.
            let _fits = writer.push(Run::Empty(tail));
        }
    }

    pub(crate) fn count_duplicate(&mut self) {
        self.symbols.duplicate += 1;
    }

    /// What arrived in vain, as reports tell it.
    pub(crate) fn wasted(&self) -> Wasted {
        let ReceivedSymbols { dependent, late, refused, .. } = self.symbols;
        Wasted { dependent: dependent as u32, late: late as u32, refused: refused as u32 }
    }

    pub(crate) fn symbols(&self) -> ReceivedSymbols {
        self.symbols
    }

    pub(crate) fn blocks_decoded(&self) -> u64 {
        self.blocks_decoded
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    pub(crate) fn set_symbol_size(&mut self, symbol_size: u16) {
        self.symbol_size = self.symbol_size.min(usize::from(symbol_size)); // a bound by proofs stays
    }
}
