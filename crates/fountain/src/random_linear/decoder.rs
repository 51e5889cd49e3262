//! From encoding symbols, in any order, to the block.
//!
//! While fewer symbols than K have come, source symbols go straight to their place and repair symbols are stored as
//! they are: this costs a copy. With the K-th symbol the coefficients of the missing source symbols are inverted,
//! and each missing one is written by a single pass over K symbols, which is the least a dense code needs. In the rare
//! case that the symbols are dependent, what is stored shrinks to an independent set, and further symbols are
//! checked one by one.

use alloc::{vec, vec::Vec};
use core::fmt;

use super::{BlockShape, K_MAX, basis::Basis, coefficients::write_repair_coefficients};
use crate::kernel::Kernel;

/// Rebuilds one block. Holds at most 2·K symbols.
pub struct Decoder {
    kernel: Kernel,
    shape: BlockShape,
    /// Source symbols from the first on, up to the last one which is known; zeros where one is missing.
    block: Vec<u8>,
    known: [bool; K_MAX],
    known_count: usize,
    /// How many source symbols from the first on are known without a gap.
    prefix: usize,
    repairs: Repairs,
    /// Only while K symbols have come but are dependent.
    basis: Option<Basis>,
}

/// What became of a symbol that was pushed.
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

/// Why a symbol was refused.
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
        Self {
            kernel,
            shape,
            block: Vec::with_capacity(shape.padded_bytes()),
            known: [false; K_MAX],
            known_count: 0,
            prefix: 0,
            repairs: Repairs::default(),
            basis: None,
        }
    }

    /// Takes encoding symbol `esi`, padding included. Symbols may come in any order and any number of times.
    ///
    /// # Errors
    ///
    /// When the symbol's length is not the symbol size; the decoder is then unchanged.
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

    /// How many more symbols are needed which are independent of those pushed; 0 when complete. While fewer than K have
    /// come it is a lower bound, as they count as independent; from then on it is exact.
    #[must_use]
    pub fn missing(&self) -> usize {
        match &self.basis {
            Some(basis) => basis.missing(),
            None => self.shape.k() - self.known_count - self.repairs.esis.len(),
        }
    }

    /// Whether the whole block is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.known_count == self.shape.k()
    }

    /// How many bytes are known from the block's start on, without a gap.
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
        if !self.is_complete() {
            return None;
        }
        self.block.truncate(self.shape.length_bytes());
        Some(self.block)
    }

    /// How the block is cut into symbols.
    #[must_use]
    pub fn shape(&self) -> BlockShape {
        self.shape
    }

    fn push_source(&mut self, i: usize, symbol: &[u8]) -> Pushed {
        if self.known[i] {
            return Pushed::Duplicate;
        }
        let at = i * symbol.len();
        if at < self.block.len() {
            self.block[at..at + symbol.len()].copy_from_slice(symbol);
        } else {
            self.block.resize(at, 0);
            self.block.extend_from_slice(symbol);
        }
        self.set_known(i);
        if let Some(basis) = &mut self.basis {
            basis.add_source(i);
            self.solve();
        } else {
            self.start_solving();
        }
        Pushed::Useful
    }

    fn push_repair(&mut self, esi: u32, symbol: &[u8]) -> Pushed {
        if self.repairs.esis.contains(&esi) {
            return Pushed::Duplicate;
        }
        let (k, number, missing) = (self.shape.k(), self.repairs.esis.len(), self.missing());
        if let Some(basis) = &mut self.basis {
            if !basis.add_repair(&repair_coefficients(esi, k)[..k], number) {
                return Pushed::Redundant;
            }
            self.repairs.push(esi, symbol, missing);
            self.solve();
        } else {
            self.repairs.push(esi, symbol, missing);
            self.start_solving();
            if !self.is_complete() && !self.repairs.esis.contains(&esi) {
                return Pushed::Redundant;
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

    /// With the K-th symbol, finds out which stored repair symbols are independent, and solves.
    fn start_solving(&mut self) {
        if self.is_complete() || self.known_count + self.repairs.esis.len() < self.shape.k() {
            return;
        }
        let unknowns = (0..self.shape.k()).filter(|i| !self.known[*i]).collect();
        let k = self.shape.k();
        let mut basis = Basis::new(self.kernel, unknowns);
        let mut number = 0;
        while let Some(esi) = self.repairs.esis.get(number) {
            if basis.add_repair(&repair_coefficients(*esi, k)[..k], number) {
                number += 1;
            } else {
                self.repairs.remove(number, self.shape.symbol_size());
            }
        }
        self.basis = Some(basis);
        self.solve();
    }

    /// Writes all source symbols which are determined but not known yet.
    fn solve(&mut self) {
        let Some(basis) = self.basis.take() else { return };
        let mut determined: Vec<_> = basis.determined().filter(|(i, _)| !self.known[*i]).collect();
        determined.sort_unstable_by_key(|(i, _)| *i);
        let (targets, shares): (Vec<_>, Vec<_>) = determined.into_iter().unzip();
        if !targets.is_empty() {
            let repair_count = self.repairs.esis.len();
            let shares: Vec<_> = shares.into_iter().map(|shares| &shares[..repair_count]).collect();
            let weights = self.source_weights(&shares);
            self.write_sources(&targets, &shares, &weights);
            for i in targets {
                self.set_known(i);
            }
        }
        if self.is_complete() {
            self.repairs = Repairs::default();
        } else {
            self.basis = Some(basis);
        }
    }

    /// What each source symbol contributes to each target: the stored repair symbols' coefficients, weighted by their
    /// shares in the target. [`weights_stride`] bytes for each target.
    fn source_weights(&self, shares: &[&[u8]]) -> Vec<u8> {
        let stride = weights_stride(self.shape.k());
        let mut coefficients = vec![0; self.repairs.esis.len() * stride];
        for (esi, row) in self.repairs.esis.iter().zip(coefficients.chunks_exact_mut(stride)) {
            write_repair_coefficients(*esi, row);
        }
        let mut weights = vec![0; shares.len() * stride];
        let coefficients: Vec<_> = coefficients.chunks_exact(stride).collect();
        self.kernel.dot(&coefficients, shares, &mut weights.chunks_exact_mut(stride).collect::<Vec<_>>());
        weights
    }

    /// Writes each target: its shares of the repair symbols and its weights of the known source symbols, in one pass.
    fn write_sources(&mut self, targets: &[usize], shares: &[&[u8]], weights: &[u8]) {
        let (k, symbol_size) = (self.shape.k(), self.shape.symbol_size());
        self.block.resize(self.shape.padded_bytes(), 0);
        let mut sources: Vec<&[u8]> = Vec::with_capacity(k);
        sources.extend(self.repairs.bytes.chunks_exact(symbol_size));
        let mut known: Vec<usize> = Vec::with_capacity(self.known_count);
        let mut outputs: Vec<&mut [u8]> = Vec::with_capacity(targets.len());
        for (i, symbol) in self.block.chunks_exact_mut(symbol_size).enumerate() {
            if self.known[i] {
                known.push(i);
                sources.push(symbol);
            } else if targets.binary_search(&i).is_ok() {
                outputs.push(symbol);
            }
        }
        let mut rows = Vec::with_capacity(targets.len() * sources.len());
        for (shares, weights) in shares.iter().zip(weights.chunks_exact(weights_stride(k))) {
            rows.extend_from_slice(shares);
            rows.extend(known.iter().map(|i| weights[*i]));
        }
        let rows: Vec<_> = rows.chunks_exact(sources.len()).collect();
        self.kernel.dot(&sources, &rows, &mut outputs);
    }
}

/// Bytes from one row of weights to the next: padded so that kernels need no tail.
const fn weights_stride(k: usize) -> usize {
    k.next_multiple_of(32)
}

impl Repairs {
    /// At most `missing` symbols, this one included, can still come.
    fn push(&mut self, esi: u32, symbol: &[u8], missing: usize) {
        self.bytes.reserve_exact(missing * symbol.len());
        self.esis.push(esi);
        self.bytes.extend_from_slice(symbol);
    }

    fn remove(&mut self, number: usize, symbol_size: usize) {
        self.esis.remove(number);
        self.bytes.drain(number * symbol_size..(number + 1) * symbol_size);
    }
}

fn repair_coefficients(esi: u32, k: usize) -> [u8; K_MAX] {
    let mut coefficients = [0; K_MAX];
    write_repair_coefficients(esi, &mut coefficients[..k]);
    coefficients
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
