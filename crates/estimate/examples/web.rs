//! Experiment for thesis group 5, web traffic over a mobile link: dependence of the estimate and the number of busy periods on the
//! threshold (5.2, 5.4), and length of busy periods (5.3). One user has a queue with a randomly walking rate; pages are loaded by models of
//! TCP.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::time::Duration;

use clap::Parser;
use dfcp_estimate::{BusyPeriod, Config, Estimator, Probe};
use dfcp_netem::{DeliveryTrace, LinkChange, LinkConfig, OPPORTUNITY_BYTES, QueueLimit};
use dfcp_sim::messages::{Messages, ModelConfig, Recovery};
use dfcp_sim::tcp::{self, Congestion};
use dfcp_sim::{FlowConfig, LinkId, Observer, Packet, Simulation, Transport};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Mobile user who loads pages.
#[derive(Debug, Parser)]
#[command(after_help = "Example: web --seconds 3600 --tcp 2008")]
struct Args {
    /// Length of the run
    #[arg(long, default_value_t = 3_600)]
    seconds: u64,
    /// TCP of the user: 2008 for CUBIC of Linux 2.6.26, which leaves slow start only by loss; modern for CUBIC with HyStart of Linux 6.12
    #[arg(long, default_value = "2008", value_parser = ["2008", "modern"])]
    tcp: String,
    /// Interval of test packets, ms
    #[arg(long, default_value_t = 100)]
    interval_ms: u64,
    /// Recorded rate in mahimahi's format, instead of the random walk
    #[arg(long)]
    trace: Option<std::path::PathBuf>,
    /// Seed of the pages and of the random walk
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Thresholds to compare, ms.
const THRESHOLDS_MS: [u64; 9] = [5, 10, 20, 40, 70, 100, 130, 160, 200];
/// Time for which the link's rate is constant.
const BIN: Duration = Duration::from_millis(20);
const CONNECTIONS: usize = 6;
const CONNECTION_BYTES_MEAN: f64 = 50_000.0;
const THINKING_S_MEAN: f64 = 8.0;
/// Range of the random walk, Mbit/s.
const LOWEST_MBPS: f64 = 1.0;
const HIGHEST_MBPS: f64 = 4.0;

/// Observer of the bottleneck's output.
struct Watch {
    behind: LinkId,
    estimators: Vec<(Estimator, Vec<BusyPeriod>)>,
    probes: u64,
}

impl Observer for Watch {
    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        if link != self.behind || packet.is_back {
            return;
        }
        let is_probe = packet.flow == 0;
        for (estimator, periods) in &mut self.estimators {
            if is_probe {
                let probe = Probe { number: self.probes, sent: None, at: now, size_bytes: packet.size_bytes };
                periods.extend(estimator.probe(probe).ok().flatten());
            } else {
                // Simulated time never decreases, so this cannot fail.
                let _ = estimator.traffic(now, packet.size_bytes.into());
            }
        }
        self.probes += u64::from(is_probe);
    }
}

/// Rate of each bin, bit/s.
fn rates(args: &Args, random: &mut Pcg64Mcg) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    if let Some(path) = &args.trace {
        let trace = DeliveryTrace::parse(&std::fs::read_to_string(path)?)?;
        let per_packet = u64::from(OPPORTUNITY_BYTES) * 8 * 1_000 / BIN.as_millis() as u64;
        return Ok(trace
            .bins(BIN, Duration::from_secs(args.seconds))
            .map(|packets| (packets * per_packet).max(1))
            .collect());
    }
    let mut mbps: f64 = 2.5;
    let mut next = || {
        mbps += 0.06 * (2.0 * random.random::<f64>() - 1.0);
        mbps = mbps.clamp(LOWEST_MBPS, HIGHEST_MBPS);
        (mbps * 1e6) as u64
    };
    Ok((0..args.seconds * 50).map(|_| next()).collect())
}

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

