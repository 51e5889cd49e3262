//! Thousands of streams are opened and ended on paths with loss and address changes, with pausing readers and messages: all end, and the
//! lists of a session agree with its streams.

use dfcp_protocol_tests::storm::StormScenario;

#[test]
fn storms_end() {
    (0..12).for_each(|seed| StormScenario::draw(seed).run().unwrap());
}

/// Replays seeds: `STORM_SEED=7` for one, `STORM_SEED=0..500` for many.
#[test]
fn replay() {
    let Ok(seeds) = std::env::var("STORM_SEED") else { return };
    let mut ends = seeds.split("..").map(|end| end.parse::<u64>().unwrap());
    let first = ends.next().unwrap();
    let failed: Vec<_> = (first..ends.next().unwrap_or(first + 1))
        .filter_map(|seed| StormScenario::draw(seed).run().err().map(|error| format!("{error:#}")))
        .collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
