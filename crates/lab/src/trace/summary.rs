//! What a trace comes to.

use dfcp_sim::{Captured, Observer, Simulation};
use dfcp_time::Time;
use serde::Serialize;

use super::columns::{FlowColumns, drops_full};
use crate::expand::{Point, Run};
use crate::plan::Kind;
use crate::scenario::Built;

/// A flow from its start to the end of the trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Counted from 1.
    pub flow: usize,
    /// What carried it.
    pub transport: Kind,
    /// Application bytes per second from its start to its last byte or the trace's end, in 10⁶ bits.
    pub goodput_mbps: f64,
    /// Application bytes which its receiver got.
    pub delivered_bytes: u64,
    /// When its receiver had the last byte, s; only of a flow with a size.
    pub completed_s: Option<f64>,
    /// Smoothed round-trip time at the end, ms, where the transport knows it.
    pub srtt_ms: Option<f64>,
    /// TCP alone.
    pub retransmissions: Option<u64>,
    /// TCP alone.
    pub timeouts: Option<u64>,
    /// Packets which the sender took for lost; QUIC alone.
    pub lost_packets: Option<u64>,
    /// Data datagrams which arrived in vain; DFCP alone.
    pub symbols_wasted: Option<u64>,
    /// Why it ended early.
    pub failure: Option<String>,
}

/// A bottleneck in data's direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkSummary {
    /// Counted from 1, as in the plan.
    pub link: usize,
    /// Packets which came to it.
    pub offered: u64,
    /// Those dropped because its queue was full.
    pub drops_full: u64,
    /// Those which RED or CoDel dropped though there was room.
    pub drops_early: u64,
    /// Those which its losses took.
    pub lost: u64,
}

/// A trace which was made, and what it comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traced {
    /// Id of the plan.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Which repetition.
    pub repetition: u32,
    /// Seed of the simulation.
    pub seed: u64,
    /// Simulated seconds: fewer than asked for if all flows ended before.
    pub duration_s: f64,
    /// In the plan's order.
    pub flows: Vec<FlowSummary>,
    /// In the plan's order.
    pub links: Vec<LinkSummary>,
    /// Packets in the capture.
    pub captured_packets: Option<u64>,
    /// Packets which the capture lacks, because it had reached its limit.
    pub left_out_packets: Option<u64>,
    /// When it had, s.
    pub capture_full_s: Option<f64>,
    /// Directions of links on which physical laws were checked.
    pub verified_links: usize,
    /// Those on which they were not, because of jitter or a rate or delay which changes.
    pub unverified_links: usize,
    /// What was written.
    pub files: Vec<String>,
}

/// How a trace ended.
pub(super) struct End {
    pub(super) ended_ns: u64,
    /// The capture and its path.
    pub(super) capture: Option<(Captured, String)>,
    /// Of the tables.
    pub(super) paths: Vec<String>,
    /// Directions of links without a verifier.
    pub(super) unwatched: usize,
}

pub(super) fn summary<O: Observer>(run: &Run, simulation: &mut Simulation<O>, built: &Built, end: End) -> Traced {
    let flows = (0..built.flows.len()).map(|place| flow(run, simulation, built, place, end.ended_ns)).collect();
    let links = built.links.iter().enumerate().map(|(place, &id)| {
        let stats = simulation.link_stats(id);
        LinkSummary {
            link: place + 1,
            offered: stats.offered.packets,
            drops_full: drops_full(&stats),
            drops_early: stats.early_drops.packets,
            lost: stats.lost.packets,
        }
    });
    let links = links.collect();
    let (captured, path) = end.capture.unzip();
    Traced {
        plan: run.plan.clone(),
        series: run.series.clone(),
        point: run.point.clone(),
        repetition: run.repetition,
        seed: run.seed,
        duration_s: end.ended_ns as f64 / 1e9,
        flows,
        links,
        captured_packets: captured.map(|captured| captured.packets),
        left_out_packets: captured.map(|captured| captured.left_out),
        capture_full_s: captured.and_then(|captured| captured.full_at).map(Time::as_secs_f64),
        verified_links: simulation.links().count() - end.unwatched,
        unverified_links: end.unwatched,
        files: end.paths.into_iter().chain(path).collect(),
    }
}

fn flow<O: Observer>(run: &Run, simulation: &Simulation<O>, built: &Built, place: usize, ended_ns: u64) -> FlowSummary {
    let (id, transport) = (built.flows[place], run.scenario.flows[place].transport.kind);
    let (report, last) = (simulation.flow(id), FlowColumns::look(simulation, id, transport));
    let end_ns = report.completed_at.map_or(ended_ns, Time::as_ns);
    let ns = end_ns.saturating_sub(report.started_at.as_ns());
    FlowSummary {
        flow: place + 1,
        transport,
        goodput_mbps: if ns > 0 { report.delivered_bytes as f64 * 8e3 / ns as f64 } else { 0.0 },
        delivered_bytes: report.delivered_bytes,
        completed_s: report.completed_at.map(Time::as_secs_f64),
        srtt_ms: last.srtt_ms,
        retransmissions: last.retransmissions,
        timeouts: last.timeouts,
        lost_packets: last.lost_packets,
        symbols_wasted: last.symbols_wasted,
        failure: report.failure,
    }
}
