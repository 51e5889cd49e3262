//! Random numbers for scenarios, the same on every machine.

/// SplitMix64 generator: each seed gives the same sequence on every machine.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// Draws a number from 0 (included) to 1 (excluded).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn even(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a number with uniformly distributed logarithm. It is rounded to three digits, so that people can copy it
    /// from a record.
    pub(crate) fn log(&mut self, (low, high): (f64, f64)) -> f64 {
        let value = (low.ln() + (high.ln() - low.ln()) * self.unit()).exp();
        let digit = 10_f64.powf(value.log10().floor() - 2.0);
        (value / digit).round() * digit
    }

    pub(crate) fn whole(&mut self, (low, high): (u32, u32)) -> u32 {
        low + (f64::from(high - low + 1) * self.unit()) as u32
    }
}
