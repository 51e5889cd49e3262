//! A traced run: flows and queues, bin by bin.

use std::path::Path;

use dfcp_lab::plan::Discipline;
use dfcp_lab::scenario::{Layout, Scenario};
use dfcp_lab::trace::{FlowColumns, FlowSummary, FlowTimes, LinkColumns, LinkSummary, Tables};

use super::experiment::Run;
use crate::job::Traced;

/// Makes a run of `scenario` up to `end_ns`, and writes its tables into `directory`.
///
/// # Errors
/// Fails with one sentence about the failed set-up, run or output.
pub(super) async fn run(
    (scenario, seed): (&Scenario, u64),
    (bin_ns, end_ns): (u64, u64),
    directory: &Path,
) -> Result<Traced, String> {
    let scenario = &scenario.drawn(seed);
    let layout = Layout::of(scenario)?;
    let mut run = Run::begin(scenario, &layout, seed)?;
    let mut tables = Tables::new(scenario, directory).map_err(|error| error.to_string())?;
    let mut sample = |run: &mut Run<'_>, now_ns: u64| {
        let (flows, links) = (flows(run)?, links(run)?);
        tables.sample(now_ns, &flows, &links).map_err(|error| error.to_string())?;
        Ok((flows, links))
    };
    let each = |run: &mut Run<'_>, now_ns: u64| {
        let is_end_of_bin = now_ns > 0 && now_ns.is_multiple_of(bin_ns);
        if is_end_of_bin { sample(run, now_ns).map(drop) } else { Ok(()) }
    };
    let ended_ns = run.drive(bin_ns, end_ns, each).await?;
    let (flows, links) = sample(&mut run, ended_ns)?;
    tables.finish().map_err(|error| error.to_string())?;
    let summary = |(place, last): (usize, &FlowColumns)| {
        let reading = run.flows[place].reading(0);
        let times = FlowTimes { started_ns: reading.started_ns, completed_ns: reading.completed_ns, ended_ns };
        FlowSummary::new(place, &scenario.flows[place], last, times, reading.failure)
    };
    Ok(Traced {
        ended_ns,
        flows: flows.iter().enumerate().map(summary).collect(),
        links: links.iter().enumerate().map(|(place, last)| LinkSummary::new(place, last)).collect(),
    })
}

fn flows(run: &mut Run<'_>) -> Result<Vec<FlowColumns>, String> {
    let mut rows = Vec::with_capacity(run.flows.len());
    for flow in 0..run.flows.len() {
        let mut row = run.flows[flow].look();
        if let Some(counters) = run.tcp_counters(flow)? {
            let (from, to) = run.layout.hosts[flow];
            let info = run.network.tcp_info(from, to).map_err(|error| error.to_string())?;
            row.timeouts = Some(counters.timeouts);
            row.retransmissions = Some(counters.retransmissions);
            if let Some(info) = info {
                row.cwnd_segments = Some(f64::from(info.cwnd_segments));
                row.cwnd_bytes = Some(f64::from(info.cwnd_segments) * f64::from(info.mss_bytes));
                row.srtt_ms = (info.srtt_us > 0).then(|| f64::from(info.srtt_us) / 1e3);
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

fn links(run: &mut Run<'_>) -> Result<Vec<LinkColumns>, String> {
    let mut rows = Vec::with_capacity(run.layout.links.len());
    for (&(there, _), spec) in run.layout.links.iter().zip(&run.scenario.links) {
        let sample = run.network.sample(there).map_err(|error| error.to_string())?;
        // Both disciplines report one common counter of drops.
        let tells_early = spec.discipline != Discipline::Red && !spec.discipline.has_codel();
        rows.push(LinkColumns {
            packets_waiting: sample.waiting_packets.into(),
            offered: sample.offered_packets,
            drops: sample.dropped_packets,
            drops_early: tells_early.then_some(0),
            lost: sample.lost_packets,
            delivered: sample.sent.packets.saturating_sub(sample.lost_packets),
            marks: sample.marked_packets,
        });
    }
    Ok(rows)
}
