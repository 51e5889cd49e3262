//! Command `dfcp demo`: sends a real file over emulated paths, by DFCP and (with the feature `quic`) by QUIC, then
//! measures and verifies the transfers.
//!
//! Everything runs inside this process over 127.0.0.1, without privileges: sender, [relay](dfcp_relay::Relay) and
//! receiver.

mod dfcp_run;
mod path;
mod plot;
#[cfg(feature = "quic")]
mod quic_run;
mod result;
mod source;
mod transfer;
mod waste;

use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use dfcp_terminal::{output, units};
use indicatif::{ProgressBar, ProgressStyle};

use dfcp_run::Dfcp;
use path::Path;
#[cfg(feature = "quic")]
use quic_run::{Controller, Quic};
use result::{Ending, RunResult, Transport};
use source::Source;

/// `dfcp demo`
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  dfcp demo
  dfcp demo --size 8MB --loss 0,5,20 --rate 50mbit --rtt 200ms --output results

Needs no privileges and no other machine; without arguments it takes about two minutes. DFCP sends the whole file; \
QUIC is cut at --limit, because at heavy loss it would need minutes or hours. Exit code 0 means: every DFCP transfer was \
completed and every byte that arrived, by whatever transport, was verified.")]
pub struct DemoArgs {
    /// Length of the file to send, for example 8MB
    #[arg(long, value_name = "BYTES", default_value = "64MB", value_parser = size)]
    pub size: u64,

    /// Losses to try, each way, in percent
    #[arg(long, value_name = "PERCENT,..", default_value = "0,1,10,30", value_delimiter = ',', value_parser = loss)]
    pub loss: Vec<f64>,

    /// Rate of the path in IP bytes, each way
    #[arg(long, value_name = "RATE", default_value = "100mbit", value_parser = rate)]
    pub rate: u64,

    /// Round-trip time of the path
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = rtt)]
    pub rtt: Duration,

    /// Time limit of a QUIC transfer
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = limit)]
    pub limit: Duration,

    /// Directory for the results, created if missing; existing files of these names are replaced
    #[arg(long, value_name = "DIR", default_value = "demo-output")]
    pub output: PathBuf,

    /// Print the results as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs all transfers, prints the results as a table or JSON, and writes `goodput.svg` and `results.json`.
///
/// # Errors
/// Fails if the output directory or the sockets cannot be used. After printing, fails if a DFCP transfer was incomplete
/// or delivered wrong bytes.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make the directory {}, choose another --output", args.output.display()))?;
    // Dropping this directory removes the file and its copies, also after an interruption.
    let scratch = tempfile::tempdir_in(&args.output)
        .with_context(|| format!("cannot write to {}, choose another --output", args.output.display()))?;
    if !args.json {
        output::note(&args.describe());
    }
    let (file, size_bytes) = (scratch.path().join("file"), args.size);
    let source = tokio::task::spawn_blocking(move || Source::create(file, size_bytes))
        .await
        .context("writing the file to send ended early")??;
    let results = args.run_all(&source).await?;
    let chart = args.output.join("goodput.svg");
    save(&chart, &plot::chart(&results))?;
    let json = result::json(&results, &chart);
    save(&args.output.join("results.json"), &format!("{json:#}\n"))?;
    if args.json {
        output::json(&json);
    } else {
        output::line(&result::table(&results));
        output::line(&format!("\n{}\n\nChart: {}", result::notes(&results), chart.display()));
    }
    verdict(&results)
}

impl DemoArgs {
    /// Returns the path with this loss rate.
    fn path(&self, loss: f64) -> Path {
        Path { rate_bps: self.rate, rtt: self.rtt, loss }
    }

    fn describe(&self) -> String {
        let path = self.path(0.0);
        format!(
            "Sending {} over {} each way, {} round-trip time, a queue of {} packets, {} independent loss each way.",
            units::human_bytes(self.size),
            units::human_rate(self.rate as f64),
            units::human_duration(self.rtt),
            path.queue_packets(),
            self.loss.iter().map(|&loss| units::human_percent(loss)).collect::<Vec<_>>().join(", "),
        )
    }

