//! Runs every point of `tests/data/ns3_reference.csv` with our models and prints both side by side. An argument keeps to
//! the tags which start with it.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for developers, which takes the time")]

#[path = "../tests/dumbbell/mod.rs"]
mod dumbbell;

use std::time::Instant;

fn main() {
    println!(
        "{:<14} {:<9} {:>6} {:>8} {:>6} {:>6} {:>4} | {:>8} {:>8} {:>6} | {:>5} {:>5} | {:>5} {:>6} {:>7}",
        "tag",
        "tcp",
        "Mbit/s",
        "rtt ms",
        "buffer",
        "loss %",
        "seed",
        "ns-3",
        "here",
        "ratio",
        "q ns3",
        "q",
        "rto",
        "recov",
        "ns/pkt"
    );
    let only = std::env::args().nth(1);
    for point in dumbbell::reference::points() {
        if only.as_ref().is_some_and(|tag| !point.tag.starts_with(tag.as_str())) {
            continue;
        }
        let start = Instant::now();
        let outcome = point.run();
        let ns = start.elapsed().as_nanos() as f64 / outcome.packets as f64;
        let rtts: Vec<String> = point.rtt_ms.iter().map(f64::to_string).collect();
        println!(
            "{:<14} {:<9} {:>6} {:>8} {:>6} {:>6} {:>4} | {:>8.2} {:>8.2} {:>6.3} | {:>5.2} {:>5.2} | {:>5} {:>6} {:>7.0} {}",
            point.tag,
            point.tcp,
            point.bottleneck_bps / 1_000_000,
            rtts.join(","),
            point.buffer_packets,
            point.loss * 100.0,
            point.seed,
            point.goodput_mbps,
            outcome.goodput_mbps,
            outcome.goodput_mbps / point.goodput_mbps,
            point.queue_share,
            outcome.queue_share,
            outcome.timeouts,
            outcome.recoveries,
            ns,
            if outcome.flows_mbps.len() > 1 {
                format!("{:?} {:.1?}", point.flows_mbps, outcome.flows_mbps)
            } else {
                String::new()
            },
        );
    }
}
