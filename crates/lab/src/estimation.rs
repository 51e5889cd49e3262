//! Estimators that observe arriving packets at receivers (thesis group 5), and the error of each busy period's rate
//! against the bottleneck's capacity during it.

use dfcp_estimate::{BusyPeriod, Estimator, Probe, Summary};
use dfcp_sim::messages::ModelSegment;
use dfcp_sim::{Body, Packet};
use dfcp_time::Time;

use crate::metrics::{EstimateMeasured, mean_and_sd};
use crate::scenario::{Built, FlowSpec, LinkState, Scenario};

/// Estimators of the flows for which the plan configures one.
#[derive(Debug, Default)]
pub(crate) struct Estimators(Vec<Watched>);

#[derive(Debug)]
struct Watched {
    /// Flow index of the observed flow, and of its test packets.
    flow: u32,
    probes: u32,
    /// Time from which bytes of test packets are counted: the end of the warm-up.
    counts_from: Time,
    probe_bytes: u64,
    estimator: Estimator,
    periods: Vec<BusyPeriod>,
}

impl Estimators {
    /// Creates the estimators configured in `scenario`. `built` holds the flows built from it.
    pub(crate) fn of(scenario: &Scenario, built: &Built) -> Result<Self, String> {
        let flows = built.flows.iter().zip(&built.probes).zip(&scenario.flows);
        let watched = flows.filter_map(|((flow, probes), spec)| Some((flow, (*probes)?, spec.estimate?)));
        let watched = watched.map(|(flow, probes, spec)| {
            let estimator = Estimator::new(spec.config()).map_err(|error| error.to_string())?;
            Ok(Watched {
                flow: flow.index() as u32,
                probes: probes.index() as u32,
                counts_from: Time::from_ns(scenario.warm_up_ns),
                probe_bytes: 0,
                estimator,
                periods: Vec::new(),
            })
        });
        watched.collect::<Result<_, String>>().map(Self)
    }

    /// Passes a packet that arrived at its destination to the estimators.
    pub(crate) fn delivered(&mut self, now: Time, packet: &Packet) {
        if packet.is_back {
            return;
        }
        for watched in &mut self.0 {
            if packet.flow == watched.flow {
                // The only error is a time that runs backwards, which does not occur in a simulation.
                let _ = watched.estimator.traffic(now, packet.size_bytes.into());
            } else if packet.flow == watched.probes
                && let Body::Model(ModelSegment::Data { number, .. }) = packet.body
            {
                let probe = Probe { number, sent: None, at: now, size_bytes: packet.size_bytes };
                watched.periods.extend(watched.estimator.probe(probe).ok().flatten());
                if now >= watched.counts_from {
                    watched.probe_bytes += u64::from(packet.size_bytes);
                }
            }
        }
    }

    /// Returns the estimates for flow `place` of `scenario`, which has index `flow` in the simulation. `end_ns` is the
    /// end of the run.
    pub(crate) fn measured(
        &self,
        scenario: &Scenario,
        place: usize,
        flow: u32,
        end_ns: u64,
    ) -> Option<EstimateMeasured> {
        let watched = self.0.iter().find(|watched| watched.flow == flow)?;
        let spec = scenario.flows.get(place)?;
        let counted_s = end_ns.saturating_sub(scenario.warm_up_ns).max(1) as f64 / 1e9;
        let probes_bps = 8.0 * watched.probe_bytes as f64 / counted_s;
        Some(EstimateMeasured { probes_bps, ..measured(scenario, spec, &watched.periods, end_ns) })
    }
}

/// Computes the estimates for the bottleneck of `flow` from its busy `periods`.
fn measured(scenario: &Scenario, flow: &FlowSpec, periods: &[BusyPeriod], end_ns: u64) -> EstimateMeasured {
    let capacity = Capacity::of(scenario, flow.over.0);
    // Delay from the bottleneck's queue to the receiver: link delay plus the receiver's access link (a quarter of
    // `rtt_ns`).
    let later_ns = scenario.links.get(flow.over.0).map_or(0, |link| link.delay_ns) + flow.rtt_ns / 4;
    let left_ns = |at: Time| at.as_ns().saturating_sub(later_ns);
    let counted = periods.iter().filter(|period| period.start.as_ns() >= scenario.warm_up_ns);
    let mut summary = Summary::default();
    let (mut busy_s, mut errors) = (Vec::new(), Vec::new());
    for period in counted {
        summary.add(period);
        busy_s.push(period.duration().as_secs_f64());
        let could_bps = capacity.mean_bps(left_ns(period.start), left_ns(period.end));
        errors.push((period.rate_bps() - could_bps).abs() / could_bps.max(1.0));
    }
    EstimateMeasured {
        busy_s,
        estimate_bps: summary.mean_bps(),
        weighted_bps: summary.weighted_bps(),
        link_bps: capacity.mean_bps(scenario.warm_up_ns, end_ns),
        error_mean: mean_and_sd(&errors).map(|(mean, _)| mean),
        error_worst: errors.into_iter().max_by(f64::total_cmp),
        ..EstimateMeasured::default()
    }
}

/// Capacity of a bottleneck over time.
struct Capacity {
    /// Steps of the rate: time, ns; rate from then on, bit/s; bits that could be sent before that time.
    steps: Vec<(u64, f64, f64)>,
}

impl Capacity {
    /// Capacity of `link` in a scenario whose random rate changes have been drawn.
    fn of(scenario: &Scenario, link: usize) -> Self {
        let states = LinkState::all(scenario);
        let Some((spec, &(mut state))) = scenario.links.get(link).zip(states.get(link)) else {
            return Self { steps: vec![(0, 0.0, 0.0)] };
        };
        let mut steps = vec![(0, state.capacity_bps(spec) as f64, 0.0)];
        for change in scenario.changes.iter().filter(|change| change.link == link) {
            state.change(change);
            let before = Self::bits_of(&steps, change.at_ns);
            steps.push((change.at_ns, state.capacity_bps(spec) as f64, before));
        }
        Self { steps }
    }

    /// Returns the bits that could be sent until `at_ns`.
    fn bits_of(steps: &[(u64, f64, f64)], at_ns: u64) -> f64 {
        let last = steps.partition_point(|&(from_ns, ..)| from_ns <= at_ns).checked_sub(1);
        let Some(&(from_ns, rate_bps, before)) = last.and_then(|last| steps.get(last)) else { return 0.0 };
        before + rate_bps * (at_ns - from_ns) as f64 / 1e9
    }

    /// Returns the mean rate between two times, bit/s.
    fn mean_bps(&self, from_ns: u64, to_ns: u64) -> f64 {
        let bits = Self::bits_of(&self.steps, to_ns) - Self::bits_of(&self.steps, from_ns);
        bits * 1e9 / to_ns.saturating_sub(from_ns).max(1) as f64
    }
}

#[cfg(test)]
mod tests;
