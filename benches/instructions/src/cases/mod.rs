//! The cases that are counted. Every case is determined by constants: no clock, no randomness but of fixed seeds.

mod code;
pub(crate) mod growth;
mod life;
mod messages;
mod seals;
mod segments;

use anyhow::{Context, Result};

/// A thing which is done over and over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Unit of one repetition, as `block`.
    pub(crate) unit: &'static str,
    /// Description, as a phrase.
    pub(crate) what: &'static str,
    /// Number of repetitions.
    pub(crate) repetitions: u64,
    /// Parts which are counted by themselves: what they are called, and a function which does nothing else.
    pub(crate) parts: &'static [(&'static str, &'static str)],
    /// Makes ready, and does this number of repetitions in [`counted`].
    pub(crate) run: fn(u64) -> Result<()>,
}

/// Name of the function inside of which instructions count.
pub(crate) const COUNTED: &str = "cases::counted";

/// Does what is counted. Never inlined, as callgrind knows it by its name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::hint::black_box(work())
}

/// All cases, in the order in which they are printed.
pub(crate) fn all() -> Vec<Case> {
    [code::CASES, seals::CASES, segments::CASES, life::CASES, messages::CASES].concat()
}

/// The case of this name.
///
/// # Errors
/// If there is none.
pub(crate) fn find(name: &str) -> Result<Case> {
    let growing = growth::KINDS.iter().flat_map(|kind| kind.cases);
    let found = all().into_iter().chain(growing).find(|case| case.name == name);
    found.with_context(|| format!("there is no case `{name}`: `instructions list` prints them"))
}

/// Bytes which look random and are always the same: successive outputs of xorshift.
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
