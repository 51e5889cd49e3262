//! The decoder: rebuilds a block from encoding symbols in any order.
//!
//! While fewer symbols than K have come, source symbols go straight to their place and repair symbols are stored as
//! they are: this costs a copy. With the K-th symbol the equations are solved for the missing source symbols, in
//! coefficients only, and each missing one is written by a single pass over K symbols, which is the least a dense code
//! needs. In the rare case that the symbols are dependent, what is stored shrinks to an independent set, and further
//! symbols are checked one by one.

use alloc::vec::Vec;
use core::{fmt, mem};

use super::{BlockShape, K_MAX, tableau::Tableau};
use crate::kernel::Kernel;

/// Room is made for this many repair symbols at least, and for a power of two of them: how many are needed varies from
/// block to block, and a decoder which is used again soon has room for all but the rarest.
const REPAIRS_ROOM_MIN: usize = 8;

/// A block of up to this many source symbols is solved with less room, which takes less time to fill.
const K_FEW: usize = 64;

/// Rebuilds one block, and further ones after it ([`restart`](Self::restart)). Holds at most 2·K symbols.
pub struct Decoder {
    kernel: Kernel,
    shape: BlockShape,
    /// Source symbols from the first on, up to the last one which is known; zeros where one is missing.
    block: Vec<u8>,
    known: [bool; K_MAX],
    known_count: usize,
    /// Number of source symbols from the first on that are known without a gap.
    prefix: usize,
    repairs: Repairs,
    tableau: Tableau,
    /// The tableau has equations: only while K symbols have come but are dependent.
    is_solving: bool,
}

/// Fate of a symbol that was pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// It was new and has been kept. As dependence shows only when K symbols are there, this may have to be taken back
    /// silently; [`Decoder::missing`] then stays the same or grows.
    Useful,
    /// A symbol with this id is stored already, or this source symbol is already known.
    Duplicate,
    /// It is a combination of the symbols before it, and was dropped.
    Redundant,
    /// The block was complete already.
    Complete,
}

/// A symbol was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// The symbol is not of the block's symbol size.
    #[error("the symbol has {got} bytes, but the symbols of this block have {expected}")]
    SymbolLength {
        /// Bytes in the symbol.
        got: usize,
        /// Bytes in each symbol of the block.
        expected: usize,
    },
}

/// Repair symbols as they came.
#[derive(Default)]
struct Repairs {
    esis: Vec<u32>,
    bytes: Vec<u8>,
}

impl Decoder {
    /// A decoder which knows nothing. Allocates the block, and room for repair symbols only when they come.
    #[must_use]
    pub fn new(kernel: Kernel, shape: BlockShape) -> Self {
        Self::with_memory(kernel, shape, Vec::with_capacity(shape.padded_bytes()))
    }

    /// As [`new`](Self::new), and the block is built in `memory`, whose contents are discarded. It grows if it has no room
    /// for [`BlockShape::padded_bytes`].
    #[must_use]
    pub fn with_memory(kernel: Kernel, shape: BlockShape, mut memory: Vec<u8>) -> Self {
        memory.clear();
        memory.reserve_exact(shape.padded_bytes());
        Self {
            kernel,
            shape,
            block: memory,
            known: [false; K_MAX],
            known_count: 0,
            prefix: 0,
            repairs: Repairs::default(),
            tableau: Tableau::idle(kernel),
            is_solving: false,
        }
    }

    /// Forgets everything, and begins another block in `memory` as [`with_memory`](Self::with_memory) does. Memory
    /// allocated for repair symbols is reused; what exceeds the most that a new decoder of such a block could allocate is freed.
    pub fn restart(&mut self, shape: BlockShape, mut memory: Vec<u8>) {
        memory.clear();
        memory.reserve_exact(shape.padded_bytes());
        (self.shape, self.block) = (shape, memory);
        self.known = [false; K_MAX];
        (self.known_count, self.prefix, self.is_solving) = (0, 0, false);
        self.repairs.shrink_to(shape);
        self.tableau.shrink_to(shape.k());
    }

