//! Random numbers for occasional use, without a generator in memory: a generator takes 320 bytes, most of them
//! precomputed numbers.

use std::fmt;
use std::marker::PhantomData;

use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_chacha::{ChaCha8Rng, ChaCha20Rng};

/// A generator that can continue from any position in its sequence.
pub(crate) trait Seekable: Rng + SeedableRng<Seed = [u8; 32]> {
    /// Returns the number of 32-bit words drawn so far.
    fn words(&self) -> u128;
    /// Continues behind the first `words` 32-bit words.
    fn seek(&mut self, words: u128);
}

impl Seekable for ChaCha8Rng {
    fn words(&self) -> u128 {
        self.get_word_pos()
    }

    fn seek(&mut self, words: u128) {
        self.set_word_pos(words);
    }
}

impl Seekable for ChaCha20Rng {
    fn words(&self) -> u128 {
        self.get_word_pos()
    }

    fn seek(&mut self, words: u128) {
        self.set_word_pos(words);
    }
}

/// Position in a generator's sequence. The drawn numbers are the same as from a generator kept in memory.
pub(crate) struct SeekableRng<G> {
    seed: [u8; 32],
    words: u64,
    generator: PhantomData<G>,
}

impl<G: Seekable> SeekableRng<G> {
    pub(crate) const fn new(seed: [u8; 32]) -> Self {
        Self { seed, words: 0, generator: PhantomData }
    }

    /// Calls `draw` with a generator that continues behind the last draw.
    pub(crate) fn with<T>(&mut self, draw: impl FnOnce(&mut G) -> T) -> T {
        let mut generator = G::from_seed(self.seed);
        generator.seek(self.words.into());
        let drawn = draw(&mut generator);
        self.words = generator.words() as u64;
        drawn
    }

    /// Draws 32 bytes, for a seed or a secret.
    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.with(|generator| generator.fill_bytes(&mut bytes));
        bytes
    }
}

impl<G> fmt::Debug for SeekableRng<G> {
    /// Omits the seed, which determines all numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeekableRng").field("words", &self.words).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn draw(generator: &mut impl Rng, what: usize) -> Vec<u64> {
        match what {
            0 => vec![generator.next_u32().into()],
            1 => vec![generator.next_u64()],
            bytes => {
                let mut drawn = vec![0; bytes];
                generator.fill_bytes(&mut drawn);
                drawn.into_iter().map(u64::from).collect()
            }
        }
    }

    fn check<G: Seekable>(seed: [u8; 32], steps: &[(bool, usize)]) -> Result<(), TestCaseError> {
        let (mut kept, mut draws) = (G::from_seed(seed), SeekableRng::<G>::new(seed));
        for &(twice, what) in steps {
            let times = 1 + usize::from(twice);
            let expected: Vec<_> = (0..times).map(|_| draw(&mut kept, what)).collect();
            let drawn: Vec<_> = draws.with(|generator| (0..times).map(|_| draw(generator, what)).collect());
            prop_assert_eq!(drawn, expected);
        }
        Ok(())
    }

    proptest! {
        /// Model: a generator kept in memory.
        #[test]
        fn draws_go_on_where_the_last_ended(seed: [u8; 32], steps in prop::collection::vec((any::<bool>(), 0_usize..80), 0..100)) {
            check::<ChaCha8Rng>(seed, &steps)?;
            check::<ChaCha20Rng>(seed, &steps)?;
        }
    }

    #[test]
    fn debug_shows_no_seed() {
        let mut draws = SeekableRng::<ChaCha20Rng>::new([0x77; 32]);
        draws.bytes();
        assert_eq!(format!("{draws:?}"), "SeekableRng { words: 8, .. }");
    }
}
