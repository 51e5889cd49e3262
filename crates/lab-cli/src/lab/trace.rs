//! Command `dfcp lab trace`: shows one run in detail.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow};
use dfcp_framing::printable;
use dfcp_lab::random_paths::PathId;
use dfcp_lab::trace::{CAPTURE_BYTES_MAX, Settings, Traced, Wanted, choose};
use dfcp_lab::{Choice, Form, Run, expand};
use dfcp_terminal::output;
use serde_json::json;

use super::args::TraceArgs;
use super::{StopOnDrop, has_id, platforms, sources, unknown};

/// Maximum number of flows printed; the table in the file has all flows.
const FLOWS_SHOWN_MAX: usize = 100;

pub(super) async fn run(args: TraceArgs) -> anyhow::Result<()> {
    let runs = match PathId::parse(&args.id) {
        Some(id) => id.runs()?,
        None => runs_of_plan(&args)?,
    };
    let wanted = Wanted { series: args.series, at: args.at };
    let run = choose(&runs, &wanted)?.repeated(args.seed_number.get());
    let platform = platforms::one(args.platform, args.kernel.as_deref())?;
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop.0);
    let (directory, bin, duration, has_capture) = (args.output, args.bin, args.duration, args.pcap);
    let work = tokio::task::spawn_blocking(move || {
        let directory = directory.as_path();
        let capture_bytes_max = CAPTURE_BYTES_MAX;
        platform.trace(&run, Settings { directory, bin, duration, has_capture, capture_bytes_max, stop: &flag })
    });
    let traced = work.await.context("the trace ended in a panic")??;
    if args.which.json {
        output::json(&json!(traced));
    } else {
        show(&traced);
    }
    Ok(())
}

/// Returns the first run of every point and series of the requested plan.
fn runs_of_plan(args: &TraceArgs) -> anyhow::Result<Vec<Run>> {
    let all = sources(&args.which)?;
    let source = all.iter().find(|source| has_id(source, &args.id));
    let source = source.ok_or_else(|| anyhow!(unknown(&all, &args.id)))?;
    let form = match (args.quick, args.small) {
        (true, _) => Form::Quick,
        (_, true) => Form::Small,
        _ => Form::Full,
    };
    Ok(expand(source, Choice { form, seeds: Some(1) })?)
}

fn show(traced: &Traced) {
    let point: String = traced.point.iter().map(|(name, level)| format!(", {name} {level}")).collect();
    output::line(&format!(
        "{} \"{}\"{point}, seed number {}, {}: {} s simulated\n",
        traced.plan, traced.series, traced.repetition, traced.platform, traced.duration_s
    ));
    output::line(&format!(
        "{:>5} {:<13} {:>8} {:>15} {:>9} {:>8} {:>8} {:>7} {:>7}",
        "flow", "transport", "Mbit/s", "bytes", "srtt ms", "retrans", "timeouts", "lost", "wasted"
    ));
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    for flow in traced.flows.iter().take(FLOWS_SHOWN_MAX) {
        let srtt_ms = flow.srtt_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}"));
        let transport = json!(flow.transport);
        output::line(&format!(
            "{:>5} {:<13} {:>8.3} {:>15} {srtt_ms:>9} {:>8} {:>8} {:>7} {:>7}{}{}",
            flow.flow,
            transport.as_str().unwrap_or_default(),
            flow.goodput_mbps,
            flow.delivered_bytes,
            count(flow.retransmissions),
            count(flow.timeouts),
            count(flow.lost_packets),
            count(flow.symbols_wasted),
            flow.label.as_ref().map_or_else(String::new, |label| format!("  {}", printable(label))),
            flow.failure.as_ref().map_or_else(String::new, |why| format!("  ended early: {why}"))
        ));
    }
    if traced.flows.len() > FLOWS_SHOWN_MAX {
        output::line(&format!("      and {} more", traced.flows.len() - FLOWS_SHOWN_MAX));
    }
    output::line(&format!(
        "\n{:>5} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "link", "offered", "drops", "drops full", "drops early", "lost"
    ));
    for link in &traced.links {
        output::line(&format!(
            "{:>5} {:>12} {:>12} {:>12} {:>12} {:>12}",
            link.link,
            link.offered,
            link.drops,
            count(link.drops_full),
            count(link.drops_early),
            link.lost
        ));
    }
    output::line("");
    if let (Some(verified), Some(unverified)) = (traced.verified_links, traced.unverified_links) {
        let unverified = match unverified {
            0 => String::new(),
            count => format!("; {count} were not checked, because they jitter or change"),
        };
        output::line(&format!("no physical law was broken on {verified} directions of links{unverified}"));
    }
    if let (Some(left_out), Some(full_s)) = (traced.left_out_packets, traced.capture_full_s) {
        output::line(&format!(
            "the capture ends at {full_s} s, because it has reached {} MB, and lacks {left_out} packets; a shorter \
             --duration gives a whole one",
            CAPTURE_BYTES_MAX / 1_000_000
        ));
    }
    for file in &traced.files {
        output::line(file);
    }
}
