//! Speed of the classic code on one core: the thesis's per-symbol encoder against cached graphs, and the decoder.
//!
//! `cargo bench -p dfcp-fountain --bench classic` prints source bytes per second (10⁶ bytes = 1 MB), as the median of several rounds. Each
//! block is sent as its first 47 segments, the default decoding threshold.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark measures time and prints"
)]

use dfcp_fountain::raptor::{
    Decoder, Encoder, EncoderGroup, GraphCache, POOL_STATES, REDUNDANCY_DEFAULT_BYTES, SEGMENT_BYTES, SOURCE_BYTES,
    State, StatePool, Taus88,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const BLOCKS: u32 = 32;
const SEGMENTS: u32 = (REDUNDANCY_DEFAULT_BYTES / SEGMENT_BYTES) as u32;

fn main() {
    let bench = Bench::new();
    let naive_mbps = bench.report("encode, naive (thesis loop)", 4, |block| bench.encode_naive(block));
    let mut graphs = GraphCache::new(POOL_STATES);
    let cached_mbps = bench.report("encode, cached graphs", BLOCKS, |block| bench.encode_cached(block, &mut graphs));
    let group_mbps = bench.report_all("encode, group of 32, cached", BLOCKS, || bench.encode_group(&mut graphs));
    println!("cached / naive: {:.1}, group / naive: {:.1}", cached_mbps / naive_mbps, group_mbps / naive_mbps);
    let precode_mbps = bench.report("precode alone", BLOCKS, |block| {
        black_box(bench.encoder(block));
    });
    let with_precode = |mbps: f64| 1.0 / (1.0 / mbps + 1.0 / precode_mbps);
    println!(
        "with the precode in all of them: {:.1} and {:.1}",
        with_precode(cached_mbps) / with_precode(naive_mbps),
        with_precode(group_mbps) / with_precode(naive_mbps),
    );
    bench.report("precode + encode, cached", BLOCKS, |block| {
        black_box(bench.encoder(block));
        bench.encode_cached(block, &mut graphs);
    });
    let mut complete = 0;
    bench.report("decode, cached graphs", BLOCKS, |block| complete += u32::from(bench.decode(block, &mut graphs)));
    println!("decoded at the default threshold: {complete} of {}", BLOCKS * ROUNDS as u32);
    let mut states = Taus88::from_seed(1);
    bench.report("drawing graphs alone", 4, |_| {
        for _ in 0..SEGMENTS {
            let Some(state) = State::from_words(core::array::from_fn(|_| states.next_u32() | 16)) else { continue };
            black_box(GraphCache::new(0).get(state));
        }
    });
}

struct Bench {
    initial: State,
    pool: StatePool,
    source: Vec<u8>,
    encoders: Vec<Encoder>,
    segments: Vec<Vec<u8>>,
}

impl Bench {
    fn new() -> Self {
        let mut numbers = Taus88::from_seed(88);
        let source: Vec<u8> = (0..SOURCE_BYTES).map(|_| numbers.next_u32() as u8).collect();
        let initial = State::from_words(numbers.state()).expect("a running generator's state is valid");
        let encoders: Vec<Encoder> =
            (0..BLOCKS).map(|block| Encoder::new(initial, block, &source).expect("the block fits")).collect();
        let pool = StatePool::new(initial);
        let mut graphs = GraphCache::new(POOL_STATES);
        let segments = (0..BLOCKS)
            .map(|block| {
                let mut all = vec![0; SEGMENTS as usize * SEGMENT_BYTES];
                for (index, out) in (0..).zip(all.chunks_exact_mut(SEGMENT_BYTES)) {
                    let graph = graphs.get(pool.state(index, block));
                    encoders[block as usize].write_segment(&graph, out).expect("a whole segment");
                }
                all
            })
            .collect();
        Self { initial, pool, source, encoders, segments }
    }

    /// Prints and returns the median speed of `one` over `blocks` blocks, in MB/s of source data.
    fn report(&self, name: &str, blocks: u32, mut one: impl FnMut(u32)) -> f64 {
        self.report_all(name, blocks, || (0..blocks).for_each(&mut one))
    }

    /// Reports the speed of `all`, which processes all blocks together.
    fn report_all(&self, name: &str, blocks: u32, mut all: impl FnMut()) -> f64 {
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                all();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let block_us = times[ROUNDS / 2].as_secs_f64() * 1e6 / f64::from(blocks);
        let mbps = self.source.len() as f64 / block_us;
        println!("{name:<30} {mbps:>8.1} MB/s {block_us:>9.1} µs per block");
        mbps
    }

    /// Encodes all blocks as one group, including the construction of the group.
    fn encode_group(&self, graphs: &mut GraphCache) {
        let mut out = vec![0; BLOCKS as usize * SEGMENT_BYTES];
        let mut group = EncoderGroup::new(&self.encoders).expect("at most 32 blocks");
        for index in 0..SEGMENTS {
            let graph = graphs.get(self.pool.state(index, 0));
            group.write_segments(&graph, &mut out).expect("whole segments");
            black_box(&out);
        }
    }

    fn encoder(&self, block: u32) -> Encoder {
        Encoder::new(self.initial, block, &self.source).expect("the block fits")
    }

    fn encode_naive(&self, block: u32) {
        let mut out = [0; SEGMENT_BYTES];
        for index in 0..SEGMENTS {
            let state = self.pool.state(index, block);
            self.encoders[block as usize].write_segment_naive(state, &mut out).expect("a whole segment");
            black_box(&out);
        }
    }

    fn encode_cached(&self, block: u32, graphs: &mut GraphCache) {
        let mut out = [0; SEGMENT_BYTES];
        for index in 0..SEGMENTS {
            let graph = graphs.get(self.pool.state(index, block));
            self.encoders[block as usize].write_segment(&graph, &mut out).expect("a whole segment");
            black_box(&out);
        }
    }

    fn decode(&self, block: u32, graphs: &mut GraphCache) -> bool {
        let mut decoder = Decoder::new(self.initial, block);
        for (index, symbols) in (0..).zip(self.segments[block as usize].chunks_exact(SEGMENT_BYTES)) {
            decoder.push(graphs.get(self.pool.state(index, block)), symbols).expect("a whole segment");
        }
        decoder.decode() && black_box(decoder.into_source()).is_some_and(|source| source == self.source)
    }
}
