//! Random numbers of a link.
//!
//! They are part of the crate's contract: the same seed gives the same losses, delays, copies and damage in every
//! release and on every platform (`tests/golden.rs` records the patterns). Nothing here may therefore depend on parts
//! of `rand` that can change. The generator is PCG XSL RR 128/64 (MCG) as published by O'Neill, seeded by SplitMix64.
//! Probabilities are compared with 53 bits of its output.

use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

/// Random generator of one impairment, or of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64Mcg);

/// Purpose of a random generator. The numbers enter the seed and must never change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Loss = 1,
    Jitter = 2,
    Reorder = 3,
    Duplicate = 4,
    Corrupt = 5,
    Queue = 6,
}

impl Random {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut state = seed ^ (stream as u64).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let high = split_mix_64(&mut state);
        let low = split_mix_64(&mut state);
        Self(Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low)))
    }

    /// Returns true with probability `probability`: never for 0, always for 1.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        ((self.0.next_u64() >> 11) as f64 * SCALE) < probability
    }

    /// Returns a uniformly distributed 64-bit number.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number uniformly distributed over `0..=max`, up to a bias below 2⁻⁶⁴ · `max`.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * (u128::from(max) + 1)) >> 64) as u64
    }
}

/// Returns the next number of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014).
fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*state)
}

/// Output function of SplitMix64: a bijection in which every input bit influences all output bits.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_64_matches_its_published_vector() {
        let mut state = 1_234_567;
        assert_eq!(split_mix_64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix_64(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn certain_and_impossible_events_are_exact() {
        let mut random = Random::new(3, Stream::Loss);
        assert!((0..10_000).all(|_| random.chance(1.0) && !random.chance(0.0)));
    }

    #[test]
    fn a_range_is_covered_evenly_and_never_left() {
        let mut random = Random::new(4, Stream::Jitter);
        let mut seen = [0u32; 5];
        for _ in 0..50_000 {
            seen[random.up_to(4) as usize] += 1;
        }
        // Five standard deviations of a binomial count (n = 50 000, p = 0.2) are 447.
        assert!(seen.iter().all(|&count| count.abs_diff(10_000) < 447), "{seen:?}");
        assert_eq!(random.up_to(0), 0);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let first = |stream| Random::new(9, stream).bits();
        let all = [Stream::Loss, Stream::Jitter, Stream::Reorder, Stream::Duplicate, Stream::Corrupt, Stream::Queue]
            .map(first);
        for (index, value) in all.iter().enumerate() {
            assert!(!all[..index].contains(value));
        }
    }
}
