//! The classic code's decoder (`spec/fountain-code-classic.md`), with genuine segments, and with hostile states and
//! bytes. A block takes milliseconds, so the work has tight limits.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dfcp_fountain::raptor::{
    Decoder, Encoder, Error, GraphCache, POOL_STATES, SEGMENT_BYTES, SEGMENTS_MAX, SOURCE_BYTES, SegmentGraph, State,
    StatePool,
};

use crate::input::{Input, filler};

const OPERATIONS_MAX: usize = 80;
/// Maximum number of new graphs in one run: each costs as much as a hundred ordinary operations.
const HOSTILE_STATES_MAX: usize = 12;
const DECODES_MAX: usize = 5;
const BLOCK_ID: u32 = 9;

/// The genuine sender, created once: its segments do not depend on the input.
struct Sender {
    initial: State,
    source: Vec<u8>,
    encoder: Encoder,
    pool: StatePool,
    graphs: GraphCache,
    /// Segments made so far, from the first on, with their graphs.
    segments: BTreeMap<u32, (Arc<SegmentGraph>, Vec<u8>)>,
}

thread_local! {
    static SENDER: RefCell<Sender> = RefCell::new(Sender::new());
}

impl Sender {
    fn new() -> Self {
        let initial = State::new(0x1234_5678, 0x9ABC_DEF0, 0x0FED_CBA9).expect("the words are large enough");
        let source = filler(1, SOURCE_BYTES);
        let encoder = Encoder::new(initial, BLOCK_ID, &source).expect("one block");
        Self {
            initial,
            source,
            encoder,
            pool: StatePool::new(initial),
            graphs: GraphCache::new(POOL_STATES),
            segments: BTreeMap::new(),
        }
    }

    fn segment(&mut self, index: u32) -> &(Arc<SegmentGraph>, Vec<u8>) {
        self.segments.entry(index).or_insert_with(|| {
            let graph = self.graphs.get(self.pool.state(index, BLOCK_ID));
            let mut segment = vec![0; SEGMENT_BYTES];
            self.encoder.write_segment(&graph, &mut segment).expect("room for a segment");
            (graph, segment)
        })
    }
}

/// Pushes the segments selected by the input, and decodes at some points.
pub fn run(data: &[u8]) {
    SENDER.with_borrow_mut(|sender| scenario(&mut Input::new(data), sender));
}

fn scenario(input: &mut Input<'_>, sender: &mut Sender) {
    // With another initial state the decoder has another precode, so the genuine segments are noise to it, and its
    // result is not compared.
    let mut honest = !input.rarely(8);
    let initial = if honest { sender.initial } else { hostile_state(input).unwrap_or(sender.initial) };
    let mut decoder = Decoder::new(initial, BLOCK_ID);
    let mut seen = BTreeSet::new();
    let (mut drawn, mut decodes) = (0, 0);
    let mut segment = vec![0; SEGMENT_BYTES];
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        match input.below(16) {
            0..=11 => {
                let count = 1 + input.below(16) as u32;
                let first = u32::from(input.u8());
                for index in first..first + count {
                    let (graph, segment) = sender.segment(index);
                    push(&mut decoder, graph, segment, &mut seen);
                }
            }
            12 | 13 if drawn < HOSTILE_STATES_MAX => {
                let Some(state) = hostile_state(input) else { continue };
                let graph = GraphCache::new(0).get(state);
                drawn += 1;
                if input.bool() {
                    sender.encoder.write_segment(&graph, &mut segment).expect("room for a segment");
                } else {
                    segment = filler(input.u8().into(), SEGMENT_BYTES);
                    honest = false;
                }
                push(&mut decoder, &graph, &segment, &mut seen);
            }
            14 => push_misshapen(input, &mut decoder, sender),
            _ if decodes < DECODES_MAX => {
                decodes += 1;
                decode(&mut decoder, honest && drawn == 0);
            }
            _ => {}
        }
    }
    decode(&mut decoder, honest && drawn == 0);
    let complete = decoder.is_complete();
    let source = decoder.into_source();
    assert_eq!(source.is_some(), complete);
    if let Some(source) = source {
        assert_eq!(source.len(), SOURCE_BYTES);
        assert!(!honest || source == sender.source, "the block is not what was sent");
    }
}

/// A state of three arbitrary words; `None`, as documented, for states that the generator cannot leave.
fn hostile_state(input: &mut Input<'_>) -> Option<State> {
    let words = [input.number32(), input.number32(), input.number32()];
    let state = State::from_words(words);
    assert_eq!(state.is_some(), words[0] > 1 && words[1] > 7 && words[2] > 15, "{words:?}");
    state
}

/// Pushes a segment. It is new if its state is: states with the same graph count as one.
fn push(decoder: &mut Decoder, graph: &Arc<SegmentGraph>, segment: &[u8], seen: &mut BTreeSet<State>) {
    let full = seen.len() >= SEGMENTS_MAX;
    let is_new = !decoder.is_complete() && !seen.contains(&graph.state().canonical());
    let expected = if is_new && full { Err(Error::TooManySegments) } else { Ok(is_new) };
    assert_eq!(decoder.push(Arc::clone(graph), segment), expected);
    if is_new && !full {
        seen.insert(graph.state().canonical());
    }
    assert_eq!(decoder.received_bytes(), seen.len() * SEGMENT_BYTES);
}

fn push_misshapen(input: &mut Input<'_>, decoder: &mut Decoder, sender: &mut Sender) {
    let given_bytes = input.below(2 * SEGMENT_BYTES);
    if given_bytes != SEGMENT_BYTES {
        let graph = sender.graphs.get(sender.pool.state(0, BLOCK_ID));
        let refused = decoder.push(graph, &vec![1; given_bytes]);
        assert_eq!(refused, Err(Error::SegmentLength { given_bytes }));
    }
}

/// Checks that decoded bytes never become fewer, and that a second attempt without new segments gains nothing.
/// `ordinary` is true if every segment so far is the genuine sender's own.
fn decode(decoder: &mut Decoder, ordinary: bool) {
    let before = decoder.decoded_bytes();
    let complete = decoder.decode();
    let after = decoder.decoded_bytes();
    assert!(before <= after && after <= SOURCE_BYTES);
    assert_eq!(complete, after == SOURCE_BYTES);
    assert_eq!(complete, decoder.is_complete());
    assert_eq!((decoder.decode(), decoder.decoded_bytes()), (complete, after));
    // 1.5 times the source bytes are more than any honest stream has needed.
    if ordinary && decoder.received_bytes() >= SOURCE_BYTES * 3 / 2 {
        assert!(complete, "{} bytes of genuine segments do not decode", decoder.received_bytes());
    }
}
