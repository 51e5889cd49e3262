//! Example: runs the models at every point of `tests/data/kernel_reference.csv`, or of another table of the same form,
//! and prints models and kernel side by side. Arguments: the file of the table, or `-` for the recorded one; optionally
//! the only algorithm to run.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/dumbbell/mod.rs"]
mod dumbbell;

use dumbbell::kernel::{CSV, points};

/// Maximum number of runs per point.
const RUNS_MAX: u64 = 12;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let table = arguments.next().filter(|name| name != "-");
    let table = table.map_or_else(|| CSV.to_owned(), |name| std::fs::read_to_string(name).unwrap());
    let only = arguments.next();
    println!(
        "{:<6} {:>6} {:>6} {:>6} {:>6} {:>5} | {:>8} {:>6} {:>8} {:>6} {:>6} | {:>8} {:>8} {:>6} {:>6}",
        "tcp",
        "Mbit/s",
        "rtt ms",
        "buffer",
        "loss %",
        "flows",
        "kernel",
        "error",
        "here",
        "error",
        "ratio",
        "rtx/s",
        "rtx/s",
        "rto/s",
        "rto/s"
    );
    let (mut inside, mut all) = (0, 0);
    for point in points(&table) {
        if only.as_ref().is_some_and(|tcp| point.tcp != *tcp) {
            continue;
        }
        let (here, error) = point.mean(RUNS_MAX);
        let ratio = here.goodput_mbps / point.goodput_mbps;
        let tolerance = if point.loss_percent > 0.0 { 0.1 } else { 0.05 };
        let is_inside = (ratio - 1.0).abs() <= tolerance;
        (inside, all) = (inside + u32::from(is_inside), all + 1);
        println!(
            "{:<6} {:>6} {:>6} {:>6} {:>6} {:>5} | {:>8.3} {:>6.3} {:>8.3} {:>6.3} {:>6.3} | {:>8.2} {:>8.2} {:>6.3} {:>6.3}{}",
            point.tcp,
            point.bottleneck_mbps,
            point.rtt_ms,
            point.limit_packets,
            point.loss_percent,
            point.flows,
            point.goodput_mbps,
            point.standard_error_mbps,
            here.goodput_mbps,
            error,
            ratio,
            point.retransmissions_per_s,
            here.retransmissions_per_s,
            point.timeouts_per_s,
            here.timeouts_per_s,
            if is_inside { "" } else { " *" }
        );
    }
    println!("{inside} of {all} points inside 5 % without loss and 10 % with it");
}
