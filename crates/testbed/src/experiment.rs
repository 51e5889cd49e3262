//! One run on the testbed: network, flows and measurement.

use std::rc::Rc;
use std::time::Instant;

use dfcp_emu::{DirectionReport, Side};
use dfcp_flows::{Clock, Hosts as _, Surroundings, Told, tcp_buffers, tcp_counters, tcp_ecn};
use dfcp_lab::Lateness;
use dfcp_lab::course::{Course, FlowBytes, FlowReading, LinkReading, TICK_NS};
use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::{ChangeSpec, Layout, LinkSpec, LinkState, Scenario};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::LocalSet;

use crate::network::Network;
use crate::processor;

/// Executes a run of `scenario`. The process must be single-threaded until this function calls `on_network`, after it
/// has created the network.
///
/// # Errors
/// Fails with a sentence if the set-up or the run fails.
pub(crate) fn run(
    scenario: &Scenario,
    seed: u64,
    on_network: impl FnOnce() -> Result<(), String>,
) -> Result<Measured, String> {
    let scenario = &scenario.drawn(seed);
    let layout = Layout::of(scenario)?;
    let network = Network::start(&layout, scenario, seed)?;
    on_network()?;
    for side in [Side::Near, Side::Far] {
        network.pairs.enter(side, tcp_buffers).map_err(|error| error.to_string())??;
        if scenario.flows.iter().any(|flow| flow.transport.ecn == Some(true)) {
            network.pairs.enter(side, tcp_ecn).map_err(|error| error.to_string())??;
        }
    }
    processor::prefer();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let before = processor::Share::begin();
    let measured = LocalSet::new().block_on(&runtime, measure(scenario, &layout, &network, seed))?;
    let share = before.end();
    let directions = network.pairs.finish().map_err(|error| error.to_string())?;
    Ok(Measured { lateness: Some(lateness(&directions, share)), cpu_s: Some(cpu_s()), ..measured })
}

async fn measure(scenario: &Scenario, layout: &Layout, network: &Network, seed: u64) -> Result<Measured, String> {
    let mut run = Run::begin(scenario, layout, network, seed)?;
    let mut course = Course::new(scenario);
    let ended_ns = run
        .drive(|run, now_ns| {
            let links = run.links();
            if now_ns > 0 && now_ns.is_multiple_of(TICK_NS) {
                course.tick(now_ns, &links, |flow| run.flows[flow].delivered_bytes());
            }
            if !course.is_warm() && now_ns >= scenario.warm_up_ns {
                course.warm(now_ns, &links, &run.bytes());
            }
        })
        .await?;
    let (links, flows) = (run.links(), run.readings()?);
    Ok(course.finish(ended_ns, &links, &flows))
}

/// A run in progress.
struct Run<'run> {
    scenario: &'run Scenario,
    layout: &'run Layout,
    network: &'run Network,
    flows: Vec<Rc<Told>>,
    /// Present rate and outage of each scenario link.
    states: Vec<LinkState>,
    clock: Clock,
}

