//! One run: network, flows and measurements.

use std::rc::Rc;

use dfcp_flows::{Clock, Surroundings, TcpCounters, Told, tcp_counters};
use dfcp_lab::course::{Course, FlowBytes, FlowReading, LinkReading, TICK_NS};
use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::{ChangeSpec, Layout, LinkState, Scenario};
use dfcp_sim::Node;

use super::clock::instant;
use super::network::Network;
use super::tuning;

/// Longest time of the run for the set-up of the flows, ns: microseconds are usual, and more only if something waits.
const SET_UP_NS_MAX: u64 = 10_000_000;

/// Makes a run of `scenario`.
///
/// # Errors
/// Fails with one sentence about the failed set-up or run.
pub(super) async fn run(scenario: &Scenario, seed: u64) -> Result<Measured, String> {
    let scenario = &scenario.drawn(seed);
    let layout = Layout::of(scenario)?;
    let mut run = Run::begin(scenario, &layout, seed)?;
    let mut course = Course::new(scenario);
    let ended_ns = run
        .drive(TICK_NS, scenario.duration_ns, |run, now_ns| {
            let links = run.links()?;
            if now_ns > 0 && now_ns % TICK_NS == 0 {
                course.tick(now_ns, &links, |flow| run.flows[flow].delivered_bytes());
            }
            if !course.is_warm() && now_ns >= scenario.warm_up_ns {
                let bytes = run.bytes()?;
                course.warm(now_ns, &links, &bytes);
            }
            Ok(())
        })
        .await?;
    let links = run.links()?;
    let flows = run.readings()?;
    Ok(Measured { is_unseeded: !run.network.is_seeded(), ..course.finish(ended_ns, &links, &flows) })
}

/// A run in progress.
pub(super) struct Run<'run> {
    pub(super) scenario: &'run Scenario,
    pub(super) layout: &'run Layout,
    pub(super) network: Network,
    pub(super) flows: Vec<Rc<Told>>,
    /// Present state of the scenario's links, after changes.
    states: Vec<LinkState>,
    clock: Clock,
}

