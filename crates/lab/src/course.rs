//! Measurements recorded during a run, for every platform.

mod histogram;
mod settling;

use std::time::Duration;

use self::histogram::Histogram;
use self::settling::Settling;
use crate::dynamics::fair_bps;
use crate::metrics::{EstimateMeasured, FlowMeasured, LinkMeasured, Measured, MessagesMeasured, median};
use crate::scenario::{FlowSpec, LinkSpec, Scenario};

/// Interval of link samples and arrival counts, ns.
pub const TICK_NS: u64 = 1_000_000;

/// Interval of samples of round-trip times, ns.
pub(crate) const RTT_EVERY_NS: u64 = 100 * TICK_NS;

/// Maximum length of a trace, samples; later samples are discarded. At 1 ms per sample, a trace covers 200 s.
const TRACE_MAX: usize = 200_000;

/// Bits of a full-sized packet, used to convert a queue length to a delay.
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// State and counters of a link in the forward direction. Counters start with the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReading {
    /// Queue length, packets.
    pub waiting: usize,
    /// Present rate of the link, bit/s of IP packets.
    pub rate_bps: u64,
    /// Present capacity, bit/s: at most the rate of a policer, and 0 during an outage.
    pub capacity_bps: u64,
    /// Packets that arrived at the queue.
    pub offered: u64,
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets marked by the queue instead of dropped (CE, RFC 3168).
    pub marks: u64,
    /// Packets dropped by the loss model.
    pub lost: u64,
    /// IP bytes that left the queue, including bytes lost afterwards.
    pub carried_bytes: u64,
}

/// Byte and message counters of a flow since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowBytes {
    /// Application bytes delivered in order.
    pub delivered: u64,
    /// Bytes of IP packets that reached the receiver.
    pub received: u64,
    /// Message counters; `None` for a flow without messages.
    pub messages: Option<MessageCounts>,
}

/// Counters of a flow's messages since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages handed over by the application to the transport.
    pub handed_over: u64,
    /// Messages whose deadline has passed.
    pub due: u64,
    /// Messages delivered before their deadline, of those counted in `due`.
    pub in_time: u64,
    /// Messages completed after their deadline.
    pub late: u64,
    /// Datagrams sent with message data or repair symbols.
    pub datagrams: u64,
    /// Bytes of IP packets sent by both ends.
    pub ip_bytes: u64,
}

impl MessageCounts {
    /// Returns the results since the end of the warm-up, when the counters were `warm`. `None` if no deadline has
    /// passed since.
    fn since(&self, warm: &Self) -> Option<MessagesMeasured> {
        let due = self.due - warm.due;
        let share = |count: u64| count as f64 / due as f64;
        let handed_over = (self.handed_over - warm.handed_over) as f64;
        (due > 0 && handed_over > 0.0).then(|| MessagesMeasured {
            due,
            in_time: share(self.in_time - warm.in_time),
            late: Some(share(self.late - warm.late)),
            // Messages may be in flight at both ends of the interval; their datagrams roughly cancel out.
            datagrams_each: Some((self.datagrams - warm.datagrams) as f64 / handed_over),
            ip_bytes_each: Some((self.ip_bytes - warm.ip_bytes) as f64 / handed_over),
        })
    }
}

/// Readings of a flow at the end of a run. Times are relative to the start of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowReading {
    /// Byte counters.
    pub bytes: FlowBytes,
    /// Time at which the connection was opened, ns.
    pub started_ns: u64,
    /// Time at which the first data packet was sent, ns.
    pub first_sent_ns: Option<u64>,
    /// Time at which the first data packet arrived, ns.
    pub first_received_ns: Option<u64>,
    /// Time at which the last byte was delivered, ns; `None` if the flow is unfinished.
    pub completed_ns: Option<u64>,
    /// Time at which the sender received the confirmation of complete delivery, ns.
    pub confirmed_ns: Option<u64>,
    /// Error that ended the flow early.
    pub failure: Option<String>,
    /// Retransmitted segments; TCP only.
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts; TCP only.
    pub timeouts: Option<u64>,
    /// Share of received data packets that did not help decoding; DFCP only.
    pub waste: Option<f64>,
    /// Bottleneck estimates; `None` unless the plan configures an estimator for the flow.
    pub estimate: Option<EstimateMeasured>,
}

