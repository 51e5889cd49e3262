//! One run: a scenario simulated and measured.

use dfcp_netem::{LinkStats, Loss};
use dfcp_sim::{End, FlowReport, LinkId, Observer, Packet, Simulation};
use dfcp_time::Time;

use crate::drive::drive;
use crate::metrics::{FlowMeasured, LinkMeasured, Measured};
use crate::scenario::{Built, ChangeSpec, Scenario, build, loss};

/// Queues are sampled, and arrivals counted, this often.
const TICK_NS: u64 = 1_000_000;

/// A forward packet larger than this carries data; handshakes are smaller in every transport.
const HANDSHAKE_BYTES_MAX: u32 = 200;

/// Traces longer than this are cut: 200 s in steps of 1 ms.
const TRACE_MAX: usize = 200_000;

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run is impossible: {0}; fix the plan")]
pub struct MeasureError(pub String);

/// Simulates `scenario` and measures it.
///
/// # Errors
/// When the scenario makes no sense.
pub fn measure(scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError> {
    let mut simulation = Simulation::new(seed, Watch::default());
    let built = build(scenario, &mut simulation).map_err(MeasureError)?;
    simulation.observer_mut().begin(scenario, &built);
    let mut course = Course::new(scenario, &built);
    let mut is_warm = false;
    let times = (TICK_NS, scenario.duration_ns);
    let now_ns = drive::<_, String>(&mut simulation, (scenario, &built), times, |simulation, now_ns| {
        if now_ns > 0 && now_ns.is_multiple_of(TICK_NS) {
            course.tick(simulation, now_ns, is_warm);
        }
        if !is_warm && now_ns >= scenario.warm_up_ns {
            is_warm = true;
            course.warm(simulation, now_ns);
        }
        Ok(())
    })
    .map_err(MeasureError)?;
    Ok(course.finish(&mut simulation, now_ns))
}

/// Makes `change` happen now.
pub(crate) fn apply<O: Observer>(
    simulation: &mut Simulation<O>,
    scenario: &Scenario,
    built: &Built,
    change: &ChangeSpec,
) -> Result<(), String> {
    let link = built.links[change.link];
    if let Some(rate_bps) = change.rate_bps {
        simulation.set_rate_bps(link, Some(rate_bps)).map_err(|error| error.to_string())?;
    }
    if let Some(delay_ns) = change.delay_ns {
        simulation.set_delay(link, std::time::Duration::from_nanos(delay_ns));
    }
    let new_loss = match change.loss {
        Some(p) => Loss::bernoulli(p),
        None if change.own_loss => loss(&scenario.links[change.link])?,
        None => return Ok(()),
    };
    simulation.set_loss(link, new_loss).map_err(|error| error.to_string())
}

/// Watches packets: first data of each flow, and arrivals at each bottleneck.
#[derive(Debug, Default)]
struct Watch {
    first_sent: Vec<Option<Time>>,
    first_received: Vec<Option<Time>>,
    /// Bytes which came to each flow's receiver.
    received_bytes: Vec<u64>,
    /// Place in the scenario of the simulation's links.
    place: Vec<Option<usize>>,
    arrivals: Vec<Arrivals>,
}

/// Packets counted in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// In the present tick.
    count: u64,
    ticks: u64,
    sum: u64,
    squares: u64,
}

impl Arrivals {
    fn tick(&mut self) {
        self.ticks += 1;
        self.sum += self.count;
        self.squares += self.count * self.count;
        self.count = 0;
    }

    /// Variance over mean.
    fn dispersion(&self) -> Option<f64> {
        if self.sum == 0 {
            return None;
        }
        let mean = self.sum as f64 / self.ticks as f64;
        Some((self.squares as f64 / self.ticks as f64 - mean * mean) / mean)
    }
}

impl Watch {
    fn begin(&mut self, scenario: &Scenario, built: &Built) {
        self.first_sent = vec![None; scenario.flows.len()];
        self.first_received = vec![None; scenario.flows.len()];
        self.received_bytes = vec![0; scenario.flows.len()];
        self.arrivals = vec![Arrivals::default(); built.links.len()];
        self.place = vec![None; built.links.iter().map(|link| link.index() + 1).max().unwrap_or(0)];
        for (place, link) in built.links.iter().enumerate() {
            self.place[link.index()] = Some(place);
        }
    }
}

fn note_first(times: &mut [Option<Time>], now: Time, packet: &Packet) {
    if packet.is_back || packet.size_bytes <= HANDSHAKE_BYTES_MAX {
        return;
    }
    if let Some(time) = times.get_mut(packet.flow as usize) {
        time.get_or_insert(now);
    }
}

impl Observer for Watch {
    fn sent(&mut self, now: Time, packet: &Packet) {
        note_first(&mut self.first_sent, now, packet);
    }

    fn offered(&mut self, _now: Time, link: LinkId, _packet: &Packet) {
        if let Some(place) = self.place.get(link.index()).copied().flatten() {
            self.arrivals[place].count += 1;
        }
    }

