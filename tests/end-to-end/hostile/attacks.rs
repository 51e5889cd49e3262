//! Program that attacks a live server with millions of datagrams during honest transfers, and prints the results of
//! attacks and transfers. Before, it measures in virtual time the traffic that false reports draw from a sender, and
//! the costs that messages can cause.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use dfcp_end_to_end_tests::lies::{Lie, tell};
use dfcp_end_to_end_tests::live::{Attack, Logs, Row, Size, run};
use dfcp_end_to_end_tests::messages;

/// Runs false reports to a sender in virtual time, then attacks on a server on loopback, one kind after the other, during honest transfers.
#[derive(Debug, Parser)]
#[command(after_help = "Example: attacks --datagrams 100000 --only flood")]
struct Args {
    /// Datagrams per attack
    #[arg(long, default_value_t = 1_000_000)]
    datagrams: u64,
    /// Most datagrams per second
    #[arg(long, default_value_t = 100_000)]
    per_second: u64,
    /// Concurrent honest transfers
    #[arg(long, default_value_t = 4)]
    transfers: u64,
    /// Bytes per transfer in each direction
    #[arg(long, default_value_t = 1_000_000)]
    bytes: u64,
    /// Seed of the attacks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rate of the senders that receive false reports, bit/s
    #[arg(long, default_value_t = 100_000_000)]
    lied_to_bps: u64,
    /// Only attacks and lies whose names contain this text
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON object per attack
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
    let mut is_well = lies(&args, &mut out)? & costs(&args, &mut out)?;
    if !args.json {
        writeln!(
            out,
            "{:<32} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>6} {:>7}  verdict",
            "attack", "datagrams", "addresses", "s", "peak MiB", "grew MiB", "finished", "opened", "refused"
        )?;
    }
    for attack in Attack::ALL {
        if !args.wants(attack.name()) {
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

impl Args {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }
}

/// Runs every lie, and returns true if none drew more traffic than permitted.
fn lies(args: &Args, out: &mut impl Write) -> Result<bool> {
    if !args.json {
        let heads = ["drawn MB", "proven MB", "beyond 4.5x, s"];
        writeln!(out, "{:<40} {:>9} {:>9} {:>14}  verdict", "lie, for 60 s", heads[0], heads[1], heads[2])?;
    }
    let mut is_well = true;
    for lie in Lie::ALL.into_iter().filter(|lie| args.wants(&lie.to_string())) {
        let drawn = tell(lie, args.lied_to_bps)?;
        let breach = drawn.breach();
        is_well &= breach.is_none();
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&drawn)?)?;
            continue;
        }
        let (bytes, proven) = (drawn.drawn_bytes as f64 / 1e6, drawn.proven_bytes as f64 / 1e6);
        let verdict = breach.or_else(|| drawn.error.clone()).unwrap_or_else(|| "held".to_owned());
        writeln!(out, "{lie:<40} {bytes:>9.2} {proven:>9.2} {:>14.2}  {verdict}", drawn.beyond_s())?;
    }
    Ok(is_well)
}

/// Runs attacks with messages, and returns true if none cost more than permitted.
fn costs(args: &Args, out: &mut impl Write) -> Result<bool> {
    if !args.json {
        let heads = ["units", "dropped", "KiB", "uncharged", "us each", "drawn MB", "own MB", "delivered"];
        let [units, dropped, kib, uncharged, cpu, drawn, own, delivered] = heads;
        writeln!(
            out,
            "{:<40} {units:>8} {dropped:>8} {kib:>6} {uncharged:>9} {cpu:>7} {drawn:>8} {own:>8} {delivered:>9}  verdict",
            "messages"
        )?;
    }
    let mut is_well = true;
    for kind in messages::Attack::ALL.into_iter().filter(|kind| args.wants(&kind.to_string())) {
        let cost = messages::attack(kind, args.datagrams)?;
        let breach = cost.breach();
        is_well &= breach.is_none();
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&cost)?)?;
            continue;
        }
        let (drawn, own) = (cost.drawn_bytes as f64 / 1e6, cost.own_bytes as f64 / 1e6);
        let verdict = breach.or_else(|| cost.error.clone()).unwrap_or_else(|| "held".to_owned());
        writeln!(
            out,
            "{kind:<40} {:>8} {:>8} {:>6} {:>9} {:>7.2} {drawn:>8.2} {own:>8.2} {:>9}  {verdict}",
            cost.units, cost.dropped, cost.memory_kib, cost.uncharged_kib, cost.cpu_us, cost.delivered
        )?;
    }
    Ok(is_well)
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
