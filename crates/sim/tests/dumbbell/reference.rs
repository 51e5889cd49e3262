//! Reference points measured with ns-3, and runs of the models at the same points.

use std::time::Duration;

use dfcp_sim::tcp::{Config, Congestion, RtoFloor};
use dfcp_sim::{Nobody, Transport};
use dfcp_time::Time;

use super::{Dumbbell, Flow, Path};

/// Length of the link header on ns-3's point-to-point links, bytes. It counts in transmission times.
const LINK_HEADER_BYTES: u32 = 2;

/// Row of `ns3_reference.csv`.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) tag: String,
    pub(crate) tcp: String,
    pub(crate) bottleneck_bps: u64,
    pub(crate) access_bps: u64,
    pub(crate) rtt_ms: Vec<f64>,
    pub(crate) buffer_packets: usize,
    pub(crate) loss: f64,
    pub(crate) duration_s: f64,
    pub(crate) warmup_s: f64,
    pub(crate) seed: u64,
    pub(crate) stagger_s: f64,
    pub(crate) goodput_mbps: f64,
    pub(crate) queue_share: f64,
    pub(crate) flows_mbps: Vec<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) goodput_mbps: f64,
    pub(crate) flows_mbps: Vec<f64>,
    pub(crate) queue_share: f64,
    /// Packets that passed the bottleneck in the direction of data.
    pub(crate) packets: u64,
    pub(crate) timeouts: u64,
    pub(crate) recoveries: u64,
}

pub(crate) const CSV: &str = include_str!("../data/ns3_reference.csv");

/// Parses the table. Lines starting with `#` are comments.
pub(crate) fn points() -> Vec<Point> {
    let mut lines = CSV.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<String> = fields(lines.next().unwrap());
    lines.map(|line| point(&header, &fields(line))).collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

fn point(header: &[String], row: &[String]) -> Point {
    let text = |name: &str| row[header.iter().position(|column| column == name).unwrap()].clone();
    let number = |name: &str| text(name).parse::<f64>().unwrap();
    // Settings that all rows, and the models below, have in common.
    for (name, value) in [
        ("min_rto_s", 0.2),
        ("delayed_ack_s", 0.04),
        ("delayed_ack_packets", 2.0),
        ("hystart", 1.0),
        ("segment_bytes", 1448.0),
        ("sack", 1.0),
        ("initial_window_packets", 10.0),
    ] {
        assert_eq!(number(name), value, "{name}");
    }
    assert_eq!(text("recovery"), "prr");
    Point {
        tag: text("tag"),
        tcp: text("tcp"),
        bottleneck_bps: number("bottleneck_bps") as u64,
        access_bps: number("access_bps") as u64,
        rtt_ms: text("rtt_ms").split(',').map(|rtt| rtt.parse().unwrap()).collect(),
        buffer_packets: number("buffer_packets") as usize,
        loss: number("loss"),
        duration_s: number("duration_s"),
        warmup_s: number("warmup_s"),
        seed: number("seed") as u64,
        stagger_s: number("stagger_s"),
        goodput_mbps: number("goodput_mbps"),
        queue_share: number("mean_queue_share"),
        flows_mbps: text("flows_mbps").split(' ').map(|flow| flow.parse().unwrap()).collect(),
    }
}

impl Point {
    /// Returns the configuration of the model for this row. Ns-3 follows the RFCs.
    pub(crate) fn config(&self) -> Config {
        let congestion = match self.tcp.as_str() {
            "cubic" => Congestion::Cubic,
            "linuxreno" => Congestion::NewReno,
            other => panic!("no model of {other}"),
        };
        let rfc = Config::rfc(congestion);
        let header_bytes = rfc.header_bytes + LINK_HEADER_BYTES;
        Config { rto_floor: RtoFloor::Timer, header_bytes, ..rfc }
    }

    /// Runs the model at this point, for the duration of the point.
    pub(crate) fn run(&self) -> Outcome {
        self.run_with(self.config(), self.seed, self.duration_s, self.warmup_s)
    }

    pub(crate) fn run_with(&self, tcp: Config, seed: u64, duration_s: f64, warmup_s: f64) -> Outcome {
        let mut path = Path::drop_tail(self.bottleneck_bps, self.buffer_packets, self.loss, seed);
        path.access_bps = self.access_bps;
        let flows = (self.rtt_ms.iter().enumerate())
            .map(|(index, &rtt_ms)| Flow {
                start: Time::from_ns((self.stagger_s * 1e9) as u64 * index as u64),
                ..Flow::new(Transport::Tcp(tcp), Duration::from_nanos((rtt_ms * 1e6) as u64), None)
            })
            .collect();
        let mut dumbbell = Dumbbell::new(path, flows, Nobody);
        let warm = Time::from_ns((warmup_s * 1e9) as u64);
        dumbbell.simulation.run_until(warm);
        let before = dumbbell.delivered_bytes();
        let waiting = dumbbell.run_sampling(Time::from_ns((duration_s * 1e9) as u64));
        let flows_mbps = dumbbell.goodput_since(&before, warm);
        let link = dumbbell.simulation.link_stats(dumbbell.bottleneck);
        let senders = || (0..self.rtt_ms.len()).map(|flow| dumbbell.tcp_sender(flow).stats());
        Outcome {
            goodput_mbps: flows_mbps.iter().sum(),
            flows_mbps,
            queue_share: waiting / self.buffer_packets as f64,
            packets: link.delivered.packets + link.lost.packets,
            timeouts: senders().map(|stats| stats.timeouts).sum(),
            recoveries: senders().map(|stats| stats.recoveries).sum(),
        }
    }
}
