//! The thesis's *coding* and *decoding* switches (§3.12.1), for measurements of a path without the code's cost.
//!
//! With either switch off, the receiver gets other bytes than were sent. The switches are only for the simulator and
//! for repetitions of the thesis's measurements.

use super::encoder::Encoder;
use super::graph::SegmentGraph;
use super::pool::{POOL_STATES, StatePool};
use super::state::State;
use super::{Error, SEGMENT_BYTES};
use alloc::vec;
use alloc::vec::Vec;

/// Encoder with *coding* off: the first block's segments and their states, sent again for every later block (thesis fig. 3.25).
#[derive(Debug, Clone)]
pub struct OfflineEncoder {
    states: Vec<State>,
    /// Encoded bytes of the segments, [`SEGMENT_BYTES`] for each state.
    symbols: Vec<u8>,
}

impl OfflineEncoder {
    /// Encodes the first `segments` segments of block 0 and keeps them.
    ///
    /// # Errors
    /// Fails with [`Error::OfflineSegments`] unless `segments` is 1 ..= [`POOL_STATES`].
    pub fn record(first: &Encoder, pool: &StatePool, segments: usize) -> Result<Self, Error> {
        if segments == 0 || segments > POOL_STATES {
            return Err(Error::OfflineSegments { given: segments });
        }
        let states: Vec<State> = (0..).take(segments).map(|index| pool.state(index, 0)).collect();
        let mut symbols = vec![0; segments * SEGMENT_BYTES];
        for (&state, out) in states.iter().zip(symbols.chunks_exact_mut(SEGMENT_BYTES)) {
            first.write_segment(&SegmentGraph::new(state), out)?;
        }
        Ok(Self { states, symbols })
    }

    /// Returns state and encoded bytes of segment number `index` (from 0) of any block. After the last recorded
    /// segment, they repeat from the first.
    #[must_use]
    pub fn segment(&self, index: u32) -> (State, &[u8]) {
        let nth = index as usize % self.states.len();
        (self.states[nth], &self.symbols[nth * SEGMENT_BYTES..][..SEGMENT_BYTES])
    }
}

/// Decoder with *decoding* off: it counts and drops the encoded bytes of a block. The block counts as decoded at a
/// threshold.
///
/// Like the thesis's receiver it ignores states, so a duplicated segment counts twice.
#[derive(Debug, Clone)]
pub struct CountingDecoder {
    received_bytes: usize,
    redundancy_bytes: usize,
}

impl CountingDecoder {
    /// Makes a counter that is complete after `redundancy_bytes` encoded bytes: the thesis's *redundancy* parameter, by
    /// default [`REDUNDANCY_DEFAULT_BYTES`](super::REDUNDANCY_DEFAULT_BYTES).
    #[must_use]
    pub fn new(redundancy_bytes: usize) -> Self {
        Self { received_bytes: 0, redundancy_bytes }
    }

    /// Counts a segment of `encoded_bytes` and returns true if the block now counts as decoded.
    pub fn push(&mut self, encoded_bytes: usize) -> bool {
        self.received_bytes = self.received_bytes.saturating_add(encoded_bytes);
        self.is_complete()
    }

    /// Returns the number of encoded bytes counted.
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Returns true if the threshold is reached.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.received_bytes >= self.redundancy_bytes
    }
}
