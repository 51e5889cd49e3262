//! Event loop of the simulator.

use dfcp_netem::{ConfigError, Link, LinkChange, LinkConfig, LinkStats};
use dfcp_time::Time;

use crate::config::{FlowConfig, FlowError};
use crate::end::{End, Outgoing, Scratch};
use crate::event_queue::{EventQueue, Slot};
use crate::flow::{Flow, FlowReport};
use crate::observer::{Nobody, Observer};
use crate::packet::{FlowId, LinkId, Packet};

/// Owner of a slot of the event queue: a link, or an end of a flow.
#[derive(Clone, Copy, Debug)]
enum Source {
    Link(u32),
    End { flow: u32, is_receiver: bool },
}

/// Links, and flows over them. The same calls in the same order with the same seed give the same events on every
/// machine.
#[derive(Debug)]
pub struct Simulation<O = Nobody> {
    now: Time,
    seed: u64,
    event_queue: EventQueue,
    sources: Vec<Source>,
    links: Vec<(Link<Packet>, Slot)>,
    flows: Vec<Flow>,
    scratch: Scratch,
    packets: u64,
    hops: u64,
    observer: O,
}

impl<O: Observer> Simulation<O> {
    /// Creates an empty simulation. `seed` determines every random event; `observer` is notified of all events.
    #[must_use]
    pub fn new(seed: u64, observer: O) -> Self {
        Self {
            now: Time::ZERO,
            seed,
            event_queue: EventQueue::default(),
            sources: Vec::new(),
            links: Vec::new(),
            flows: Vec::new(),
            scratch: Scratch::default(),
            packets: 0,
            hops: 0,
            observer,
        }
    }

    fn add_slot(&mut self, source: Source) -> Slot {
        self.sources.push(source);
        self.event_queue.add_slot()
    }