/// Statistics of packet arrivals per tick, for the index of dispersion.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// Packets that arrived before the present tick.
    before: u64,
    ticks: u64,
    sum: u64,
    squares: u64,
}

impl Arrivals {
    fn from(before: u64) -> Self {
        Self { before, ..Self::default() }
    }

    fn tick(&mut self, offered: u64) {
        let count = offered - self.before;
        self.before = offered;
        self.ticks += 1;
        self.sum += count;
        self.squares += count * count;
    }

    /// Returns the variance divided by the mean of arrivals per tick; `None` without arrivals.
    fn dispersion(&self) -> Option<f64> {
        if self.sum == 0 {
            return None;
        }
        let mean = self.sum as f64 / self.ticks as f64;
        Some((self.squares as f64 / self.ticks as f64 - mean * mean) / mean)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueSums {
    samples: u64,
    sum: u64,
    squares: u64,
    /// Least and greatest queue length, packets; `None` before the first sample.
    extremes: Option<(usize, usize)>,
}

impl QueueSums {
    fn add(&mut self, packets: usize) {
        self.samples += 1;
        self.sum += packets as u64;
        self.squares += (packets * packets) as u64;
        let (least, most) = self.extremes.unwrap_or((packets, packets));
        self.extremes = Some((least.min(packets), most.max(packets)));
    }

    fn mean_and_sd(&self) -> (f64, f64) {
        let samples = self.samples.max(1) as f64;
        let mean = self.sum as f64 / samples;
        (mean, (self.squares as f64 / samples - mean * mean).max(0.0).sqrt())
    }
}

/// Measurements of a link during a run.
#[derive(Clone, Debug, Default)]
struct LinkCourse {
    warm: LinkReading,
    arrivals: Arrivals,
    queue: QueueSums,
    /// Sum of the queueing delay samples, ms.
    delay_ms: f64,
    delays_us: Histogram,
    /// Bytes that the link could have sent since the end of the warm-up.
    capacity_bytes: f64,
    trace: Vec<usize>,
    first_drop_s: Option<f64>,
}

/// Measurements of a flow during a run.
#[derive(Clone, Debug, Default)]
struct FlowCourse {
    warm: FlowBytes,
    /// Bytes delivered before the present bin.
    before_bin: u64,
    bins_bps: Vec<f64>,
    /// Bytes delivered up to the last tick.
    before: u64,
    /// Time of the last delivery, ns; at first, the end of the warm-up.
    delivered_ns: u64,
    longest_gap_ns: u64,
    /// Samples of the sender's smoothed round-trip time since the end of the warm-up, ms.
    rtts_ms: Vec<f64>,
}

/// Recorder of a run in progress: fed with readings at every tick, returns the measurements at the end.
#[derive(Clone, Debug)]
pub struct Course<'run> {
    scenario: &'run Scenario,
    warm_ns: Option<u64>,
    links: Vec<LinkCourse>,
    flows: Vec<FlowCourse>,
    settling: Settling,
}

impl<'run> Course<'run> {
    /// Starts recording a run of `scenario`.
    #[must_use]
    pub fn new(scenario: &'run Scenario) -> Self {
        Self {
            scenario,
            warm_ns: None,
            links: vec![LinkCourse::default(); scenario.links.len()],
            flows: vec![FlowCourse::default(); scenario.flows.len()],
            settling: Settling::new(scenario),
        }
    }

