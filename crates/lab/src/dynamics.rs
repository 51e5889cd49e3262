//! Measures of dynamics from the thesis and papers: accuracy and speed with which flows follow their ideal fair share.

use crate::metrics::{FlowMeasured, Measured, mean_and_sd};
use crate::scenario::{ChangeSpec, Scenario};

/// Relative error below which the sum of all flows counts as close to the ideal.
const CLOSE: f64 = 0.1;

/// Returns the ideal goodput of each flow in every bin of `scenario`, bit/s. It is the present rate of the first
/// bottleneck, shared equally by the flows present during the whole bin, times the payload share of a packet. Access
/// links are assumed not to limit flows. A bin without flows has 0. Empty without bins, and for scenarios with several
/// bottlenecks, a graph, a random walk of the rate or an outage.
#[must_use]
pub fn fair_bps(scenario: &Scenario) -> Vec<f64> {
    let [link] = &scenario.links[..] else { return Vec::new() };
    let bin_ns = scenario.bin_ns;
    let is_out = scenario.changes.iter().any(|change| change.outage.is_some());
    if bin_ns == 0 || !scenario.nodes.is_empty() || !scenario.walks.is_empty() || is_out {
        return Vec::new();
    }
    let payload = scenario.flows.first().map_or(0.0, |flow| flow.transport.payload_share());
    let mean_rate = |from_ns: u64| {
        let rate_at = |ns: u64| {
            let is_past = |change: &&ChangeSpec| change.link == 0 && !change.is_back && change.at_ns <= ns;
            let changes = scenario.changes.iter().filter(is_past);
            link.policed_bps(changes.filter_map(|change| change.rate_bps).next_back().unwrap_or(link.rate_bps)) as f64
        };
        // A bin that contains a rate change gets the mean of 100 samples.
        (0..100).map(|part| rate_at(from_ns + bin_ns * part / 100)).sum::<f64>() / 100.0
    };
    let share = |bin: u64| {
        let (from_ns, to_ns) = (bin * bin_ns, (bin + 1) * bin_ns);
        let is_there =
            |start_ns: u64, stop_ns: Option<u64>| start_ns <= from_ns && stop_ns.is_none_or(|stop_ns| stop_ns >= to_ns);
        let flows = scenario.flows.iter().filter(|flow| !flow.is_back && is_there(flow.start_ns, flow.stop_ns));
        match flows.count() {
            0 => 0.0,
            count => mean_rate(from_ns) / count as f64 * payload,
        }
    };
    (0..scenario.duration_ns / bin_ns).map(share).collect()
}

/// Returns the adaptation error |g − f| / f of a flow's goodput g and fair share f, for each bin from `first` on in
/// which it has a fair share (PhD summary, §4.2).
fn errors(flow: &FlowMeasured, fair_bps: &[f64], (first, bin_s): (usize, f64)) -> Vec<f64> {
    let bins = flow.bins_bps.iter().zip(fair_bps).enumerate().skip(first);
    let is_there = |bin: usize| flow.started_s <= bin as f64 * bin_s;
    bins.filter(|(bin, (_, fair))| **fair > 0.0 && is_there(*bin))
        .map(|(_, (got, fair))| (got - fair).abs() / fair)
        .collect()
}

impl Measured {
    /// Returns mean and standard deviation of a flow's adaptation error over bins, as shares.
    pub(crate) fn adaptation_error(&self, flow: &FlowMeasured, warm_up_s: f64) -> Option<(f64, f64)> {
        mean_and_sd(&errors(flow, &self.fair_bps, (self.first_bin(warm_up_s)?, self.bin_s)))
    }

    /// Returns mean and standard deviation of the adaptation error over the bins of all flows, as shares.
    pub(crate) fn adaptation_errors(&self, warm_up_s: f64) -> Option<(f64, f64)> {
        mean_and_sd(&self.flow_errors(warm_up_s)?)
    }

    /// Returns mean and standard deviation over bins of |Σg − Σf| / Σf, the error of the sum of all goodputs g against
    /// fair shares f. The papers print Σ|g − f| / Σf instead, which equals the flows' mean error for equal shares and
    /// contradicts their own table (note N1 of the legend).
    pub(crate) fn aggregate_error(&self, warm_up_s: f64) -> Option<(f64, f64)> {
        mean_and_sd(&self.aggregate_errors(warm_up_s)?)
    }

