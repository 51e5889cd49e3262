//! Encoder: makes the encoding symbols of a block.

use alloc::vec::Vec;
use core::fmt;

use super::{BlockShape, K_MAX, coefficients::write_repair_coefficients};
use crate::kernel::Kernel;

/// Number of repair symbols passed to the kernel together by [`Encoder::write_repairs`]: a multiple of its largest group.
const BATCH: usize = 24;
/// Number of repair symbols up to which a smaller buffer is used, which takes less time to initialise.
const BATCH_FEW: usize = 6;
/// Number of source symbols up to which the smaller buffer is used.
const K_FEW: usize = 64;

/// Encoder of one block, owned or borrowed.
///
/// Source symbols are not copied, except the one that needs padding, if any.
pub struct Encoder<B> {
    kernel: Kernel,
    shape: BlockShape,
    block: B,
    /// Source symbol that is part data, part padding; empty if there is no such symbol.
    padded: Vec<u8>,
}

/// Reason why an encoder could not be made, or a symbol could not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// The block's length differs from the shape's.
    #[error("the block has {got} bytes, but its shape says {expected}")]
    BlockLength {
        /// Bytes in the block.
        got: usize,
        /// Length of the block according to the shape, bytes.
        expected: usize,
    },
    /// The output is not exactly one symbol, or, for several repair symbols, not a whole number of symbols.
    #[error("the room for symbols has {got} bytes, which does not fit symbols of {symbol_size} bytes")]
    OutputLength {
        /// Bytes of the output.
        got: usize,
        /// Bytes in a symbol.
        symbol_size: usize,
    },
    /// Some of the ids do not belong to repair symbols.
    #[error("{count} symbols from id {first_esi} are not all repair symbols, whose ids are {k} to 4294967295")]
    NotRepair {
        /// First id.
        first_esi: u32,
        /// Number of requested symbols.
        count: usize,
        /// Number of source symbols, and the first repair symbol's id.
        k: usize,
    },
}

impl<B: AsRef<[u8]>> Encoder<B> {
    /// Makes an encoder of `block`, whose length is `shape.length_bytes()`.
    ///
    /// # Errors
    ///
    /// Fails with [`EncoderError::BlockLength`] if the block has another length.
    pub fn new(kernel: Kernel, shape: BlockShape, block: B) -> Result<Self, EncoderError> {
        let bytes = block.as_ref();
        if bytes.len() != shape.length_bytes() {
            return Err(EncoderError::BlockLength { got: bytes.len(), expected: shape.length_bytes() });
        }
        let mut padded = bytes.chunks_exact(shape.symbol_size()).remainder().to_vec();
        if !padded.is_empty() {
            padded.resize(shape.symbol_size(), 0);
        }
        Ok(Self { kernel, shape, block, padded })
    }

    /// Returns the block of the encoder.
    pub fn into_block(self) -> B {
        self.block
    }

    /// Returns the division of the block into symbols.
    pub fn shape(&self) -> BlockShape {
        self.shape
    }

    /// Writes encoding symbol `esi` to `out`, whose length is the symbol size. Allocates nothing.
    ///
    /// For several repair symbols [`Self::write_repairs`] takes up to 40 % less time.
    ///
    /// # Errors
    ///
    /// Fails with [`EncoderError::OutputLength`] if `out` has another length.
    pub fn write_symbol(&self, esi: u32, out: &mut [u8]) -> Result<(), EncoderError> {
        let symbol_size = self.shape.symbol_size();
        if out.len() != symbol_size {
            return Err(EncoderError::OutputLength { got: out.len(), symbol_size });
        }
        if (esi as usize) < self.shape.k() {
            let source = self.block.as_ref().get(self.shape.source_range(esi as usize)).unwrap_or_default();
            let (data, padding) = out.split_at_mut(source.len());
            data.copy_from_slice(source);
            if !padding.is_empty() {
                padding.fill(0);
            }
        } else {
            self.write_batch::<1>(esi, out);
        }
        Ok(())
    }

    /// Writes consecutive repair symbols, from `first_esi` on, to `out`. The length of `out`, a multiple of the symbol
    /// size, determines their number. Allocates nothing.
    ///
    /// # Errors
    ///
    /// Fails with [`EncoderError::OutputLength`] if `out` is not a whole number of symbols, and with
    /// [`EncoderError::NotRepair`] if an id does not belong to a repair symbol.
    pub fn write_repairs(&self, first_esi: u32, out: &mut [u8]) -> Result<(), EncoderError> {
        let (symbol_size, k) = (self.shape.symbol_size(), self.shape.k());
        if !out.len().is_multiple_of(symbol_size) {
            return Err(EncoderError::OutputLength { got: out.len(), symbol_size });
        }
        let count = out.len() / symbol_size;
        if (first_esi as usize) < k || count as u64 > (1 << 32) - u64::from(first_esi) {
            return Err(EncoderError::NotRepair { first_esi, count, k });
        }
        for (esi, batch) in (first_esi..=u32::MAX).step_by(BATCH).zip(out.chunks_mut(BATCH * symbol_size)) {
            if batch.len() <= BATCH_FEW * symbol_size {
                self.write_batch::<BATCH_FEW>(esi, batch);
            } else {
                self.write_batch::<BATCH>(esi, batch);
            }
        }
        Ok(())
    }

    /// Writes at most `N` consecutive repair symbols.
    ///
    /// Never inlined, so that copying a source symbol does not reserve this function's stack space.
    #[inline(never)]
    fn write_batch<const N: usize>(&self, first_esi: u32, out: &mut [u8]) {
        // For two repair symbols of few sources, initialising the large buffer would take 10 % of the time.
        if self.shape.k() <= K_FEW {
            self.write_batch_of::<N, K_FEW>(first_esi, out);
        } else {
            self.write_batch_of::<N, K_MAX>(first_esi, out);
        }
    }

    /// Writes at most `N` consecutive repair symbols of at most `K` source symbols.
    fn write_batch_of<const N: usize, const K: usize>(&self, first_esi: u32, out: &mut [u8]) {
        let symbol_size = self.shape.symbol_size();
        let mut sources = [&[][..]; K];
        let whole = self.block.as_ref().chunks_exact(symbol_size);
        // Source symbols that consist of padding add nothing, so they are left out.
        let padded = Some(self.padded.as_slice()).filter(|padded| !padded.is_empty());
        let mut source_count = 0;
        for (slot, source) in sources.iter_mut().zip(whole.chain(padded)) {
            *slot = source;
            source_count += 1;
        }
        let sources = &sources[..source_count];

        let mut coefficients = [[0; K]; N];
        let mut rows = [&[][..]; N];
        let mut outputs: [&mut [u8]; N] = core::array::from_fn(|_| Default::default());
        let mut output_count = 0;
        for (((esi, out), coefficients), (row, output)) in (first_esi..=u32::MAX)
            .zip(out.chunks_exact_mut(symbol_size))
            .zip(&mut coefficients)
            .zip(rows.iter_mut().zip(&mut outputs))
        {
            write_repair_coefficients(esi, &mut coefficients[..source_count]);
            *row = &coefficients[..source_count];
            *output = out;
            output_count += 1;
        }
        self.kernel.dot(sources, &rows[..output_count], &mut outputs[..output_count]);
    }
}

impl<B> fmt::Debug for Encoder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("kernel", &self.kernel).field("shape", &self.shape).finish_non_exhaustive()
    }
}
