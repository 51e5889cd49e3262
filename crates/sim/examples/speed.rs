//! Example: cost of the simulation itself, for many flows over one bottleneck. `cargo run --release -p dfcp-sim
//! --example speed -- --transport quic --flows 10`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for developers, which takes the time")]

#[path = "../tests/dumbbell/mod.rs"]
mod dumbbell;

use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use dfcp_netem::{Discipline, Drr, LinkConfig, QueueLimit, Sfq};
use dfcp_proto::{Config, Rate, Schedule};
use dfcp_sim::tcp::{self, Congestion};
use dfcp_sim::{Counting, DfcpConfig, Observer, Packet, QuicConfig, QuicCongestion, Transport};
use dfcp_time::Time;
use dumbbell::{Dumbbell, Flow, Path};

/// Length of a full packet, bits.
const PACKET_BITS: f64 = 1_500.0 * 8.0;
/// Send and receive buffers of a DFCP flow, bytes: larger than the bandwidth-delay product at any rate.
const DFCP_BUFFER_BYTES: u64 = 1 << 27;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Carrier {
    /// DFCP's modern profile, each flow at its share of the rate, whose symbols are only counted.
    Modern,
    /// DFCP's classic profile at its access rate, whose symbols are only counted.
    Classic,
    /// The classic profile, each flow at its share of the rate.
    ClassicPaced,
    /// TCP with CUBIC.
    Cubic,
    /// TCP with NewReno.
    Newreno,
    /// TCP with BBR.
    Bbr,
    /// QUIC with CUBIC.
    Quic,
    /// QUIC with NewReno.
    QuicNewreno,
    /// QUIC with BBR.
    QuicBbr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    /// First in, first out.
    DropTail,
    /// Deficit round robin.
    Drr,
    /// Stochastic fair queueing.
    Sfq,
}

/// Measures the cost of simulating flows over one bottleneck.
#[derive(Debug, Parser)]
struct Arguments {
    /// Transport of the flows.
    #[arg(long, value_enum, default_value = "cubic")]
    transport: Carrier,
    /// Number of flows.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    flows: u64,
    /// Rate of the bottleneck in Mbit/s.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    mbps: u64,
    /// Rate of each access link in Mbit/s; that of the bottleneck unless given.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    access_mbps: Option<u64>,
    /// Classic: redundancy of the open loop; without it, senders flood.
    #[arg(long)]
    redundancy: Option<f64>,
    /// Classic: blocks in the window.
    #[arg(long, default_value_t = 1_000)]
    window_blocks: u32,
    /// Round-trip time in ms, without queueing.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    rtt_ms: u64,
    /// Queue length in bandwidth-delay products.
    #[arg(long, default_value_t = 0.1)]
    buffer_bdp: f64,
    /// Simulated time in s.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Skip the measurement of CPU time, which valgrind does not survive.
    #[arg(long)]
    no_cpu_time: bool,
    /// Queue discipline.
    #[arg(long, value_enum, default_value = "drop-tail")]
    discipline: Order,
}

/// Counter of events.
#[derive(Debug, Default)]
struct Events(u64);

impl Observer for Events {
    fn sent(&mut self, _now: Time, _packet: &Packet) {
        self.0 += 1;
    }

    fn arrived(&mut self, _now: Time, _link: dfcp_sim::LinkId, _packet: &Packet) {
        self.0 += 1;
    }

    fn delivered(&mut self, _now: Time, _packet: &Packet) {
        self.0 += 1;
    }
}

fn dfcp(config: Config) -> Transport {
    let config = config
        .with_codec(&Counting)
        .with_send_buffer_bytes(DFCP_BUFFER_BYTES)
        .with_receive_memory_bytes(DFCP_BUFFER_BYTES);
    Transport::Dfcp(Box::new(DfcpConfig::both(config)))
}