    /// Records the links' readings at `now_ns`, the end of a tick of [`TICK_NS`]. `delivered` returns the bytes that a
    /// flow, given by its index, has delivered so far.
    pub fn tick(&mut self, now_ns: u64, links: &[LinkReading], delivered: impl Fn(usize) -> u64) {
        let trace_ns = self.scenario.queue_trace_ns;
        let is_traced = trace_ns > 0 && now_ns / trace_ns != (now_ns - TICK_NS) / trace_ns;
        for (link, reading) in self.links.iter_mut().zip(links) {
            link.arrivals.tick(reading.offered);
            if self.warm_ns.is_some() {
                link.queue.add(reading.waiting);
                let delay_ms = reading.waiting as f64 * PACKET_BITS / reading.rate_bps.max(1) as f64 * 1e3;
                link.delay_ms += delay_ms;
                link.delays_us.add((delay_ms * 1e3) as u64);
                link.capacity_bytes += reading.capacity_bps as f64 / 8.0 * (TICK_NS as f64 / 1e9);
            }
            if is_traced && link.trace.len() < TRACE_MAX {
                link.trace.push(reading.waiting);
            }
            if link.first_drop_s.is_none() && reading.queue_drops > 0 {
                link.first_drop_s = Some(now_ns as f64 / 1e9);
            }
        }
        if let Some(link) = links.first() {
            self.settling.tick(now_ns, link);
        }
        if self.warm_ns.is_some() {
            for (place, flow) in self.flows.iter_mut().enumerate() {
                let bytes = delivered(place);
                if bytes > flow.before {
                    (flow.before, flow.delivered_ns) = (bytes, now_ns);
                }
                flow.longest_gap_ns = flow.longest_gap_ns.max(now_ns - flow.delivered_ns);
            }
        }
        let bin_ns = self.scenario.bin_ns;
        if bin_ns > 0 && now_ns / bin_ns != (now_ns - TICK_NS) / bin_ns {
            for (place, flow) in self.flows.iter_mut().enumerate() {
                let bytes = delivered(place);
                let in_bin = bytes - flow.before_bin;
                flow.before_bin = bytes;
                if flow.bins_bps.len() < TRACE_MAX {
                    flow.bins_bps.push(in_bin as f64 * 8e9 / bin_ns as f64);
                }
            }
        }
    }

    /// Records samples of smoothed round-trip times, every [`RTT_EVERY_NS`] after the warm-up. `rtt` returns that of the
    /// sender of a flow, given by its index; `None` if it is unknown.
    pub(crate) fn round_trips(&mut self, rtt: impl Fn(usize) -> Option<Duration>) {
        let flows = self.flows.iter_mut().enumerate().filter(|_| self.warm_ns.is_some());
        for (flow, rtt) in flows.filter_map(|(place, flow)| Some((flow, rtt(place)?))) {
            if flow.rtts_ms.len() < TRACE_MAX {
                flow.rtts_ms.push(ms(rtt.as_nanos() as u64));
            }
        }
    }

    /// Returns true after the warm-up, when goodput is measured.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.warm_ns.is_some()
    }

    /// Ends the warm-up: goodput is measured from `now_ns` on, relative to these readings.
    pub fn warm(&mut self, now_ns: u64, links: &[LinkReading], flows: &[FlowBytes]) {
        self.warm_ns = Some(now_ns);
        for (link, reading) in self.links.iter_mut().zip(links) {
            link.warm = *reading;
            link.arrivals = Arrivals::from(reading.offered);
        }
        for (flow, bytes) in self.flows.iter_mut().zip(flows) {
            flow.warm = *bytes;
            (flow.before, flow.delivered_ns) = (bytes.delivered, now_ns);
        }
    }

