//! Decoder: rebuilds a block from encoding symbols in any order.
//!
//! While fewer than K symbols have arrived, source symbols are copied to their place and repair symbols are stored
//! unchanged: the cost is a copy. With the K-th symbol, the equations are solved for the missing source symbols, in
//! coefficients only. Then each missing source symbol is written in a single pass over K symbols, the minimum for a
//! dense code. In the rare case of dependent symbols, the stored ones are reduced to an independent set, and further
//! symbols are checked one by one.

use alloc::vec::Vec;
use core::{fmt, mem};

use super::{BlockShape, K_MAX, tableau::Tableau};
use crate::kernel::Kernel;

/// Minimum number of repair symbols for which space is reserved; more is reserved in powers of two. The number needed
/// varies from block to block, and a reused decoder has space for all but the rarest cases.
const REPAIRS_ROOM_MIN: usize = 8;

/// Number of source symbols up to which a block is solved with a smaller buffer, which takes less time to initialise.
const K_FEW: usize = 64;

/// Decoder of a block, and of further blocks after [`restart`](Self::restart). Holds at most 2·K symbols.
pub struct Decoder {
    kernel: Kernel,
    shape: BlockShape,
    /// Source symbols from the first to the last known one; missing ones are zero.
    block: Vec<u8>,
    known: [bool; K_MAX],
    known_count: usize,
    /// Number of source symbols known from the start without a gap.
    prefix: usize,
    repairs: Repairs,
    tableau: Tableau,
    /// True while the tableau has equations: K symbols have arrived, but are dependent.
    is_solving: bool,
}

/// Result of pushing a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// The symbol was new and has been kept. Dependence is detected only with K symbols, so the symbol may be discarded
    /// later; [`Decoder::missing`] then stays the same or grows.
    Useful,
    /// A symbol with this id is stored already, or the source symbol is known.
    Duplicate,
    /// The symbol is a combination of earlier ones, and was dropped.
    Redundant,
    /// The block was complete already.
    Complete,
}

/// Reason why a symbol was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// The symbol does not have the block's symbol size.
    #[error("the symbol has {got} bytes, but the symbols of this block have {expected}")]
    SymbolLength {
        /// Bytes in the symbol.
        got: usize,
        /// Bytes in each symbol of the block.
        expected: usize,
    },
}

/// Repair symbols in the order of arrival.
#[derive(Default)]
struct Repairs {
    esis: Vec<u32>,
    bytes: Vec<u8>,
}

impl Decoder {
    /// Makes a decoder without symbols. Memory is allocated for the block now, and for repair symbols when they arrive.
    #[must_use]
    pub fn new(kernel: Kernel, shape: BlockShape) -> Self {
        Self::with_memory(kernel, shape, Vec::with_capacity(shape.padded_bytes()))
    }

    /// Like [`new`](Self::new), but builds the block in `memory`, whose contents are discarded. `memory` grows if its
    /// capacity is below [`BlockShape::padded_bytes`].
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

    /// Discards the state, and starts another block in `memory` like [`with_memory`](Self::with_memory). Reuses memory
    /// for repair symbols, but frees any memory beyond the maximum of a new decoder of such a block.
    pub fn restart(&mut self, shape: BlockShape, mut memory: Vec<u8>) {
        memory.clear();
        memory.reserve_exact(shape.padded_bytes());
        (self.shape, self.block) = (shape, memory);
        self.known = [false; K_MAX];
        (self.known_count, self.prefix, self.is_solving) = (0, 0, false);
        self.repairs.shrink_to(shape);
        self.tableau.shrink_to(shape.k());
    }

