//! Test that the TCP models agree with a Linux 6.12 kernel behind marking queues, at the points of
//! `data/kernel_ecn_reference.csv`: in goodput, mean queue length, and number of marks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod dumbbell;

use std::time::Duration;

use dfcp_netem::{Discipline, FqCodel, Red, RedUnit};
use dfcp_sim::tcp::{Config, Congestion};
use dfcp_sim::{Nobody, Transport};
use dfcp_time::Time;

use dumbbell::{Dumbbell, Flow, Path};

const CSV: &str = include_str!("data/kernel_ecn_reference.csv");

/// Rate of the access links, bit/s: practically infinite, because the kernel's access links have no rate limit.
const ACCESS_BPS: u64 = 1_000_000_000_000;

/// Queue limit of the reference in packets. For RED, the limit is in bytes and corresponds to 1000 full packets.
const LIMIT_PACKETS: usize = 1000;

/// Measurements of one row.
#[derive(Clone, Copy, Debug)]
struct Measured {
    goodput_mbps: f64,
    queue_packets: f64,
    marks: f64,
    drops: f64,
}

#[derive(Debug)]
struct Point<'a> {
    tcp: &'a str,
    ecn: bool,
    queue: &'a str,
    rate_mbps: u64,
    rtt_ms: u64,
    flows: usize,
    warm_up_s: u64,
    duration_s: u64,
    kernel: Measured,
}

impl<'a> Point<'a> {
    fn new(line: &'a str) -> Self {
        let columns: Vec<&str> = line.split(',').collect();
        let whole = |column: usize| columns[column].parse::<u64>().unwrap();
        let number = |column: usize| columns[column].parse::<f64>().unwrap();
        Self {
            tcp: columns[0],
            ecn: columns[1] == "1",
            queue: columns[2],
            rate_mbps: whole(3),
            rtt_ms: whole(4),
            flows: whole(5) as usize,
            warm_up_s: whole(6),
            duration_s: whole(7),
            kernel: Measured {
                goodput_mbps: number(8),
                queue_packets: number(9),
                marks: number(10),
                drops: number(11),
            },
        }
    }

    fn config(&self) -> Config {
        let congestion = match self.tcp {
            "cubic" => Congestion::Cubic,
            "reno" => Congestion::NewReno,
            "bbr" => Congestion::Bbr1,
            "dctcp" => Congestion::Dctcp,
            other => panic!("no model of {other}"),
        };
        Config { ecn: self.ecn, ..Config::modern(congestion) }
    }

    fn discipline(&self) -> Discipline {
        let codel = FqCodel::single_queue();
        match self.queue {
            "codel" => Discipline::FqCodel(FqCodel { ecn: true, ..codel }),
            "ce-threshold" => Discipline::FqCodel(FqCodel { ce_threshold: Some(Duration::from_millis(1)), ..codel }),
            // The kernel's RED is not gentle, but that makes no difference with a maximum probability of 1.
            "red" => Discipline::Red(Red {
                unit: RedUnit::Bytes,
                min_threshold: 60_000,
                max_threshold: 61_500,
                max_probability: 1.0,
                weight: 0.5,
                mean_packet_bytes: 1500,
                ecn: true,
                ..Red::default()
            }),
            other => panic!("no queue {other}"),
        }
    }

    /// Runs the model at this point.
    fn run(&self) -> Measured {
        self.run_over(Duration::from_millis(self.rtt_ms))
    }

    /// Runs the model at this point, with another RTT.
    fn run_over(&self, rtt: Duration) -> Measured {
        let rate_bps = self.rate_mbps * 1_000_000;
        let mut path = Path::drop_tail(rate_bps, LIMIT_PACKETS, 0.0, 1);
        path.bottleneck = path.bottleneck.with_discipline(self.discipline());
        path.access_bps = ACCESS_BPS;
        // The kernel's bottleneck is a token bucket of one packet. A packet that finds the bucket full leaves
        // immediately, a packet time earlier than on a line of that rate.
        let rtt = rtt - Duration::from_nanos(1500 * 8 * 1_000_000_000 / rate_bps);
        let flow = |number: u64| Flow {
            start: Time::from_ms(3 + number * 37),
            ..Flow::new(Transport::Tcp(self.config()), rtt, None)
        };
        let flows = (0..self.flows as u64).map(flow).collect();
        let mut dumbbell = Dumbbell::new(path, flows, Nobody);
        let warm = Time::from_s(self.warm_up_s);
        dumbbell.simulation.run_until(warm);
        let before = (dumbbell.delivered_bytes(), dumbbell.simulation.link_stats(dumbbell.bottleneck));
        let queue_packets = dumbbell.run_sampling(Time::from_s(self.warm_up_s + self.duration_s));
        let stats = dumbbell.simulation.link_stats(dumbbell.bottleneck);
        Measured {
            goodput_mbps: dumbbell.goodput_since(&before.0, warm).iter().sum(),
            queue_packets,
            marks: (stats.ce_marked.packets - before.1.ce_marked.packets) as f64,
            drops: (stats.queue_drops.packets - before.1.queue_drops.packets) as f64,
        }
    }
}

/// One run of the kernel is compared with one run of the model, so differences of a few packets or marks are chance.
#[test]
fn goodput_queue_and_marks_are_the_kernel_s() {
    let points: Vec<Point<'_>> = CSV.lines().filter(|line| !line.starts_with('#')).skip(1).map(Point::new).collect();
    assert!(points.len() >= 16, "{}", points.len());
    let mut off = Vec::new();
    for point in &points {
        let (here, kernel) = (point.run(), point.kernel);
        let differs =
            |here: f64, kernel: f64, share: f64, absolute: f64| (here - kernel).abs() > (share * kernel).max(absolute);
        if differs(here.goodput_mbps, kernel.goodput_mbps, 0.05, 0.0)
            || differs(here.queue_packets, kernel.queue_packets, 0.2, 2.0)
            || differs(here.marks, kernel.marks, 0.25, 10.0)
            || differs(here.drops, kernel.drops, 0.25, 10.0)
        {
            off.push(format!("{here:?}\n  instead of {point:?}"));
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
}

/// At 100 Mbit/s with an RTT of 20 ms, the kernel marks 3 % of the packets. The model does the same, unless all its
/// bursts have nine segments at equal distances for ever: a queue at the step then marks the packets of a whole RTT.
/// Changing the RTT by 0.1 ms prevents that.
#[test]
fn dctcp_marks_as_little_as_the_kernel_unless_its_bursts_are_in_step() {
    let point = Point::new("dctcp,1,red,100,20,1,4,6,96.4,38.3,1470,0");
    for rtt_us in [19_000, 19_900, 20_100, 21_000] {
        let model = point.run_over(Duration::from_micros(rtt_us));
        let packets = model.goodput_mbps / point.rate_mbps as f64 * 1500.0 / 1448.0 * 50_000.0;
        let percent = 100.0 * model.marks / packets;
        assert!((2.0..4.0).contains(&percent), "{rtt_us} us: {percent} % of {packets}");
        assert!((model.goodput_mbps - point.kernel.goodput_mbps).abs() < 0.5, "{rtt_us} us: {model:?}");
        assert!((model.queue_packets - point.kernel.queue_packets).abs() < 4.0, "{rtt_us} us: {model:?}");
        assert_eq!(model.drops, 0.0, "{rtt_us} us");
    }
    let in_step = point.run();
    assert!(in_step.marks > 2.0 * point.kernel.marks, "{in_step:?}");
}
