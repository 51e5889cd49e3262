//! Golden vectors of `spec/fountain-code-classic.md`, written by the independent `raptor_reference.py`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use dfcp_fountain::raptor::{
    CHECK_BYTES, Encoder, SEGMENT_BYTES, SOURCE_BYTES, SegmentGraph, State, StatePool, Taus88,
};

const GENERATOR: &str = include_str!("../../../spec/vectors/raptor_taus88.txt");
const STATES: &str = include_str!("../../../spec/vectors/raptor_states.txt");
const BLOCK_FULL: &str = include_str!("../../../spec/vectors/raptor_block_full.txt");
const BLOCK_PADDED: &str = include_str!("../../../spec/vectors/raptor_block_padded.txt");

/// Lines that start with `name`, each split into its fields of hexadecimal words.
fn fields(file: &str, name: &str) -> Vec<Vec<Vec<u32>>> {
    let lines: Vec<_> = file
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .map(|rest| rest.split([':', ';']).map(words).filter(|words| !words.is_empty()).collect())
        .collect();
    assert!(!lines.is_empty(), "no line {name}");
    lines
}

fn words(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
}

fn bytes(file: &str, name: &str) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    file.lines()
        .filter_map(|line| line.strip_prefix(name))
        .map(|hex| hex.trim().as_bytes().chunks_exact(2).map(byte).collect())
        .collect()
}

fn state(words: &[u32]) -> State {
    State::new(words[0], words[1], words[2]).unwrap()
}

#[test]
fn generator_draws_the_golden_numbers() {
    for line in fields(GENERATOR, "seed ") {
        let mut generator = Taus88::from_seed(line[0][0]);
        assert_eq!(generator.state().as_slice(), line[1]);
        assert_eq!(line[2].iter().map(|_| generator.next_u32()).collect::<Vec<_>>(), line[2]);
    }
    for line in fields(GENERATOR, "state ") {
        let mut generator = Taus88::at(state(&line[0]));
        assert_eq!(line[1].iter().map(|_| generator.next_u32()).collect::<Vec<_>>(), line[1]);
        assert_eq!(generator.state().as_slice(), line[2]);
    }
}

#[test]
fn pool_holds_the_golden_states() {
    for line in fields(STATES, "segment ") {
        let pool = StatePool::new(state(&line[0]));
        assert_eq!(pool.state(line[2][0], line[1][0]).words().as_slice(), line[3], "{line:x?}");
    }
}

#[test]
fn full_block_encodes_to_the_golden_segments() {
    check_block(BLOCK_FULL);
}

#[test]
fn padded_block_encodes_to_the_golden_segments() {
    check_block(BLOCK_PADDED);
}

fn check_block(file: &str) {
    let one = |name: &str| fields(file, name)[0][0].clone();
    let (initial, block_id) = (state(&one("initial")), one("block")[0]);
    let mut numbers = Taus88::from_seed(one("seed")[0]);
    let source: Vec<u8> = (0..one("length")[0]).map(|_| numbers.next_u32() as u8).collect();
    let encoder = Encoder::new(initial, block_id, &source).unwrap();
    let checks = bytes(file, "checks:");
    assert_eq!(checks[0].len(), CHECK_BYTES);
    assert_eq!(encoder.checks(), checks[0]);

    let (states, symbols) = (fields(file, "state"), bytes(file, "symbols:"));
    let neighbours = fields(file, "neighbours");
    assert_eq!(states.len(), symbols.len());
    for (nth, (line, symbols)) in states.iter().zip(symbols).enumerate() {
        let state = state(&line[0]);
        let graph = SegmentGraph::new(state);
        for (position, line) in neighbours[nth * 24..][..24].iter().enumerate() {
            let drawn: Vec<u32> = graph.neighbours(position).unwrap().iter().map(|&index| u32::from(index)).collect();
            assert_eq!(drawn, line[0], "segment {nth}, symbol {position}");
        }
        let mut out = vec![0; SEGMENT_BYTES];
        encoder.write_segment(&graph, &mut out).unwrap();
        assert_eq!(out, symbols, "segment {nth}");
        out.fill(0);
        encoder.write_segment_naive(state, &mut out).unwrap();
        assert_eq!(out, symbols, "segment {nth}, naive");
    }
    assert!(source.len() <= SOURCE_BYTES);
}
