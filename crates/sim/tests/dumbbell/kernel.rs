//! Reference points measured with a Linux 6.12 kernel in virtual time, and runs of the models at the same points.

use std::time::Duration;

use dfcp_sim::tcp::{Config, Congestion};
use dfcp_sim::{Nobody, Transport};
use dfcp_time::Time;

use super::{Dumbbell, Flow, Path};

/// Rate of the access links, bit/s: practically infinite, because the kernel's access links have no rate limit.
const ACCESS_BPS: u64 = 1_000_000_000_000;

const PACKET_BYTES: u32 = 1500;

/// Row of `kernel_reference.csv`.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) tcp: String,
    pub(crate) bottleneck_mbps: u64,
    pub(crate) rtt_ms: f64,
    pub(crate) limit_packets: usize,
    pub(crate) loss_percent: f64,
    pub(crate) flows: usize,
    pub(crate) warmup_s: f64,
    pub(crate) duration_s: f64,
    /// Total goodput of all flows, Mbit/s: the mean of several runs. `standard_error_mbps` is the standard error of
    /// that mean.
    pub(crate) goodput_mbps: f64,
    pub(crate) standard_error_mbps: f64,
    /// Retransmitted segments per second.
    pub(crate) retransmissions_per_s: f64,
    pub(crate) timeouts_per_s: f64,
}

/// Result of the model at a point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) goodput_mbps: f64,
    pub(crate) retransmissions_per_s: f64,
    pub(crate) timeouts_per_s: f64,
}

pub(crate) const CSV: &str = include_str!("../data/kernel_reference.csv");

/// Parses a table of reference points. Lines starting with `#` are comments; the first other line is the header.
pub(crate) fn points(csv: &str) -> Vec<Point> {
    let mut lines = csv.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| point(&header, &line.split(',').collect::<Vec<_>>())).collect()
}

fn point(header: &[&str], row: &[&str]) -> Point {
    let text = |name: &str| row[header.iter().position(|column| *column == name).unwrap()];
    let number = |name: &str| text(name).parse::<f64>().unwrap();
    Point {
        tcp: text("tcp").to_owned(),
        bottleneck_mbps: number("bottleneck_mbps") as u64,
        rtt_ms: number("rtt_ms"),
        limit_packets: number("limit_packets") as usize,
        loss_percent: number("loss_percent"),
        flows: number("flows") as usize,
        warmup_s: number("warmup_s"),
        duration_s: number("duration_s"),
        goodput_mbps: number("goodput_mbps"),
        standard_error_mbps: number("standard_error_mbps"),
        retransmissions_per_s: number("retransmissions_per_s"),
        timeouts_per_s: number("timeouts_per_s"),
    }
}

impl Point {
    /// Returns the configuration of the model for the kernel's algorithm.
    pub(crate) fn config(&self) -> Config {
        Config::modern(match self.tcp.as_str() {
            "cubic" => Congestion::Cubic,
            "reno" => Congestion::NewReno,
            "bbr" => Congestion::Bbr1,
            other => panic!("no model of {other}"),
        })
    }

    /// Runs the model at this point, for the duration of the point.
    pub(crate) fn run(&self, seed: u64) -> Outcome {
        let rate_bps = self.bottleneck_mbps * 1_000_000;
        let mut path = Path::drop_tail(rate_bps, self.limit_packets + 1, self.loss_percent / 100.0, seed);
        path.access_bps = ACCESS_BPS;
        // The kernel's bottleneck is a token bucket: HTB with a burst of one packet, which sends as long as it has no
        // debt (`htb_class_mode`). After a pause, two packets leave immediately, and the third waits. Thus one more
        // packet fits into the queue, and each packet leaves earlier than on a line of that rate. A packet behind
        // another leaves two packet times earlier, which matters for windows. A packet on its own leaves one packet
        // time earlier, which determines the smallest RTT in BBR's model.
        let packets_early = if self.tcp == "bbr" { 1.0 } else { 2.0 };
        let packet_s = f64::from(PACKET_BYTES * 8) / rate_bps as f64;
        let rtt = Duration::from_nanos(((self.rtt_ms / 1e3 - packets_early * packet_s).max(0.0) * 1e9) as u64);
        // Runs without loss differ only in the time of their start between two ticks of the hosts' clocks.
        let start = Time::from_ns(seed % 16 * 1_300_000);
        let flow = Flow { start, ..Flow::new(Transport::Tcp(self.config()), rtt, None) };
        let mut dumbbell = Dumbbell::new(path, vec![flow; self.flows], Nobody);
        let warm = Time::from_ns((self.warmup_s * 1e9) as u64);
        let seconds = self.warmup_s + self.duration_s;
        let flows_mbps = dumbbell.goodput_mbps(warm, Time::from_ns((seconds * 1e9) as u64));
        let senders = || (0..self.flows).map(|flow| dumbbell.tcp_sender(flow).stats());
        Outcome {
            goodput_mbps: flows_mbps.iter().sum(),
            retransmissions_per_s: senders().map(|stats| stats.retransmissions).sum::<u64>() as f64 / seconds,
            timeouts_per_s: senders().map(|stats| stats.timeouts).sum::<u64>() as f64 / seconds,
        }
    }

    /// Runs the model 3 to `runs_max` times, until the standard error of the goodput is a fortieth of it. Returns the
    /// means and that standard error.
    pub(crate) fn mean(&self, runs_max: u64) -> (Outcome, f64) {
        let mut outcomes = Vec::new();
        loop {
            outcomes.push(self.run(outcomes.len() as u64 + 1));
            let runs = outcomes.len() as f64;
            let mean = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / runs;
            let goodput_mbps = mean(|outcome| outcome.goodput_mbps);
            let squares = outcomes.iter().map(|outcome| (outcome.goodput_mbps - goodput_mbps).powi(2)).sum::<f64>();
            let error = (squares / (runs - 1.0).max(1.0) / runs).sqrt();
            if runs >= 3.0 && error <= goodput_mbps / 40.0 || outcomes.len() as u64 >= runs_max {
                let retransmissions_per_s = mean(|outcome| outcome.retransmissions_per_s);
                let timeouts_per_s = mean(|outcome| outcome.timeouts_per_s);
                return (Outcome { goodput_mbps, retransmissions_per_s, timeouts_per_s }, error);
            }
        }
    }
}
