//! Unit tests with access to internals: exact symbol counts, and the set of bytes known to a stalled decoder.

use super::precode::PrecodeDraws;
use super::*;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Source bytes and an initial state derived from `seed`.
fn block(seed: u32) -> (State, Vec<u8>) {
    let mut numbers = Taus88::from_seed(seed);
    let source = (0..SOURCE_BYTES).map(|_| numbers.next_u32() as u8).collect();
    (State::from_words(numbers.state()).unwrap(), source)
}

/// Segments with `symbols` symbols in total, the last segment truncated: a decoder's input at an exact ε.
fn segments(pool: &StatePool, encoder: &Encoder, block_id: u32, symbols: usize) -> Vec<(Arc<SegmentGraph>, Vec<u8>)> {
    (0..symbols.div_ceil(SEGMENT_BYTES))
        .map(|index| {
            let count = SEGMENT_BYTES.min(symbols - index * SEGMENT_BYTES);
            let graph = SegmentGraph::with_symbols(pool.state(index as u32, block_id), count);
            let mut out = vec![0; count];
            encoder.write_segment(&graph, &mut out).unwrap();
            (Arc::new(graph), out)
        })
        .collect()
}

/// Decodes like the thesis (§3.10): passes over the symbols by list until no pass gains, then a pass over the LDPC
/// checks, and so on until neither gains. Returns the known intermediate bytes.
fn thesis_decode(initial: State, block_id: u32, received: &[(Arc<SegmentGraph>, Vec<u8>)]) -> Vec<Option<u8>> {
    let mut lists = vec![Vec::new(); 67];
    for (graph, symbols) in received {
        for (position, &symbol) in symbols.iter().enumerate() {
            let neighbours = graph.neighbours(position).unwrap().to_vec();
            lists[neighbours.len()].push((symbol, neighbours));
        }
    }
    let mut checks = vec![Vec::new(); CHECK_BYTES];
    for (source, own) in (0_u16..).zip(PrecodeDraws::new(initial, block_id).collect()) {
        own.iter().for_each(|&check| checks[usize::from(check)].push(source));
    }
    let mut data = vec![None; INTERMEDIATE_BYTES];
    loop {
        let mut gained = false;
        while lists.iter().flatten().fold(false, |any, (sum, of)| solve(&mut data, *sum, of.iter().copied()) || any) {
            gained = true;
        }
        for (check, sources) in checks.iter().enumerate() {
            let own = (SOURCE_BYTES + check) as u16;
            gained |= solve(&mut data, 0, sources.iter().copied().chain([own]));
        }
        if !gained {
            return data;
        }
    }
}

/// If exactly one of `indices` is unknown, solves for it, so that the sum of all is `sum`.
fn solve(data: &mut [Option<u8>], sum: u8, indices: impl Iterator<Item = u16>) -> bool {
    let (mut rest, mut missing) = (sum, None);
    for index in indices {
        match data[usize::from(index)] {
            Some(value) => rest ^= value,
            None if missing.is_some() => return false,
            None => missing = Some(index),
        }
    }
    let Some(missing) = missing else { return false };
    data[usize::from(missing)] = Some(rest);
    true
}

#[test]
fn decodes_at_five_percent_in_995_of_1000_trials() {
    let symbols = SOURCE_BYTES * 105 / 100;
    let failed = std::thread::scope(|scope| {
        let halves = [1..=500, 501..=1000]
            .map(|seeds| scope.spawn(move || seeds.filter(|&seed| !decodes_from(seed, symbols)).collect::<Vec<u32>>()));
        halves.map(|half| half.join().unwrap()).concat()
    });
    assert!(failed.len() <= 5, "seeds {failed:?} did not decode from {symbols} symbols");
}

