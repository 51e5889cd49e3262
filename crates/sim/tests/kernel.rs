//! Test that the TCP models agree with a Linux 6.12 kernel at points of `data/kernel_reference.csv`: goodput within 5 %
//! without loss, and within 10 % with loss. Only points that run quickly are tested here; the example `kernel` runs all
//! points.

mod dumbbell;

use dumbbell::kernel::{CSV, Point, points};

/// Maximum number of segments over all runs of a point.
const SEGMENTS_MAX: f64 = 120_000.0;
/// Number of runs per point with loss.
const RUNS: u64 = 3;

fn cheap_points(with_loss: bool) -> Vec<Point> {
    let is_cheap = |point: &Point| {
        let seconds = point.warmup_s + point.duration_s;
        point.goodput_mbps * seconds * 1e6 / 8.0 / 1448.0 < SEGMENTS_MAX / if with_loss { RUNS as f64 } else { 1.0 }
    };
    points(CSV).into_iter().filter(|point| (point.loss_percent > 0.0) == with_loss && is_cheap(point)).collect()
}

fn off(point: &Point, goodput_mbps: f64, tolerance: f64) -> Option<String> {
    let ratio = goodput_mbps / point.goodput_mbps;
    ((ratio - 1.0).abs() > tolerance).then(|| format!("{ratio:.3} of the kernel's goodput: {point:?}"))
}

#[test]
fn goodput_without_loss() {
    let points = cheap_points(false);
    assert!(points.len() >= 10, "{}", points.len());
    let off: Vec<String> = points.iter().filter_map(|point| off(point, point.run(1).goodput_mbps, 0.05)).collect();
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn goodput_with_loss() {
    let points = cheap_points(true);
    assert!(points.len() >= 20, "{}", points.len());
    // The standard error of the three runs is added to the tolerance.
    let check = |point: &Point| {
        let (here, error) = point.mean(RUNS);
        off(point, here.goodput_mbps, 0.1 + (error + point.standard_error_mbps) / point.goodput_mbps)
    };
    let off: Vec<String> = points.iter().filter_map(check).collect();
    assert!(off.is_empty(), "{off:#?}");
}
