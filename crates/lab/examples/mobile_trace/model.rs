//! Synthetic trace of a mobile link, in the format of mahimahi.
//!
//! The rate is a mean times one plus two random processes: a slow one (distance, shadowing, other users of the cell)
//! and a fast one (fading). Each process is a first-order autoregression with a given correlation time. Its noise is
//! nearly Gaussian: the sum of twelve uniform numbers. A scheduler serves the user only in some of the 1 ms intervals,
//! and then sends all packets of 1500 bytes for which the link has accumulated capacity. There are no outages and no
//! handovers.
//!
//! The model uses only additions, multiplications, square roots and comparisons, which give the same result on every
//! machine.

use std::fmt::Write as _;

/// Parameters of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Length of the trace before it repeats, s.
    pub(crate) seconds: u32,
    /// Mean rate, Mbit/s.
    pub(crate) mean_mbps: f64,
    /// Bounds of the rate (least, greatest), Mbit/s.
    pub(crate) within_mbps: (f64, f64),
    /// Slow process: standard deviation as a share of the mean, and correlation time, ms.
    pub(crate) slow: (f64, f64),
    /// Fast process: standard deviation as a share of the mean, and correlation time, ms.
    pub(crate) fast: (f64, f64),
    /// Mean distance between served intervals, in intervals of 1 ms.
    pub(crate) served_one_in: u32,
}

/// Parameters of the shipped trace. Its rates, 1 to 4 Mbit/s, are those of the network measured in the dissertation.
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

/// SplitMix64 generator: each seed gives the same sequence on every machine.
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

    /// Draws a nearly Gaussian number with mean 0 and standard deviation 1.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Advances an autoregression by 1 ms, given its (standard deviation, correlation time in ms).
fn step(state: f64, (deviation, time_ms): (f64, f64), random: &mut Draw) -> f64 {
    let keeps = 1.0 - 1.0 / time_ms;
    // The factor of the noise keeps the variance constant.
    keeps * state + deviation * (1.0 - keeps * keeps).sqrt() * random.noise()
}

/// Generates the trace. Each line is a time in ms at which a packet of 1500 bytes may be sent.
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
        // The last line sets the period after which the trace repeats.
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