    /// Bytes which are allocated for repair symbols and equations, and which [`restart`](Self::restart) would use again.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.repairs.memory_bytes() + self.tableau.memory_bytes()
    }

    /// Takes encoding symbol `esi`, padding included. Symbols may come in any order and any number of times.
    ///
    /// # Errors
    ///
    /// [`DecoderError::SymbolLength`] if the symbol's length is not the symbol size; the decoder is then unchanged.
    #[inline(always)] // as the call alone would take a tenth of the time of copying a symbol
    pub fn push(&mut self, esi: u32, symbol: &[u8]) -> Result<Pushed, DecoderError> {
        let expected = self.shape.symbol_size();
        if symbol.len() != expected {
            return Err(DecoderError::SymbolLength { got: symbol.len(), expected });
        }
        Ok(if self.is_complete() {
            Pushed::Complete
        } else if (esi as usize) < self.shape.k() {
            self.push_source(esi as usize, symbol)
        } else {
            self.push_repair(esi, symbol)
        })
    }

    /// Number of symbols still needed which are independent of those pushed; 0 when complete. While fewer than K have
    /// come it is a lower bound, as they count as independent; from then on it is exact.
    #[must_use]
    pub fn missing(&self) -> usize {
        if self.is_solving {
            self.tableau.missing()
        } else {
            self.shape.k() - self.known_count - self.repairs.esis.len()
        }
    }

    /// True if the whole block is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known_count == self.shape.k()
    }

    /// Number of bytes known from the block's start on, without a gap.
    #[must_use]
    pub fn available_bytes(&self) -> usize {
        self.shape.source_range(self.prefix).start
    }

    /// The first [`Self::available_bytes`] bytes of the block.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.block[..self.available_bytes()]
    }

    /// Source symbol `i` without padding, if it is known.
    #[must_use]
    pub fn source(&self, i: usize) -> Option<&[u8]> {
        let known = i < self.shape.k() && self.known[i];
        known.then(|| &self.block[self.shape.source_range(i)])
    }

    /// The block, if it is complete.
    #[must_use]
    pub fn into_block(mut self) -> Option<Vec<u8>> {
        self.take_block()
    }

    /// The block, if it is complete; only once. What is left is good for [`restart`](Self::restart), and takes every symbol
    /// as one of a complete block.
    #[must_use]
    pub fn take_block(&mut self) -> Option<Vec<u8>> {
        if !self.is_complete() || self.block.is_empty() {
            return None;
        }
        self.prefix = 0;
        self.known = [false; K_MAX];
        let mut block = mem::take(&mut self.block);
        block.truncate(self.shape.length_bytes());
        Some(block)
    }

    /// Division of the block into symbols.
    #[must_use]
    pub fn shape(&self) -> BlockShape {
        self.shape
    }

    #[inline(always)] // as above
    fn push_source(&mut self, i: usize, symbol: &[u8]) -> Pushed {
        if self.known[i] {
            return Pushed::Duplicate;
        }
        let at = i * symbol.len();
        if at == self.block.len() {
            self.block.extend_from_slice(symbol);
        } else {
            self.write_out_of_order(at, symbol);
        }
        self.set_known(i);
        if self.is_solving || self.is_enough() {
            self.solve_with_source(i);
        }
        Pushed::Useful
    }

    /// A source symbol, at this byte of the block, before which others are missing or after which others have come.
    #[inline(never)] // so that what is inlined, the way of a source symbol that comes in order, stays short
    fn write_out_of_order(&mut self, at: usize, symbol: &[u8]) {
        if at < self.block.len() {
            self.block[at..at + symbol.len()].copy_from_slice(symbol);
        } else {
            self.block.resize(at, 0);
            self.block.extend_from_slice(symbol);
        }
    }

    #[inline(never)] // as above
    fn solve_with_source(&mut self, i: usize) {
        if self.is_solving {
            self.tableau.add_source(i);
            self.solve();
        } else {
            self.start_solving();
        }
    }

    #[inline(never)] // as above
    fn push_repair(&mut self, esi: u32, symbol: &[u8]) -> Pushed {
        if self.repairs.esis.contains(&esi) {
            return Pushed::Duplicate;
        }
        let number = self.repairs.esis.len();
        let room = self.repairs_room(number + self.missing());
        if self.is_solving {
            let mut redundant = false;
            self.tableau.add_repairs(&[esi], number, |_| redundant = true);
            if redundant {
                return Pushed::Redundant;
            }
            self.repairs.push(esi, symbol, room);
            self.solve();
        } else {
            self.repairs.push(esi, symbol, room);
            if self.is_enough() {
                self.start_solving();
                if !self.is_complete() && !self.repairs.esis.contains(&esi) {
                    return Pushed::Redundant;
                }
            }
        }
        Pushed::Useful
    }

    fn set_known(&mut self, i: usize) {
        self.known[i] = true;
        self.known_count += 1;
        while self.prefix < self.shape.k() && self.known[self.prefix] {
            self.prefix += 1;
        }
    }

    /// True if K symbols have come, and source symbols are still missing.
    fn is_enough(&self) -> bool {
        !self.is_complete() && self.known_count + self.repairs.esis.len() >= self.shape.k()
    }

    /// The number of repair symbols that room is made for when `count` are needed.
    fn repairs_room(&self, count: usize) -> usize {
        count.next_power_of_two().max(REPAIRS_ROOM_MIN).min(self.shape.k())
    }

    /// With the K-th symbol, finds out which stored repair symbols are independent, and solves.
    fn start_solving(&mut self) {
        let k = self.shape.k();
        let room = self.repairs_room(k - self.known_count);
        self.tableau.begin(&self.known[..k], room);
        let mut redundant = [false; K_MAX];
        self.tableau.add_repairs(&self.repairs.esis, 0, |number| redundant[number] = true);
        for number in (0..self.repairs.esis.len()).rev().filter(|number| redundant[*number]) {
            self.repairs.remove(number, self.shape.symbol_size());
        }
        self.is_solving = true;
        self.solve();
    }

    fn solve(&mut self) {
        if self.shape.k() <= K_FEW {
            self.solve_of::<K_FEW>();
        } else {
            self.solve_of::<K_MAX>();
        }
    }

    /// Writes all source symbols which are determined but not known yet, in one pass over those which determine them. For
    /// blocks of at most `K` source symbols.
    #[inline(never)] // so that its stack is touched only when a block is solved
    fn solve_of<const K: usize>(&mut self) {
        let symbol_size = self.shape.symbol_size();
        self.block.resize(self.shape.padded_bytes(), 0);
        // Columns which stand for nothing known have factors of zero only, so that any symbol does in their place.
        let any = self.repairs.bytes.get(..symbol_size).unwrap_or_default();
        let mut sources = [any; K];
        for (column, number) in self.tableau.repair_columns() {
            sources[column] = &self.repairs.bytes[number * symbol_size..][..symbol_size];
        }
        let (mut targets, mut rows) = ([0; K], [&[][..]; K]);
        let mut outputs: [&mut [u8]; K] = core::array::from_fn(|_| Default::default());
        let mut count = 0;
        for (i, symbol) in self.block.chunks_exact_mut(symbol_size).enumerate() {
            if self.known[i] {
                if let Some(column) = self.tableau.column_of(i) {
                    sources[column] = symbol;
                }
            } else if let Some(row) = self.tableau.determining_row(i) {
                (targets[count], rows[count], outputs[count]) = (i, row, symbol);
                count += 1;
            }
        }
        self.kernel.dot(&sources[..self.shape.k()], &rows[..count], &mut outputs[..count]);
        targets[..count].iter().for_each(|i| self.set_known(*i));
        if self.is_complete() {
            self.repairs.clear();
            self.is_solving = false;
        }
    }
}

