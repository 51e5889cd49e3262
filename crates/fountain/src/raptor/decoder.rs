//! Rebuilds a block from its segments.

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

/// Segments that a decoder takes: more than five times what a block needs, so an honest sender never gets here.
/// Bounds a decoder's memory at about 6 MB, the graphs that it holds included, and three times that while it decodes.
pub const SEGMENTS_MAX: usize = 256;

/// Room for this many segments is taken at a time: a decoder then takes little more than its segments have, and a block is not
/// moved often.
const SEGMENTS_AT_A_TIME: usize = 8;

/// The classes of [`DEGREES`] in the order in which they are decoded: degrees 1 to 9, then 19, then 65 and 66 with the
/// LDPC checks. The last three degrees have half of all edges, and when they enter nearly all of their neighbours are
/// known. The set of bytes decoded does not depend on the order.
const STAGES: [Range<usize>; 3] = [0..7, 7..8, 8..DEGREES.len()];

/// The decoder of one block. Segments are only stored as they come (thesis §3.9); [`Decoder::decode`] does the work.
#[derive(Debug)]
pub struct Decoder {
    initial: State,
    block_id: u32,
    seen: BTreeSet<State>,
    graphs: Vec<Arc<SegmentGraph>>,
    /// Encoded bytes of the graphs' segments, in the same order.
    segments: Vec<u8>,
    received_bytes: usize,
    /// Segments with which decoding was tried last.
    tried: usize,
    /// Source bytes that this attempt decoded.
    decoded_bytes: usize,
    source: Option<Vec<u8>>,
}

impl Decoder {
    /// A decoder of the block with that ID, sent by the end whose SYN or SYNACK carried `initial`.
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

    /// Stores a segment: its graph (from the state in its header) and its [`SEGMENT_BYTES`]
    /// encoded bytes. Returns whether it is new; a segment whose state was seen before, and any segment after
    /// completion, changes nothing and is not counted.
    ///
    /// # Errors
    /// [`Error::SegmentLength`], and [`Error::TooManySegments`] past [`SEGMENTS_MAX`].
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

    /// True if a segment of that state was pushed.
    #[must_use]
    pub fn holds(&self, state: State) -> bool {
        self.seen.contains(&state.canonical())
    }

    /// Encoded bytes of distinct segments received.
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Decodes if the segments pushed so far suffice, and returns whether the block is complete. Every call after further
    /// segments begins anew: what an attempt that fails has found would take ten times the memory of the segments, for each
    /// block of a window, and would save no time. Without further segments it returns at once.
    ///
    /// The set of bytes decoded is the thesis's: LT and LDPC decoding, repeated until neither gains (§3.10.2).
    pub fn decode(&mut self) -> bool {
        if !self.is_complete() && self.tried < self.graphs.len() {
            let peeler = self.peel();
            self.tried = self.graphs.len();
            self.decoded_bytes = peeler.known_source_bytes();
            self.source = peeler.into_source();
        }
        self.is_complete()
    }

    /// Peels the segments pushed so far.
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

    /// True if every source byte is decoded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.source.is_some()
    }

    /// Source bytes that the last attempt decoded, 0 ..= [`SOURCE_BYTES`](super::SOURCE_BYTES).
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        self.decoded_bytes
    }

    /// The block's [`SOURCE_BYTES`](super::SOURCE_BYTES) bytes, padding included, or `None` while it is incomplete.
    #[must_use]
    pub fn into_source(self) -> Option<Vec<u8>> {
        self.source
    }
}