    /// Returns the share of bins in which the error of the sum is below 10 %.
    pub(crate) fn aggregate_close(&self, warm_up_s: f64) -> Option<f64> {
        let errors = self.aggregate_errors(warm_up_s).filter(|errors| !errors.is_empty())?;
        Some(errors.iter().filter(|error| **error < CLOSE).count() as f64 / errors.len() as f64)
    }

    /// Returns the error of the sum of all flows in each bin, as shares.
    pub(crate) fn aggregate_errors(&self, warm_up_s: f64) -> Option<Vec<f64>> {
        let first = self.first_bin(warm_up_s)?;
        let error = |bin: usize| {
            let fair = *self.fair_bps.get(bin)?;
            let there = self.flows.iter().filter(|flow| flow.started_s <= bin as f64 * self.bin_s);
            let (count, sum) = there
                .filter_map(|flow| flow.bins_bps.get(bin))
                .fold((0, 0.0), |(count, sum), bps| (count + 1, sum + bps));
            let all = fair * f64::from(count);
            (all > 0.0).then(|| (sum - all).abs() / all)
        };
        Some((first..self.fair_bps.len()).filter_map(error).collect())
    }

    /// Returns the adaptation errors of all flows and bins, as shares.
    pub(crate) fn flow_errors(&self, warm_up_s: f64) -> Option<Vec<f64>> {
        let first = self.first_bin(warm_up_s)?;
        Some(self.flows.iter().flat_map(|flow| errors(flow, &self.fair_bps, (first, self.bin_s))).collect())
    }

