//! Deficit round robin.
//!
//! M. Shreedhar and G. Varghese, "Efficient Fair Queueing Using Deficit Round Robin", IEEE/ACM Transactions on
//! Networking 4(3), 1996. Each visit to a flow adds a quantum to its deficit counter. The flow sends while the counter
//! covers its next packet. The rest of the counter is kept while the flow has packets, and lost otherwise. The bytes
//! sent by two backlogged flows never differ by more than the quantum plus two packets of the largest size.

use std::collections::VecDeque;

use super::backlog::{Backlog, cost_bytes};
use super::discipline::{Drr, flow_slot, weight_of};
use super::limit::QueueLimit;
use super::{DropCause, make_slot};
use crate::packet::Packet;

#[derive(Clone, Debug)]
pub(super) struct DrrQueue<P> {
    config: Drr,
    backlog: Backlog<P, ()>,
    flows: Vec<Flow>,
    /// Slots in order of service; the first one is being visited. A slot whose packets were all dropped remains until
    /// its next visit.
    active: VecDeque<u32>,
    /// True if the first flow has received its quantum in this visit.
    visited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    deficit_bytes: u64,
    /// True if the slot is in `active`.
    listed: bool,
}

impl<P: Packet> DrrQueue<P> {
    pub(super) fn new(config: Drr) -> Self {
        Self { config, backlog: Backlog::new(), flows: Vec::new(), active: VecDeque::new(), visited: false }
    }

    pub(super) fn len(&self) -> usize {
        self.backlog.len()
    }

    /// Returns true if no flow is active. A packet that passes through then leaves no trace.
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    pub(super) fn flow_len(&self, flow: u64) -> usize {
        self.backlog.slot_len(flow_slot(flow))
    }

    pub(super) fn push(&mut self, packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        let slot = flow_slot(packet.flow());
        let flows = &mut self.flows;
        let has_room = self.backlog.make_room(limit, slot, packet.size_bytes(), |evicted| {
            if evicted.emptied {
                flows[evicted.slot].deficit_bytes = 0;
            }
            on_drop(evicted.packet, DropCause::Full);
        });
        if !has_room {
            on_drop(packet, DropCause::Full);
            return;
        }
        let flow = make_slot(&mut self.flows, slot);
        if !flow.listed {
            *flow = Flow { deficit_bytes: 0, listed: true };
            self.active.push_back(slot as u32);
        }
        self.backlog.push_back(slot, packet, ());
    }

    pub(super) fn pop(&mut self) -> Option<P> {
        loop {
            let slot = *self.active.front()? as usize;
            let Some((packet, ())) = self.backlog.front(slot) else {
                self.retire(slot);
                continue;
            };
            let cost_bytes = u64::from(cost_bytes(packet.size_bytes()));
            let flow = &mut self.flows[slot];
            if !self.visited {
                self.visited = true;
                let weight = u64::from(weight_of(&self.config.weights, slot));
                flow.deficit_bytes += u64::from(self.config.quantum_bytes) * weight;
            }
            if cost_bytes > flow.deficit_bytes {
                self.visited = false;
                self.active.rotate_left(1);
                continue;
            }
            flow.deficit_bytes -= cost_bytes;
            let (packet, ()) = self.backlog.pop_front(slot)?;
            if self.backlog.slot_len(slot) == 0 {
                self.retire(slot);
            }
            return Some(packet);
        }
    }

    /// Ends the visit to the first flow, which has no packets left.
    fn retire(&mut self, slot: usize) {
        self.active.pop_front();
        self.flows[slot] = Flow::default();
        self.visited = false;
    }
}

#[cfg(test)]
mod tests;