fn transport(arguments: &Arguments, share_bps: u64) -> Transport {
    let share = Rate::Fixed { rate_bps: share_bps };
    let modern = || Config::danger_unsealed().with_rate(share);
    let schedule = arguments.redundancy.map_or(Schedule::Flood, |redundancy| Schedule::OpenLoop { redundancy });
    let classic = |rate| {
        Config::danger_classic().with_rate(rate).with_schedule(schedule).with_window_blocks(arguments.window_blocks)
    };
    let tcp = |congestion| Transport::Tcp(tcp::Config::modern(congestion));
    let quic = |congestion| Transport::Quic(QuicConfig::new(congestion));
    match arguments.transport {
        Carrier::Modern => dfcp(modern()),
        Carrier::Classic => dfcp(classic(Rate::Line)),
        Carrier::ClassicPaced => dfcp(classic(share)),
        Carrier::Cubic => tcp(Congestion::Cubic),
        Carrier::Newreno => tcp(Congestion::NewReno),
        Carrier::Bbr => tcp(Congestion::Bbr1),
        Carrier::Quic => quic(QuicCongestion::Cubic),
        Carrier::QuicNewreno => quic(QuicCongestion::NewReno),
        Carrier::QuicBbr => quic(QuicCongestion::Bbr),
    }
}

fn build(arguments: &Arguments) -> Dumbbell<Events> {
    let rate_bps = arguments.mbps * 1_000_000;
    let bdp_packets = rate_bps as f64 * arguments.rtt_ms as f64 / 1e3 / PACKET_BITS;
    let discipline = match arguments.discipline {
        Order::DropTail => Discipline::DropTail,
        Order::Drr => Discipline::Drr(Drr::default()),
        Order::Sfq => Discipline::Sfq(Sfq::default()),
    };
    let bottleneck = LinkConfig::default()
        .with_rate_bps(rate_bps)
        .with_queue(QueueLimit::packets((bdp_packets * arguments.buffer_bdp).max(1.0) as usize))
        .with_discipline(discipline);
    let rtt = Duration::from_millis(arguments.rtt_ms);
    let transport = transport(arguments, rate_bps / arguments.flows);
    let access_bps = arguments.access_mbps.unwrap_or(arguments.mbps) * 1_000_000;
    let flows = (0..arguments.flows).map(|_| Flow::new(transport.clone(), rtt, None)).collect();
    Dumbbell::new(Path { bottleneck, access_bps, seed: 1 }, flows, Events::default())
}

/// Returns the CPU time that this process has used.
#[cfg(unix)]
fn cpu_time() -> Option<Duration> {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)).ok()
}

#[cfg(not(unix))]
fn cpu_time() -> Option<Duration> {
    None
}

/// Returns the peak memory of this process, as reported by the kernel.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().to_owned())
}

fn main() {
    let arguments = Arguments::parse();
    let mut dumbbell = build(&arguments);
    let cpu_time = || if arguments.no_cpu_time { None } else { cpu_time() };
    let (start, cpu_start) = (Instant::now(), cpu_time());
    dumbbell.simulation.run_until(Time::from_s(arguments.seconds));
    let wall = start.elapsed();
    // Without a CPU clock, use the wall clock, as nothing waits here.
    let cpu_s = cpu_time().zip(cpu_start).map_or(wall, |(end, start)| end - start).as_secs_f64();
    let (packets, hops) = dumbbell.simulation.packets_and_hops();
    let bits: u64 = dumbbell.delivered_bytes().iter().sum::<u64>() * 8;
    let drops = dumbbell.simulation.link_stats(dumbbell.bottleneck).queue_drops.packets;
    println!("packets             {packets:>12}");
    println!("hops                {hops:>12}");
    println!("events              {:>12}", dumbbell.simulation.observer().0);
    println!("dropped             {drops:>12}");
    println!("goodput             {:>12.1} Mbit/s", bits as f64 / arguments.seconds as f64 / 1e6);
    println!("CPU time            {cpu_s:>12.2} s, on the clock {:.2} s", wall.as_secs_f64());
    println!("packets per CPU s   {:>12.0}", packets as f64 / cpu_s);
    println!("hops per CPU s      {:>12.0}", hops as f64 / cpu_s);
    if let Some(peak) = peak_memory() {
        println!("peak memory         {peak:>15}");
    }
    let failures = (0..dumbbell.flows.len()).filter_map(|flow| dumbbell.report(flow).failure);
    failures.for_each(|failure| println!("a flow failed: {failure}"));
}