    /// Returns mean and maximum over bins of the difference between the fastest and slowest flow, bit/s. Flows that
    /// start within a bin are ignored there.
    pub(crate) fn spread_bps(&self, warm_up_s: f64) -> Option<(f64, f64)> {
        let (first, count) = self.bins_after_warm_up(warm_up_s)?;
        let spread = |bin: usize| {
            let there = self.flows.iter().filter(|flow| !flow.is_back && flow.started_s <= bin as f64 * self.bin_s);
            let bins = there.filter_map(|flow| flow.bins_bps.get(bin));
            let (low, high) =
                bins.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &bps| (low.min(bps), high.max(bps)));
            (high >= low).then_some(high - low)
        };
        let spreads: Vec<f64> = (first..count).filter_map(spread).collect();
        let most = spreads.iter().copied().fold(0.0, f64::max);
        mean_and_sd(&spreads).map(|(mean, _)| (mean, most))
    }

    /// Returns the standard deviation over bins of the second flow's share of the total; `None` unless there are
    /// exactly two flows.
    pub(crate) fn ratio_sd(&self, warm_up_s: f64) -> Option<f64> {
        let [first, second] = &self.flows[..] else { return None };
        let (from, count) = self.bins_after_warm_up(warm_up_s)?;
        let bins = first.bins_bps.iter().zip(&second.bins_bps).take(count).skip(from);
        let shares: Vec<f64> =
            bins.filter(|(one, other)| *one + *other > 0.0).map(|(one, other)| other / (one + other)).collect();
        mean_and_sd(&shares).map(|(_, sd)| sd)
    }

    /// Returns the index of the first bin after the warm-up, and the number of all bins.
    fn bins_after_warm_up(&self, warm_up_s: f64) -> Option<(usize, usize)> {
        let count = self.flows.iter().map(|flow| flow.bins_bps.len()).min().filter(|_| self.bin_s > 0.0)?;
        Some(((warm_up_s / self.bin_s).ceil() as usize, count))
    }

    /// Returns the δ-fair convergence time, s: from the start of the second flow until it has (1 − δ)/2 of the total.
    /// Infinite if it never does; `None` unless there are exactly two flows.
    pub(crate) fn convergence_s(&self, delta: f64) -> Option<f64> {
        let [first, second] = &self.flows[..] else { return None };
        if self.bin_s == 0.0 {
            return None;
        }
        let start = (second.started_s / self.bin_s).floor() as usize;
        let bins = first.bins_bps.iter().zip(&second.bins_bps).enumerate().skip(start);
        let is_fair =
            |(first, second): (&f64, &f64)| first + second > 0.0 && second / (first + second) >= (1.0 - delta) / 2.0;
        let reached = bins.into_iter().find(|(_, both)| is_fair(*both));
        Some(reached.map_or(f64::INFINITY, |(bin, _)| (bin + 1) as f64 * self.bin_s - second.started_s))
    }

    fn first_bin(&self, warm_up_s: f64) -> Option<usize> {
        (self.bin_s > 0.0 && !self.fair_bps.is_empty()).then(|| (warm_up_s / self.bin_s).ceil() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::{Choice, Form};
    use crate::reading::parse;

    fn flow(started_s: f64, mbps: &[f64]) -> FlowMeasured {
        FlowMeasured { started_s, bins_bps: mbps.iter().map(|mbps| mbps * 1e6).collect(), ..FlowMeasured::default() }
    }

    fn of(flows: Vec<FlowMeasured>, fair_mbps: &[f64]) -> Measured {
        let fair_bps = fair_mbps.iter().map(|mbps| mbps * 1e6).collect();
        Measured { flows, fair_bps, bin_s: 1.0, ..Measured::default() }
    }

    #[test]
    fn errors_of_flows_and_of_their_sum_are_not_the_same() {
        // One flow is 50 % above its share and the other 50 % below. Each flow has an error, but the sum has none.
        let measured = of(vec![flow(0.0, &[10.0, 15.0, 15.0]), flow(0.0, &[10.0, 5.0, 5.0])], &[10.0; 3]);
        assert_eq!(measured.adaptation_error(&measured.flows[0], 1.0), Some((0.5, 0.0)));
        assert_eq!(measured.adaptation_errors(1.0), Some((0.5, 0.0)));
        assert_eq!(measured.aggregate_error(1.0), Some((0.0, 0.0)));
        let low = of(vec![flow(0.0, &[5.0, 10.0])], &[10.0; 2]);
        assert_eq!(low.aggregate_error(0.0), Some((0.25, 0.25)));
        let apart = of(vec![flow(0.0, &[9.0, 5.0, 8.0]), flow(0.0, &[1.0, 5.0, 6.0])], &[]);
        assert_eq!((apart.spread_bps(0.0), apart.spread_bps(1.0)), (Some((10e6 / 3.0, 8e6)), Some((1e6, 2e6))));
        // Bins before the start of a flow do not count as errors.
        let late = of(vec![flow(1.5, &[0.0, 3.0, 10.0])], &[10.0; 3]);
        assert_eq!(late.adaptation_errors(0.0), Some((0.0, 0.0)));
        assert_eq!(of(vec![flow(0.0, &[5.0])], &[]).aggregate_error(0.0), None);
    }

    #[test]
    fn convergence_is_from_the_second_flow_s_start_until_its_share() {
        let measured = of(vec![flow(0.0, &[10.0, 9.0, 7.0, 6.0, 5.0]), flow(1.0, &[0.0, 1.0, 3.0, 4.0, 5.0])], &[]);
        // The second flow reaches 25 %, 35 % and 45 % of the total in these bins.
        assert_eq!([0.5, 0.3, 0.1].map(|delta| measured.convergence_s(delta)), [Some(2.0), Some(3.0), Some(4.0)]);
        let never = of(vec![flow(0.0, &[10.0, 10.0]), flow(1.0, &[0.0, 1.0])], &[]);
        assert_eq!(
            (never.convergence_s(0.5), of(vec![flow(0.0, &[1.0])], &[]).convergence_s(0.5)),
            (Some(f64::INFINITY), None)
        );
    }

    #[test]
    fn the_fair_share_follows_the_pattern_and_the_flows() {
        let text = "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\nseeds = 1\nduration_s = 6\nwarm_up_s = 0\n[topology]\n\
                    rate_mbps = 100\n[[flows]]\n[[flows]]\nstart_s = 2\n[[time]]\nat_s = 3.5\nrate_mbps = 50\n[[series]]\nlabel = \"A\"\n\
                    transport = \"cubic\"\n[metrics]\nplot = [\"goodput_mbps\"]\nbin_s = 1\n";
        let source = parse("t.toml", text).unwrap();
        let run = crate::expand::expand(&source, Choice { form: Form::Full, seeds: None }).unwrap().remove(0);
        let mbps: Vec<_> = fair_bps(&run.scenario).iter().map(|bps| (bps / 1e6 * 1500.0 / 1448.0).round()).collect();
        // Bins in order: one flow alone (twice), both flows, both flows while the rate changes, both flows at half the
        // rate (twice).
        assert_eq!(mbps, [100.0, 100.0, 50.0, 38.0, 25.0, 25.0]);
    }
}