    fn delivered(&mut self, now: Time, packet: &Packet) {
        note_first(&mut self.first_received, now, packet);
        if let Some(bytes) = self.received_bytes.get_mut(packet.flow as usize).filter(|_| !packet.is_back) {
            *bytes += u64::from(packet.size_bytes);
        }
    }
}

/// What is written down while a run lasts.
struct Course<'run> {
    scenario: &'run Scenario,
    built: &'run Built,
    warm_ns: u64,
    warm_bytes: Vec<u64>,
    warm_received_bytes: Vec<u64>,
    warm_links: Vec<LinkStats>,
    queues: Vec<QueueSums>,
    /// Bytes which the links could have sent since the warm-up.
    capacity_bytes: Vec<f64>,
    traces: Vec<Vec<usize>>,
    bin_bytes: Vec<u64>,
    bins: Vec<Vec<f64>>,
    first_drops_s: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Default)]
struct QueueSums {
    samples: u64,
    sum: u64,
    squares: u64,
}

impl QueueSums {
    fn add(&mut self, packets: usize) {
        self.samples += 1;
        self.sum += packets as u64;
        self.squares += (packets * packets) as u64;
    }

    fn mean_and_sd(&self) -> (f64, f64) {
        let samples = self.samples.max(1) as f64;
        let mean = self.sum as f64 / samples;
        (mean, (self.squares as f64 / samples - mean * mean).max(0.0).sqrt())
    }
}

impl<'run> Course<'run> {
    fn new(scenario: &'run Scenario, built: &'run Built) -> Self {
        let (flows, links) = (built.flows.len(), built.links.len());
        Self {
            scenario,
            built,
            warm_ns: 0,
            warm_bytes: vec![0; flows],
            warm_received_bytes: vec![0; flows],
            warm_links: vec![LinkStats::default(); links],
            queues: vec![QueueSums::default(); links],
            capacity_bytes: vec![0.0; links],
            traces: vec![Vec::new(); links],
            bin_bytes: vec![0; flows],
            bins: vec![Vec::new(); flows],
            first_drops_s: vec![None; links],
        }
    }

    fn warm(&mut self, simulation: &mut Simulation<Watch>, now_ns: u64) {
        self.warm_ns = now_ns;
        for (place, &flow) in self.built.flows.iter().enumerate() {
            self.warm_bytes[place] = simulation.flow(flow).delivered_bytes;
        }
        for (place, &link) in self.built.links.iter().enumerate() {
            self.warm_links[place] = simulation.link_stats(link);
        }
        let watch = simulation.observer_mut();
        self.warm_received_bytes.clone_from(&watch.received_bytes);
        watch.arrivals.iter_mut().for_each(|arrivals| *arrivals = Arrivals::default());
    }

    fn tick(&mut self, simulation: &mut Simulation<Watch>, now_ns: u64, is_warm: bool) {
        simulation.observer_mut().arrivals.iter_mut().for_each(Arrivals::tick);
        let traces = self.scenario.queue_trace_ns;
        let is_traced = traces > 0 && now_ns / traces != (now_ns - TICK_NS) / traces;
        for (place, &id) in self.built.links.iter().enumerate() {
            let link = simulation.link(id);
            let packets = link.queue_len();
            if is_warm {
                self.queues[place].add(packets);
                self.capacity_bytes[place] += link.config().rate_bps.unwrap_or(0) as f64 / 8.0 * (TICK_NS as f64 / 1e9);
            }
            if is_traced && self.traces[place].len() < TRACE_MAX {
                self.traces[place].push(packets);
            }
            if self.first_drops_s[place].is_none() && link.stats().queue_drops.packets > 0 {
                self.first_drops_s[place] = Some(now_ns as f64 / 1e9);
            }
        }
        let bin_ns = self.scenario.bin_ns;
        if bin_ns > 0 && now_ns / bin_ns != (now_ns - TICK_NS) / bin_ns {
            for (place, &flow) in self.built.flows.iter().enumerate() {
                let bytes = simulation.flow(flow).delivered_bytes;
                let in_bin = bytes - self.bin_bytes[place];
                self.bin_bytes[place] = bytes;
                if self.bins[place].len() < TRACE_MAX {
                    self.bins[place].push(in_bin as f64 * 8e9 / bin_ns as f64);
                }
            }
        }
    }

    fn finish(mut self, simulation: &mut Simulation<Watch>, now_ns: u64) -> Measured {
        let flows = (0..self.built.flows.len()).map(|place| self.flow(simulation, place, now_ns)).collect();
        let links = (0..self.built.links.len()).map(|place| self.link(simulation, place)).collect();
        let random_losses = self.random_losses(simulation);
        let first = &self.scenario.links[0];
        let best = self.scenario.flows.iter().map(|flow| flow.transport.payload_share()).fold(0.0, f64::max);
        Measured {
            flows,
            links,
            ceiling_bps: first.rate_bps as f64 * best,
            bin_s: self.scenario.bin_ns as f64 / 1e9,
            packets_and_hops: simulation.packets_and_hops(),
            cpu_s: None,
            random_losses,
        }
    }