    /// Returns the seed of a random source. It differs for each pair of `what` and `place`.
    fn seed_of(&self, what: u64, place: usize) -> u64 {
        // SplitMix64's steps give unrelated seeds for neighbouring arguments.
        let mut z = self.seed ^ (what << 48 | place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Adds a unidirectional link.
    ///
    /// # Errors
    /// Fails if a field of `config` is invalid.
    pub fn add_link(&mut self, config: LinkConfig) -> Result<LinkId, ConfigError> {
        let id = LinkId(self.links.len() as u32);
        let link = Link::new(config, self.seed_of(1, id.index()))?;
        let slot = self.add_slot(Source::Link(id.0));
        self.links.push((link, slot));
        Ok(id)
    }

    /// Adds a flow, which starts at its start time.
    ///
    /// # Errors
    /// Fails if the configuration is invalid, if a route is empty or too long, or if a route contains an unknown link.
    pub fn add_flow(&mut self, config: FlowConfig) -> Result<FlowId, FlowError> {
        for route in [&config.forward, &config.back] {
            if route.is_empty() || route.len() > usize::from(u16::MAX) {
                return Err(FlowError::EmptyRoute);
            }
            if let Some(link) = route.iter().find(|link| link.index() >= self.links.len()) {
                return Err(FlowError::NoLink(link.index()));
            }
        }
        let id = FlowId(self.flows.len() as u32);
        let seed = self.seed_of(2, id.index());
        let slots = [false, true].map(|is_receiver| self.add_slot(Source::End { flow: id.0, is_receiver }));
        self.event_queue.set(slots[0], Some(config.start.max(self.now)));
        self.flows.push(Flow::new(config, seed, slots)?);
        Ok(id)
    }

    /// Returns the time up to which all events have happened.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of packets sent by ends, and the number of deliveries by links.
    #[must_use]
    pub fn packets_and_hops(&self) -> (u64, u64) {
        (self.packets, self.hops)
    }

    /// Returns all links, in the order of addition.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<O> {
        (0..self.links.len() as u32).map(LinkId)
    }

    /// Returns state and counters of `link` at the current time.
    pub fn link(&mut self, link: LinkId) -> &Link<Packet> {
        let link = &mut self.links[link.index()].0;
        link.advance(self.now);
        link
    }

    /// Returns the counters of `link` at the current time.
    pub fn link_stats(&mut self, link: LinkId) -> LinkStats {
        self.link(link).stats()
    }

    /// Returns the results of `flow` so far.
    #[must_use]
    pub fn flow(&self, flow: FlowId) -> FlowReport {
        self.flows[flow.index()].report(self.now)
    }

    /// Returns the observer.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns the observer, mutably.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Changes the configuration of `link` from now on.
    ///
    /// # Errors
    /// Fails if the new rate or loss is invalid. The link is then unchanged.
    pub fn change(&mut self, link: LinkId, change: &LinkChange) -> Result<(), ConfigError> {
        let (link, slot) = &mut self.links[link.index()];
        link.change(self.now, change)?;
        self.event_queue.set(*slot, link.next_time());
        Ok(())
    }

    /// Processes all events up to and including the time `until`.
    pub fn run_until(&mut self, until: Time) {
        while let Some((time, slot)) = self.event_queue.first() {
            if time > until {
                break;
            }
            self.now = self.now.max(time);
            match self.sources[slot.0 as usize] {
                Source::Link(link) => self.serve_link(link as usize, slot),
                Source::End { flow, is_receiver } => self.serve_end(flow as usize, is_receiver),
            }
        }
        self.now = self.now.max(until);
    }

    /// Takes the packets that leave a link now.
    fn serve_link(&mut self, index: usize, slot: Slot) {
        loop {
            let next = self.links[index].0.next_time();
            if next.is_none_or(|at| at > self.now) {
                return self.event_queue.set_again(slot, next);
            }
            // There is no packet if it was lost after its transmission.
            if let Some(packet) = self.links[index].0.pop(self.now) {
                self.hops += 1;
                self.observer.arrived(self.now, LinkId(index as u32), &packet);
                self.forward(packet);
            }
        }
    }

    fn serve_end(&mut self, flow: usize, is_receiver: bool) {
        if self.flows[flow].is_stopped(self.now) {
            return self.event_queue.set_again(self.flows[flow].slots[usize::from(is_receiver)], None);
        }
        self.flows[flow].ends[usize::from(is_receiver)].handle_timeout(self.now, &mut self.scratch);
        self.transmit(flow, is_receiver);
    }

    /// Passes a packet to the next link of its route, or to the end of its flow.
    fn forward(&mut self, mut packet: Packet) {
        let flow = packet.flow as usize;
        packet.leg += 1;
        let route = &self.flows[flow].routes[usize::from(packet.is_back)];
        if let Some(&next) = route.get(usize::from(packet.leg)) {
            return self.offer(next, packet);
        }
        let is_receiver = !packet.is_back;
        if packet.is_back && packet.address != self.flows[flow].address(self.now) {
            return; // The sender no longer has the address to which the packet goes.
        }
        self.observer.delivered(self.now, &packet);
        if self.flows[flow].is_stopped(self.now) {
            return;
        }
        if !packet.is_damaged {
            let flow = &mut self.flows[flow];
            if is_receiver && !flow.admits(self.now, packet.address) {
                return;
            }
            let from = if is_receiver { packet.address } else { 0 };
            let end = &mut flow.ends[usize::from(is_receiver)];
            end.handle_packet(self.now, from, packet.ecn, packet.body, &mut self.scratch);
            flow.note_progress(self.now);
        }
        self.transmit(flow, is_receiver);
    }

    fn offer(&mut self, to: LinkId, packet: Packet) {
        let (link, slot) = &mut self.links[to.index()];
        self.observer.offered(self.now, to, &packet);
        link.push(self.now, packet);
        self.event_queue.set(*slot, link.next_time());
    }

    /// Polls an end for packets, and schedules the next poll.
    fn transmit(&mut self, index: usize, is_receiver: bool) {
        let side = usize::from(is_receiver);
        let uplink = self.flows[index].routes[side][0];
        let (waits, minds) =
            (self.flows[index].ends[side].waits_for_uplink(), self.flows[index].ends[side].minds_uplink());
        if waits || minds {
            self.links[uplink.index()].0.advance(self.now);
        }
        let mut wake = loop {
            let end = &mut self.flows[index].ends[side];
            if waits && self.links[uplink.index()].0.queue_len() > 0 {
                break end.asks_again(self.now);
            }
            if minds {
                end.note_uplink(self.links[uplink.index()].0.queue_len());
            }
            let Some(Outgoing { size_bytes, ecn, body }) = end.poll_transmit(self.now, &mut self.scratch) else {
                break end.next_timeout(self.now);
            };
            let id = self.packets;
            self.packets += 1;
            let (flow, is_back) = (index as u32, is_receiver);
            let address = if is_back { end.sends_to() } else { self.flows[index].address(self.now) };
            let packet = Packet { id, flow, is_back, leg: 0, address, size_bytes, ecn, is_damaged: false, body };
            self.observer.sent(self.now, &packet);
            self.offer(uplink, packet);
            // An end that predicts its next packet is not polled in vain, which is cheaper.
            let quiet = if waits { None } else { self.flows[index].ends[side].quiet_until(self.now) };
            if quiet.is_some() {
                break quiet;
            }
        };
        if waits && self.links[uplink.index()].0.queue_len() > 0 {
            // One packet waits behind the one that is being transmitted. When that transmission ends, there is room
            // again.
            let ready = self.links[uplink.index()].0.sent_at();
            wake = wake.map(|at| ready.map_or(at, |ready| at.max(ready)));
        }
        if self.flows[index].ends[side].resumes_by_uplink() {
            wake = wake.into_iter().chain(self.links[uplink.index()].0.sent_at()).min();
        }
        self.event_queue.set_again(self.flows[index].slots[side], wake);
    }

    /// Returns the sender or the receiver of a flow, for tests and reports that read its state.
    #[must_use]
    pub fn end(&self, flow: FlowId, is_receiver: bool) -> &End {
        &self.flows[flow.index()].ends[usize::from(is_receiver)]
    }
}
