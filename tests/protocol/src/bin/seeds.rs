//! Runs random scenarios: `cargo run --release -p dfcp-protocol-tests --bin seeds -- --count 5000`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use clap::Parser;
use dfcp_protocol_tests::random::Scenario;

/// Runs thousands of random paths, jobs and configurations; every byte is checked and every run must end.
#[derive(Parser)]
#[command(after_help = "Example: seeds --count 5000\nReplay of one: seeds --first 1234 --count 1 --verbose")]
struct Args {
    /// First seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Longest stream, bytes.
    #[arg(long, default_value_t = 1_000_000)]
    bytes_max: u64,
    /// Number of concurrent scenarios.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Print every scenario and its outcome.
    #[arg(long)]
    verbose: bool,
    /// Print every datagram as well.
    #[arg(long)]
    datagrams: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (next, failed, gave_up) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= args.count {
                        return;
                    }
                    let scenario = Scenario::draw(args.first + index, args.bytes_max);
                    let mut out = std::io::stdout().lock();
                    if args.verbose {
                        let _closed_pipe_is_fine = writeln!(out, "{scenario:#?}");
                    }
                    drop(out);
                    let result = scenario.run(args.datagrams);
                    let mut out = std::io::stdout().lock();
                    match result {
                        Ok(Some(outcome)) if args.verbose => {
                            let _closed_pipe_is_fine = writeln!(out, "{outcome:?}");
                        }
                        Ok(Some(_)) => {}
                        Ok(None) => {
                            gave_up.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            let _closed_pipe_is_fine = writeln!(out, "{error:#}");
                        }
                    }
                }
            });
        }
    });
    let (failed, gave_up) = (failed.into_inner(), gave_up.into_inner());
    writeln!(
        std::io::stdout(),
        "{} scenarios: {failed} failed, {gave_up} classic ones ended in their documented timeout",
        args.count
    )?;
    if failed > 0 {
        bail!("{failed} of {} scenarios failed", args.count);
    }
    Ok(())
}
