//! Prints the loss × RTT table of the modern profile: `cargo run --release -p dfcp-protocol-tests --bin table`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use clap::Parser;
use dfcp_protocol_tests::table::{Cell, Row};

/// Measures the goodput of the modern profile over emulated paths, as a share of the path's capacity.
#[derive(Parser)]
#[command(after_help = "Example: table --rate-mbit 100 --rtt-ms 1,50 --loss-percent 0,10,50")]
struct Args {
    /// Loss in each direction, per cent.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.1, 1.0, 5.0, 10.0, 20.0, 50.0])]
    loss_percent: Vec<f64>,
    /// Round-trip times, milliseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 50, 100, 200, 500])]
    rtt_ms: Vec<u64>,
    /// Bottleneck rates, Mbit/s.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000])]
    rate_mbit: Vec<u64>,
    /// Seed of losses and contents.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Shorten warm-up and measurement.
    #[arg(long)]
    quick: bool,
    /// Measure unencrypted connections.
    #[arg(long)]
    unsealed: bool,
    /// Print one JSON object per cell instead of a table.
    #[arg(long)]
    json: bool,
    /// Number of concurrent cells.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

fn print(row: &Row, json: bool) -> Result<()> {
    let line = if json {
        serde_json::to_string(row)?
    } else {
        let missed = if row.ceiling_percent < 98.5 || row.useful_percent < 99.0 { "  below target" } else { "" };
        format!(
            "{:>6} {:>7} {:>7} {:>11.3} {:>12.2} {:>10.2} {:>8.2} {:>8.2} {:>6.1}{missed}",
            row.rate_mbit,
            row.rtt_ms,
            row.loss_percent,
            row.loss_real_percent,
            row.goodput_mbit,
            row.ceiling_percent,
            row.useful_percent,
            row.read_percent,
            row.measured_s
        )
    };
    writeln!(std::io::stdout(), "{line}").context("the table could not be written")
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut cells = Vec::new();
    for &rate_mbit in &args.rate_mbit {
        for &rtt_ms in &args.rtt_ms {
            for &loss in &args.loss_percent {
                let rate_bps = rate_mbit * 1_000_000;
                let Args { seed, quick, unsealed, .. } = args;
                cells.push(Cell { loss: loss / 100.0, rtt_ms, rate_bps, seed, quick, unsealed });
            }
        }
    }
    if !args.json {
        let header = "Mbit/s  RTT ms  loss %  real loss %  goodput Mb/s  ceiling %  useful %  in order  secs";
        writeln!(std::io::stdout(), "{header}")?;
    }
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = cell.run().and_then(|row| print(&row, args.json));
                    if let (Err(error), Ok(mut failure)) = (result, failure.lock()) {
                        failure.get_or_insert(error.context(format!("{cell:?}")));
                    }
                }
            });
        }
    });
    failure.into_inner().ok().flatten().map_or(Ok(()), Err)
}
