//! Bit-parallel matching of exclude patterns, 64 steps at a time.
//!
//! Both pattern and name come from a peer, so the work must be bounded. All partial matches are followed
//! simultaneously, one bit each. A byte of a name costs a few operations per 64 steps, and the tables take at most 4
//! bits per step and byte class.

use super::Step;

/// Steps of a pattern as rows of bits. Bit `i` means that step `i` is next; the bit after the last step means that the
/// pattern is complete.
#[derive(Debug)]
pub(super) struct Automaton {
    /// Number of 64-bit words per row.
    words: usize,
    end: usize,
    /// Class of each byte, which selects the row in `advance` and `stay`.
    kinds: Box<[u8; 256]>,
    /// Per class: the steps that a byte of the class completes.
    advance: Vec<u64>,
    /// Per class: the steps that can consume a byte of the class and continue.
    stay: Vec<u64>,
    /// Steps that may match nothing, so the following step is reachable without a byte.
    optional: Vec<u64>,
    /// [`Step::Directories`] steps, from which the next two steps are reachable without a byte.
    directories: Vec<u64>,
}

impl Automaton {
    pub(super) fn new(steps: &[Step]) -> Self {
        let words = (steps.len() + 1).div_ceil(64);
        let (kinds, examples) = kinds(steps);
        let row = |is_in: &dyn Fn(&Step) -> bool| {
            let mut row = vec![0; words];
            for (place, _) in steps.iter().enumerate().filter(|(_, step)| is_in(step)) {
                row[place / 64] |= 1 << (place % 64);
            }
            row
        };
        let rows = |is_in: fn(&Step, u8) -> bool| {
            examples.iter().flat_map(|&byte| row(&|step| is_in(step, byte))).collect::<Vec<u64>>()
        };
        Self {
            words,
            end: steps.len(),
            kinds,
            advance: rows(Step::ends_with),
            stay: rows(Step::goes_on_with),
            optional: row(&|step| matches!(step, Step::Star | Step::DoubleStar)),
            directories: row(&|step| matches!(step, Step::Directories)),
        }
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let mut reached = vec![0; self.words];
        let mut next = reached.clone();
        reached[0] = 1;
        self.skip(&mut reached);
        for &byte in name {
            let at = usize::from(self.kinds[usize::from(byte)]) * self.words;
            let (advance, stay) = (&self.advance[at..at + self.words], &self.stay[at..at + self.words]);
            let mut carry = 0;
            for (place, next) in next.iter_mut().enumerate() {
                let ended = reached[place] & advance[place];
                *next = ended << 1 | carry | reached[place] & stay[place];
                carry = ended >> 63;
            }
            self.skip(&mut next);
            std::mem::swap(&mut reached, &mut next);
        }
        reached[self.end / 64] >> (self.end % 64) & 1 == 1
    }

    /// Adds the steps reachable without consuming a byte. [`Step::Directories`] are handled before stars, because a
    /// star can follow one directly, but never precedes one directly.
    fn skip(&self, reached: &mut [u64]) {
        let (mut one, mut two) = (0, 0);
        for (reached, directories) in reached.iter_mut().zip(&self.directories) {
            let skipped = *reached & directories;
            *reached |= skipped << 1 | skipped << 2 | one | two;
            (one, two) = (skipped >> 63, skipped >> 62);
        }
        let mut carry = 0;
        for (reached, optional) in reached.iter_mut().zip(&self.optional) {
            let before = *reached | carry;
            let skipped = before & optional;
            *reached = before | skipped << 1;
            carry = skipped >> 63;
        }
    }

    /// Returns the words of work per byte of a name, and the memory in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let words = self.advance.len() + self.stay.len() + self.optional.len() + self.directories.len();
        (4 * self.words, 8 * words + self.kinds.len())
    }
}

