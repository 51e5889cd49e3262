//! Generator of incompressible bytes.

/// SplitMix64 (Steele, Lea, Flood 2014). Each number yields one byte.
pub(super) struct Noise(u64);

impl Noise {
    /// Creates a generator with this seed.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Iterator for Noise {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some((mixed ^ (mixed >> 31)) as u8)
    }
}
