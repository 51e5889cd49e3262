//! Rebuilds a block from its segments.

use super::degree::DEGREES;
use super::graph::SegmentGraph;
use super::peel::{Adjacency, Peeler};
use super::precode::PrecodeDraws;
use super::state::State;
use super::{Error, SEGMENT_BYTES, SOURCE_BYTES};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// Segments that a decoder takes: more than five times what a block needs, so an honest sender never gets here.
/// Bounds a decoder's memory at about 7 MB, the graphs that it holds included, and twice that while it decodes.
pub const SEGMENTS_MAX: usize = 256;

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
    /// How many of `graphs` the peeler has.
    entered: usize,
    /// Encoded bytes of the other graphs' segments, in the same order.
    pending: Vec<u8>,
    received_bytes: usize,
    peeler: Option<Peeler>,
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
            entered: 0,
            pending: Vec::new(),
            received_bytes: 0,
            peeler: None,
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
        self.pending.extend_from_slice(symbols);
        self.received_bytes += symbols.len();
        Ok(true)
    }

    /// Encoded bytes of distinct segments received.
    #[must_use]
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Decodes as far as the segments pushed so far allow, and returns whether the block is complete. Later segments
    /// continue from there, at the cost of a walk over all graphs held per call (1 to 2 ms); without any, it returns at
    /// once.
    ///
    /// The set of bytes decoded is the thesis's: LT and LDPC decoding, repeated until neither gains (§3.10.2).
    pub fn decode(&mut self) -> bool {
        if self.is_complete() || self.pending.is_empty() {
            return self.is_complete();
        }
        let peeler = self.peeler.get_or_insert_with(Peeler::new);
        let mut layers = Vec::with_capacity(STAGES.len());
        for (stage, classes) in STAGES.into_iter().enumerate() {
            let first_group = if stage == 0 { 0 } else { peeler.groups() };
            let new_graphs = self.graphs.iter().enumerate().skip(self.entered);
            for ((number, graph), symbols) in new_graphs.zip(self.pending.chunks(SEGMENT_BYTES)) {
                classes.clone().for_each(|class| peeler.add_symbols(number, graph.class(class), class, symbols));
            }
            if stage + 1 == STAGES.len() {
                peeler.add_checks(|| PrecodeDraws::new(self.initial, self.block_id));
            }
            layers.push(Adjacency::new(peeler, first_group, &self.graphs));
            peeler.run(&layers);
        }
        self.entered = self.graphs.len();
        self.pending.clear();
        self.is_complete()
    }

    /// The source byte with that index, if it is decoded.
    #[cfg(test)]
    pub(super) fn known(&self, index: usize) -> Option<u8> {
        self.peeler.as_ref()?.known(index)
    }

    /// Whether every source byte is decoded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.decoded_bytes() == SOURCE_BYTES
    }

    /// Source bytes decoded, 0 ..= [`SOURCE_BYTES`].
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        self.peeler.as_ref().map_or(0, Peeler::known_source_bytes)
    }

    /// The block's [`SOURCE_BYTES`] bytes, padding included, or `None` while it is incomplete.
    #[must_use]
    pub fn into_source(self) -> Option<Vec<u8>> {
        self.peeler?.into_source()
    }
}