    /// Ends the run at `now_ns`, with the final readings of links and flows, and returns its measurements.
    #[must_use]
    pub fn finish(self, now_ns: u64, links: &[LinkReading], flows: &[FlowReading]) -> Measured {
        let random_losses = self.random_losses(links, flows);
        let scenario = self.scenario;
        let best = scenario.flows.iter().map(|flow| flow.transport.payload_share()).fold(0.0, f64::max);
        let warm_ns = self.warm_ns.unwrap_or(0);
        let settled = self.settling.finish(now_ns);
        let first_sent_ns = flows.iter().filter_map(|flow| flow.first_sent_ns).min();
        // If the bottleneck never delivered 90 % of its capacity, the start phase lasted as long as the run.
        let start_ns = first_sent_ns.map(|at_ns| settled.started_ns.unwrap_or(now_ns).saturating_sub(at_ns));
        let possible_bps = self.links.first().zip(links.first()).map(|(course, end)| course.possible_bps(end));
        let measured_flows = self.flows.into_iter().zip(flows).enumerate();
        let measured_links = self.links.into_iter().zip(links).enumerate();
        let flows: Vec<_> = measured_flows
            .map(|(place, (course, end))| measured_flow(course, end, &scenario.flows[place], (warm_ns, now_ns)))
            .collect();
        let useful: Vec<_> = (0..scenario.links.len()).map(|link| useful(scenario, link, &flows)).collect();
        Measured {
            links: measured_links
                .map(|(place, (course, end))| LinkMeasured {
                    useful: useful[place],
                    ..measured_link(course, end, scenario.links[place].queue_packets)
                })
                .collect(),
            flows,
            ceiling_bps: scenario.links.first().map_or(0, LinkSpec::carries_bps) as f64 * best,
            possible_bps: possible_bps.unwrap_or(0.0) * best,
            start_ms: start_ns.map(ms),
            start_dropped: settled.start_dropped,
            recovery_ms: settled.recovery_ns.map(ms),
            bin_s: scenario.bin_ns as f64 / 1e9,
            fair_bps: fair_bps(scenario),
            random_losses,
            ..Measured::default()
        }
    }

