//! Simulation of a scenario, and its measurement.

use std::time::Duration;

use dfcp_netem::Link;
use dfcp_sim::{End, FlowId, LinkId, Observer, Packet, Simulation};
use dfcp_time::Time;

use crate::bound::bound;
use crate::course::{Course, FlowBytes, FlowReading, LinkReading, MessageCounts, RTT_EVERY_NS, TICK_NS};
use crate::drive::drive;
use crate::estimation::Estimators;
use crate::metrics::Measured;
use crate::scenario::{Built, Scenario, build};

/// Largest handshake packet of any transport, bytes. Larger packets in the forward direction carry data.
pub const HANDSHAKE_BYTES_MAX: u32 = 200;

/// Error of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// The scenario is invalid.
    #[error("a run is impossible: {0}; fix the plan")]
    Impossible(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
}

/// Simulates `scenario` and returns its measurements. The theoretical bound of messages is computed instead of
/// simulated.
///
/// # Errors
/// Fails if the scenario is invalid.
pub fn measure(scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError> {
    let scenario = &scenario.drawn(seed);
    if let Some(computed) = bound(scenario) {
        return Ok(computed);
    }
    let mut simulation = Simulation::new(seed, Watch::default());
    let built = build(scenario, &mut simulation).map_err(MeasureError::Impossible)?;
    simulation.observer_mut().begin(scenario, Estimators::of(scenario, &built).map_err(MeasureError::Impossible)?);
    let mut course = Course::new(scenario);
    let times = (TICK_NS, scenario.duration_ns);
    let now_ns = drive::<_, String>(&mut simulation, (scenario, &built), times, |simulation, now_ns| {
        if now_ns > 0 && now_ns.is_multiple_of(TICK_NS) {
            let links = link_readings(simulation, &built);
            course.tick(now_ns, &links, |flow| simulation.flow(built.flows[flow]).delivered_bytes);
        }
        if now_ns.is_multiple_of(RTT_EVERY_NS) {
            course.round_trips(|flow| smoothed_rtt(simulation, built.flows[flow]));
        }
        if !course.is_warm() && now_ns >= scenario.warm_up_ns {
            let flows: Vec<_> = (0..built.flows.len()).map(|place| flow_bytes(simulation, &built, place)).collect();
            course.warm(now_ns, &link_readings(simulation, &built), &flows);
        }
        Ok(())
    })
    .map_err(MeasureError::Impossible)?;
    let links = link_readings(&mut simulation, &built);
    let mut flows: Vec<_> = (0..built.flows.len()).map(|place| flow_reading(&simulation, &built, place)).collect();
    for (place, reading) in flows.iter_mut().enumerate() {
        let number = built.flows[place].index() as u32;
        reading.estimate = simulation.observer().estimators.measured(scenario, place, number, now_ns);
    }
    let packets_and_hops = simulation.packets_and_hops();
    Ok(Measured { packets_and_hops, ..course.finish(now_ns, &links, &flows) })
}

/// Returns the smoothed round-trip time of a flow's sender. `None` before the first sample, and if there is no single
/// sender that measures it.
fn smoothed_rtt(simulation: &Simulation<Watch>, id: FlowId) -> Option<Duration> {
    match simulation.end(id, false) {
        End::TcpSender(sender) => sender.srtt(),
        End::Dfcp(sender) => Some(sender.stats().rtt).filter(|rtt| !rtt.is_zero()),
        #[cfg(feature = "quic")]
        End::Quic(sender) => sender.stats().map(|stats| stats.path.rtt),
        _ => None,
    }
}

fn link_readings(simulation: &mut Simulation<Watch>, built: &Built) -> Vec<LinkReading> {
    let reading = |&id: &LinkId| {
        let stats = simulation.link_stats(id);
        let link = simulation.link(id);
        LinkReading {
            waiting: link.queue_len(),
            rate_bps: rate_bps(link),
            capacity_bps: capacity_bps(link),
            offered: stats.offered.packets,
            queue_drops: stats.queue_drops.packets,
            marks: stats.ce_marked.packets,
            lost: stats.lost.packets,
            carried_bytes: stats.delivered.bytes + stats.lost.bytes,
        }
    };
    built.links.iter().map(reading).collect()
}

/// Returns the link's rate, bit/s; a link without a transmitter has the rate of its policer.
fn rate_bps(link: &Link<Packet>) -> u64 {
    let link = link.config();
    link.rate_bps.or_else(|| link.policer.map(|policer| policer.rate_bps)).unwrap_or(0)
}

/// Returns the present capacity of a link, bit/s; 0 during an outage.
fn capacity_bps(link: &Link<Packet>) -> u64 {
    if link.is_out() {
        return 0;
    }
    let config = link.config();
    config.rate_bps.into_iter().chain(config.policer.map(|policer| policer.rate_bps)).min().unwrap_or(0)
}

fn flow_bytes(simulation: &Simulation<Watch>, built: &Built, place: usize) -> FlowBytes {
    let (report, watch) = (simulation.flow(built.flows[place]), simulation.observer());
    let messages = report.messages.map(|found| MessageCounts {
        handed_over: found.handed_over,
        due: found.due,
        in_time: found.in_time,
        late: found.late,
        datagrams: found.datagrams,
        ip_bytes: watch.sent_bytes[place],
    });
    FlowBytes { delivered: report.delivered_bytes, received: watch.received_bytes[place], messages }
}

fn flow_reading(simulation: &Simulation<Watch>, built: &Built, place: usize) -> FlowReading {
    let id = built.flows[place];
    let (report, watch) = (simulation.flow(id), simulation.observer());
    let mut reading = FlowReading {
        bytes: flow_bytes(simulation, built, place),
        started_ns: report.started_at.as_ns(),
        first_sent_ns: watch.first_sent[place].map(Time::as_ns),
        first_received_ns: watch.first_received[place].map(Time::as_ns),
        completed_ns: report.completed_at.map(Time::as_ns),
        confirmed_ns: report.confirmed_at.map(Time::as_ns),
        failure: report.failure,
        ..FlowReading::default()
    };
    match (simulation.end(id, false), simulation.end(id, true)) {
        (End::TcpSender(sender), _) => {
            let stats = sender.stats();
            (reading.retransmissions, reading.timeouts) = (Some(stats.retransmissions), Some(stats.timeouts));
        }
        (End::WebSender(sender), _) => {
            let stats = sender.stats();
            (reading.retransmissions, reading.timeouts) = (Some(stats.retransmissions), Some(stats.timeouts));
        }
        (_, End::Dfcp(receiver)) => {
            let received = receiver.stats().received;
            let distinct = received.distinct();
            reading.waste = (distinct > 0).then(|| 1.0 - received.useful as f64 / distinct as f64);
        }
        _ => {}
    }
    reading
}

/// Observer that records each flow's first data packets and counts its bytes at both ends.
#[derive(Debug, Default)]
struct Watch {
    first_sent: Vec<Option<Time>>,
    first_received: Vec<Option<Time>>,
    /// IP bytes received by each flow's receiver.
    received_bytes: Vec<u64>,
    /// IP bytes sent by both ends of each flow.
    sent_bytes: Vec<u64>,
    estimators: Estimators,
}

impl Watch {
    fn begin(&mut self, scenario: &Scenario, estimators: Estimators) {
        self.estimators = estimators;
        self.first_sent = vec![None; scenario.flows.len()];
        self.first_received = vec![None; scenario.flows.len()];
        self.received_bytes = vec![0; scenario.flows.len()];
        self.sent_bytes = vec![0; scenario.flows.len()];
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
        if let Some(bytes) = self.sent_bytes.get_mut(packet.flow as usize) {
            *bytes += u64::from(packet.size_bytes);
        }
    }

    fn delivered(&mut self, now: Time, packet: &Packet) {
        note_first(&mut self.first_received, now, packet);
        if let Some(bytes) = self.received_bytes.get_mut(packet.flow as usize).filter(|_| !packet.is_back) {
            *bytes += u64::from(packet.size_bytes);
        }
        self.estimators.delivered(now, packet);
    }
}

#[cfg(test)]
mod tests;
