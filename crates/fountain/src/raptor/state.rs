//! Validated state of the generator.

/// Minimum valid value of each component. A smaller component has only bits that its recurrence masks out, so it would
/// stay zero forever.
pub(super) const COMPONENT_MIN: [u32; 3] = [2, 8, 16];

/// Bits of each component that its recurrence uses (the constants C of the paper).
pub(super) const COMPONENT_MASK: [u32; 3] = [0xffff_fffe, 0xffff_fff8, 0xffff_fff0];

/// Valid state of [`Taus88`](super::Taus88): the three words S1, S2, S3 of a segment's header.
///
/// States are equal if their words are equal. Two states that differ only in bits ignored by the generator (the lowest
/// 1, 3 and 4 bits) draw the same numbers; [`State::canonical`] maps both to the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State([u32; 3]);

impl State {
    /// Creates the state (s1, s2, s3); `None` unless s1 > 1, s2 > 7 and s3 > 15.
    #[must_use]
    pub fn new(s1: u32, s2: u32, s3: u32) -> Option<Self> {
        Self::from_words([s1, s2, s3])
    }

    /// Creates a state from the words in header order; `None` for invalid words, as in [`State::new`].
    #[must_use]
    pub fn from_words(words: [u32; 3]) -> Option<Self> {
        words.iter().zip(COMPONENT_MIN).all(|(&word, least)| word >= least).then_some(Self(words))
    }

    /// Returns the words s1, s2, s3.
    #[must_use]
    pub fn words(self) -> [u32; 3] {
        self.0
    }

    /// Clears the bits that the generator ignores. The drawn numbers stay the same.
    #[must_use]
    pub fn canonical(self) -> Self {
        let [s1, s2, s3] = self.0;
        Self([s1 & COMPONENT_MASK[0], s2 & COMPONENT_MASK[1], s3 & COMPONENT_MASK[2]])
    }

    /// Creates a state from a running generator, whose components never fall below their minimum values.
    pub(super) fn of_running(words: [u32; 3]) -> Self {
        Self(words)
    }
}