    /// Returns the packets dropped by loss models while goodput was measured. Counting begins after the warm-up, or at
    /// time 0 if a flow finished during the warm-up. `None` if no link can lose packets at random.
    fn random_losses(&self, links: &[LinkReading], flows: &[FlowReading]) -> Option<u64> {
        let warm_ns = self.warm_ns.unwrap_or(0);
        let counts_warm_up = flows.iter().any(|flow| flow.completed_ns.is_some_and(|at| at <= warm_ns));
        let mut losses = None;
        let places = self.links.iter().zip(links).enumerate().filter(|(place, _)| self.scenario.can_lose(*place));
        for (_, (course, end)) in places {
            let before = if counts_warm_up { 0 } else { course.warm.lost };
            *losses.get_or_insert(0) += end.lost - before;
        }
        losses
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl LinkCourse {
    /// Returns the mean capacity since the warm-up, less random losses, bit/s of IP packets.
    fn possible_bps(&self, end: &LinkReading) -> f64 {
        let seconds = self.queue.samples as f64 * (TICK_NS as f64 / 1e9);
        let passed = (end.offered - self.warm.offered).saturating_sub(end.queue_drops - self.warm.queue_drops);
        let lost = (end.lost - self.warm.lost) as f64 / passed.max(1) as f64;
        if seconds > 0.0 { self.capacity_bytes * 8.0 / seconds * (1.0 - lost).max(0.0) } else { 0.0 }
    }
}

fn measured_flow(
    course: FlowCourse,
    end: &FlowReading,
    spec: &FlowSpec,
    (warm_ns, now_ns): (u64, u64),
) -> FlowMeasured {
    let (start_ns, bytes) = (spec.start_ns, spec.bytes);
    let end_ns = end.completed_ns.unwrap_or_else(|| spec.stop_ns.unwrap_or(now_ns).min(now_ns));
    let (from_ns, from) = if end_ns > warm_ns { (warm_ns, course.warm) } else { (start_ns, FlowBytes::default()) };
    let seconds = end_ns.saturating_sub(from_ns.max(start_ns)) as f64 / 1e9;
    let rate_bps = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    let mut flow = FlowMeasured {
        goodput_bps: rate_bps(end.bytes.delivered - from.delivered),
        wire_bps: rate_bps(end.bytes.received - from.received),
        stopped_s: spec.stop_ns.filter(|&stop_ns| stop_ns < now_ns).map(|stop_ns| stop_ns as f64 / 1e9),
        is_back: spec.is_back,
        longest_gap_ms: bytes.is_none().then(|| ms(course.longest_gap_ns)),
        rtt_ms: median(course.rtts_ms),
        delivered_bytes: end.bytes.delivered,
        started_s: end.started_ns as f64 / 1e9,
        bins_bps: course.bins_bps,
        failure: end.failure.clone(),
        retransmissions: end.retransmissions,
        timeouts: end.timeouts,
        waste: end.waste,
        messages: end.bytes.messages.and_then(|counts| counts.since(&from.messages.unwrap_or_default())),
        estimate: end.estimate.clone(),
        ..FlowMeasured::default()
    };
    if let Some(bytes) = bytes {
        completion(&mut flow, end, bytes, now_ns);
    }
    flow
}

/// Returns the share of a bottleneck's rate that delivered data needed, headers and redundancy included. `None` for a
/// graph of nodes.
fn useful(scenario: &Scenario, link: usize, flows: &[FlowMeasured]) -> Option<f64> {
    if !scenario.nodes.is_empty() {
        return None;
    }
    let over = scenario
        .flows
        .iter()
        .zip(flows)
        .filter(|(spec, _)| (spec.over.0..=spec.over.1).contains(&link) && !spec.is_back);
    let bps: f64 = over.map(|(spec, flow)| flow.goodput_bps / spec.transport.payload_share()).sum();
    Some(bps / scenario.links[link].carries_bps().max(1) as f64)
}

fn measured_link(course: LinkCourse, end: &LinkReading, queue_limit_packets: usize) -> LinkMeasured {
    let (mean, sd) = course.queue.mean_and_sd();
    LinkMeasured {
        queue_mean_packets: mean,
        queue_sd_packets: sd,
        queue_range_packets: course.queue.extremes.map(|(least, most)| most - least),
        queue_mean_ms: course.delay_ms / course.queue.samples.max(1) as f64,
        queue_p95_ms: course.delays_us.quantile(0.95) as f64 / 1e3,
        queue_limit_packets,
        utilisation: (end.carried_bytes - course.warm.carried_bytes) as f64 / course.capacity_bytes.max(1.0),
        useful: None,
        queue_drops: end.queue_drops - course.warm.queue_drops,
        marks: end.marks - course.warm.marks,
        lost: end.lost - course.warm.lost,
        offered: end.offered - course.warm.offered,
        dispersion: course.arrivals.dispersion(),
        first_drop_s: course.first_drop_s,
        queue_trace: course.trace,
    }
}

/// Sets the completion times of a flow of `bytes` bytes. An unfinished flow gets times extrapolated from its goodput.
fn completion(flow: &mut FlowMeasured, end: &FlowReading, bytes: u64, now_ns: u64) {
    let last_s = match end.completed_ns {
        Some(at_ns) => at_ns as f64 / 1e9,
        None if flow.goodput_bps > 0.0 && flow.failure.is_none() => {
            flow.is_extrapolated = true;
            let left_bytes = bytes.saturating_sub(end.bytes.delivered);
            now_ns as f64 / 1e9 + left_bytes as f64 * 8.0 / flow.goodput_bps
        }
        None => return,
    };
    let since = |start_ns: u64| last_s - start_ns as f64 / 1e9;
    flow.fct_s = end.first_sent_ns.map(since);
    flow.fct_receive_s = end.first_received_ns.map(since);
    flow.fct_connect_s = Some(since(end.started_ns));
    flow.fct_confirmed_s = end.confirmed_ns.map(|at_ns| (at_ns - end.started_ns) as f64 / 1e9);
}
