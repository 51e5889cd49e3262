//! Attacks a live server with millions of datagrams, while honest transfers go on, and prints how both fared.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use dfcp_end_to_end_tests::live::{Attack, Logs, Row, Size, run};

/// Attacks a server on loopback, one kind after the other, with honest transfers running.
#[derive(Debug, Parser)]
#[command(after_help = "Example: attacks --datagrams 100000 --only flood")]
struct Args {
    /// Datagrams of each attack
    #[arg(long, default_value_t = 1_000_000)]
    datagrams: u64,
    /// So many a second at the most
    #[arg(long, default_value_t = 100_000)]
    per_second: u64,
    /// Honest transfers at a time
    #[arg(long, default_value_t = 4)]
    transfers: u64,
    /// Bytes of each, both ways
    #[arg(long, default_value_t = 1_000_000)]
    bytes: u64,
    /// What the attacks are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only attacks whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// One JSON object per attack
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    ensure!(args.per_second > 0 && args.transfers > 0, "--per-second and --transfers must be at least 1");
    let logs = Logs::install();
    let size = Size {
        datagrams: args.datagrams,
        datagrams_per_s: args.per_second,
        transfer_bytes: args.bytes,
        transfers: args.transfers,
        seed: args.seed,
    };
    let mut out = std::io::stdout().lock();
    if !args.json {
        writeln!(
            out,
            "{:<32} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>6} {:>7}  verdict",
            "attack", "datagrams", "addresses", "s", "peak MiB", "grew MiB", "finished", "opened", "refused"
        )?;
    }
    let mut is_well = true;
    for attack in Attack::ALL {
        if args.only.as_ref().is_some_and(|only| !attack.name().contains(only.as_str())) {
            continue;
        }
        let row = run(attack, size, logs)?;
        is_well &= row.is_well();
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&row)?)?;
        } else {
            writeln!(out, "{}", line(&row))?;
        }
        out.flush()?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(row: &Row) -> String {
    let verdict = match row.is_well() {
        true if row.opened_meanwhile == 0 => "held, but nobody new got in".to_owned(),
        true => "held".to_owned(),
        false => row.wrong.join("; "),
    };
    format!(
        "{:<32} {:>9} {:>9} {:>7.1} {:>9.1} {:>9.1} {:>9} {:>6} {:>7}  {verdict}",
        row.attack,
        row.datagrams,
        row.addresses,
        row.seconds,
        row.memory_peak_mib,
        (row.memory_peak_mib - row.memory_before_mib).max(0.0),
        format!("{}/{}", row.transfers_finished, row.transfers_started),
        row.opened_meanwhile,
        row.connects_failed,
    )
}
