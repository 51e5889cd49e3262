//! Random parking lots, drawn from a scenario number. They reproduce a published claim whose scenarios are nowhere
//! described.

use toml::Spanned;

use crate::draw::Draw;
use crate::plan::{Bottleneck, Flows, Random, Shape, Topology};

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