impl<'run> Run<'run> {
    /// Sets up network and flows, and starts the time of the run.
    ///
    /// # Errors
    /// Fails with one sentence about the failed set-up.
    pub(super) fn begin(scenario: &'run Scenario, layout: &'run Layout, seed: u64) -> Result<Self, String> {
        let mut network = Network::build(layout, seed).map_err(|error| error.to_string())?;
        tuning::apply(&mut network, layout, scenario)?;
        tuning::limit_send_buffers()?;
        add_nats(&mut network, layout, scenario)?;
        let clock = Clock::start();
        let mut flows = Vec::new();
        for (place, (spec, hosts)) in scenario.flows.iter().zip(&layout.hosts).enumerate() {
            // Each flow has its own random sequence, as in the simulator.
            let seed = seed ^ (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let surroundings = Surroundings { hosts: &network, clock, now: instant, has_devices: true };
            flows.push(dfcp_flows::start(surroundings, *hosts, spec, seed)?);
        }
        if clock.now_ns() > SET_UP_NS_MAX {
            let ms = clock.now_ns() as f64 / 1e6;
            return Err(format!(
                "setting up the flows took {ms:.0} ms of the run; something of the kernel was waited for"
            ));
        }
        Ok(Self { scenario, layout, network, flows, states: LinkState::all(scenario), clock })
    }

    /// Advances the time of the scenario in steps of `step_ns` up to `end_ns`, or until every flow has a size and has finished. `each` is
    /// called at time 0 and after every step (shortened by a change). Returns the end time, ns.
    ///
    /// # Errors
    /// Fails with an error of `each`, or one sentence about a change that the kernel refuses.
    pub(super) async fn drive(
        &mut self,
        step_ns: u64,
        end_ns: u64,
        mut each: impl FnMut(&mut Self, u64) -> Result<(), String>,
    ) -> Result<u64, String> {
        let mut alarm = self.clock.alarm().map_err(|error| error.to_string())?;
        let has_sizes = self.scenario.flows.iter().all(|flow| flow.bytes.is_some());
        let mut changes = self.scenario.changes.iter().peekable();
        let mut rebinds = rebinds(self.layout, self.scenario).into_iter().peekable();
        let mut now_ns = 0;
        loop {
            each(self, now_ns)?;
            while let Some(change) = changes.next_if(|change| change.at_ns <= now_ns) {
                self.change(change)?;
            }
            while let Some((_, host)) = rebinds.next_if(|(at_ns, _)| *at_ns <= now_ns) {
                self.network.rebind(host).map_err(|error| error.to_string())?;
            }
            if now_ns >= end_ns || has_sizes && self.flows.iter().all(|flow| flow.is_over()) {
                return Ok(now_ns);
            }
            let next_change_ns = changes.peek().map_or(u64::MAX, |change| change.at_ns);
            let next_rebind_ns = rebinds.peek().map_or(u64::MAX, |(at_ns, _)| *at_ns);
            now_ns = ((now_ns / step_ns + 1) * step_ns).min(next_change_ns).min(next_rebind_ns).min(end_ns);
            tokio::select! {
                biased;
                waited = alarm.until(now_ns) => waited.map_err(|error| error.to_string())?,
                error = self.network.nat_failed() => return Err(error.to_string()),
            }
        }
    }

    fn links(&mut self) -> Result<Vec<LinkReading>, String> {
        let mut readings = Vec::with_capacity(self.layout.links.len());
        for (place, &(there, _)) in self.layout.links.iter().enumerate() {
            let (state, spec) = (&self.states[place], &self.scenario.links[place]);
            let sample = self.network.sample(there).map_err(|error| error.to_string())?;
            readings.push(LinkReading {
                waiting: sample.waiting_packets as usize,
                rate_bps: state.rate_bps,
                capacity_bps: state.capacity_bps(spec),
                offered: sample.offered_packets,
                queue_drops: sample.dropped_packets,
                marks: sample.marked_packets,
                lost: sample.lost_packets,
                carried_bytes: sample.sent.ip_bytes,
            });
        }
        Ok(readings)
    }

    fn received_bytes(&mut self, flow: usize) -> Result<u64, String> {
        let received = self.network.received(self.layout.hosts[flow].1);
        Ok(received.map_err(|error| error.to_string())?.ip_bytes)
    }

    fn bytes(&mut self) -> Result<Vec<FlowBytes>, String> {
        let mut all = Vec::with_capacity(self.flows.len());
        for flow in 0..self.flows.len() {
            let received = self.received_bytes(flow)?;
            all.push(FlowBytes { delivered: self.flows[flow].delivered_bytes(), received, messages: None });
        }
        Ok(all)
    }

    fn change(&mut self, change: &ChangeSpec) -> Result<(), String> {
        make_change(&mut self.network, self.layout, self.scenario, change)?;
        self.states[change.link].change(change);
        Ok(())
    }

    fn readings(&mut self) -> Result<Vec<FlowReading>, String> {
        let mut flows = Vec::with_capacity(self.flows.len());
        for flow in 0..self.flows.len() {
            let received = self.received_bytes(flow)?;
            let mut reading = self.flows[flow].reading(received);
            if let Some(counters) = self.tcp_counters(flow)? {
                (reading.retransmissions, reading.timeouts) = (Some(counters.retransmissions), Some(counters.timeouts));
            }
            flows.push(reading);
        }
        Ok(flows)
    }

    /// TCP counters at the host of a flow's sender; `None` if the flow does not use TCP.
    pub(super) fn tcp_counters(&self, flow: usize) -> Result<Option<TcpCounters>, String> {
        if !self.scenario.flows[flow].transport.kind.is_tcp() {
            return Ok(None);
        }
        let counters = self.network.enter(self.layout.hosts[flow].0, tcp_counters);
        counters.map_err(|error| error.to_string())?.map(Some)
    }
}

/// Adds a NAT in front of each sender whose ports change.
pub(super) fn add_nats(network: &mut Network, layout: &Layout, scenario: &Scenario) -> Result<(), String> {
    let mut flows = scenario.flows.iter().zip(&layout.hosts).filter(|(flow, _)| !flow.rebinds_ns.is_empty());
    flows.try_for_each(|(_, &(sender, _))| network.add_nat(sender)).map_err(|error| error.to_string())
}

/// Times of the senders' port changes, in order.
pub(super) fn rebinds(layout: &Layout, scenario: &Scenario) -> Vec<(u64, Node)> {
    let flows = scenario.flows.iter().zip(&layout.hosts);
    let mut rebinds: Vec<_> =
        flows.flat_map(|(flow, &(sender, _))| flow.rebinds_ns.iter().map(move |&at_ns| (at_ns, sender))).collect();
    rebinds.sort_by_key(|(at_ns, _)| *at_ns);
    rebinds
}

/// Applies `change` now.
pub(super) fn make_change(
    network: &mut Network,
    layout: &Layout,
    scenario: &Scenario,
    change: &ChangeSpec,
) -> Result<(), String> {
    let (there, back) = layout.links[change.link];
    let edge = if change.is_back { back } else { there };
    network.change(edge, &change.link_change(scenario)?).map_err(|error| error.to_string())
}
