//! Summary of a trace.

use dfcp_sim::{Captured, Observer, Simulation};
use dfcp_time::Time;
use serde::{Deserialize, Serialize};

use super::columns::{FlowColumns, LinkColumns};
use super::look;
use crate::engine::SIM;
use crate::expand::Run;
use crate::plan::{Kind, Point};
use crate::scenario::{Built, FlowSpec};

/// A flow from its start to the end of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Counted from 1.
    pub flow: usize,
    /// Its label in the plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// Its transport.
    pub transport: Kind,
    /// Application bytes per second from its start to its last byte or the trace's end, in 10⁶ bits.
    pub goodput_mbps: f64,
    /// Application bytes which its receiver got.
    pub delivered_bytes: u64,
    /// Time at which its receiver had the last byte, s; only of a flow with a size.
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
    /// Error that ended it early.
    pub failure: Option<String>,
}

/// A bottleneck in data's direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Counted from 1, as in the plan.
    pub link: usize,
    /// Packets which came to it.
    pub offered: u64,
    /// Packets that its queue dropped.
    pub drops: u64,
    /// Those of them for which there was no room; `None` if the platform does not tell.
    pub drops_full: Option<u64>,
    /// Packets that RED or CoDel dropped though there was room.
    pub drops_early: Option<u64>,
    /// Packets that its random losses took.
    pub lost: u64,
}

/// A trace which was made, and what it comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traced {
    /// Platform of the run: `sim`, or `kernel-6.12.117`.
    pub platform: String,
    /// Id of the plan.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Number of the repetition.
    pub repetition: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Simulated seconds: fewer than asked for if all flows ended before.
    pub duration_s: f64,
    /// Flows, in the plan's order.
    pub flows: Vec<FlowSummary>,
    /// Links, in the plan's order.
    pub links: Vec<LinkSummary>,
    /// Packets in the capture.
    pub captured_packets: Option<u64>,
    /// Packets which the capture lacks, because it had reached its limit.
    pub left_out_packets: Option<u64>,
    /// Time at which it had, s.
    pub capture_full_s: Option<f64>,
    /// Directions of links on which physical laws were checked; the simulator's alone.
    pub verified_links: Option<usize>,
    /// Those on which they were not, because of jitter or a rate or delay which changes.
    pub unverified_links: Option<usize>,
    /// Files written.
    pub files: Vec<String>,
}

impl Traced {
    /// Summary of a run that `platform` has made, with its result.
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
    /// Its connection was opened.
    pub started_ns: u64,
    /// Its receiver had the last byte.
    pub completed_ns: Option<u64>,
    /// The trace ended.
    pub ended_ns: u64,
}

impl FlowSummary {
    /// Summary of the flow `spec` at `place` (from 0), with its last row.
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
    /// Summary of the link at `place` (from 0), with its last row.
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

/// End of a simulator's trace.
pub(super) struct End {
    pub(super) ended_ns: u64,
    /// The capture and its path.
    pub(super) capture: Option<(Captured, String)>,
    /// Paths of the tables.
    pub(super) paths: Vec<String>,
    /// Directions of links without a verifier.
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
