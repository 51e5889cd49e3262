//! A synthetic recording of a mobile link, in the format of mahimahi.
//!
//! The rate is a mean times one plus the sum of two processes, as a user in a cell sees them: a slow one (distance, shadowing, other users
//! of the cell) and a fast one (fading). Each is a first-order autoregression with a correlation time, driven by nearly Gaussian noise (the
//! sum of twelve uniform numbers). A scheduler serves the user in some of the 1 ms intervals only, and then sends all that the link has
//! saved up; each packet of 1500 bytes is subtracted. There are no outages and no handovers.
//!
//! The model uses only additions, multiplications, square roots and comparisons, which give the same result on every machine.

use std::fmt::Write as _;

/// Model of a mobile trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Length of the trace before it repeats, s.
    pub(crate) seconds: u32,
    /// Mean rate, Mbit/s.
    pub(crate) mean_mbps: f64,
    /// Least and greatest rate, Mbit/s.
    pub(crate) within_mbps: (f64, f64),
    /// The slow process: its standard deviation as a share of the mean, and its correlation time, ms.
    pub(crate) slow: (f64, f64),
    /// The fast process: its standard deviation as a share of the mean, and its correlation time, ms.
    pub(crate) fast: (f64, f64),
    /// Mean number of 1 ms intervals per interval in which the user is served.
    pub(crate) served_one_in: u32,
}

/// Model of the shipped trace: 1 to 4 Mbit/s, the rates of the network that the dissertation measured.
pub(crate) const SHIPPED: Model = Model {
    seconds: 60,
    mean_mbps: 2.5,
    within_mbps: (1.0, 4.0),
    slow: (0.25, 8_000.0),
    fast: (0.12, 150.0),
    served_one_in: 4,
};

/// Seed of the shipped trace.
pub(crate) const SHIPPED_SEED: u64 = 1;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    /// Draws a number from 0 (included) to 1 (excluded).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws a number of mean 0 and standard deviation 1.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Advances an autoregression of this standard deviation and correlation time by 1 ms.
fn step(state: f64, (deviation, time_ms): (f64, f64), random: &mut Draw) -> f64 {
    let keeps = 1.0 - 1.0 / time_ms;
    // This amount of noise keeps the variance constant.
    keeps * state + deviation * (1.0 - keeps * keeps).sqrt() * random.noise()
}

/// Makes the trace: each line is the millisecond at which a packet of 1500 bytes may be sent.
pub(crate) fn trace(model: &Model, seed: u64) -> String {
    const PACKET_BITS: f64 = 1500.0 * 8.0;
    let mut random = Draw(seed);
    let (mut slow, mut fast, mut saved_bits) = (0.0, 0.0, 0.0);
    let mut lines = String::new();
    for ms in 1..=model.seconds * 1_000 {
        slow = step(slow, model.slow, &mut random);
        fast = step(fast, model.fast, &mut random);
        let mbps = (model.mean_mbps * (1.0 + slow + fast)).clamp(model.within_mbps.0, model.within_mbps.1);
        saved_bits += mbps * 1e3;
        // The last line states the time at which the trace repeats.
        let is_last = ms == model.seconds * 1_000;
        if is_last || random.unit() * f64::from(model.served_one_in) < 1.0 {
            while saved_bits >= PACKET_BITS {
                saved_bits -= PACKET_BITS;
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{ms}");
            }
        }
        if is_last && !lines.ends_with(&format!("\n{ms}\n")) {
            let _ = writeln!(lines, "{ms}");
        }
    }
    lines
}
