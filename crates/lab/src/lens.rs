//! View of a part of a run through wider bins: a time window at a coarser time scale.

use crate::metrics::{FlowMeasured, Measured, mean_and_sd};

/// Metrics that are computed from bins alone, and so available through a lens.
pub(crate) const SEEN: [&str; 17] = [
    "goodput_mbps",
    "goodput_cov",
    "goodput_ratio",
    "ratio_sd",
    "aggregate_mbps",
    "share_percent",
    "normalised_percent",
    "spread_mbps",
    "spread_max_mbps",
    "jain",
    "jain_bins_mean",
    "jain_bins_sd",
    "error_percent",
    "error_sd_percent",
    "aggregate_error_percent",
    "aggregate_error_sd_percent",
    "aggregate_close_percent",
];

/// Time window (from, to), s, and bin width, s. `None` stands for all time after the warm-up, and for the plan's bin
/// width.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lens {
    pub(crate) window_s: Option<(f64, f64)>,
    pub(crate) bin_s: Option<f64>,
}

impl Lens {
    /// Returns true for a lens that changes nothing.
    pub(crate) fn is_clear(self) -> bool {
        self == Self::default()
    }

    /// Returns an error sentence if the lens does not fit a plan with bins of `bin_s` and runs of `duration_s`.
    pub(crate) fn fault(self, bin_s: Option<f64>, duration_s: f64) -> Option<String> {
        let Some(bin_s) = bin_s else {
            return Some("`window_s` and `bin_s` of a claim need `bin_s` in [metrics]".to_owned());
        };
        let is_whole =
            |length_s: f64| length_s >= bin_s && ((length_s / bin_s).round() - length_s / bin_s).abs() < 1e-6;
        if self.bin_s.is_some_and(|wide_s| !is_whole(wide_s)) {
            return Some(format!("`bin_s` is a multiple of the plan's, which is {bin_s}"));
        }
        let width_s = self.bin_s.unwrap_or(bin_s);
        if self.window_s.is_some_and(|(from_s, to_s)| from_s < 0.0 || to_s - from_s < width_s || to_s > duration_s) {
            return Some(format!(
                "`window_s` is [from, to] within the run's {duration_s} s, and not shorter than a bin"
            ));
        }
        None
    }

    /// Returns the view of a run with warm-up `warm_up_s`. Time in the view starts at 0, without a warm-up. `None` if
    /// the run is too short.
    pub(crate) fn see(self, run: &Measured, warm_up_s: f64) -> Option<Measured> {
        let all = run.flows.iter().map(|flow| flow.bins_bps.len()).min().filter(|_| run.bin_s > 0.0)?;
        let wide = self.bin_s.map_or(1, |wide_s| (wide_s / run.bin_s).round().max(1.0) as usize);
        let (from_s, to_s) = self.window_s.unwrap_or((warm_up_s, all as f64 * run.bin_s));
        let (from, to) = ((from_s / run.bin_s - 1e-9).ceil() as usize, (to_s / run.bin_s + 1e-9).floor() as usize);
        if to > all || to < from + wide {
            return None;
        }
        let coarse = |bins: &[f64]| -> Vec<f64> {
            let some = bins.get(from..to).unwrap_or_default().chunks_exact(wide);
            some.map(|bins| bins.iter().sum::<f64>() / wide as f64).collect()
        };
        let seen = |flow: &FlowMeasured| {
            let bins_bps = coarse(&flow.bins_bps);
            FlowMeasured {
                goodput_bps: mean_and_sd(&bins_bps).map_or(0.0, |(mean, _)| mean),
                started_s: flow.started_s - from_s,
                stopped_s: flow.stopped_s.map(|stopped_s| stopped_s - from_s),
                is_back: flow.is_back,
                bins_bps,
                ..FlowMeasured::default()
            }
        };
        Some(Measured {
            flows: run.flows.iter().map(seen).collect(),
            fair_bps: coarse(&run.fair_bps),
            bin_s: run.bin_s * wide as f64,
            ceiling_bps: run.ceiling_bps,
            ..Measured::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(flows: &[&[f64]]) -> Measured {
        let flow = |bins: &&[f64]| FlowMeasured { bins_bps: bins.to_vec(), ..FlowMeasured::default() };
        Measured { flows: flows.iter().map(flow).collect(), bin_s: 0.5, ..Measured::default() }
    }

    #[test]
    fn what_is_outside_of_the_window_is_not_seen_and_bins_are_means() {
        let run = run(&[&[9.0, 1.0, 3.0, 2.0, 4.0, 9.0]]);
        let lens = Lens { window_s: Some((0.5, 2.5)), bin_s: Some(1.0) };
        let seen = lens.see(&run, 0.0).unwrap();
        assert_eq!((seen.flows[0].bins_bps.clone(), seen.bin_s, seen.flows[0].goodput_bps), (vec![2.0, 3.0], 1.0, 2.5));
        let later = Lens { bin_s: Some(1.0), ..Lens::default() }.see(&run, 1.0).unwrap();
        assert_eq!(later.flows[0].bins_bps, [2.5, 6.5]);
    }

    #[test]
    fn a_run_that_is_too_short_shows_nothing() {
        let run = run(&[&[1.0; 6], &[1.0; 4]]);
        assert_eq!(Lens { window_s: Some((0.0, 2.5)), bin_s: None }.see(&run, 0.0), None);
        assert_eq!(Lens { window_s: Some((0.0, 0.5)), bin_s: Some(1.0) }.see(&run, 0.0), None);
        assert!(Lens { window_s: Some((0.0, 2.0)), bin_s: None }.see(&run, 0.0).is_some());
    }

    #[test]
    fn a_plan_hears_what_is_wrong() {
        let fault = |window_s, wide_s, bin_s| Lens { window_s, bin_s: wide_s }.fault(bin_s, 10.0);
        assert_eq!(fault(Some((1.0, 2.0)), Some(0.5), Some(0.1)), None);
        for (window_s, wide_s, bin_s, said) in [
            (None, Some(1.0), None, "[metrics]"),
            (None, Some(0.25), Some(0.1), "multiple"),
            (None, Some(0.05), Some(0.1), "multiple"),
            (Some((1.0, 11.0)), None, Some(0.1), "10 s"),
            (Some((3.0, 2.0)), None, Some(0.1), "10 s"),
        ] {
            assert!(fault(window_s, wide_s, bin_s).is_some_and(|fault| fault.contains(said)), "{said}");
        }
    }
}
