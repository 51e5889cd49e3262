//! Tests of allocations per datagram of a bulk stream in steady state, both ends together.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first mistake")]

use std::time::Duration;

use dfcp_proto::SendBuffering;
use dfcp_protocol_tests::{Flow, FlowConfig};

/// Datagrams over which allocations are counted.
const DATAGRAMS: u64 = 10_000;

/// Datagrams before the count starts: by then every table has reached its size, except for rare coincidences.
const WARM_UP_DATAGRAMS: u64 = 100_000;

/// Allocations (including growth) during a warmed-up flow, and blocks decoded in that time.
fn allocations(config: FlowConfig) -> (u64, u64) {
    let mut flow = Flow::open(config).unwrap();
    flow.run(WARM_UP_DATAGRAMS).unwrap();
    let before = flow.receiver_stats();
    let allocated = allocation_counter::measure(|| flow.run(DATAGRAMS).unwrap());
    let after = flow.receiver_stats();
    let expected = (DATAGRAMS as f64 * (0.9 - config.loss)) as u64;
    let useful = after.received.useful - before.received.useful;
    assert!(useful > expected, "{config:?}: the stream is in full swing");
    (allocated.count_total, after.blocks_decoded - before.blocks_decoded)
}

#[test]
fn the_counter_counts_what_a_connection_allocates() {
    let opening = allocation_counter::measure(|| drop(Flow::open(FlowConfig::default()).unwrap()));
    assert!(opening.count_total > 20, "{opening:?}");
}

#[test]
fn without_loss_there_are_none() {
    for sealed in [true, false] {
        for seed in 1..4 {
            let config = FlowConfig { sealed, seed, ..FlowConfig::default() };
            let (count, blocks) = allocations(config);
            assert!(blocks > 200, "seed {seed}");
            assert_eq!(count, 0, "sealed: {sealed}, seed {seed}, {blocks} blocks");
        }
    }
}

/// Streams of one session, each with unlimited data.
const STREAMS: u32 = 8;

#[test]
fn of_eight_streams_without_loss_there_are_none() {
    for sealed in [true, false] {
        for seed in 1..4 {
            let config = FlowConfig { sealed, seed, streams: STREAMS, ..FlowConfig::default() };
            let (count, blocks) = allocations(config);
            assert!(blocks > 200, "seed {seed}");
            assert_eq!(count, 0, "sealed: {sealed}, seed {seed}, {blocks} blocks");
        }
    }
}

/// Eight writers that are far ahead need up to 1 MiB each at a time. The memory that they release exceeds the limit of
/// memory kept for reuse by blocks.
#[test]
fn of_eight_streams_written_far_ahead_they_are_fewer_than_blocks() {
    let send_buffering = SendBuffering::Deep;
    let (count, blocks) = allocations(FlowConfig { streams: STREAMS, send_buffering, ..FlowConfig::default() });
    assert!(count < blocks / 2, "{count}, {blocks} blocks");
}

/// With losses, the number of concurrent blocks, and of repair symbols in each, sometimes exceeds its previous maximum: that memory is
/// allocated, and kept. With a new decoder per block there would be 900 allocations.
#[test]
fn with_a_tenth_lost_they_are_rare() {
    for streams in [0, STREAMS] {
        let mut counts = Vec::new();
        for sealed in [true, false] {
            for seed in 1..4 {
                let interface_bps = 1_000_000_000;
                let config = FlowConfig { sealed, seed, loss: 0.1, interface_bps, streams, ..FlowConfig::default() };
                let (count, blocks) = allocations(config);
                assert!(blocks > 150, "seed {seed}, {streams} streams");
                counts.push(count);
            }
        }
        let datagrams = counts.len() as u64 * DATAGRAMS;
        let count: u64 = counts.iter().sum();
        assert!(count <= datagrams / 1_000, "{streams} streams; sealed with seeds 1, 2, 3, then unsealed: {counts:?}");
    }
}

/// The memory for reuse by blocks is bounded, so a long path with much data waiting for repair exceeds it: a few allocations per block of
/// 64 kB.
#[test]
fn on_a_long_path_with_losses_they_are_fewer_than_blocks() {
    let (interface_bps, delay) = (1_000_000_000, Duration::from_millis(20));
    let (count, blocks) = allocations(FlowConfig { loss: 0.1, interface_bps, delay, ..FlowConfig::default() });
    assert!(count < blocks, "{count}, {blocks} blocks");
}
