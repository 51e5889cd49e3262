//! `dfcp perf local`: both ends of a connection in one process, to show this machine's limits and the cost of encryption.

mod measure;
mod table;

use dfcp::{Cipher, Ciphers};
use indicatif::{ProgressBar, ProgressStyle};

use self::measure::{Figures, Protection};
use crate::args::PerfLocalArgs;
use crate::output;
use crate::units::{human_duration, human_rate};

/// Runs all rounds and prints their results.
///
/// # Errors
/// Fails if no socket can be opened, or a loopback connection breaks or stalls.
pub async fn run(args: PerfLocalArgs) -> anyhow::Result<()> {
    let protections = protections(&args.cipher).await?;
    if !args.json {
        output::note(&describe(&args, &protections));
    }
    let bar = progress_bar(args.json);
    let mut measured = Vec::new();
    for round in 1..=args.rounds {
        for &protection in &protections {
            let what = format!("round {round} of {}  {:<17}", args.rounds, protection.name());
            bar.set_message(what.clone());
            let on_progress = |goodput_bps| bar.set_message(format!("{what}  {:>11}", human_rate(goodput_bps)));
            let figures = measure::measure(protection, round, args.duration, on_progress).await?;
            if !args.json {
                bar.suspend(|| output::progress(&format!("{what}  {}", figures.describe())));
            }
            measured.push(figures);
        }
    }
    bar.finish_and_clear();
    print(&args, &measured);
    Ok(())
}

/// Returns the variants measured in one round, in this order: each cipher once, then plaintext.
async fn protections(asked: &[Cipher]) -> anyhow::Result<Vec<Protection>> {
    let mut ciphers: Vec<Cipher> = Vec::new();
    for &cipher in asked {
        if !ciphers.contains(&cipher) {
            ciphers.push(cipher);
        }
    }
    if ciphers.is_empty() {
        ciphers.push(measure::negotiated(Ciphers::Fastest).await?);
    }
    Ok(ciphers.into_iter().map(Protection::Sealed).chain([Protection::Plaintext]).collect())
}

fn describe(args: &PerfLocalArgs, protections: &[Protection]) -> String {
    let names: Vec<_> = protections.iter().map(|protection| protection.name()).collect();
    let rounds = if args.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", args.rounds) };
    format!(
        "both ends in this program, over loopback, rate line; {rounds} of {}, {} each",
        names.join(", "),
        human_duration(args.duration)
    )
}

fn progress_bar(json: bool) -> ProgressBar {
    let bar = output::bar(None, json);
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

fn print(args: &PerfLocalArgs, measured: &[Figures]) {
    let summaries = table::summaries(measured);
    if args.json {
        output::json(&table::json(args, measured, &summaries));
    } else {
        output::line(&format!("\n{}\n\n{}", table::table(&summaries), table::notes(&summaries)));
    }
}

impl Protection {
    /// Returns the RFC name of the cipher.
    const fn name(self) -> &'static str {
        match self {
            Self::Sealed(cipher) => dfcp_files::cipher_name(cipher),
            Self::Plaintext => "plaintext",
        }
    }
}

#[cfg(test)]
mod tests;
