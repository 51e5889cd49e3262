//! Tausworthe generator of Linux 2.6.26 (`lib/random32.c`): L'Ecuyer's taus88 (1996).

use super::state::{COMPONENT_MASK, COMPONENT_MIN, State};

/// Number of draws after seeding, as in the kernel, so that similar seeds diverge.
const WARM_UP_DRAWS: usize = 6;

/// Maximally equidistributed combined Tausworthe generator of 32-bit numbers, with a period of about 2⁸⁸.
///
/// Source: P. L'Ecuyer, “Maximally equidistributed combined Tausworthe generators”, 1996; thesis §3.7.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taus88 {
    s1: u32,
    s2: u32,
    s3: u32,
}

impl Taus88 {
    /// Makes a generator with the state (s1, s2, s3); `None` if s1 ≤ 1, s2 ≤ 7 or s3 ≤ 15: such a component yields only zeros. A segment
    /// with such a state in its header is malformed and must be dropped.
    #[must_use]
    pub fn from_state(state: [u32; 3]) -> Option<Self> {
        State::from_words(state).map(Self::at)
    }

    /// Makes a generator with the kernel's seeding: the linear congruential steps s1 = 69069·seed, s2 = 69069·s1, s3 = 69069·s2 (seed 0
    /// counts as 1), then six draws.
    ///
    /// A component below its minimum value is increased by that value, as in kernels after 2.6.26.
    #[must_use]
    pub fn from_seed(seed: u32) -> Self {
        let s1 = 69_069_u32.wrapping_mul(seed.max(1));
        let s2 = 69_069_u32.wrapping_mul(s1);
        let s3 = 69_069_u32.wrapping_mul(s2);
        Self::warmed_up([s1, s2, s3])
    }

    /// Makes a generator with a valid state.
    #[must_use]
    pub fn at(state: State) -> Self {
        let [s1, s2, s3] = state.words();
        Self { s1, s2, s3 }
    }

    /// Makes a generator with a state that a running generator has reached.
    pub(super) fn continued([s1, s2, s3]: [u32; 3]) -> Self {
        Self { s1, s2, s3 }
    }

    /// Increases each word below its minimum value by that value, then draws six times.
    pub(super) fn warmed_up(words: [u32; 3]) -> Self {
        let raised = |component: usize| {
            let (word, least) = (words[component], COMPONENT_MIN[component]);
            if word < least { word + least } else { word }
        };
        let mut generator = Self { s1: raised(0), s2: raised(1), s3: raised(2) };
        for _ in 0..WARM_UP_DRAWS {
            generator.next_u32();
        }
        generator
    }

    /// Returns the state (s1, s2, s3) as in a segment's header: the next draw follows from it.
    #[must_use]
    pub fn state(&self) -> [u32; 3] {
        [self.s1, self.s2, self.s3]
    }

    /// Returns the next number, uniform over 0 ..= 2³² − 1.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.s1 = step_component(0, self.s1);
        self.s2 = step_component(1, self.s2);
        self.s3 = step_component(2, self.s3);
        self.s1 ^ self.s2 ^ self.s3
    }
}

/// Returns the next value of a component (0, 1, 2 for s1, s2, s3). The function is linear over GF(2).
#[inline(always)]
pub(super) const fn step_component(component: usize, word: u32) -> u32 {
    let masked = word & COMPONENT_MASK[component];
    match component {
        0 => (masked << 12) ^ (((word << 13) ^ word) >> 19),
        1 => (masked << 4) ^ (((word << 2) ^ word) >> 25),
        _ => (masked << 17) ^ (((word << 3) ^ word) >> 11),
    }
}
