//! Example: goodput of every TCP model and of QUIC with random loss on one path.
//!
//! Arguments, all optional: `loss [Mbit/s] [RTT in ms] [buffer in packets] [s]`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

#[path = "../tests/dumbbell/mod.rs"]
mod dumbbell;

use std::time::Duration;

use dfcp_sim::tcp::{Config, Congestion};
use dfcp_sim::{Nobody, QuicConfig, QuicCongestion, Transport};
use dfcp_time::Time;
use dumbbell::{Dumbbell, Flow, Path};

const LOSSES: [f64; 8] = [0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];

fn main() {
    let argument =
        |index: usize, default: f64| std::env::args().nth(index).map_or(default, |text| text.parse().unwrap());
    let (mbps, rtt_ms, buffer, seconds) =
        (argument(1, 200.0), argument(2, 10.0), argument(3, 170.0), argument(4, 30.0));
    println!(
        "{mbps} Mbit/s, RTT {rtt_ms} ms, buffer {buffer} packets, goodput in Mbit/s over {seconds} s, the first quarter left out"
    );
    let tcp = Transport::Tcp;
    let quic = |congestion| Transport::Quic(QuicConfig::new(congestion));
    let transports = [
        ("cubic", tcp(Config::modern(Congestion::Cubic))),
        ("newreno", tcp(Config::modern(Congestion::NewReno))),
        ("bbr", tcp(Config::modern(Congestion::Bbr1))),
        ("cubic 2008", tcp(Config::linux_2008(Congestion::Cubic2008))),
        ("newreno 2008", tcp(Config::linux_2008(Congestion::NewReno))),
        ("reno", tcp(Config::modern(Congestion::Reno))),
        ("tahoe", tcp(Config::modern(Congestion::Tahoe))),
        ("quic cubic", quic(QuicCongestion::Cubic)),
        ("quic newreno", quic(QuicCongestion::NewReno)),
        ("quic bbr", quic(QuicCongestion::Bbr)),
    ];
    let header: String = LOSSES.iter().map(|loss| format!("{:>9}", format!("{} %", loss * 100.0))).collect();
    println!("{:<13}{header}", "");
    for (name, transport) in transports {
        let mut row = format!("{name:<13}");
        for loss in LOSSES {
            let path = Path::drop_tail((mbps * 1e6) as u64, buffer as usize, loss, 1);
            let rtt = Duration::from_nanos((rtt_ms * 1e6) as u64);
            let mut dumbbell = Dumbbell::new(path, vec![Flow::new(transport.clone(), rtt, None)], Nobody);
            let [from, to] = [0.25, 1.0].map(|share| Time::from_ns((seconds * share * 1e9) as u64));
            row += &format!("{:>9.2}", dumbbell.goodput_mbps(from, to)[0]);
        }
        println!("{row}");
    }
}