    /// Packets which loss models took in the time that goodput is measured over: since the warm-up, or from the start if a
    /// flow ended before it.
    fn random_losses(&self, simulation: &mut Simulation<Watch>) -> Option<u64> {
        let is_early = |flow| simulation.flow(flow).completed_at.is_some_and(|at| at.as_ns() <= self.warm_ns);
        let counts_warm_up = self.built.flows.iter().copied().any(is_early);
        let mut losses = None;
        for (place, &link) in self.built.links.iter().enumerate().filter(|(place, _)| self.scenario.can_lose(*place)) {
            let before = if counts_warm_up { 0 } else { self.warm_links[place].lost.packets };
            *losses.get_or_insert(0) += simulation.link_stats(link).lost.packets - before;
        }
        losses
    }

    fn flow(&mut self, simulation: &Simulation<Watch>, place: usize, now_ns: u64) -> FlowMeasured {
        let (id, spec) = (self.built.flows[place], &self.scenario.flows[place]);
        let report = simulation.flow(id);
        let end_ns = report.completed_at.map_or(now_ns, Time::as_ns);
        let (from_ns, from_bytes, from_received) = if end_ns > self.warm_ns {
            (self.warm_ns, self.warm_bytes[place], self.warm_received_bytes[place])
        } else {
            (spec.start_ns, 0, 0)
        };
        let seconds = end_ns.saturating_sub(from_ns.max(spec.start_ns)) as f64 / 1e9;
        let rate_bps = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let mut flow = FlowMeasured {
            goodput_bps: rate_bps(report.delivered_bytes - from_bytes),
            wire_bps: rate_bps(simulation.observer().received_bytes[place] - from_received),
            delivered_bytes: report.delivered_bytes,
            started_s: report.started_at.as_secs_f64(),
            bins_bps: std::mem::take(&mut self.bins[place]),
            failure: report.failure.clone(),
            ..FlowMeasured::default()
        };
        if let Some(bytes) = spec.bytes {
            let watch = simulation.observer();
            completion(&mut flow, &report, bytes, now_ns, [watch.first_sent[place], watch.first_received[place]]);
        }
        match (simulation.end(id, false), simulation.end(id, true)) {
            (End::TcpSender(sender), _) => {
                let stats = sender.stats();
                (flow.retransmissions, flow.timeouts) = (Some(stats.retransmissions), Some(stats.timeouts));
            }
            (_, End::Dfcp(receiver)) => {
                let received = receiver.stats().received;
                let distinct = received.distinct();
                flow.waste = (distinct > 0).then(|| 1.0 - received.useful as f64 / distinct as f64);
            }
            _ => {}
        }
        flow
    }

    fn link(&mut self, simulation: &mut Simulation<Watch>, place: usize) -> LinkMeasured {
        let dispersion = simulation.observer().arrivals[place].dispersion();
        let (stats, warm) = (simulation.link_stats(self.built.links[place]), self.warm_links[place]);
        let sent_bytes = |stats: &LinkStats| stats.delivered.bytes + stats.lost.bytes;
        let (mean, sd) = self.queues[place].mean_and_sd();
        LinkMeasured {
            queue_mean_packets: mean,
            queue_sd_packets: sd,
            queue_limit_packets: self.scenario.links[place].queue_packets,
            utilisation: (sent_bytes(&stats) - sent_bytes(&warm)) as f64 / self.capacity_bytes[place].max(1.0),
            queue_drops: stats.queue_drops.packets - warm.queue_drops.packets,
            lost: stats.lost.packets - warm.lost.packets,
            offered: stats.offered.packets - warm.offered.packets,
            dispersion,
            first_drop_s: self.first_drops_s[place],
            queue_trace: std::mem::take(&mut self.traces[place]),
        }
    }
}

/// The times of a flow with a size. Those of one which did not end are extrapolated from its goodput.
fn completion(flow: &mut FlowMeasured, report: &FlowReport, bytes: u64, now_ns: u64, first: [Option<Time>; 2]) {
    let last_s = match report.completed_at {
        Some(at) => at.as_secs_f64(),
        None if flow.goodput_bps > 0.0 && flow.failure.is_none() => {
            flow.is_extrapolated = true;
            let left_bytes = bytes.saturating_sub(report.delivered_bytes);
            now_ns as f64 / 1e9 + left_bytes as f64 * 8.0 / flow.goodput_bps
        }
        None => return,
    };
    let since = |start: Time| last_s - start.as_secs_f64();
    flow.fct_s = first[0].map(since);
    flow.fct_receive_s = first[1].map(since);
    flow.fct_connect_s = Some(since(report.started_at));
    flow.fct_confirmed_s = report.confirmed_at.map(|at| at.as_secs_f64() - report.started_at.as_secs_f64());
}

#[cfg(test)]
mod tests;
