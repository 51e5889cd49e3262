use super::drawn::BLOCK;
use super::{Element, Length, PathId, RandomPath};

#[test]
fn ids_are_read_as_they_are_written() {
    for text in ["R1-4-17", "R1s-0-0", "R1-18446744073709551615-99999"] {
        assert_eq!(PathId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
    }
    for text in ["R1", "R1-4", "R1-4-100000", "R1-x-1", "R1-1-2-3", "R12-1-2", "A1", ""] {
        assert_eq!(PathId::parse(text), None, "{text:?}");
    }
}

/// A path must be the same on every machine and in every version, because reports name paths by their ids.
#[test]
fn a_path_is_drawn_as_ever() {
    let path = RandomPath::draw(4, 17, Length::Whole);
    assert_eq!(path, RandomPath::draw(4, 17, Length::Whole));
    insta::assert_snapshot!(path.toml("R1-4-17", Length::Whole));
}

#[test]
fn every_path_is_a_valid_plan_within_the_ranges() {
    for (length, number) in
        [Length::Whole, Length::Short].into_iter().flat_map(|length| (0..200).map(move |n| (length, n)))
    {
        let id = PathId { length, seed: 9, number };
        let path = id.path();
        assert!((0.056..=1000.0).contains(&path.rate_mbps) && (2.0..=800.0).contains(&path.rtt_ms), "{path:?}");
        assert!(path.back_mbps >= 0.02 && path.carries_mbps() >= path.rate_mbps.min(0.064), "{path:?}");
        let runs = id.runs().unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(runs.len(), 7, "Auto, Delivery, three that are told, BBR and CUBIC");
        assert!(runs.iter().all(|run| run.plan == id.plan()));
        let mut hashes: Vec<_> = runs.iter().map(|run| &run.hash).collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), 7);
        if length == Length::Short {
            let gbit = runs[0].scenario.duration_ns as f64 / 1e9 * path.rate_mbps / 1e3;
            assert!(gbit < 2.1, "{gbit} Gbit: {path:?}");
        }
    }
}

/// Within a block each quantity takes every hundredth of its distribution once.
#[test]
fn a_block_covers_every_range_evenly() {
    let paths: Vec<_> = (0..BLOCK).map(|number| RandomPath::draw(1, number, Length::Whole)).collect();
    let mut rates: Vec<f64> = paths.iter().map(|path| path.rate_mbps.ln()).collect();
    rates.sort_by(f64::total_cmp);
    let (low, high) = (0.056_f64.ln(), 1000_f64.ln());
    for (place, rate) in rates.iter().enumerate() {
        let part = (rate - low) / (high - low) * BLOCK as f64;
        assert!((part - place as f64 - 0.5).abs() < 0.6, "number {place} lies at {part}");
    }
    let count = |of: &dyn Fn(&RandomPath) -> bool| paths.iter().filter(|path| of(path)).count();
    assert_eq!(count(&|path| path.loss.is_some()), 45);
    assert_eq!(count(&|path| path.jitter_ms.is_some()), 30);
    assert_eq!(count(&|path| path.batch_ms.is_some()), 15);
    assert_eq!(count(&|path| matches!(path.element, Element::Policer(..))), 15);
    assert_eq!(count(&|path| path.element == Element::Codel), 5);
}
