//! A small event loop for the TCP models: flows over one bottleneck.
//!
//! ```text
//! sender ─ 10 Gbit/s ─► DropTail queue ─ bottleneck ─► loss ─► receiver, and back the same way without queue or loss
//! ```

#![allow(dead_code, reason = "each test and example uses a part of it")]
#![expect(clippy::unwrap_used, reason = "for tests and developers")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use dfcp_sim::tcp::{Config, Receiver, Segment, Sender};
use dfcp_time::Time;
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

pub(crate) mod reference;

/// The path which all flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) bottleneck_bps: u64,
    pub(crate) access_bps: u64,
    /// Packets that wait; one more is being sent.
    pub(crate) buffer_packets: usize,
    /// Of packets which have passed the bottleneck, in the direction of the data.
    pub(crate) loss: f64,
    /// Link header, beyond the IP packet.
    pub(crate) link_bytes: u32,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowConfig {
    pub(crate) tcp: Config,
    pub(crate) rtt: Duration,
    pub(crate) start: Time,
    pub(crate) total_bytes: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    one_way: Duration,
    start: Time,
    nic_free: Time,
    nic_back_free: Time,
    sender_timer: Option<Time>,
    receiver_timer: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start,
    AtQueue(Segment),
    LinkFree,
    AtReceiver(Segment),
    AtSender(Segment),
    SenderTimer,
    ReceiverTimer,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    order: u64,
    flow: usize,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}

#[derive(Debug)]
pub(crate) struct Bench {
    path: Path,
    pub(crate) flows: Vec<Flow>,
    events: BinaryHeap<Reverse<Entry>>,
    order: u64,
    now: Time,
    queue: VecDeque<(usize, Segment)>,
    sending: Option<(usize, Segment)>,
    random: Pcg64Mcg,
    pub(crate) dropped: u64,
    pub(crate) lost: u64,
    pub(crate) data_packets: u64,
    /// Integral of the queue length, packet·ns.
    queue_area: u128,
    queue_since: Time,
}

impl Bench {
    pub(crate) fn new(path: Path, flows: &[FlowConfig]) -> Self {
        let mut bench = Self {
            path,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            order: 0,
            now: Time::ZERO,
            queue: VecDeque::new(),
            sending: None,
            random: Pcg64Mcg::new(u128::from(path.seed) << 1 | 1),
            dropped: 0,
            lost: 0,
            data_packets: 0,
            queue_area: 0,
            queue_since: Time::ZERO,
        };
        for (index, flow) in flows.iter().enumerate() {
            bench.flows.push(Flow {
                sender: Sender::new(flow.tcp, flow.total_bytes, path.seed.wrapping_add(index as u64)).unwrap(),
                receiver: Receiver::new(flow.tcp).unwrap(),
                one_way: flow.rtt / 2,
                start: flow.start,
                nic_free: Time::ZERO,
                nic_back_free: Time::ZERO,
                sender_timer: None,
                receiver_timer: None,
            });
            let start = bench.flows[index].start;
            bench.schedule(start, index, Event::Start);
        }
        bench
    }

    /// Runs until `until`, or until nothing is left to happen.
    pub(crate) fn run(&mut self, until: Time) {
        while let Some(Reverse(entry)) = self.events.peek().copied() {
            if entry.time > until {
                break;
            }
            self.events.pop();
            self.now = entry.time;
            self.handle(entry.flow, entry.event);
        }
        self.now = until;
        self.integrate_queue();
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn all_finished(&self) -> bool {
        self.flows.iter().all(|flow| flow.sender.is_finished() && flow.receiver.is_finished())
    }

    /// Runs a step of `step` at a time until all flows are done or `until` is reached.
    pub(crate) fn run_to_end(&mut self, until: Time) {
        while !self.all_finished() && self.now < until && !self.events.is_empty() {
            self.run(self.now + Duration::from_millis(100));
        }
    }

    /// Packet·ns waited in the queue so far.
    pub(crate) fn queue_area(&self) -> u128 {
        self.queue_area
    }

    fn schedule(&mut self, time: Time, flow: usize, event: Event) {
        self.order += 1;
        self.events.push(Reverse(Entry { time, order: self.order, flow, event }));
    }

    fn handle(&mut self, flow: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Start => self.pump_sender(flow),
            Event::AtQueue(segment) => self.enqueue(flow, segment),
            Event::LinkFree => self.link_free(),
            Event::AtReceiver(segment) => {
                self.flows[flow].receiver.on_segment(now, &segment);
                self.pump_receiver(flow);
            }
            Event::AtSender(segment) => {
                self.flows[flow].sender.on_segment(now, &segment);
                self.pump_sender(flow);
            }
            Event::SenderTimer => {
                if self.flows[flow].sender_timer == Some(now) {
                    self.flows[flow].sender_timer = None;
                    self.flows[flow].sender.handle_timeout(now);
                    self.pump_sender(flow);
                }
            }
            Event::ReceiverTimer => {
                if self.flows[flow].receiver_timer == Some(now) {
                    self.flows[flow].receiver_timer = None;
                    self.flows[flow].receiver.handle_timeout(now);
                    self.pump_receiver(flow);
                }
            }
        }
    }

