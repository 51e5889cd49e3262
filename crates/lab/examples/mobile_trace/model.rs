//! A synthetic recording of a mobile link, in the format of mahimahi.
//!
//! The rate is a mean times one and the sum of two processes, as a user in a cell meets them: a slow one, of the distance, shadowing and the cell's other
//! users, and a fast one, of fading. Each is a first-order autoregression with a correlation time, driven by noise which is nearly
//! Gaussian (the sum of twelve uniform numbers). A scheduler serves the user in some of the intervals of 1 ms alone, and then with all that has
//! been saved up; what a packet of 1500 bytes needs is counted off. There are no outages and no handovers.
//!
//! All of it is additions, multiplications, square roots and comparisons, which give the same on every machine.

use std::fmt::Write as _;

/// Model of a mobile trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Length before it begins again, s.
    pub(crate) seconds: u32,
    /// Mean rate, Mbit/s.
    pub(crate) mean_mbps: f64,
    /// Range of its rate, Mbit/s.
    pub(crate) within_mbps: (f64, f64),
    /// Standard deviation of the slow process over the mean, and its correlation time, ms.
    pub(crate) slow: (f64, f64),
    /// Standard deviation of the fast process over the mean, and its correlation time, ms.
    pub(crate) fast: (f64, f64),
    /// Mean number of 1 ms intervals for each in which the user is served.
    pub(crate) served_one_in: u32,
}

/// The trace which is shipped: rates of the network which the dissertation measured, 1 to 4 Mbit/s.
pub(crate) const SHIPPED: Model = Model {
    seconds: 60,
    mean_mbps: 2.5,
    within_mbps: (1.0, 4.0),
    slow: (0.25, 8_000.0),
    fast: (0.12, 150.0),
    served_one_in: 4,
};

/// The seed of the trace which is shipped.
pub(crate) const SHIPPED_SEED: u64 = 1;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    /// A draw from 0 to 1, 1 excluded.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A draw of mean 0 and standard deviation 1.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// One step of 1 ms of an autoregression with this standard deviation and correlation time.
fn step(state: f64, (deviation, time_ms): (f64, f64), random: &mut Draw) -> f64 {
    let keeps = 1.0 - 1.0 / time_ms;
    // So much noise keeps the variance as it is.
    keeps * state + deviation * (1.0 - keeps * keeps).sqrt() * random.noise()
}

/// The trace: on each line the millisecond at which a packet of 1500 bytes may leave.
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
        // The last line says where the trace begins again.
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
