//! A validated generator state, and the states derived from a connection's initial one.

use super::taus88::{COMPONENT_MASK, COMPONENT_MIN, Taus88};

/// A valid state of [`Taus88`]: the three words S1, S2, S3 of a segment's header.
///
/// Equality is that of the words. Two states that differ only in bits which the generator ignores (the lowest 1, 3
/// and 4 bits) draw the same numbers; [`State::canonical`] maps both to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State([u32; 3]);

/// Purpose of a derived state; keeps the precode's and the segments' states apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// The LDPC precode of the block with that ID.
    Precode,
    /// The nth of the sender's reusable segment states.
    Segment,
}

impl State {
    /// The state (s1, s2, s3), or `None` unless s1 > 1, s2 > 7 and s3 > 15.
    #[must_use]
    pub fn new(s1: u32, s2: u32, s3: u32) -> Option<Self> {
        Self::from_words([s1, s2, s3])
    }

    /// The state, from the words in header order.
    #[must_use]
    pub fn from_words(words: [u32; 3]) -> Option<Self> {
        words.iter().zip(COMPONENT_MIN).all(|(&word, least)| word >= least).then_some(Self(words))
    }

    /// The words s1, s2, s3.
    #[must_use]
    pub fn words(self) -> [u32; 3] {
        self.0
    }

    /// The state with the bits that the generator ignores set to zero. It draws the same numbers.
    #[must_use]
    pub fn canonical(self) -> Self {
        let [s1, s2, s3] = self.0;
        Self([s1 & COMPONENT_MASK[0], s2 & COMPONENT_MASK[1], s3 & COMPONENT_MASK[2]])
    }

    /// The state which both ends derive from this initial state for `number` (spec: "Derived states").
    ///
    /// Each word is hashed with the number, not added to it: neighbouring numbers must not give generators whose
    /// outputs are correlated, and the generator itself is linear.
    pub(super) fn derive(self, purpose: Purpose, number: u32) -> Self {
        let salts: [u32; 3] = match purpose {
            Purpose::Precode => [0x9e37_79b9, 0x3c6e_f372, 0xdaa6_6d2b],
            Purpose::Segment => [0x78dd_e6e4, 0x1715_609d, 0xb54c_da56],
        };
        let mixed = core::array::from_fn(|word| mix(self.0[word] ^ mix(number ^ salts[word])));
        Self(Taus88::warmed_up(mixed).state())
    }
}

/// The 32-bit finaliser of `MurmurHash3`: a bijection in which each input bit changes each output bit half the time.
fn mix(mut word: u32) -> u32 {
    word ^= word >> 16;
    word = word.wrapping_mul(0x85eb_ca6b);
    word ^= word >> 13;
    word = word.wrapping_mul(0xc2b2_ae35);
    word ^ (word >> 16)
}