/// Divides the bytes into classes: bytes that no step distinguishes share a class. Returns the class of each byte, and
/// one example byte per class.
fn kinds(steps: &[Step]) -> (Box<[u8; 256]>, Vec<u8>) {
    let mut begins = [false; 257];
    let mut cut = |low: u8, high: u8| {
        begins[usize::from(low)] = true;
        begins[usize::from(high) + 1] = true;
    };
    cut(b'/', b'/');
    for step in steps {
        match step {
            Step::Byte(byte) => cut(*byte, *byte),
            Step::Class { ranges, .. } => ranges.iter().for_each(|&(low, high)| cut(low, high)),
            Step::Star | Step::DoubleStar | Step::Directories | Step::Inside => {}
        }
    }
    let mut kinds = Box::new([0; 256]);
    let mut examples = vec![0];
    for byte in 1..=u8::MAX {
        if begins[usize::from(byte)] {
            examples.push(byte);
        }
        // Cannot truncate: there are at most 256 classes.
        kinds[usize::from(byte)] = (examples.len() - 1) as u8;
    }
    (kinds, examples)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Exclude, parse_steps};
    use super::*;

    /// Reference implementation by backtracking, directly from the definition of the steps.
    fn matches_by_definition(steps: &[Step], name: &[u8]) -> bool {
        let Some((step, rest)) = steps.split_first() else { return name.is_empty() };
        let without = match step {
            Step::Star | Step::DoubleStar => matches_by_definition(rest, name),
            Step::Directories => matches_by_definition(&rest[1..], name) || matches_by_definition(rest, name),
            Step::Byte(_) | Step::Class { .. } | Step::Inside => false,
        };
        let Some((byte, behind)) = name.split_first() else { return without };
        without
            || step.ends_with(*byte) && matches_by_definition(rest, behind)
            || step.goes_on_with(*byte) && matches_by_definition(steps, behind)
    }

    proptest! {
        #[test]
        fn patterns_match_what_their_steps_say(pattern in "(\\*\\*/|/\\*\\*/|[ab?*/]|\\[!?[abc]\\]){1,9}", name in "[abc/]{0,9}") {
            let mut steps = Vec::new();
            parse_steps(pattern.as_bytes(), &mut steps).unwrap();
            let found = Automaton::new(&steps).matches(name.as_bytes());
            prop_assert_eq!(found, matches_by_definition(&steps, name.as_bytes()));
        }

        /// Long patterns need more than one 64-bit word per row.
        #[test]
        fn long_patterns_match_what_short_ones_do(pattern in "(\\*\\*/|/\\*\\*/|[ab?*/]){1,6}", name in "[ab/]{0,7}", before in 50..140_usize) {
            let (mut short, mut long) = (Vec::new(), Vec::new());
            parse_steps(format!("x/{pattern}").as_bytes(), &mut short).unwrap();
            let begin = "x".repeat(before);
            parse_steps(format!("{begin}/{pattern}").as_bytes(), &mut long).unwrap();
            let found = Automaton::new(&long).matches(format!("{begin}/{name}").as_bytes());
            prop_assert_eq!(found, Automaton::new(&short).matches(format!("x/{name}").as_bytes()));
        }
    }

    /// A peer may send patterns of this length, and names of 4096 bytes.
    #[test]
    fn the_dearest_patterns_take_some_operations_for_64_steps_and_bounded_tables() {
        let many_kinds: String = (33..127_u8).filter(|byte| !b"\\[]*?/".contains(byte)).map(char::from).collect();
        for (text, tables_max) in [
            (format!("/**{}", "?".repeat(1021)), 2048),
            ("/**?*?*?".repeat(128), 4096),
            (many_kinds.repeat(11), 96 << 10),
        ] {
            assert!(text.len() <= 1024, "{}", text.len());
            let all = Exclude::new(std::slice::from_ref(&text)).unwrap();
            let (words, bytes) = all.patterns[0].automaton.size();
            assert!(words <= 4 * 17 && bytes <= tables_max, "{words} words, {bytes} bytes");
        }
    }
}
