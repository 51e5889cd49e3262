//! Slot of a received block, and the memory that blocks cost.

use dfcp_fountain::random_linear::BlockShape;

use crate::codec::BlockDecoder;
use crate::config::Config;
use crate::limits;
use crate::proof::{self, Layout};
use crate::stream::send::shared::block_cost;

/// Memory of an equation, bytes, besides its coefficients.
const EQUATION_BYTES: usize = 64;
/// Fixed memory of a decoder, without its symbols, bytes.
const DECODER_BYTES: usize = 1_024;
/// Allocator overhead per allocation, bytes.
const ALLOCATION_BYTES: usize = 32;
/// Slots that are paid for when a stream is opened.
pub(crate) const SLOTS_MIN: usize = 2;

#[derive(Debug)]
pub(super) enum Slot {
    Empty,
    Open(Box<dyn BlockDecoder>, Layout),
    Complete { rows: Vec<u8>, layout: Layout, proof: u32 },
}

impl Slot {
    /// Returns the bytes of the block in flow control.
    pub(super) fn counted_bytes(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Open(_, layout) | Self::Complete { layout, .. } => counted_bytes(layout.data()),
        }
    }

    /// Returns the bytes that the block costs when it is charged to the reservation.
    pub(super) fn paid_bytes(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Open(_, layout) => open_bytes(layout.data().k(), layout.symbol_size()),
            Self::Complete { layout, .. } => complete_bytes(*layout),
        }
    }
}

/// Returns the charge for a block in flow control, bytes, from its first symbol until it is read.
pub(super) fn counted_bytes(shape: BlockShape) -> u64 {
    block_cost(shape.length_bytes() as u64)
}

/// Returns the largest memory of an open block, bytes: its rows, as many repair symbols again, the equations between
/// them, and the decoder.
pub(crate) fn open_bytes(k: usize, symbol_size: usize) -> u64 {
    (2 * k * symbol_size + k * (k.next_multiple_of(32) + EQUATION_BYTES) + DECODER_BYTES) as u64
}

/// Returns the memory of a decoded block, bytes: its rows, padding included.
pub(super) fn complete_bytes(layout: Layout) -> u64 {
    symbols_bytes(layout.data().k(), layout.symbol_size())
}

fn symbols_bytes(k: usize, symbol_size: usize) -> u64 {
    (k * symbol_size + ALLOCATION_BYTES) as u64
}

/// Returns the memory of a block of one symbol, bytes. No decoder is needed: any symbol is the block times a nonzero
/// factor.
pub(crate) fn one_symbol_bytes(symbol_size: usize) -> u64 {
    symbols_bytes(1, symbol_size + proof::SECRET_BYTES)
}

/// Returns the reserve of a connection, bytes: memory for any one block, and stream 0's own place.
pub(crate) fn reserve_bytes(config: &Config) -> u64 {
    let symbol_size = usize::from(config.symbol_size);
    open_bytes(limits::SYMBOLS_PER_BLOCK_MAX, symbol_size + proof::SECRET_BYTES) + one_symbol_bytes(symbol_size)
}
