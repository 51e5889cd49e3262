//! Performance of DFCP on this machine, compared with QUIC, the kernel's TCP and bare UDP: goodput with and without loss, CPU time,
//! latency, connections per second, memory.
//!
//! One process measures; for each measurement it starts two more of the same program, the ends ([`end`]), in two network namespaces
//! connected by a veth pair ([`namespaces`]). They communicate in lines of JSON ([`protocol`]). The ends' counters ([`meter`]) become
//! records, tables, and a verdict on each target.

#![forbid(unsafe_code)]

mod args;
mod contenders;
mod end;
mod host;
mod limits;
mod measure;
mod meter;
mod namespaces;
mod output;
mod pair;
mod plan;
mod progress;
mod protocol;
mod records;
mod statistics;
mod tables;
mod targets;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use nix::unistd::geteuid;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Args, Hidden, Section};
use crate::host::Host;
use crate::plan::Step;
use crate::progress::Progress;
use crate::records::Records;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Hidden::End) = args.hidden {
        return end::main();
    }
    match measure_all(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("throughput: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn measure_all(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start a runtime")?.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        // The first branch to finish drops the measurements, and with them the processes and namespaces.
        tokio::select! {
            result = run(args) => result,
            _ = tokio::signal::ctrl_c() => bail!("interrupted; namespaces are removed"),
            _ = terminated.recv() => bail!("terminated; namespaces are removed"),
        }
    })
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let host = Host::this();
    let is_root = geteuid().is_root();
    let on_loopback = args.loopback || !is_root;
    let sections: Vec<Vec<Step>> = planned(args, on_loopback);
    let all: Vec<Step> = sections.concat();
    if all.is_empty() {
        bail!("there is nothing to measure, see --help for which contenders each section can have");
    }
    output::note(&host.describe());
    output::note(&format!(
        "{} measurements {}, about {}",
        all.len(),
        if on_loopback { "over loopback" } else { "between two network namespaces" },
        human_duration(plan::planned_seconds(&all))
    ));
    let progress = Progress::new(all.len());
    let mut records = Records::default();
    for steps in &sections {
        measure::section(args, is_root, steps, &progress, &mut records).await?;
    }
    progress.finish();
    print(args, &host, on_loopback, &records)?;
    match records.failures.as_slice() {
        [] => Ok(()),
        failures => bail!("{} of {} measurements failed; see above", failures.len(), all.len()),
    }
}

fn human_duration(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Steps of each section that can be measured here.
fn planned(args: &Args, on_loopback: bool) -> Vec<Vec<Step>> {
    if on_loopback {
        let why = if args.loopback { "asked for" } else { "network namespaces need root" };
        output::note(&format!(
            "loopback ({why}): its packets may be 64 KB long, so figures are not those of a network"
        ));
    }
    let mut sections = args.sections();
    if on_loopback && sections.contains(&Section::Loss) {
        output::note("the section `loss` is left out: it needs network namespaces");
        sections.retain(|&section| section != Section::Loss);
    }
    sections.into_iter().map(|section| plan::steps(args, section)).collect()
}

fn print(args: &Args, host: &Host, on_loopback: bool, records: &Records) -> anyhow::Result<()> {
    let targets = targets::targets(records);
    let json = json!({
        "host": host,
        "network": if on_loopback { "loopback" } else { "veth" },
        "seconds": args.seconds(),
        "rounds": args.rounds(),
        "records": records,
        "targets": targets,
    });
    if args.json.as_deref() == Some(Path::new("-")) {
        output::line(&json.to_string());
        return Ok(());
    }
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{json}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let network = if on_loopback { "loopback" } else { "two network namespaces joined by a veth pair" };
    output::line(&format!("{}\nover {network}\n\n{}", host.describe(), tables::all(records, &targets)));
    Ok(())
}
