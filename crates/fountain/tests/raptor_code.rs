//! Tests of the classic code through its public interface: round trips over bad channels, refusals, caches and switches.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use dfcp_fountain::raptor::{
    CountingDecoder, DEGREES, Decoder, Encoder, EncoderGroup, Error, GROUP_BLOCKS_MAX, GraphCache, OMEGA,
    OfflineEncoder, POOL_STATES, REDUNDANCY_DEFAULT_BYTES, SEGMENT_BYTES, SEGMENTS_MAX, SOURCE_BYTES, SegmentGraph,
    State, StatePool, Taus88,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn initial() -> State {
    State::new(0x1234_5678, 0x9abc_def0, 0x0f1e_2d3c).unwrap()
}

fn random_bytes(seed: u32, len: usize) -> Vec<u8> {
    let mut numbers = Taus88::from_seed(seed);
    (0..len).map(|_| numbers.next_u32() as u8).collect()
}

fn segment(encoder: &Encoder, graph: &SegmentGraph) -> Vec<u8> {
    let mut out = vec![0; SEGMENT_BYTES];
    encoder.write_segment(graph, &mut out).unwrap();
    out
}

fn valid_state() -> impl Strategy<Value = State> {
    (2_u32.., 8_u32.., 16_u32..).prop_map(|(s1, s2, s3)| State::new(s1, s2, s3).unwrap())
}

#[test]
fn generator_agrees_with_published_figure() {
    // Test value of the GNU Scientific Library for its `taus` generator, which is seeded like the kernel's.
    let mut generator = Taus88::from_seed(1);
    for _ in 0..9_999 {
        generator.next_u32();
    }
    assert_eq!(generator.next_u32(), 2_733_957_125);
}

#[test]
fn states_with_a_dead_component_are_refused() {
    assert!(State::new(2, 8, 16).is_some());
    for (s1, s2, s3) in [(1, 8, 16), (2, 7, 16), (2, 8, 15), (0, 0, 0)] {
        assert!(State::new(s1, s2, s3).is_none());
        assert!(Taus88::from_state([s1, s2, s3]).is_none());
    }
}

#[test]
fn default_threshold_is_five_percent_in_whole_segments() {
    assert_eq!(REDUNDANCY_DEFAULT_BYTES, 47 * SEGMENT_BYTES);
    const { assert!(REDUNDANCY_DEFAULT_BYTES * 100 >= SOURCE_BYTES * 105) };
    const { assert!((REDUNDANCY_DEFAULT_BYTES - SEGMENT_BYTES) * 100 < SOURCE_BYTES * 105) };
}

#[test]
fn degrees_follow_omega() {
    let mut counts = [0_u32; 67];
    let pool = StatePool::new(initial());
    for index in 0..200 {
        let graph = SegmentGraph::new(pool.state(index, 0));
        (0..SEGMENT_BYTES).for_each(|position| counts[graph.neighbours(position).unwrap().len()] += 1);
    }
    let total = f64::from(counts.iter().sum::<u32>());
    for (&degree, steps) in DEGREES.iter().zip(OMEGA) {
        let share = f64::from(steps) / f64::from(u32::MAX);
        let deviation = (share * (1.0 - share) / total).sqrt();
        let found = f64::from(counts[degree]) / total;
        assert!((found - share).abs() < 5.0 * deviation, "degree {degree}: {found} instead of {share}");
    }
}

#[test]
fn survives_loss_reordering_and_duplicates() {
    for seed in 1..=8 {
        let source = random_bytes(seed, SOURCE_BYTES);
        let (pool, mut graphs) = (StatePool::new(initial()), GraphCache::new(256));
        let encoder = Encoder::new(initial(), seed, &source).unwrap();
        let mut channel = Taus88::from_seed(seed + 1000);
        let mut arrived: Vec<u32> = (0..400).filter(|_| channel.next_u32() % 10 < 3).collect();
        arrived.extend_from_within(..20);
        for last in (1..arrived.len()).rev() {
            arrived.swap(last, channel.next_u32() as usize % (last + 1));
        }
        let mut decoder = Decoder::new(initial(), seed);
        let mut distinct = BTreeSet::new();
        for index in arrived {
            let graph = graphs.get(pool.state(index, seed));
            let symbols = segment(&encoder, &graph);
            let new = decoder.push(graph, &symbols).unwrap();
            assert_eq!(new, distinct.insert(index), "seed {seed}");
            assert_eq!(decoder.received_bytes(), distinct.len() * SEGMENT_BYTES, "seed {seed}");
            if decoder.received_bytes() >= REDUNDANCY_DEFAULT_BYTES && decoder.decode() {
                break;
            }
        }
        assert_eq!(decoder.decoded_bytes(), SOURCE_BYTES, "seed {seed}");
        assert_eq!(decoder.into_source().unwrap(), source, "seed {seed}");
    }
}

