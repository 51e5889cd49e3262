//! Random parking lots, drawn from a scenario number. They reproduce a published claim whose scenarios are nowhere
//! described.

use toml::Spanned;

use crate::plan::{Bottleneck, Flows, Random, Shape, Topology};

/// SplitMix64 generator: each seed gives the same sequence on every machine.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    /// Draws a number from 0 (included) to 1 (excluded).
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn even(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a number with uniformly distributed logarithm. It is rounded to three digits, so that people can copy it
    /// from a record.
    fn log(&mut self, (low, high): (f64, f64)) -> f64 {
        let value = (low.ln() + (high.ln() - low.ln()) * self.unit()).exp();
        let digit = 10_f64.powf(value.log10().floor() - 2.0);
        (value / digit).round() * digit
    }

    fn whole(&mut self, (low, high): (u32, u32)) -> u32 {
        low + (f64::from(high - low + 1) * self.unit()) as u32
    }
}

/// Draws the random topology with number `topology.scenario`, and its flows: one across all bottlenecks, and more
/// across each single one.
pub(super) fn draw(topology: &Topology) -> Result<(Topology, Vec<Flows>), String> {
    let ranges = topology.random.ok_or("kind = \"random\" needs [topology.random] with its ranges")?;
    check(&ranges)?;
    let mut random = Draw(topology.scenario.wrapping_mul(0x2545_F491_4F6C_DD1D));
    let count = random.whole(ranges.bottlenecks);
    let buffer_bdp = random.log(ranges.buffer_bdp);
    let mut drawn = Topology { kind: Shape::ParkingLot, ..topology.clone() };
    // A buffer set in the plan takes precedence over the drawn one.
    if drawn.buffer_bdp.is_none() && drawn.buffer_packets.is_none() {
        drawn.buffer_bdp = Some(buffer_bdp);
    }
    let mut flows = vec![Flows { rtt_ms: Some(random.log(ranges.rtt_ms)), ..Flows::default() }];
    for place in 1..=count as usize {
        let bottleneck = Bottleneck {
            rate_mbps: Some(random.log(ranges.rate_mbps)),
            loss: Some((random.even(ranges.loss) * 1e5).round() / 1e5),
            ..Bottleneck::default()
        };
        drawn.bottlenecks.push(Spanned::new(0..0, bottleneck));
        for _ in 0..random.whole(ranges.flows_each) {
            let rtt_ms = Some(random.log(ranges.rtt_ms));
            flows.push(Flows { rtt_ms, over: Some((place, place)), ..Flows::default() });
        }
    }
    Ok((drawn, flows))
}

fn check(ranges: &Random) -> Result<(), String> {
    let wholes = [("bottlenecks", ranges.bottlenecks, 1), ("flows_each", ranges.flows_each, 0)];
    for (name, (low, high), least) in wholes {
        if low < least || low > high || high > 16 {
            return Err(format!("[topology.random] {name} is [{low}, {high}], but lies within {least} to 16"));
        }
    }
    let above_zero = [("rate_mbps", ranges.rate_mbps), ("rtt_ms", ranges.rtt_ms), ("buffer_bdp", ranges.buffer_bdp)];
    for (name, (low, high)) in above_zero {
        if !(low > 0.0 && low <= high && high.is_finite()) {
            return Err(format!("[topology.random] {name} is [{low}, {high}], but needs 0 < lower end <= upper end"));
        }
    }
    let (low, high) = ranges.loss;
    if !(0.0 <= low && low <= high && high < 1.0) {
        return Err(format!("[topology.random] loss is [{low}, {high}], but lies within 0 to 1"));
    }
    Ok(())
}