    fn serialise(&self, bytes: u32, bps: u64) -> Duration {
        Duration::from_nanos(u64::from(bytes + self.path.link_bytes) * 8_000_000_000 / bps)
    }

    fn pump_sender(&mut self, index: usize) {
        while let Some(segment) = self.flows[index].sender.poll_transmit(self.now) {
            let time = self.serialise(segment.wire_bytes, self.path.access_bps);
            let flow = &mut self.flows[index];
            flow.nic_free = flow.nic_free.max(self.now) + time;
            let arrival = flow.nic_free;
            self.schedule(arrival, index, Event::AtQueue(segment));
        }
        let flow = &mut self.flows[index];
        // A timer which moved later fires early, finds nothing to do and is set again.
        if let Some(deadline) = flow.sender.next_timeout()
            && flow.sender_timer.is_none_or(|timer| timer > deadline)
        {
            let deadline = deadline.max(self.now);
            flow.sender_timer = Some(deadline);
            self.schedule(deadline, index, Event::SenderTimer);
        }
    }

    fn pump_receiver(&mut self, index: usize) {
        while let Some(segment) = self.flows[index].receiver.poll_transmit(self.now) {
            let time = self.serialise(segment.wire_bytes, self.path.bottleneck_bps);
            let flow = &mut self.flows[index];
            flow.nic_back_free = flow.nic_back_free.max(self.now) + time;
            let arrival = flow.nic_back_free + flow.one_way;
            self.schedule(arrival, index, Event::AtSender(segment));
        }
        let flow = &mut self.flows[index];
        if let Some(deadline) = flow.receiver.next_timeout()
            && flow.receiver_timer.is_none_or(|timer| timer > deadline)
        {
            let deadline = deadline.max(self.now);
            flow.receiver_timer = Some(deadline);
            self.schedule(deadline, index, Event::ReceiverTimer);
        }
    }

    fn enqueue(&mut self, flow: usize, segment: Segment) {
        if self.sending.is_none() {
            self.send(flow, segment);
        } else if self.queue.len() < self.path.buffer_packets {
            self.integrate_queue();
            self.queue.push_back((flow, segment));
        } else {
            self.dropped += 1;
        }
    }

    fn send(&mut self, flow: usize, segment: Segment) {
        self.sending = Some((flow, segment));
        let time = self.serialise(segment.wire_bytes, self.path.bottleneck_bps);
        self.schedule(self.now + time, flow, Event::LinkFree);
    }

    fn link_free(&mut self) {
        if let Some((flow, segment)) = self.sending.take() {
            self.data_packets += 1;
            let draw = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            if draw < self.path.loss {
                self.lost += 1;
            } else {
                let arrival = self.now + self.flows[flow].one_way;
                self.schedule(arrival, flow, Event::AtReceiver(segment));
            }
        }
        if let Some((flow, segment)) = self.queue.front().copied() {
            self.integrate_queue();
            self.queue.pop_front();
            self.send(flow, segment);
        }
    }

    fn integrate_queue(&mut self) {
        let elapsed = self.now.since(self.queue_since).as_nanos();
        self.queue_area += elapsed * self.queue.len() as u128;
        self.queue_since = self.now;
    }
}
