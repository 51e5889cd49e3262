//! Summary of a trace: totals per flow and link.

use dfcp_sim::{Captured, Observer, Simulation};
use dfcp_time::Time;
use serde::{Deserialize, Serialize};

use super::columns::{FlowColumns, LinkColumns};
use super::look;
use crate::engine::SIM;
use crate::expand::Run;
use crate::plan::{Kind, Point};
use crate::scenario::{Built, FlowSpec};

/// Totals of a flow, from its start to the end of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Number of the flow, from 1.
    pub flow: usize,
    /// Label of the flow in the plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// Transport of the flow.
    pub transport: Kind,
    /// Goodput from the flow's start to its last byte, or to the end of the trace, Mbit/s (10⁶ bit/s).
    pub goodput_mbps: f64,
    /// Application bytes delivered to the receiver.
    pub delivered_bytes: u64,
    /// Time at which the receiver had the last byte, s; `None` for an unlimited or unfinished flow.
    pub completed_s: Option<f64>,
    /// Smoothed round-trip time at the end of the trace, ms; `None` if the transport does not measure it.
    pub srtt_ms: Option<f64>,
    /// Retransmitted segments; TCP only.
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts; TCP only.
    pub timeouts: Option<u64>,
    /// Packets that the sender declared lost; QUIC only.
    pub lost_packets: Option<u64>,
    /// Data datagrams that did not help decoding; DFCP only.
    pub symbols_wasted: Option<u64>,
    /// Error that ended the flow early; `None` on success.
    pub failure: Option<String>,
}

/// Totals of a bottleneck in the forward direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Number of the link, from 1, as in the plan.
    pub link: usize,
    /// Packets that arrived at the queue.
    pub offered: u64,
    /// Packets dropped by the queue.
    pub drops: u64,
    /// Packets dropped because the queue was full; `None` if the platform does not report it.
    pub drops_full: Option<u64>,
    /// Packets dropped early by RED or CoDel although the queue was not full; `None` if the platform does not report
    /// it.
    pub drops_early: Option<u64>,
    /// Packets dropped by the loss model.
    pub lost: u64,
}

/// A finished trace: identity of the run, totals and output files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traced {
    /// Platform of the run, for example `sim` or `kernel-6.12.117`.
    pub platform: String,
    /// Id of the plan.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Duration of the trace in simulated time, s; shorter than configured if all flows ended early.
    pub duration_s: f64,
    /// Flows, in the plan's order.
    pub flows: Vec<FlowSummary>,
    /// Links, in the plan's order.
    pub links: Vec<LinkSummary>,
    /// Packets in the capture; `None` without a capture.
    pub captured_packets: Option<u64>,
    /// Packets left out of the capture after it reached its size limit; `None` without a capture.
    pub left_out_packets: Option<u64>,
    /// Time at which the capture reached its size limit, s; `None` if it did not.
    pub capture_full_s: Option<f64>,
    /// Number of link directions whose conservation laws were checked; simulator only.
    pub verified_links: Option<usize>,
    /// Number of link directions that could not be checked, because of jitter or changes of rate or delay; simulator
    /// only.
    pub unverified_links: Option<usize>,
    /// Paths of the written files.
    pub files: Vec<String>,
}

impl Traced {
    /// Returns the summary of a trace made on another platform than the simulator.
    #[must_use]
    pub fn of(
        run: &Run,
        platform: &str,
        ended_ns: u64,
        flows: Vec<FlowSummary>,
        links: Vec<LinkSummary>,
        files: Vec<String>,
    ) -> Self {
        Self {
            platform: platform.to_owned(),
            plan: run.plan.clone(),
            series: run.series.clone(),
            point: run.point.clone(),
            repetition: run.repetition,
            seed: run.seed,
            duration_s: ended_ns as f64 / 1e9,
            flows,
            links,
            captured_packets: None,
            left_out_packets: None,
            capture_full_s: None,
            verified_links: None,
            unverified_links: None,
            files,
        }
    }
}

/// Times of a flow's events, ns from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTimes {
    /// Time at which the connection was opened.
    pub started_ns: u64,
    /// Time at which the receiver had the last byte; `None` if the flow is unfinished.
    pub completed_ns: Option<u64>,
    /// Time at which the trace ended.
    pub ended_ns: u64,
}

impl FlowSummary {
    /// Returns the totals of flow `place`, with settings `spec`, from its last columns.
    #[must_use]
    pub fn new(place: usize, spec: &FlowSpec, last: &FlowColumns, times: FlowTimes, failure: Option<String>) -> Self {
        let ns = times.completed_ns.unwrap_or(times.ended_ns).saturating_sub(times.started_ns);
        Self {
            flow: place + 1,
            label: spec.label.clone(),
            transport: spec.transport.kind,
            goodput_mbps: if ns > 0 { last.delivered_bytes as f64 * 8e3 / ns as f64 } else { 0.0 },
            delivered_bytes: last.delivered_bytes,
            completed_s: times.completed_ns.map(|ns| ns as f64 / 1e9),
            srtt_ms: last.srtt_ms,
            retransmissions: last.retransmissions,
            timeouts: last.timeouts,
            lost_packets: last.lost_packets,
            symbols_wasted: last.symbols_wasted,
            failure,
        }
    }
}

impl LinkSummary {
    /// Returns the totals of link `place` from its last columns.
    #[must_use]
    pub fn new(place: usize, last: &LinkColumns) -> Self {
        Self {
            link: place + 1,
            offered: last.offered,
            drops: last.drops,
            drops_full: last.drops_full(),
            drops_early: last.drops_early,
            lost: last.lost,
        }
    }
}

/// Results at the end of a trace on the simulator.
pub(super) struct End {
    pub(super) ended_ns: u64,
    /// Capture and its path; `None` without a capture.
    pub(super) capture: Option<(Captured, String)>,
    /// Paths of the tables.
    pub(super) paths: Vec<String>,
    /// Number of link directions that the verifier does not support.
    pub(super) unwatched: usize,
}

pub(super) fn summary<O: Observer>(run: &Run, simulation: &mut Simulation<O>, built: &Built, end: End) -> Traced {
    let flows = (0..built.flows.len()).map(|place| flow(run, simulation, built, place, end.ended_ns)).collect();
    let links = built.links.iter().enumerate();
    let links = links.map(|(place, &id)| LinkSummary::new(place, &look::link(simulation.link(id)))).collect();
    let (captured, path) = end.capture.unzip();
    let files = end.paths.into_iter().chain(path).collect();
    Traced {
        captured_packets: captured.map(|captured| captured.packets),
        left_out_packets: captured.map(|captured| captured.left_out),
        capture_full_s: captured.and_then(|captured| captured.full_at).map(Time::as_secs_f64),
        verified_links: Some(simulation.links().count() - end.unwatched),
        unverified_links: Some(end.unwatched),
        ..Traced::of(run, SIM, end.ended_ns, flows, links, files)
    }
}

fn flow<O: Observer>(run: &Run, simulation: &Simulation<O>, built: &Built, place: usize, ended_ns: u64) -> FlowSummary {
    let (id, spec) = (built.flows[place], &run.scenario.flows[place]);
    let (report, last) = (simulation.flow(id), look::flow(simulation, id, spec.transport.kind));
    let (started_ns, completed_ns) = (report.started_at.as_ns(), report.completed_at.map(Time::as_ns));
    FlowSummary::new(place, spec, &last, FlowTimes { started_ns, completed_ns, ended_ns }, report.failure)
}
