//! Metrics over time within a run, and metrics distributed over bins.

use crate::metrics::Measured;
use crate::report::Point;
use crate::table::FLOWS_APART_MAX;

/// Returns `metric` over time in one run: curves, each with a suffix for the series label. `queue_step_s` is the
/// interval between queue samples; `average_s` is the length of the moving average.
pub(super) fn over_time(
    run: &Measured,
    metric: &str,
    warm_up_s: f64,
    (queue_step_s, average_s): (f64, Option<f64>),
) -> Vec<(String, Vec<Point>)> {
    let courses = match metric {
        "queue_packets" => {
            let Some(link) = run.links.first() else { return Vec::new() };
            let trace = link.queue_trace.iter().map(|&packets| packets as f64).collect();
            return vec![(String::new(), steps(trace, 0.0, queue_step_s, 1.0))];
        }
        "jain_bins_mean" => {
            let from_s = if run.bin_s > 0.0 { (warm_up_s / run.bin_s).ceil() * run.bin_s } else { 0.0 };
            return vec![(String::new(), steps(run.jain_of_bins(warm_up_s), from_s, run.bin_s, 0.5))];
        }
        _ => bins(run, metric),
    };
    let shown = |(name, bins): (String, Vec<f64>)| {
        let wide =
            average_s.map_or(1, |average_s| (average_s / run.bin_s.max(f64::MIN_POSITIVE)).round().max(1.0) as usize);
        // An average is drawn at the middle of its interval.
        (name, steps(moving_average(&bins, wide), 0.0, run.bin_s, wide as f64 / 2.0))
    };
    courses.into_iter().map(shown).collect()
}

/// Returns the values of `metric` in every bin of a run; one list per flow if the metric is defined per flow.
fn bins(run: &Measured, metric: &str) -> Vec<(String, Vec<f64>)> {
    let flows = || run.flows.iter().enumerate().take(FLOWS_APART_MAX);
    let name = |flow: usize| if run.flows.len() > 1 { format!(", flow\u{a0}{}", flow + 1) } else { String::new() };
    match metric {
        "goodput_mbps" => {
            flows().map(|(flow, of)| (name(flow), of.bins_bps.iter().map(|bps| bps / 1e6).collect())).collect()
        }
        "aggregate_mbps" => {
            let count = run.flows.iter().map(|flow| flow.bins_bps.len()).min().unwrap_or(0);
            let sum = |bin: usize| run.flows.iter().filter_map(|flow| flow.bins_bps.get(bin)).sum::<f64>() / 1e6;
            vec![(String::new(), (0..count).map(sum).collect())]
        }
        "goodput_ratio" => {
            let [first, second, ..] = &run.flows[..] else { return Vec::new() };
            // The ratio is undefined until the first flow has delivered data; 0 is drawn.
            let ratio = |(first, second): (&f64, &f64)| if *first > 0.0 { second / first } else { 0.0 };
            vec![(String::new(), first.bins_bps.iter().zip(&second.bins_bps).map(ratio).collect())]
        }
        "error_percent" => {
            let error = |bps: &f64, fair: &f64| if *fair > 0.0 { 100.0 * (bps - fair).abs() / fair } else { 0.0 };
            let of = |bins: &[f64]| bins.iter().zip(&run.fair_bps).map(|(bps, fair)| error(bps, fair)).collect();
            flows().map(|(flow, measured)| (name(flow), of(&measured.bins_bps))).collect()
        }
        "aggregate_error_percent" => {
            let errors = run.aggregate_errors(0.0).unwrap_or_default();
            vec![(String::new(), errors.into_iter().map(|error| 100.0 * error).collect())]
        }
        _ => Vec::new(),
    }
}

fn steps(values: Vec<f64>, from_s: f64, step_s: f64, shift: f64) -> Vec<Point> {
    let time_s = |index: usize| from_s + (index as f64 + shift) * step_s;
    values.into_iter().enumerate().map(|(index, y)| Point::exact(time_s(index), y)).collect()
}

fn moving_average(bins: &[f64], wide: usize) -> Vec<f64> {
    bins.windows(wide).map(|bins| bins.iter().sum::<f64>() / wide as f64).collect()
}

/// Returns the distribution of `metric` over all bins after the warm-up, of all runs and flows: sorted values, each
/// with the percentage of bins at or below it.
pub(super) fn over_bins<'run>(runs: impl Iterator<Item = &'run Measured>, metric: &str, warm_up_s: f64) -> Vec<Point> {
    let of = |run: &Measured| match metric {
        "error_percent" => run.flow_errors(warm_up_s).unwrap_or_default(),
        "aggregate_error_percent" => run.aggregate_errors(warm_up_s).unwrap_or_default(),
        _ => Vec::new(),
    };
    let mut values: Vec<f64> = runs.flat_map(of).map(|error| 100.0 * error).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let share = |(index, x): (usize, f64)| Point::exact(x, 100.0 * (index + 1) as f64 / count);
    values.into_iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::FlowMeasured;

    fn run(flows: &[&[f64]], fair: &[f64]) -> Measured {
        let flow = |mbps: &&[f64]| FlowMeasured {
            bins_bps: mbps.iter().map(|x| x * 1e6).collect(),
            ..FlowMeasured::default()
        };
        let fair_bps = fair.iter().map(|mbps| mbps * 1e6).collect();
        Measured { flows: flows.iter().map(flow).collect(), fair_bps, bin_s: 1.0, ..Measured::default() }
    }

    fn y(points: &[Point]) -> Vec<f64> {
        points.iter().map(|point| point.y).collect()
    }

    #[test]
    fn a_moving_average_is_over_what_it_says_and_in_its_middle() {
        let run = run(&[&[1.0, 3.0, 5.0, 7.0]], &[]);
        let [(_, points)] = &over_time(&run, "goodput_mbps", 0.0, (0.0, Some(2.0)))[..] else { panic!() };
        assert_eq!((y(points), points[0].x), (vec![2.0, 4.0, 6.0], 1.0));
        let [(_, points)] = &over_time(&run, "goodput_mbps", 0.0, (0.0, None))[..] else { panic!() };
        assert_eq!((y(points), points[0].x), (vec![1.0, 3.0, 5.0, 7.0], 0.5));
    }

    #[test]
    fn ratios_and_errors_have_a_course() {
        let run = run(&[&[0.0, 8.0], &[0.0, 2.0]], &[5.0, 5.0]);
        assert_eq!(y(&over_time(&run, "goodput_ratio", 0.0, (0.0, None))[0].1), [0.0, 0.25]);
        let errors = over_time(&run, "error_percent", 0.0, (0.0, None));
        assert_eq!((y(&errors[0].1), y(&errors[1].1)), (vec![100.0, 60.0], vec![100.0, 60.0]));
        assert_eq!(y(&over_time(&run, "aggregate_error_percent", 0.0, (0.0, None))[0].1), [100.0, 0.0]);
    }

    #[test]
    fn bins_of_all_flows_and_runs_are_one_distribution() {
        let runs = [run(&[&[0.0, 8.0], &[0.0, 2.0]], &[5.0, 5.0]), run(&[&[5.0, 5.0], &[5.0, 10.0]], &[5.0, 5.0])];
        let points = over_bins(runs.iter(), "error_percent", 1.0);
        let found: Vec<_> = points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(found, [(0.0, 25.0), (60.0, 50.0), (60.0, 75.0), (100.0, 100.0)]);
    }
}
