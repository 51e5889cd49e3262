//! Recorded rates of bottlenecks over time.

use std::time::Duration;

use dfcp_netem::{OPPORTUNITY_BYTES, TRACE_BIN_DEFAULT, binned_rate_bps};
use dfcp_time::duration_ns;

use super::quantity::{ns, positive};
use super::{ChangeSpec, RatesSpec, Scenario};
use crate::plan::{Plan, Rates, Way};

/// Maximum length of a record, bins: 2000 s in bins of 20 ms, for a trace that does not repeat earlier.
const BINS_MAX: u64 = 100_000;
/// Maximum number of rate changes in a run: 5.5 h in bins of 20 ms.
const CHANGES_MAX: u64 = 1_000_000;

/// Adds the plan's recorded rates to `scenario`. Their mean becomes the nominal rate of the link, from which fair
/// shares are computed.
pub(super) fn add(scenario: &mut Scenario, plan: &Plan) -> Result<(), String> {
    // Noted before any change: `back_bps` is set if the plan has `up_mbps`, which conflicts with a recorded forward
    // rate.
    let have_up: Vec<bool> = scenario.links.iter().map(|link| link.back_bps.is_some()).collect();
    for rates in plan.rates.iter().map(toml::Spanned::get_ref) {
        let spec = of(scenario, plan, rates)?;
        if !spec.is_back && have_up[spec.link] {
            return Err("up_mbps is the rate which [[rates]] has, too; leave one of them out".to_owned());
        }
        let packets: u64 = (0..spec.count(scenario.duration_ns)).map(|number| spec.packets_in(number)).sum();
        let mean_bps = packets as f64 * spec.packet_bits * 1e9 / scenario.duration_ns as f64;
        let (mean_bps, link) = ((mean_bps.round() as u64).max(1), &mut scenario.links[spec.link]);
        if spec.is_back {
            link.back_bps = Some(mean_bps)
        } else {
            link.rate_bps = mean_bps
        }
        scenario.rates.push(spec);
    }
    Ok(())
}

fn of(scenario: &Scenario, plan: &Plan, rates: &Rates) -> Result<RatesSpec, String> {
    let links = scenario.links.len();
    let Some(link) = rates.bottleneck.checked_sub(1).filter(|&link| link < links) else {
        let place = rates.bottleneck;
        return Err(format!("[[rates]] names bottleneck {place}, but they are counted from 1 to {links}"));
    };
    let is_back = rates.way == Way::Down;
    if is_back && scenario.is_one_way(link) {
        return Err(format!("bottleneck {} has one way; remove `way` from its [[rates]]", rates.bottleneck));
    }
    let of_link = |bottleneck: usize| bottleneck == rates.bottleneck && !is_back;
    let walks = plan.walks.iter().any(|walk| of_link(walk.get_ref().bottleneck));
    let changes =
        plan.time.iter().any(|change| of_link(change.get_ref().bottleneck) && change.get_ref().rate_mbps.is_some());
    let is_twice = scenario.rates.iter().any(|other| (other.link, other.is_back) == (link, is_back));
    if walks || changes || is_twice {
        return Err(format!(
            "bottleneck {} has a rate from elsewhere, too; leave it or [[rates]] out",
            rates.bottleneck
        ));
    }
    if scenario.links[link].impairments.has_no_queue() {
        return Err("the rate of a policer does not change; remove [[rates]]".to_owned());
    }
    let every_ns =
        ns(positive("bin_ms", rates.bin_ms.unwrap_or(TRACE_BIN_DEFAULT.as_secs_f64() * 1e3), 1e6)? / 1e3).max(1);
    if scenario.duration_ns.div_ceil(every_ns) > CHANGES_MAX {
        return Err(format!(
            "bin_ms makes more than {CHANGES_MAX} changes of the rate in the run; choose a longer one"
        ));
    }
    let trace = rates.trace.as_ref().ok_or("the trace of [[rates]] was not read; report this")?;
    let period_ns = duration_ns(trace.period());
    // The first round of the trace differs from later ones at the seam: its last packet and the first of the next round
    // may be simultaneous. Two rounds are recorded, and the second repeats.
    let repeats_from = (period_ns.is_multiple_of(every_ns) && 2 * period_ns < scenario.duration_ns)
        .then_some((period_ns / every_ns) as usize);
    let end_ns = if repeats_from.is_some() { 2 * period_ns } else { scenario.duration_ns };
    if end_ns.div_ceil(every_ns) > BINS_MAX {
        return Err(format!("bin_ms makes more than {BINS_MAX} rates of the trace; choose a longer one"));
    }
    let (bin, end) = (Duration::from_nanos(every_ns), Duration::from_nanos(end_ns));
    let packet_bits = f64::from(OPPORTUNITY_BYTES) * 8.0;
    Ok(RatesSpec { link, is_back, every_ns, packets: trace.bins(bin, end).collect(), repeats_from, packet_bits })
}

impl RatesSpec {
    /// Returns the number of bins in a run of `duration_ns`.
    fn count(&self, duration_ns: u64) -> u64 {
        duration_ns.div_ceil(self.every_ns.max(1))
    }

    /// Returns the number of packets in bin `number`, after repetition.
    fn packets_in(&self, number: u64) -> u64 {
        let (number, length) = (number as usize, self.packets.len());
        let place = match self.repeats_from {
            Some(from) if number >= length && from < length => from + (number - from) % (length - from),
            _ => number,
        };
        self.packets.get(place).copied().unwrap_or(0)
    }

    fn rate_bps(&self, packets: u64) -> u64 {
        binned_rate_bps(packets, self.packet_bits, Duration::from_nanos(self.every_ns))
    }

    /// Returns the greatest rate in the record, bit/s.
    pub(super) fn fastest_bps(&self) -> u64 {
        self.rate_bps(self.packets.iter().copied().max().unwrap_or(0))
    }

    /// Returns the link's rate changes in a run of `duration_ns`.
    pub(super) fn changes(&self, duration_ns: u64) -> impl Iterator<Item = ChangeSpec> + '_ {
        (0..self.count(duration_ns)).map(move |number| ChangeSpec {
            at_ns: self.every_ns.saturating_mul(number),
            link: self.link,
            is_back: self.is_back,
            rate_bps: Some(self.rate_bps(self.packets_in(number))),
            ..ChangeSpec::default()
        })
    }
}
