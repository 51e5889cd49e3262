//! Test harness: flows over one bottleneck.
//!
//! ```text
//! sender ─ access ─► queue ─ bottleneck ─► loss ─► access ─► receiver, and back the same way without loss
//! ```

#![allow(dead_code, reason = "each test and example uses a part of it")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "for tests and developers")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_sim::{End, FlowConfig, FlowId, FlowReport, LinkId, Nobody, Observer, Pair, Row, Simulation, Transport, tcp};
use dfcp_time::Time;

pub(crate) mod kernel;
pub(crate) mod reference;

/// Sampling interval of the queue, chosen to be out of step with anything periodic.
const SAMPLE_EVERY: Duration = Duration::from_micros(97);

/// Path that all flows share.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Bottleneck in the direction of data. The return link is the same, but without loss and with an unlimited queue.
    pub(crate) bottleneck: LinkConfig,
    pub(crate) access_bps: u64,
    pub(crate) seed: u64,
}

/// Flow over the shared path.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) transport: Transport,
    pub(crate) rtt: Duration,
    pub(crate) start: Time,
    pub(crate) bytes: Option<u64>,
}

/// Simulation of the path and its flows.
#[derive(Debug)]
pub(crate) struct Dumbbell<O = Nobody> {
    pub(crate) simulation: Simulation<O>,
    pub(crate) flows: Vec<FlowId>,
    pub(crate) bottleneck: LinkId,
}

impl Path {
    /// Returns a path with a FIFO queue of `buffer_packets` at the bottleneck, random loss with probability `loss`
    /// behind it, and access links of 10 Gbit/s.
    pub(crate) fn drop_tail(rate_bps: u64, buffer_packets: usize, loss: f64, seed: u64) -> Self {
        let bottleneck = LinkConfig::default()
            .with_rate_bps(rate_bps)
            .with_queue(QueueLimit::packets(buffer_packets))
            .with_loss(Loss::bernoulli(loss));
        Self { bottleneck, access_bps: 10_000_000_000, seed }
    }
}

impl Flow {
    /// Returns a flow that starts at time zero.
    pub(crate) fn new(transport: Transport, rtt: Duration, bytes: Option<u64>) -> Self {
        Self { transport, rtt, start: Time::ZERO, bytes }
    }
}

impl<O: Observer> Dumbbell<O> {
    pub(crate) fn new(path: Path, flows: Vec<Flow>, observer: O) -> Self {
        let back = LinkConfig { rate_bps: path.bottleneck.rate_bps, ..LinkConfig::default() };
        let mut row = Row::new([(path.bottleneck, back)]);
        for flow in &flows {
            let pair = Pair {
                access_bps: Some(path.access_bps),
                rtt: flow.rtt,
                jitter: Duration::ZERO,
                batch: Duration::ZERO,
            };
            assert!(row.add_pair(pair, 0, 0));
        }
        let mut simulation = Simulation::new(path.seed, observer);
        let network = row.graph.build(&mut simulation).unwrap();
        let add = |(flow, (sender, receiver)): (Flow, _)| {
            let config = FlowConfig {
                start: flow.start,
                stop: None,
                rebinds: Vec::new(),
                bytes: flow.bytes,
                forward: network.route(sender, receiver).unwrap(),
                back: network.route(receiver, sender).unwrap(),
                transport: flow.transport,
            };
            simulation.add_flow(config).unwrap()
        };
        let flows = flows.into_iter().zip(row.hosts).map(add).collect();
        Self { simulation, flows, bottleneck: network.link(row.bottlenecks[0].0) }
    }

    pub(crate) fn report(&self, flow: usize) -> FlowReport {
        self.simulation.flow(self.flows[flow])
    }

    /// Runs up to `until`. Returns the mean queue length of the bottleneck, packets.
    pub(crate) fn run_sampling(&mut self, until: Time) -> f64 {
        let (mut waiting, mut samples) = (0, 0);
        while self.simulation.now() < until {
            self.simulation.run_until((self.simulation.now() + SAMPLE_EVERY).min(until));
            waiting += self.simulation.link(self.bottleneck).queue_len() as u64;
            samples += 1;
        }
        waiting as f64 / f64::from(samples)
    }

    /// Returns the goodput of each flow over an interval, Mbit/s.
    pub(crate) fn goodput_mbps(&mut self, from: Time, to: Time) -> Vec<f64> {
        self.simulation.run_until(from);
        let before = self.delivered_bytes();
        self.simulation.run_until(to);
        self.goodput_since(&before, from)
    }

    /// Returns the application bytes received so far, per flow.
    pub(crate) fn delivered_bytes(&self) -> Vec<u64> {
        (0..self.flows.len()).map(|flow| self.report(flow).delivered_bytes).collect()
    }

    /// Returns the goodput of each flow since the time `from`, at which `before` bytes had been received, Mbit/s.
    pub(crate) fn goodput_since(&self, before: &[u64], from: Time) -> Vec<f64> {
        let seconds = self.simulation.now().since(from).as_secs_f64();
        let bytes = self.delivered_bytes().into_iter().zip(before).map(|(after, before)| after - before);
        bytes.map(|bytes| bytes as f64 * 8.0 / seconds / 1e6).collect()
    }

    /// Returns the sender of a TCP flow.
    pub(crate) fn tcp_sender(&self, flow: usize) -> &tcp::Sender {
        match self.simulation.end(self.flows[flow], false) {
            End::TcpSender(sender) => sender,
            other => panic!("not TCP: {other:?}"),
        }
    }

    /// Returns the receiver of a TCP flow.
    pub(crate) fn tcp_receiver(&self, flow: usize) -> &tcp::Receiver {
        match self.simulation.end(self.flows[flow], true) {
            End::TcpReceiver(receiver) => receiver,
            other => panic!("not TCP: {other:?}"),
        }
    }
}
