//! Table of messages with deadlines: share in time, and datagrams needed.

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use dfcp_proto::{Deadline, Policy, Rate};
use dfcp_protocol_tests::messages::{Losses, MessagesConfig, run};
use dfcp_sim::messages::{Bound, Least};

/// Prints the results of messages with deadlines over a path of 100 Mbit/s and a one-way delay of 25 ms, on a virtual clock.
#[derive(Debug, Parser)]
struct Args {
    /// Messages per cell.
    #[arg(long, default_value_t = 20_000)]
    count: u64,
    /// Deadlines beyond the one-way delay, ms.
    #[arg(long, value_delimiter = ',', default_value = "10,60,130")]
    beyond_ms: Vec<u64>,
    /// Interval of messages, µs.
    #[arg(long, value_delimiter = ',', default_value = "4000,400")]
    every_us: Vec<u64>,
    /// Losses: shares in percent, or `bursts`.
    #[arg(long, value_delimiter = ',', default_value = "1,5,20,bursts")]
    losses: Vec<String>,
    /// Lose reports, too.
    #[arg(long)]
    both_ways: bool,
    /// Send beside a stream, at an automatic rate.
    #[arg(long)]
    auto: bool,
    /// Send without a stream, at an automatic rate.
    #[arg(long, conflicts_with = "auto")]
    alone: bool,
    /// Length of stalls, in which the data's path delivers nothing, once per second, ms.
    #[arg(long, default_value_t = 0)]
    stall_ms: u64,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    println!(
        "every_ms  loss    beyond_ms  missed_%  overhead     bound   most  p50_ms  p99.9_ms  expired  bulk_mbps  verdict"
    );
    for &every_us in &args.every_us {
        for losses in &args.losses {
            for &beyond_ms in &args.beyond_ms {
                cell(&args, every_us, losses, beyond_ms)?;
            }
        }
    }
    Ok(())
}

fn cell(args: &Args, every_us: u64, name: &str, beyond_ms: u64) -> Result<()> {
    let losses = match name.parse::<f64>() {
        Ok(percent) => Losses::Independent(percent / 100.0),
        Err(_) => Losses::Bursts { share: 0.05, mean: Duration::from_micros(5 * every_us) },
    };
    let within = Duration::from_millis(25 + beyond_ms);
    let rate = if args.auto || args.alone { Rate::auto(Policy::Fair) } else { MessagesConfig::default().rate };
    let outcome = run(MessagesConfig {
        losses,
        both_ways: args.both_ways,
        rate,
        bulk: args.auto,
        every: Duration::from_micros(every_us),
        deadline: Deadline::within(within),
        within,
        count: args.count,
        stall: Duration::from_millis(args.stall_ms),
        seed: args.seed,
        ..MessagesConfig::default()
    })?;
    let at = |share: f64| {
        let place = (outcome.latencies_us.len() as f64 * share) as usize;
        outcome
            .latencies_us
            .get(place.min(outcome.latencies_us.len().saturating_sub(1)))
            .map_or(0.0, |us| f64::from(*us) / 1e3)
    };
    let bound = Bound {
        losses,
        spacing_s: every_us as f64 / 1e6,
        beyond_s: beyond_ms as f64 / 1e3,
        rtt_s: 0.05,
        datagram_s: 1_400.0 * 8.0 / 1e8,
        lost_max: 0.001,
    };
    let (missed, overhead) = (outcome.missed(), outcome.overhead());
    // Two standard errors; with bursts, a whole burst counts as one sample.
    let alike = if matches!(losses, Losses::Bursts { .. }) { 5.0 } else { 1.0 };
    let missed_max = 0.001 + 2.0 * (0.001 * alike / args.count as f64).sqrt();
    let (bound, most, verdict) = match bound.least() {
        Least::Datagrams(least) => {
            let most = 1.25 * (least - 1.0) + 0.03;
            let verdict = match (missed <= missed_max, overhead <= most) {
                (true, true) => "met",
                (false, true) => "too many missed",
                (true, false) => "too many datagrams",
                (false, false) => "too many missed, and too many datagrams",
            };
            (format!("{:.4}", least - 1.0), format!("{most:.3}"), verdict.to_owned())
        }
        Least::Lost(lost) => (format!("lost {:.2} %", 100.0 * lost), "-".to_owned(), "cannot be done".to_owned()),
    };
    println!(
        "{:8}  {name:6}  {beyond_ms:9}  {:8.4}  {overhead:8.4}  {bound:>8}  {most:>5}  {:6.1}  {:8.1}  {:7}  {:9.2}  {verdict}",
        every_us as f64 / 1e3,
        100.0 * missed,
        at(0.5),
        at(0.999),
        outcome.sender.messages_sent.expired_unsent,
        outcome.bulk_bytes as f64 * 8.0 / outcome.took.as_secs_f64() / 1e6,
    );
    Ok(())
}
