//! Counted cases. Every case is determined by constants: no clock, and random numbers only from fixed seeds.

mod code;
pub(crate) mod growth;
mod life;
mod messages;
mod seals;
mod segments;

use anyhow::{Context, Result};

/// A repeated operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Unit of one repetition, such as `block`.
    pub(crate) unit: &'static str,
    /// Description, as a phrase.
    pub(crate) what: &'static str,
    /// Number of repetitions.
    pub(crate) repetitions: u64,
    /// Parts with separate counts: name, and a function that contains only that part.
    pub(crate) parts: &'static [(&'static str, &'static str)],
    /// Prepares the case, and runs this number of repetitions in [`counted`].
    pub(crate) run: fn(u64) -> Result<()>,
}

/// Name of the function within which instructions are counted.
pub(crate) const COUNTED: &str = "cases::counted";

/// Runs the counted work. Never inlined, because callgrind finds it by name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::hint::black_box(work())
}

/// All cases, in printing order.
pub(crate) fn all() -> Vec<Case> {
    [code::CASES, seals::CASES, segments::CASES, life::CASES, messages::CASES].concat()
}

/// Finds the case with this name.
///
/// # Errors
/// Fails if there is none.
pub(crate) fn find(name: &str) -> Result<Case> {
    let growing = growth::KINDS.iter().flat_map(|kind| kind.cases);
    let found = all().into_iter().chain(growing).find(|case| case.name == name);
    found.with_context(|| format!("there is no case `{name}`: `instructions list` prints them"))
}

/// Deterministic pseudo-random bytes: successive outputs of xorshift.
fn random_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_runs_and_has_a_name_of_its_own() {
        let cases = all();
        for case in &cases {
            (case.run)(case.repetitions.min(64)).unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        }
        assert_eq!(cases.iter().map(|case| case.name).collect::<BTreeSet<_>>().len(), cases.len());
        assert!(find(cases[0].name).is_ok() && find("nothing").is_err());
    }
}
