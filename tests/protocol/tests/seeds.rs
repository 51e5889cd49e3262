//! Hundreds of random paths, jobs and configurations: every byte is equal, every run ends, and equal seeds give equal traces. Thousands:
//! `cargo run --release -p dfcp-protocol-tests --bin seeds -- --count 5000`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use dfcp_protocol_tests::random::Scenario;

fn run(seeds: std::ops::Range<u64>, bytes_max: u64) {
    let (mut classic, mut gave_up) = (0, Vec::new());
    for seed in seeds {
        let scenario = Scenario::draw(seed, bytes_max);
        classic += usize::from(scenario.is_classic());
        if scenario.run(false).unwrap().is_none() {
            gave_up.push(seed);
        }
    }
    // Modern never gives up, or `run` fails; classic may, after its documented five repeats, on paths with that much loss.
    assert!(gave_up.len() * 10 <= classic, "{} of {classic} classic runs gave up: seeds {gave_up:?}", gave_up.len());
}

#[test]
fn random_paths_0_to_99() {
    run(0..100, 1_000_000);
}

#[test]
fn random_paths_100_to_199() {
    run(100..200, 1_000_000);
}

#[test]
fn random_paths_200_to_299_with_short_streams() {
    run(200..300, 20_000);
}

#[test]
fn equal_seeds_give_equal_traces_and_others_do_not() {
    let trace =
        |seed| Scenario::draw(seed, 100_000).run(false).unwrap().map(|outcome| (outcome.trace, outcome.ended_at));
    for seed in 1_000..1_010 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(1_001), trace(1_002));
}