    /// Returns the bytes allocated for repair symbols and equations, which [`restart`](Self::restart) would reuse.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.repairs.memory_bytes() + self.tableau.memory_bytes()
    }

    /// Adds encoding symbol `esi`, including padding. Symbols may arrive in any order and any number of times.
    ///
    /// # Errors
    ///
    /// Fails with [`DecoderError::SymbolLength`] if the symbol's length is not the symbol size; the decoder is unchanged.
    #[inline(always)] // the call alone would take 10 % of the time of copying a symbol
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

    /// Returns the number of further independent symbols needed; 0 when complete. With fewer than K symbols it is a
    /// lower bound, since all symbols count as independent; from the K-th symbol on it is exact.
    #[must_use]
    pub fn missing(&self) -> usize {
        if self.is_solving {
            self.tableau.missing()
        } else {
            self.shape.k() - self.known_count - self.repairs.esis.len()
        }
    }

    /// Returns true if the whole block is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known_count == self.shape.k()
    }

    /// Returns the number of bytes known from the start of the block, without a gap.
    #[must_use]
    pub fn available_bytes(&self) -> usize {
        self.shape.source_range(self.prefix).start
    }

    /// Returns the first [`Self::available_bytes`] bytes of the block.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.block[..self.available_bytes()]
    }

    /// Returns source symbol `i` without padding, if it is known.
    #[must_use]
    pub fn source(&self, i: usize) -> Option<&[u8]> {
        let known = i < self.shape.k() && self.known[i];
        known.then(|| &self.block[self.shape.source_range(i)])
    }

    /// Returns the block, if it is complete.
    #[must_use]
    pub fn into_block(mut self) -> Option<Vec<u8>> {
        self.take_block()
    }

    /// Takes the block, if it is complete and was not taken before. The decoder then accepts
    /// [`restart`](Self::restart), and still reports further symbols of this block as [`Pushed::Complete`].
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

    /// Returns the division of the block into symbols.
    #[must_use]
    pub fn shape(&self) -> BlockShape {
        self.shape
    }

    #[inline(always)] // as for `push`
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

    /// Writes a source symbol to this byte offset of the block: into an earlier gap, or after the known symbols, which
    /// leaves a new gap.
    #[inline(never)] // so that the inlined code, for a source symbol in order, stays short
    fn write_out_of_order(&mut self, at: usize, symbol: &[u8]) {
        if at < self.block.len() {
            self.block[at..at + symbol.len()].copy_from_slice(symbol);
        } else {
            self.block.resize(at, 0);
            self.block.extend_from_slice(symbol);
        }
    }

    #[inline(never)] // as for `write_out_of_order`
    fn solve_with_source(&mut self, i: usize) {
        if self.is_solving {
            self.tableau.add_source(i);
            self.solve();
        } else {
            self.start_solving();
        }
    }

    #[inline(never)] // as for `write_out_of_order`
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

    /// Returns true if K symbols have arrived, and source symbols are still missing.
    fn is_enough(&self) -> bool {
        !self.is_complete() && self.known_count + self.repairs.esis.len() >= self.shape.k()
    }

    /// Returns the number of repair symbols to allocate space for when `count` are needed.
    fn repairs_room(&self, count: usize) -> usize {
        count.next_power_of_two().max(REPAIRS_ROOM_MIN).min(self.shape.k())
    }

    /// Finds the independent repair symbols after the K-th symbol, and solves the equations.
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

    /// Writes all source symbols that are determined but not known yet, in one pass over the symbols that determine
    /// them. Requires at most `K` source symbols.
    #[inline(never)] // so that its large stack frame is used only when a block is solved
    fn solve_of<const K: usize>(&mut self) {
        let symbol_size = self.shape.symbol_size();
        self.block.resize(self.shape.padded_bytes(), 0);
        // Columns of unknown symbols have only zero factors, so any symbol can take their place.
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
    /// Adds a repair symbol; reserves space for `room` symbols, including earlier ones.
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

    /// Discards the symbols, and keeps no more memory than a block of this shape may need.
    fn shrink_to(&mut self, shape: BlockShape) {
        self.clear();
        self.esis.shrink_to(shape.k());
        self.bytes.shrink_to(shape.padded_bytes());
    }

    /// Returns the number of bytes allocated.
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
