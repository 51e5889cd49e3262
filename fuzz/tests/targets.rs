//! Tests that run every target without libFuzzer: over the seeds, over changed seeds, and over arbitrary bytes.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dfcp_fuzz::input::{Input, mutate};
use dfcp_fuzz::{TARGETS, Target, seeds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// Maximum length of the arbitrary inputs, and their number. Small for the classic code, whose blocks take
/// milliseconds.
fn effort(target: &str) -> (usize, u32) {
    match target {
        "raptor_decoder" => (60, 60),
        "connection_classic" => (300, 40),
        "connection" | "connection_messages" | "connection_unsealed" | "feedback_session" => (1_500, 150),
        "secure_handshake" => (200, 150),
        _ => (1_500, 400),
    }
}

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}

/// Seed files of a target, by name: those made by `write_seeds`, and inputs that failed in the past.
fn seed_files(target: &str) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder(target)).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// Runs a target over its seeds and over fixed pseudo-random inputs. Proptest prints a failing input.
fn exercise((name, body): Target) {
    let files: Vec<Vec<u8>> = seed_files(name).into_values().collect();
    assert!(!files.is_empty(), "{name} has no seeds");
    files.iter().for_each(|seed| body(seed));
    let (length, cases) = effort(name);
    let config =
        ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() };
    let changed = (prop::sample::select(files), vec(any::<u8>(), 1..40)).prop_map(|(mut bytes, edits)| {
        let mut edits = Input::new(&edits);
        while !edits.is_empty() {
            mutate(&mut edits, &mut bytes);
        }
        bytes
    });
    let input = prop_oneof![changed, vec(any::<u8>(), 0..length)];
    TestRunner::new(config)
        .run(&input, |bytes| {
            body(&bytes);
            Ok(())
        })
        .unwrap();
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let target = TARGETS.into_iter().find(|(name, _)| *name == stringify!($name)).unwrap();
            exercise(target);
        })*

        #[test]
        fn every_target_is_listed_everywhere() {
            let here = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|(name, _)| name), here);
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let script = fs::read_to_string(root.join("run.sh")).unwrap();
            let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
            for name in here {
                assert!(script.contains(name) && manifest.contains(&format!("name = \"{name}\"")), "{name}");
                assert!(root.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
            }
        }
    };
}

targets! {
    wire_segment wire_options wire_handshake wire_feedback secure_handshake secure_packets secure_files
    fountain_decoder raptor_decoder file_framing connection connection_messages connection_unsealed connection_classic
    feedback_session
}

#[test]
fn the_seed_files_are_what_write_seeds_makes() {
    for seed in seeds::all() {
        assert_eq!(seed_files(seed.target).get(&seed.name), Some(&seed.bytes), "{}/{}", seed.target, seed.name);
    }
}