/// Returns true if the block of this seed decodes; checks that it equals the sent block.
fn decodes_from(seed: u32, symbols: usize) -> bool {
    let (initial, source) = block(seed);
    let encoder = Encoder::new(initial, seed, &source).unwrap();
    let mut decoder = Decoder::new(initial, seed);
    for (graph, out) in segments(&StatePool::new(initial), &encoder, seed, symbols) {
        decoder.push(graph, &out).unwrap();
    }
    assert_eq!(decoder.received_bytes(), symbols);
    let decoded = decoder.decode();
    assert!(!decoded || decoder.into_source().unwrap() == source, "seed {seed}");
    decoded
}

#[test]
fn knows_exactly_the_bytes_that_the_thesis_decoder_knows() {
    for (seed, symbols) in [(1, 1_420), (2, 30_000), (3, 58_000), (4, 62_000), (5, 64_500), (6, 65_500), (7, 66_712)] {
        let (initial, source) = block(seed);
        let encoder = Encoder::new(initial, 9, &source).unwrap();
        let received = segments(&StatePool::new(initial), &encoder, 9, symbols);
        let expected = thesis_decode(initial, 9, &received);
        let mut decoder = Decoder::new(initial, 9);
        for (graph, out) in &received {
            decoder.push(Arc::clone(graph), out).unwrap();
        }
        decoder.decode();
        let peeler = decoder.peel();
        let known: Vec<Option<u8>> = (0..SOURCE_BYTES).map(|index| peeler.known(index)).collect();
        assert!(known == expected[..SOURCE_BYTES], "seed {seed}, {symbols} symbols");
        assert_eq!(decoder.decoded_bytes(), known.iter().flatten().count(), "seed {seed}");
    }
}

#[test]
fn decoding_in_steps_knows_what_decoding_at_once_knows() {
    let (initial, source) = block(77);
    let encoder = Encoder::new(initial, 3, &source).unwrap();
    let received = segments(&StatePool::new(initial), &encoder, 3, 47 * SEGMENT_BYTES);
    let mut stepwise = Decoder::new(initial, 3);
    for (count, (graph, out)) in (1..).zip(&received) {
        stepwise.push(Arc::clone(graph), out).unwrap();
        stepwise.decode();
        if [10, 44, 46, 47].contains(&count) {
            let mut at_once = Decoder::new(initial, 3);
            for (graph, out) in &received[..count] {
                at_once.push(Arc::clone(graph), out).unwrap();
            }
            at_once.decode();
            assert_eq!(at_once.decoded_bytes(), stepwise.decoded_bytes(), "after {count} segments");
            let (at_once, stepwise) = (at_once.peel(), stepwise.peel());
            assert!((0..SOURCE_BYTES).all(|index| at_once.known(index) == stepwise.known(index)));
        }
    }
    assert_eq!(stepwise.into_source().unwrap(), source);
}

#[test]
fn every_source_byte_has_three_different_checks() {
    let (initial, _) = block(5);
    let all = PrecodeDraws::new(initial, 8).collect();
    assert_eq!(all.len(), SOURCE_BYTES);
    for [a, b, c] in all {
        assert!(a != b && a != c && b != c);
        assert!([a, b, c].into_iter().all(|check| usize::from(check) < CHECK_BYTES));
    }
}

#[test]
fn precode_states_are_the_golden_ones() {
    let vectors = include_str!("../../vectors/raptor_states.txt");
    let word = |text: &str| u32::from_str_radix(text, 16).unwrap();
    let mut lines = 0;
    for line in vectors.lines().filter_map(|line| line.strip_prefix("precode ")) {
        let words: Vec<u32> = line.split([' ', ';', ':']).filter(|text| !text.is_empty()).map(word).collect();
        let initial = State::new(words[0], words[1], words[2]).unwrap();
        assert_eq!(
            derived::derived(initial, derived::Purpose::Precode, words[3]).words().as_slice(),
            &words[4..],
            "{line}"
        );
        lines += 1;
    }
    assert_eq!(lines, 21);
}
