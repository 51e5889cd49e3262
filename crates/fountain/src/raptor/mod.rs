//! Classic code: the Raptor code of the thesis (§3.7, §3.10), one byte per symbol.
//!
//! A block of [`SOURCE_BYTES`] bytes is extended by [`CHECK_BYTES`] parity bytes of an LDPC precode to
//! [`INTERMEDIATE_BYTES`] intermediate symbols. An LT code then makes any number of encoding symbols from them,
//! [`SEGMENT_BYTES`] per segment. The state of a small random number generator ([`Taus88`]) determines the bytes that a
//! symbol combines. Each segment's header carries this state (S1, S2, S3), so both endpoints draw the same
//! [`SegmentGraph`]. The receiver peels: an equation with one unknown determines this unknown, and so on until all
//! source bytes are known.
//!
//! Details that the thesis leaves open are specified in `spec/fountain-code-classic.md`, with golden vectors.
//!
//! ```
//! use dfcp_fountain::raptor::{Decoder, Encoder, GraphCache, State, StatePool};
//!
//! let initial = State::new(11, 22, 33).ok_or("an invalid state")?;
//! let pool = StatePool::new(initial);
//! let mut graphs = GraphCache::new(64);
//! let encoder = Encoder::new(initial, 0, b"hello")?;
//! let mut decoder = Decoder::new(initial, 0);
//! let mut segment = [0; 1420];
//! for index in 0.. {
//!     let graph = graphs.get(pool.state(index, 0));
//!     encoder.write_segment(&graph, &mut segment)?;
//!     decoder.push(graph, &segment)?;
//!     if decoder.received_bytes() >= dfcp_fountain::raptor::REDUNDANCY_DEFAULT_BYTES && decoder.decode() {
//!         break;
//!     }
//! }
//! let block = decoder.into_source().ok_or("not complete")?;
//! assert_eq!(&block[..5], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod decoder;
mod degree;
mod derived;
mod encoder;
mod graph;
mod group;
mod lanes;
mod peel;
mod pool;
mod precode;
mod state;
mod switches;
mod taus88;

#[cfg(test)]
mod tests;

pub use cache::GraphCache;
pub use decoder::{Decoder, SEGMENTS_MAX};
pub use degree::{DEGREES, OMEGA};
pub use encoder::Encoder;
pub use graph::SegmentGraph;
pub use group::{EncoderGroup, GROUP_BLOCKS_MAX};
pub use pool::{POOL_STATES, StatePool};
pub use precode::CHECKS_PER_SOURCE_BYTE;
pub use state::State;
pub use switches::{CountingDecoder, OfflineEncoder};
pub use taus88::Taus88;

/// Source bytes of a block, k (thesis §3.7.2). A shorter last block is padded with zeros.
pub const SOURCE_BYTES: usize = 63_536;
/// Parity bytes appended by the LDPC precode, n − k (thesis §3.7.2).
pub const CHECK_BYTES: usize = 2_000;
/// Input bytes of the LT code, n (thesis §3.7.3).
pub const INTERMEDIATE_BYTES: usize = SOURCE_BYTES + CHECK_BYTES;
/// Encoding symbols, of one byte each, in a segment (thesis §3.8.2).
pub const SEGMENT_BYTES: usize = 1_420;
/// Default of the thesis's *redundancy* parameter (§3.12.1): number of encoded bytes of a block before the first
/// attempt to decode it. The value is 1.05 · [`SOURCE_BYTES`], for the thesis's ε = 5 %, rounded up to whole segments.
pub const REDUNDANCY_DEFAULT_BYTES: usize = (SOURCE_BYTES * 105).div_ceil(100).div_ceil(SEGMENT_BYTES) * SEGMENT_BYTES;

/// Reason why a call of the classic code was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source is longer than a block.
    #[error("a classic block holds {SOURCE_BYTES} source bytes, not {given_bytes}")]
    SourceTooLong {
        /// Bytes given.
        given_bytes: usize,
    },
    /// A segment's payload has the wrong length.
    #[error("a classic segment has {SEGMENT_BYTES} encoded bytes, not {given_bytes}")]
    SegmentLength {
        /// Bytes given.
        given_bytes: usize,
    },
    /// The block does not decode with [`SEGMENTS_MAX`] segments: the peer does not use this code.
    #[error("the block did not decode from {SEGMENTS_MAX} segments")]
    TooManySegments,
    /// An offline encoder cannot record this number of segments (none, or more than a block's distinct ones).
    #[error("offline encoding records between 1 and {POOL_STATES} segments, not {given}")]
    OfflineSegments {
        /// Number of segments.
        given: usize,
    },
    /// A group of encoders has no blocks, or too many.
    #[error("an encoder group has between 1 and {GROUP_BLOCKS_MAX} blocks, not {given}")]
    GroupBlocks {
        /// Number of blocks.
        given: usize,
    },
    /// The output for a group's segments has the wrong length.
    #[error("the segments of {blocks} blocks do not fit {given_bytes} bytes exactly")]
    GroupLength {
        /// Number of blocks in the group.
        blocks: usize,
        /// Bytes given.
        given_bytes: usize,
    },
}