fn simulate(args: &Args, rates_bps: &[u64], random: &mut Pcg64Mcg) -> Result<Watch, Box<dyn std::error::Error>> {
    let mut simulation = Simulation::new(args.seed, None);
    let access = LinkConfig::default().with_rate_bps(100_000_000).with_delay(Duration::from_millis(15));
    let cell =
        access.clone().with_rate_bps(rates_bps.first().copied().unwrap_or(1)).with_queue(QueueLimit::packets(300));
    let there = vec![simulation.add_link(cell)?, simulation.add_link(access.clone())?];
    let back = vec![simulation.add_link(access)?];
    let flow = |start, bytes, transport| FlowConfig {
        start,
        stop: None,
        rebinds: Vec::new(),
        bytes,
        forward: there.clone(),
        back: back.clone(),
        transport,
    };
    let every = Duration::from_millis(args.interval_ms);
    let messages = Messages { bytes: 16, every, deadline: every, target: 0.9, beside_stream: false };
    simulation.add_flow(flow(Time::ZERO, None, Transport::Model(ModelConfig { messages, recovery: Recovery::Arq })))?;
    let tcp = match args.tcp.as_str() {
        "2008" => tcp::Config::linux_2008(Congestion::Cubic2008),
        _ => tcp::Config::modern(Congestion::Cubic),
    };
    let mut at_s = exponential(random, THINKING_S_MEAN);
    while at_s < args.seconds as f64 {
        for _ in 0..CONNECTIONS {
            let bytes = exponential(random, CONNECTION_BYTES_MEAN).ceil().max(1.0) as u64;
            simulation.add_flow(flow(Time::from_us((at_s * 1e6) as u64), Some(bytes), Transport::Tcp(tcp)))?;
        }
        at_s += exponential(random, THINKING_S_MEAN);
    }
    let of = |threshold_ms: &u64| {
        let config = Config::new(every).with_threshold(Duration::from_millis(*threshold_ms));
        Estimator::new(config).map(|estimator| (estimator, Vec::new()))
    };
    let estimators = THRESHOLDS_MS.iter().map(of).collect::<Result<_, _>>()?;
    *simulation.observer_mut() = Some(Watch { behind: there[1], estimators, probes: 0 });
    for (number, &rate_bps) in rates_bps.iter().enumerate() {
        let at = Time::ZERO + BIN * number as u32;
        simulation.run_until(at);
        let change = LinkChange { rate_bps: Some(rate_bps), ..LinkChange::default() };
        simulation.change(there[0], &change)?;
    }
    simulation.run_until(Time::from_s(args.seconds));
    simulation.observer_mut().take().ok_or_else(|| "nobody watched".into())
}

/// True mean rate of the link during a busy period, bit/s.
fn could_bps(rates_bps: &[u64], period: &BusyPeriod) -> f64 {
    let bin_ns = BIN.as_nanos() as u64;
    let (start, end) = (period.start.as_ns(), period.end.as_ns());
    let bits = |number: u64| {
        let overlap_ns = end.min((number + 1) * bin_ns).saturating_sub(start.max(number * bin_ns));
        rates_bps.get(number as usize).copied().unwrap_or_default() as f64 * overlap_ns as f64 / 1e9
    };
    (start / bin_ns..=end / bin_ns).map(bits).sum::<f64>() * 1e9 / (end - start) as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let mut random = Pcg64Mcg::seed_from_u64(args.seed);
    let rates_bps = rates(&args, &mut random)?;
    let watch = simulate(&args, &rates_bps, &mut random)?;
    let mean_bps = rates_bps.iter().sum::<u64>() as f64 / rates_bps.len().max(1) as f64;
    println!("mean rate of the link {:.3} Mbit/s, {} test packets, TCP {}\n", mean_bps / 1e6, watch.probes, args.tcp);
    println!(
        "| threshold, ms | estimate, Mbit/s | 95 % | busy periods | error in them, % | worst, % | shorter than 1 s, % |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (threshold_ms, (estimator, periods)) in THRESHOLDS_MS.iter().zip(&watch.estimators) {
        let summary = estimator.summary();
        let Some(estimate_bps) = summary.mean_bps() else {
            println!("| {threshold_ms} | – | – | 0 | – | – | – |");
            continue;
        };
        let errors: Vec<f64> =
            periods.iter().map(|period| 100.0 * (period.rate_bps() / could_bps(&rates_bps, period) - 1.0)).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst =
            errors.iter().copied().fold(0.0, |worst: f64, error| if error.abs() > worst.abs() { error } else { worst });
        let short = periods.iter().filter(|period| period.duration() < Duration::from_secs(1)).count();
        let within = summary.confidence_95();
        println!(
            "| {threshold_ms} | {:.3} | {} | {} | {mean:.2} | {worst:.1} | {:.0} |",
            estimate_bps / 1e6,
            within.map_or_else(
                || "–".to_owned(),
                |within| format!("{:.3} to {:.3}", within.low_bps / 1e6, within.high_bps / 1e6)
            ),
            periods.len(),
            100.0 * short as f64 / periods.len() as f64
        );
    }
    Ok(())
}