    /// Returns the time limit of a DFCP run, far above any real duration.
    fn dfcp_limit(&self, path: &Path) -> Duration {
        let ideal_s = 8.0 * self.size as f64 / path.ceiling_bps(path.loss);
        Duration::from_secs_f64(2.0 * ideal_s) + 40 * self.rtt + Duration::from_secs(5)
    }

    async fn run_all(&self, source: &Source) -> anyhow::Result<Vec<RunResult>> {
        let runs = self.loss.len() * Transport::ALL.len();
        let bar = output::bar(Some(self.size), self.json);
        if let Ok(style) = ProgressStyle::with_template("{msg:36} {wide_bar} {bytes:>10}") {
            bar.set_style(style);
        }
        let mut results = Vec::with_capacity(runs);
        for &loss in &self.loss {
            for &transport in Transport::ALL {
                let number = results.len() + 1;
                let shown_loss = units::human_percent(loss);
                bar.set_message(format!("[{number}/{runs}] {} at {shown_loss} loss", transport.label()));
                bar.set_position(0);
                results.push(self.run_one(transport, &self.path(loss), source, &bar).await?);
            }
        }
        bar.finish_and_clear();
        Ok(results)
    }

    async fn run_one(
        &self,
        transport: Transport,
        path: &Path,
        source: &Source,
        bar: &ProgressBar,
    ) -> anyhow::Result<RunResult> {
        let progress = |arrived_bytes| bar.set_position(arrived_bytes);
        match transport {
            Transport::Dfcp => transfer::transfer(&Dfcp::Told, path, source, self.dfcp_limit(path), progress).await,
            Transport::DfcpAuto => transfer::transfer(&Dfcp::Auto, path, source, self.dfcp_limit(path), progress).await,
            #[cfg(feature = "quic")]
            Transport::QuicBbr => {
                transfer::transfer(&Quic::new(Controller::Bbr)?, path, source, self.limit, progress).await
            }
            #[cfg(feature = "quic")]
            Transport::QuicCubic => {
                transfer::transfer(&Quic::new(Controller::Cubic)?, path, source, self.limit, progress).await
            }
        }
    }
}

fn save(path: &FilePath, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Fails unless all DFCP runs are complete, and all delivered bytes are verified.
fn verdict(results: &[RunResult]) -> anyhow::Result<()> {
    for result in results {
        let what = format!("{} at {} loss", result.transport.label(), units::human_percent(result.path.loss));
        anyhow::ensure!(result.hash_ok, "{what} delivered something that was not sent");
        if !result.transport.is_dfcp() || result.is_verified() {
            continue;
        }
        match &result.ending {
            Ending::Failed { reason } => anyhow::bail!("{what} failed: {reason}"),
            Ending::Complete | Ending::Cut { .. } => anyhow::bail!(
                "{what} delivered {} of {} in {:.1} s; is this machine busy with something else?",
                units::human_bytes(result.arrived_bytes),
                units::human_bytes(result.file_bytes),
                result.elapsed_s
            ),
        }
    }
    Ok(())
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = units::size_bytes(text).map_err(|error| error.to_string())?;
    if (1_000..=10_000_000_000).contains(&bytes) { Ok(bytes) } else { Err("expected from 1kB to 10GB".to_owned()) }
}

fn loss(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let number = trimmed.strip_suffix('%').unwrap_or(trimmed).trim_end();
    // The parser of percentages requires the sign.
    match units::percent(&format!("{number}%")) {
        Ok(loss) if loss <= 0.75 => Ok(loss),
        _ => Err("expected percents from 0 to 75 such as 0,1,10,30".to_owned()),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    let rate_bps = units::rate(text).map_err(|error| error.to_string())?;
    if (100_000..=1_000_000_000).contains(&rate_bps) {
        Ok(rate_bps)
    } else {
        Err("expected from 100kbit to 1gbit".to_owned())
    }
}

fn rtt(text: &str) -> Result<Duration, String> {
    let rtt = units::duration(text).map_err(|error| error.to_string())?;
    if rtt <= Duration::from_secs(2) { Ok(rtt) } else { Err("expected at most 2s".to_owned()) }
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = units::duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_millis(100)..=Duration::from_secs(3600);
    if bounds.contains(&limit) { Ok(limit) } else { Err("expected from 100ms to 1h".to_owned()) }
}

#[cfg(test)]
mod tests;
