//! Random sessions of many streams, with resets and stops: no byte is wrong, every half ends, no honest end is accused, and credit neither
//! leaks nor grows.

use dfcp_protocol_tests::random_streams::StreamScenario;

#[test]
fn random_streams_0_to_74() {
    (0..75).for_each(|seed| StreamScenario::draw(seed).run().unwrap());
}

#[test]
fn random_streams_75_to_149() {
    (75..150).for_each(|seed| StreamScenario::draw(seed).run().unwrap());
}

/// Replays seeds: `STREAM_SEED=7` for one, `STREAM_SEED=0..5000` for many.
#[test]
fn replay() {
    let Ok(seeds) = std::env::var("STREAM_SEED") else { return };
    let mut ends = seeds.split("..").map(|end| end.parse::<u64>().unwrap());
    let first = ends.next().unwrap();
    let failed: Vec<_> = (first..ends.next().unwrap_or(first + 1))
        .filter_map(|seed| StreamScenario::draw(seed).run().err().map(|error| format!("{error:#}")))
        .collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
