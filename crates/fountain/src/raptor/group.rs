//! Encoder of several blocks with the same graph at once.

use super::encoder::Encoder;
use super::graph::SegmentGraph;
use super::{Error, INTERMEDIATE_BYTES, SEGMENT_BYTES};
use alloc::vec;
use alloc::vec::Vec;

/// Maximum number of blocks of an [`EncoderGroup`].
pub const GROUP_BLOCKS_MAX: usize = 32;

/// Number of rows transposed at a time: few enough to stay in the first-level cache.
const TILE_ROWS: usize = 256;

/// Byte i of every block of the group, side by side, so that one lookup and one vector addition serve all blocks.
type Row = [u8; GROUP_BLOCKS_MAX];

/// Group of up to 32 blocks whose segments are written together, several times faster than block by block. Takes 2 MiB.
///
/// The pool of states lets 32 consecutive blocks, from a multiple of 32 on, share the graph of their nth segments.
#[derive(Debug)]
pub struct EncoderGroup {
    blocks: usize,
    rows: Vec<Row>,
    /// Symbols of the segment being written.
    written: Vec<Row>,
}

impl EncoderGroup {
    /// Makes a group of these blocks.
    ///
    /// # Errors
    /// Fails with [`Error::GroupBlocks`] unless there are 1 ..= [`GROUP_BLOCKS_MAX`] encoders.
    pub fn new(encoders: &[Encoder]) -> Result<Self, Error> {
        let blocks = encoders.len();
        if blocks == 0 || blocks > GROUP_BLOCKS_MAX {
            return Err(Error::GroupBlocks { given: blocks });
        }
        let mut rows = vec![[0; GROUP_BLOCKS_MAX]; INTERMEDIATE_BYTES];
        for (tile, rows) in rows.chunks_mut(TILE_ROWS).enumerate() {
            for (lane, encoder) in encoders.iter().enumerate() {
                let bytes = &encoder.intermediate()[tile * TILE_ROWS..];
                rows.iter_mut().zip(bytes).for_each(|(row, &byte)| row[lane] = byte);
            }
        }
        Ok(Self { blocks, rows, written: vec![[0; GROUP_BLOCKS_MAX]; SEGMENT_BYTES] })
    }

    /// Returns the number of blocks in the group.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Writes every block's segment with this graph to `out`: [`SEGMENT_BYTES`] per block, in the order of blocks in
    /// [`EncoderGroup::new`].
    ///
    /// # Errors
    /// Fails with [`Error::GroupLength`] unless `out` has exactly that length.
    pub fn write_segments(&mut self, graph: &SegmentGraph, out: &mut [u8]) -> Result<(), Error> {
        if out.len() != self.blocks * SEGMENT_BYTES || graph.symbols() != SEGMENT_BYTES {
            return Err(Error::GroupLength { blocks: self.blocks, given_bytes: out.len() });
        }
        for class in graph.classes() {
            for (&position, neighbours) in class.positions.iter().zip(class.neighbours.chunks_exact(class.degree)) {
                let mut sum = [0; GROUP_BLOCKS_MAX];
                for &index in neighbours {
                    let row = &self.rows[usize::from(index)];
                    sum.iter_mut().zip(row).for_each(|(sum, byte)| *sum ^= byte);
                }
                self.written[usize::from(position)] = sum;
            }
        }
        for (tile, rows) in self.written.chunks(TILE_ROWS).enumerate() {
            for (lane, out) in out.chunks_exact_mut(SEGMENT_BYTES).enumerate() {
                let out = &mut out[tile * TILE_ROWS..];
                out.iter_mut().zip(rows).for_each(|(out, row)| *out = row[lane]);
            }
        }
        Ok(())
    }
}