#[test]
fn stalled_decoder_continues_with_later_segments() {
    let source = random_bytes(3, SOURCE_BYTES);
    let pool = StatePool::new(initial());
    let encoder = Encoder::new(initial(), 0, &source).unwrap();
    let mut decoder = Decoder::new(initial(), 0);
    let mut before = 0;
    for index in 0..60 {
        let graph = Arc::new(SegmentGraph::new(pool.state(index, 0)));
        let symbols = segment(&encoder, &graph);
        decoder.push(graph, &symbols).unwrap();
        let complete = decoder.decode();
        assert_eq!(complete, decoder.is_complete());
        assert!(decoder.decoded_bytes() >= before);
        before = decoder.decoded_bytes();
    }
    assert!(decoder.is_complete());
    assert!(decoder.received_bytes() < 50 * SEGMENT_BYTES, "segments after completion do not count");
    assert_eq!(decoder.into_source().unwrap(), source);
}

#[test]
fn short_block_is_padded_with_zeros() {
    for len in [0, 1, 1_421, SOURCE_BYTES - 1] {
        let source = random_bytes(4, len);
        let mut padded = source.clone();
        padded.resize(SOURCE_BYTES, 0);
        let pool = StatePool::new(initial());
        let encoder = Encoder::new(initial(), 7, &source).unwrap();
        let mut decoder = Decoder::new(initial(), 7);
        for index in 0..50 {
            let graph = Arc::new(SegmentGraph::new(pool.state(index, 7)));
            let symbols = segment(&encoder, &graph);
            assert_eq!(symbols, segment(&Encoder::new(initial(), 7, &padded).unwrap(), &graph));
            decoder.push(graph, &symbols).unwrap();
        }
        assert!(decoder.decode(), "{len} bytes");
        assert_eq!(decoder.into_source().unwrap(), padded);
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let too_long = vec![0; SOURCE_BYTES + 1];
    assert_eq!(
        Encoder::new(initial(), 0, &too_long).err(),
        Some(Error::SourceTooLong { given_bytes: SOURCE_BYTES + 1 })
    );
    let encoder = Encoder::new(initial(), 0, &[]).unwrap();
    let graph = Arc::new(SegmentGraph::new(initial()));
    let mut decoder = Decoder::new(initial(), 0);
    for given_bytes in [0, SEGMENT_BYTES - 1, SEGMENT_BYTES + 1] {
        let mut out = vec![0; given_bytes];
        let refusal = Error::SegmentLength { given_bytes };
        assert_eq!(encoder.write_segment(&graph, &mut out), Err(refusal));
        assert_eq!(encoder.write_segment_naive(initial(), &mut out), Err(refusal));
        assert_eq!(decoder.push(Arc::clone(&graph), &out), Err(refusal));
    }
    assert_eq!(decoder.received_bytes(), 0);
    assert!(decoder.into_source().is_none());
}

#[test]
fn decoder_takes_a_bounded_number_of_segments() {
    let pool = StatePool::new(initial());
    let mut decoder = Decoder::new(initial(), 0);
    let mut garbage = Taus88::from_seed(5);
    for index in 0..=SEGMENTS_MAX as u32 {
        let symbols: Vec<u8> = (0..SEGMENT_BYTES).map(|_| garbage.next_u32() as u8).collect();
        let pushed = decoder.push(Arc::new(SegmentGraph::new(pool.state(index, 0))), &symbols);
        let refused = index as usize == SEGMENTS_MAX;
        assert_eq!(pushed, if refused { Err(Error::TooManySegments) } else { Ok(true) });
    }
    // Contradictory symbols give wrong bytes, but never a panic.
    decoder.decode();
}

#[test]
fn states_that_draw_the_same_graph_are_one_segment() {
    let state = State::new(0x100, 0x200, 0x300).unwrap();
    let twin = State::new(0x101, 0x207, 0x30f).unwrap();
    assert_ne!(state, twin);
    assert_eq!(state.canonical(), twin.canonical());
    let mut graphs = GraphCache::new(8);
    let graph = graphs.get(state);
    assert!(Arc::ptr_eq(&graph, &graphs.get(twin)));
    assert_eq!(*graph, SegmentGraph::new(twin));
    let mut decoder = Decoder::new(initial(), 0);
    assert_eq!(decoder.push(graph, &[0; SEGMENT_BYTES]), Ok(true));
    assert_eq!(decoder.push(Arc::new(SegmentGraph::new(twin)), &[0; SEGMENT_BYTES]), Ok(false));
}

#[test]
fn pool_repeats_no_graph_before_all_are_used() {
    let pool = StatePool::new(initial());
    for block_id in [0, 1, 31, 32, 12_345, u32::MAX] {
        let states: Vec<State> = (0..POOL_STATES as u32).map(|index| pool.state(index, block_id)).collect();
        let distinct: BTreeSet<State> = states.iter().map(|state| state.canonical()).collect();
        assert!(POOL_STATES >= 1024 && distinct.len() == POOL_STATES);
        assert_eq!(pool.state(POOL_STATES as u32, block_id), states[0]);
    }
    assert_eq!(pool.state(0, 0), pool.state(0, 31));
    assert_ne!(pool.state(0, 0), pool.state(0, 32));
}

#[test]
fn blocks_and_connections_have_their_own_checks() {
    let source = random_bytes(6, SOURCE_BYTES);
    let checks = |initial, block_id| Encoder::new(initial, block_id, &source).unwrap().checks().to_vec();
    let distinct: BTreeSet<Vec<u8>> =
        (0..40).map(|id| checks(initial(), id)).chain([checks(State::new(2, 8, 16).unwrap(), 0)]).collect();
    assert_eq!(distinct.len(), 41);
}

#[test]
fn cache_stays_within_its_limit_and_drops_the_longest_unused() {
    let pool = StatePool::new(initial());
    let mut graphs = GraphCache::new(3);
    assert!(graphs.is_empty());
    let first = graphs.get(pool.state(0, 0));
    let second = graphs.get(pool.state(1, 0));
    graphs.get(pool.state(2, 0));
    assert!(Arc::ptr_eq(&first, &graphs.get(pool.state(0, 0))));
    graphs.get(pool.state(3, 0));
    assert_eq!(graphs.len(), 3);
    assert!(Arc::ptr_eq(&first, &graphs.get(pool.state(0, 0))), "used lately, so kept");
    let again = graphs.get(pool.state(1, 0));
    assert!(!Arc::ptr_eq(&second, &again), "longest unused, so dropped");
    assert_eq!(second, again);
    let mut none = GraphCache::new(0);
    assert_eq!(none.get(pool.state(0, 0)), first);
    assert_eq!(none.len(), 0);
}

#[test]
fn group_writes_what_its_blocks_write() {
    let pool = StatePool::new(initial());
    for blocks in [1, 2, GROUP_BLOCKS_MAX as u32] {
        let encoders: Vec<Encoder> = (0..blocks)
            .map(|id| Encoder::new(initial(), id, &random_bytes(id, SOURCE_BYTES - id as usize)).unwrap())
            .collect();
        let mut group = EncoderGroup::new(&encoders).unwrap();
        assert_eq!(group.blocks(), encoders.len());
        for index in [0, 1] {
            let graph = SegmentGraph::new(pool.state(index, 0));
            let mut out = vec![0; encoders.len() * SEGMENT_BYTES];
            group.write_segments(&graph, &mut out).unwrap();
            assert_eq!(out, encoders.iter().flat_map(|encoder| segment(encoder, &graph)).collect::<Vec<_>>());
            let refused = Err(Error::GroupLength { blocks: encoders.len(), given_bytes: out.len() - 1 });
            out.pop();
            assert_eq!(group.write_segments(&graph, &mut out), refused);
        }
    }
    let one = Encoder::new(initial(), 0, &[]).unwrap();
    for given in [0, GROUP_BLOCKS_MAX + 1] {
        let refused = EncoderGroup::new(&vec![one.clone(); given]).err();
        assert_eq!(refused, Some(Error::GroupBlocks { given }));
    }
}

#[test]
fn offline_encoder_repeats_the_first_block() {
    let pool = StatePool::new(initial());
    let first = Encoder::new(initial(), 0, b"the first block").unwrap();
    let offline = OfflineEncoder::record(&first, &pool, 50).unwrap();
    for index in [0, 1, 49] {
        let (state, symbols) = offline.segment(index);
        assert_eq!(state, pool.state(index, 0));
        assert_eq!(symbols, segment(&first, &SegmentGraph::new(state)));
        assert_eq!(offline.segment(index + 50), (state, symbols));
    }
    for given in [0, POOL_STATES + 1] {
        assert_eq!(OfflineEncoder::record(&first, &pool, given).err(), Some(Error::OfflineSegments { given }));
    }
}

#[test]
fn counting_decoder_completes_at_the_threshold() {
    let mut counting = CountingDecoder::new(REDUNDANCY_DEFAULT_BYTES);
    for count in 1..=47 {
        assert_eq!(counting.push(SEGMENT_BYTES), count == 47);
        assert_eq!(counting.received_bytes(), count * SEGMENT_BYTES);
    }
    assert!(counting.is_complete());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cached_segment_is_the_naive_one(
        initial in valid_state(), state in valid_state(), block_id: u32, seed: u32, len in 0..=SOURCE_BYTES,
    ) {
        let encoder = Encoder::new(initial, block_id, &random_bytes(seed, len)).unwrap();
        let mut naive = vec![0; SEGMENT_BYTES];
        encoder.write_segment_naive(state, &mut naive).unwrap();
        prop_assert_eq!(segment(&encoder, &GraphCache::new(1).get(state)), naive);
    }

    #[test]
    fn neighbours_are_distinct_and_of_a_known_degree(state in valid_state()) {
        let graph = SegmentGraph::new(state);
        for position in 0..SEGMENT_BYTES {
            let neighbours = graph.neighbours(position).unwrap();
            prop_assert!(DEGREES.contains(&neighbours.len()));
            prop_assert_eq!(neighbours.iter().collect::<BTreeSet<_>>().len(), neighbours.len());
        }
        prop_assert!(graph.neighbours(SEGMENT_BYTES).is_none());
    }

    #[test]
    fn generator_matches_the_recurrence_bit_by_bit(state in valid_state()) {
        let mut generator = Taus88::at(state);
        let mut reference: Vec<Component> = state.words().into_iter().zip(PARAMETERS).map(Component::new).collect();
        for _ in 0..50 {
            let expected = reference.iter_mut().fold(0, |sum, component| sum ^ component.draw());
            prop_assert_eq!(generator.next_u32(), expected);
        }
    }
}

/// Parameters (k, q, s) of L'Ecuyer's three components: bits satisfy b(n) = b(n−k) ⊕ b(n−k+q), and a draw advances by s bits.
const PARAMETERS: [(usize, usize, usize); 3] = [(31, 13, 12), (29, 2, 4), (28, 3, 17)];

/// One component as defined in the paper: a bit sequence. Each draw shows 32 of its bits.
struct Component {
    k: usize,
    q: usize,
    s: usize,
    /// Bits of the sequence, from the first bit of the current draw on.
    bits: Vec<bool>,
}

impl Component {
    fn new((word, (k, q, s)): (u32, (usize, usize, usize))) -> Self {
        let mut component = Self { k, q, s, bits: (0..k).map(|bit| word >> (31 - bit) & 1 == 1).collect() };
        component.extend();
        component
    }

    fn extend(&mut self) {
        while self.bits.len() < 32 + self.s {
            let end = self.bits.len();
            self.bits.push(self.bits[end - self.k] ^ self.bits[end - self.k + self.q]);
        }
    }

    fn draw(&mut self) -> u32 {
        self.bits.drain(..self.s);
        self.extend();
        self.bits[..32].iter().fold(0, |word, &bit| word << 1 | u32::from(bit))
    }
}