impl<'run> Run<'run> {
    /// Sets up the flows and starts the clock.
    fn begin(
        scenario: &'run Scenario,
        layout: &'run Layout,
        network: &'run Network,
        seed: u64,
    ) -> Result<Self, String> {
        let clock = Clock::start();
        let mut flows = Vec::new();
        for (place, (spec, hosts)) in scenario.flows.iter().zip(&layout.hosts).enumerate() {
            // Each flow has random numbers of its own, as in the simulator.
            let seed = seed ^ (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let surroundings = Surroundings { hosts: network, clock, now: Instant::now, has_devices: false };
            flows.push(dfcp_flows::start(surroundings, *hosts, spec, seed)?);
        }
        Ok(Self { scenario, layout, network, flows, states: LinkState::all(scenario), clock })
    }

    /// Runs until the scenario's end, or until all flows have finished, if each has a size. `each` is called at time 0
    /// and every [`TICK_NS`], a little later on a busy machine. Returns the time of the end, ns.
    async fn drive(&mut self, mut each: impl FnMut(&Self, u64)) -> Result<u64, String> {
        let mut alarm = self.clock.alarm().map_err(|error| error.to_string())?;
        let has_sizes = self.scenario.flows.iter().all(|flow| flow.bytes.is_some());
        let mut changes = self.scenario.changes.iter().peekable();
        let mut rebinds = self.rebinds().into_iter().peekable();
        let (mut now_ns, end_ns) = (0, self.scenario.duration_ns);
        loop {
            each(self, now_ns);
            while let Some(change) = changes.next_if(|change| change.at_ns <= now_ns) {
                self.change(change)?;
            }
            while let Some((_, pair)) = rebinds.next_if(|(at_ns, _)| *at_ns <= now_ns) {
                self.network.pairs.rebind(pair);
            }
            if now_ns >= end_ns || has_sizes && self.flows.iter().all(|flow| flow.is_over()) {
                return Ok(now_ns);
            }
            let next_change_ns = changes.peek().map_or(u64::MAX, |change| change.at_ns);
            let next_rebind_ns = rebinds.peek().map_or(u64::MAX, |(at_ns, _)| *at_ns);
            now_ns = ((now_ns / TICK_NS + 1) * TICK_NS).min(next_change_ns).min(next_rebind_ns).min(end_ns);
            alarm.until(now_ns).await.map_err(|error| error.to_string())?;
        }
    }

    /// Returns the times at which senders' addresses change, ns, in order, each with the number of the flow's host
    /// pair.
    fn rebinds(&self) -> Vec<(u64, u16)> {
        let flows = self.scenario.flows.iter().zip(0_u16..);
        let mut rebinds: Vec<_> =
            flows.flat_map(|(flow, pair)| flow.rebinds_ns.iter().map(move |&at_ns| (at_ns, pair))).collect();
        rebinds.sort_unstable();
        rebinds
    }

    /// Returns readings of the scenario's links in the forward direction.
    fn links(&self) -> Vec<LinkReading> {
        let mut readings = self.network.pairs.forward().links;
        // The emulator has no readings before the first packet.
        readings.resize_with(self.states.len(), Default::default);
        let states = self.states.iter().zip(&self.scenario.links);
        let reading = |(reading, (state, spec)): (&dfcp_emu::LinkReading, (&LinkState, &LinkSpec))| LinkReading {
            waiting: reading.waiting_packets,
            rate_bps: state.rate_bps,
            capacity_bps: state.capacity_bps(spec),
            offered: reading.stats.offered.packets,
            queue_drops: reading.stats.queue_drops.packets,
            marks: reading.stats.ce_marked.packets,
            lost: reading.stats.lost.packets,
            carried_bytes: reading.stats.delivered.bytes + reading.stats.lost.bytes,
        };
        readings.iter().zip(states).map(reading).collect()
    }

    /// Returns the IP bytes received by each flow's receiving host.
    fn received_bytes(&self) -> Vec<u64> {
        let (forward, backward) = (self.network.pairs.forward().delivered, self.network.pairs.backward().delivered);
        let received = |(place, spec): (usize, &dfcp_lab::scenario::FlowSpec)| {
            let direction = if spec.is_back { &backward } else { &forward };
            direction.get(place).map_or(0, |count| count.bytes)
        };
        self.scenario.flows.iter().enumerate().map(received).collect()
    }

    fn bytes(&self) -> Vec<FlowBytes> {
        let received = self.received_bytes();
        let bytes = |(flow, received): (&Rc<Told>, u64)| FlowBytes {
            delivered: flow.delivered_bytes(),
            received,
            messages: None,
        };
        self.flows.iter().zip(received).map(bytes).collect()
    }

    fn change(&mut self, change: &ChangeSpec) -> Result<(), String> {
        self.states[change.link].change(change);
        self.network.change(change, change.link_change(self.scenario)?)
    }

    fn readings(&self) -> Result<Vec<FlowReading>, String> {
        let received = self.received_bytes();
        let mut readings: Vec<_> =
            self.flows.iter().zip(received).map(|(flow, received)| flow.reading(received)).collect();
        let mut tcp = self.scenario.flows.iter().enumerate().filter(|(_, flow)| flow.transport.kind.is_tcp());
        // The kernel counts retransmissions per namespace, which all senders share. They are therefore known for a
        // single TCP flow only.
        if let (Some((place, _)), None) = (tcp.next(), tcp.next()) {
            let counters = self.network.enter(self.layout.hosts[place].0, tcp_counters)??;
            readings[place].retransmissions = Some(counters.retransmissions);
            readings[place].timeouts = Some(counters.timeouts);
        }
        Ok(readings)
    }
}

/// Combines the lateness of the worse direction with the processor shares of this thread, which runs all endpoints.
fn lateness([forward, backward]: &[DirectionReport; 2], (ends_ran, ends_waited): (f64, f64)) -> Lateness {
    let later = if forward.lateness.p99_ms >= backward.lateness.p99_ms { forward } else { backward };
    let dfcp_emu::Lateness { p50_ms, p99_ms, max_ms, .. } = later.lateness;
    let unread_packets = forward.unread_packets + backward.unread_packets;
    let measured = Lateness { p50_ms, p99_ms, max_ms, unread_packets, ends_ran, ends_waited, ..Lateness::default() };
    measured.judged()
}

/// Returns the CPU time of this process so far, s, which includes endpoints and emulator.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
