//! Decoder of a block from its segments.

use super::degree::DEGREES;
use super::graph::SegmentGraph;
use super::peel::{Adjacency, Peeler};
use super::precode::PrecodeDraws;
use super::state::State;
use super::{Error, SEGMENT_BYTES};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum number of segments of a decoder. It is over five times the need of a block, so an honest sender never
/// reaches it. It limits a decoder's memory to about 6 MB, including its graphs, and three times that while decoding.
pub const SEGMENTS_MAX: usize = 256;

/// Number of segments for which space is allocated at a time. A decoder then takes little more memory than its
/// segments, and reallocation rarely moves them.
const SEGMENTS_AT_A_TIME: usize = 8;

/// Classes of [`DEGREES`] in the order of decoding: degrees 1 to 9, then 19, then 65 and 66 with the LDPC checks. The last three degrees
/// have half of all edges, and nearly all of their neighbours are known when they are added. The set of decoded bytes does not depend on
/// the order.
const STAGES: [Range<usize>; 3] = [0..7, 7..8, 8..DEGREES.len()];

/// Decoder of one block. Received segments are only stored (thesis §3.9); [`Decoder::decode`] does the work.
#[derive(Debug)]
pub struct Decoder {
    initial: State,
    block_id: u32,
    seen: BTreeSet<State>,
    graphs: Vec<Arc<SegmentGraph>>,
    /// Encoded bytes of the graphs' segments, in the same order.
    segments: Vec<u8>,
    received_bytes: usize,
    /// Number of segments in the last attempt to decode.
    tried: usize,
    /// Number of source bytes decoded in the last attempt.
    decoded_bytes: usize,
    source: Option<Vec<u8>>,
}

impl Decoder {
    /// Makes a decoder of the block with this ID, from the endpoint whose SYN or SYNACK carried `initial`.
    #[must_use]
    pub fn new(initial: State, block_id: u32) -> Self {
        Self {
            initial,
            block_id,
            seen: BTreeSet::new(),
            graphs: Vec::new(),
            segments: Vec::new(),
            received_bytes: 0,
            tried: 0,
            decoded_bytes: 0,
            source: None,
        }
    }

    /// Stores a segment: its graph (from the state in its header) and its [`SEGMENT_BYTES`] encoded bytes. Returns true
    /// if it is new. A segment with a known state is ignored, and so is any segment after completion.
    ///
    /// # Errors
    /// Fails with [`Error::SegmentLength`], and with [`Error::TooManySegments`] beyond [`SEGMENTS_MAX`].
    pub fn push(&mut self, graph: Arc<SegmentGraph>, symbols: &[u8]) -> Result<bool, Error> {
        if symbols.len() != graph.symbols() {
            return Err(Error::SegmentLength { given_bytes: symbols.len() });
        }
        if self.is_complete() || self.seen.contains(&graph.state()) {
            return Ok(false);
        }
        if self.graphs.len() >= SEGMENTS_MAX {
            return Err(Error::TooManySegments);
        }
        self.seen.insert(graph.state());
        self.graphs.push(graph);
        if self.segments.capacity() - self.segments.len() < symbols.len() {
            self.segments.reserve_exact(SEGMENTS_AT_A_TIME * SEGMENT_BYTES);
        }
        self.segments.extend_from_slice(symbols);
        self.received_bytes += symbols.len();
        Ok(true)
    }

    /// Returns true if a segment with this state was pushed.
    #[must_use]
    pub fn holds(&self, state: State) -> bool {
        self.seen.contains(&state.canonical())
    }

    /// Returns the number of encoded bytes of distinct received segments.
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Decodes if the segments suffice, and returns true if the block is complete. After further segments, a call
    /// starts anew: the results of a failed attempt would take ten times the memory of the segments, for each block of
    /// a window, and would save no time. Without further segments, the call returns immediately.
    ///
    /// The set of decoded bytes is the same as in the thesis: LT and LDPC decoding, repeated until neither gains
    /// (§3.10.2).
    pub fn decode(&mut self) -> bool {
        if !self.is_complete() && self.tried < self.graphs.len() {
            let peeler = self.peel();
            self.tried = self.graphs.len();
            self.decoded_bytes = peeler.known_source_bytes();
            self.source = peeler.into_source();
        }
        self.is_complete()
    }

    /// Peels the stored segments.
    pub(super) fn peel(&self) -> Peeler {
        let mut peeler = Peeler::new();
        let mut layers = Vec::with_capacity(STAGES.len());
        for (stage, classes) in STAGES.into_iter().enumerate() {
            let first_group = peeler.groups();
            for (number, (graph, symbols)) in self.graphs.iter().zip(self.segments.chunks(SEGMENT_BYTES)).enumerate() {
                classes.clone().for_each(|class| peeler.add_symbols(number, graph.class(class), class, symbols));
            }
            if stage + 1 == STAGES.len() {
                peeler.add_checks(|| PrecodeDraws::new(self.initial, self.block_id));
            }
            layers.push(Adjacency::new(&peeler, first_group, &self.graphs));
            peeler.run(&layers);
        }
        peeler
    }

    /// Returns true if every source byte is decoded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.source.is_some()
    }

    /// Returns the number of source bytes decoded in the last attempt, 0 ..= [`SOURCE_BYTES`](super::SOURCE_BYTES).
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        self.decoded_bytes
    }

    /// Returns the block's [`SOURCE_BYTES`](super::SOURCE_BYTES) bytes, including padding; `None` while the block is
    /// incomplete.
    #[must_use]
    pub fn into_source(self) -> Option<Vec<u8>> {
        self.source
    }
}
