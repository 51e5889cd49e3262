//! Benchmark: cost of a packet in each queue discipline on one core: `cargo bench -p dfcp-netem [-- --quick]`.
//!
//! Flows of equal rate offer ten times the rate of a link, so that nine of ten packets are dropped. Measured are the
//! queue alone, and a whole link with it. Disciplines take turns in short runs. Each figure is the median of the
//! discipline's runs, in millions of packets offered per second.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use dfcp_netem::{ConfigError, Discipline, Drr, FqCodel, Link, LinkConfig, Packet, Queue, QueueLimit, Red, Sfq, Wfq};
use dfcp_time::Time;

/// One byte per nanosecond.
const RATE_BPS: u64 = 8_000_000_000;
const PACKET_BYTES: u32 = 1500;
const OVERLOAD: u64 = 10;
const PACKETS: u64 = 100_000;
const QUEUE_PACKETS: usize = 1000;

/// A packet as small as the simulator's packets.
#[derive(Clone, Copy, Debug)]
struct Small {
    flow: u64,
}

impl Packet for Small {
    fn size_bytes(&self) -> u32 {
        PACKET_BYTES
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn corrupt(&mut self, _random: u64) {}
}

fn main() -> Result<(), ConfigError> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 7 } else { 51 };
    println!(
        "10-fold overload of packets of {PACKET_BYTES} B, {QUEUE_PACKETS} may wait, median of {rounds} runs, Mpacket/s"
    );
    println!("{:>9} {:>6} {:>8} {:>8}", "", "flows", "queue", "link");
    let disciplines = [
        ("DropTail", Discipline::DropTail),
        ("DRR", Discipline::Drr(Drr::default())),
        ("SFQ", Discipline::Sfq(Sfq::default())),
        ("WFQ", Discipline::Wfq(Wfq::default())),
        ("FQ-CoDel", Discipline::FqCodel(FqCodel::default())),
        ("RED", Discipline::Red(Red::default())),
    ];
    for flows in [2, 100, 1000] {
        let mut times = vec![[Vec::new(), Vec::new()]; disciplines.len()];
        for _ in 0..rounds {
            for ((_, discipline), times) in disciplines.iter().zip(&mut times) {
                times[0].push(queue_run(discipline, flows)?);
                times[1].push(link_run(discipline, flows)?);
            }
        }
        for ((name, _), times) in disciplines.iter().zip(&mut times) {
            let [queue, link] = times.each_mut().map(|times| {
                times.sort_unstable();
                PACKETS as f64 / times[times.len() / 2].as_secs_f64() / 1e6
            });
            println!("{name:>9} {flows:>6} {queue:>8.2} {link:>8.2}");
        }
    }
    Ok(())
}

/// Returns arrival time and flow of packet `number`.
fn offer(number: u64, flows: u64) -> (Time, Small) {
    (Time::from_ns(number * u64::from(PACKET_BYTES) / OVERLOAD), Small { flow: number % flows })
}

fn queue_run(discipline: &Discipline, flows: u64) -> Result<Duration, ConfigError> {
    let limit = QueueLimit::packets(QUEUE_PACKETS);
    let mut queue = Queue::new(discipline.clone(), limit, Some(RATE_BPS), 1)?;
    let started = Instant::now();
    for number in 0..PACKETS {
        let (now, packet) = offer(number, flows);
        queue.push(now, packet, &mut |packet, cause| _ = black_box((packet, cause)));
        if number % OVERLOAD == 0 {
            black_box(queue.pop(now, &mut |packet, cause| _ = black_box((packet, cause))));
        }
    }
    Ok(started.elapsed())
}

fn link_run(discipline: &Discipline, flows: u64) -> Result<Duration, ConfigError> {
    let limit = QueueLimit::packets(QUEUE_PACKETS);
    let config = LinkConfig::default().with_rate_bps(RATE_BPS).with_queue(limit).with_discipline(discipline.clone());
    let mut link = Link::new(config, 1)?;
    let started = Instant::now();
    for number in 0..PACKETS {
        let (now, packet) = offer(number, flows);
        link.push(now, packet);
        while let Some(packet) = link.pop(now) {
            black_box(packet);
        }
    }
    Ok(started.elapsed())
}
