//! Goodput of every TCP model against random loss, on one path: `loss [Mbit/s] [RTT in ms] [buffer in packets] [s]`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

#[path = "../tests/bench/mod.rs"]
mod bench;

use std::time::Duration;

use bench::{Bench, FlowConfig, Path};
use dfcp_sim::tcp::{Config, Congestion};
use dfcp_time::Time;

const LOSSES: [f64; 8] = [0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];

fn main() {
    let argument =
        |index: usize, default: f64| std::env::args().nth(index).map_or(default, |text| text.parse().unwrap());
    let (mbps, rtt_ms, buffer, seconds) =
        (argument(1, 200.0), argument(2, 10.0), argument(3, 170.0), argument(4, 30.0));
    println!(
        "{mbps} Mbit/s, RTT {rtt_ms} ms, buffer {buffer} packets, goodput in Mbit/s over {seconds} s, the first quarter left out"
    );
    let models = [
        ("cubic", Config::modern(Congestion::Cubic)),
        ("newreno", Config::modern(Congestion::NewReno)),
        ("bbr", Config::modern(Congestion::Bbr1)),
        ("cubic 2008", Config::linux_2008(Congestion::Cubic2008)),
        ("newreno 2008", Config::linux_2008(Congestion::NewReno)),
        ("reno", Config::modern(Congestion::Reno)),
        ("tahoe", Config::modern(Congestion::Tahoe)),
    ];
    let header: String = LOSSES.iter().map(|loss| format!("{:>9}", format!("{} %", loss * 100.0))).collect();
    println!("{:<13}{header}", "");
    for (name, tcp) in models {
        let mut row = format!("{name:<13}");
        for loss in LOSSES {
            let path = Path {
                bottleneck_bps: (mbps * 1e6) as u64,
                access_bps: 10_000_000_000,
                buffer_packets: buffer as usize,
                loss,
                link_bytes: 0,
                seed: 1,
            };
            let rtt = Duration::from_nanos((rtt_ms * 1e6) as u64);
            let mut bench = Bench::new(path, &[FlowConfig { tcp, rtt, start: Time::ZERO, total_bytes: None }]);
            bench.run(Time::from_ns((seconds * 0.25e9) as u64));
            let before = bench.flows[0].receiver.stats().delivered_bytes;
            bench.run(Time::from_ns((seconds * 1e9) as u64));
            let bytes = bench.flows[0].receiver.stats().delivered_bytes - before;
            row += &format!("{:>9.2}", bytes as f64 * 8.0 / 1e6 / (seconds * 0.75));
        }
        println!("{row}");
    }
}