impl Repairs {
    /// `room` symbols, this one and those before it included, are the most that can come.
    fn push(&mut self, esi: u32, symbol: &[u8], room: usize) {
        self.esis.reserve_exact(room.saturating_sub(self.esis.len()));
        self.bytes.reserve_exact((room * symbol.len()).saturating_sub(self.bytes.len()));
        self.esis.push(esi);
        self.bytes.extend_from_slice(symbol);
    }

    fn remove(&mut self, number: usize, symbol_size: usize) {
        self.esis.remove(number);
        self.bytes.drain(number * symbol_size..(number + 1) * symbol_size);
    }

    fn clear(&mut self) {
        self.esis.clear();
        self.bytes.clear();
    }

    /// Forgets them, and keeps no more memory than a block of this shape may need.
    fn shrink_to(&mut self, shape: BlockShape) {
        self.clear();
        self.esis.shrink_to(shape.k());
        self.bytes.shrink_to(shape.padded_bytes());
    }

    /// Bytes which are allocated.
    const fn memory_bytes(&self) -> usize {
        self.esis.capacity() * size_of::<u32>() + self.bytes.capacity()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("kernel", &self.kernel)
            .field("shape", &self.shape)
            .field("known", &self.known_count)
            .field("stored", &self.repairs.esis.len())
            .field("missing", &self.missing())
            .finish_non_exhaustive()
    }
}
