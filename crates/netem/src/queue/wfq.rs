//! Weighted fair queueing.
//!
//! A. Demers, S. Keshav and S. Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989, with
//! weights as in Parekh and Gallager's packet-by-packet generalised processor sharing. Of all waiting packets, the one
//! that the fluid server of [`gps`](super::gps) would finish first is sent next. Virtual time is tracked exactly. It is
//! not approximated by the tag of the packet in service, as in self-clocked fair queueing. Each packet therefore leaves
//! at most the time of one largest packet later than the fluid server would have finished it.

use std::num::NonZeroU64;

use dfcp_time::Time;

use super::DropCause;
use super::backlog::{Backlog, cost_bytes};
use super::discipline::{Wfq, flow_slot};
use super::gps::{Gps, Tag};
use super::heap::SlotHeap;
use super::limit::QueueLimit;
use crate::packet::Packet;

#[derive(Clone, Debug)]
pub(super) struct WfqQueue<P> {
    gps: Gps,
    backlog: Backlog<P, Tag>,
    /// Backlogged flows, ordered by the finish tag of their first packet.
    heads: SlotHeap<Tag>,
}

impl<P: Packet> WfqQueue<P> {
    pub(super) fn new(config: Wfq, rate_bps: Option<NonZeroU64>) -> Self {
        Self { gps: Gps::new(rate_bps, config.weights), backlog: Backlog::new(), heads: SlotHeap::new() }
    }

    pub(super) fn set_rate(&mut self, now: Time, rate_bps: Option<NonZeroU64>) {
        self.gps.set_rate(now, rate_bps);
    }

    pub(super) fn len(&self) -> usize {
        self.backlog.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    pub(super) fn flow_len(&self, flow: u64) -> usize {
        self.backlog.slot_len(flow_slot(flow))
    }

    pub(super) fn push(&mut self, now: Time, packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        self.gps.advance(now);
        let slot = flow_slot(packet.flow());
        let size_bytes = packet.size_bytes();
        let (gps, heads) = (&mut self.gps, &mut self.heads);
        let has_room = self.backlog.make_room(limit, slot, size_bytes, |evicted| {
            gps.retract(evicted.slot, evicted.tag, cost_bytes(evicted.packet.size_bytes()));
            if evicted.emptied {
                heads.remove(evicted.slot);
            }
            on_drop(evicted.packet, DropCause::Full);
        });
        if !has_room {
            on_drop(packet, DropCause::Full);
            return;
        }
        let finish = self.gps.admit(slot, cost_bytes(size_bytes));
        if self.backlog.slot_len(slot) == 0 {
            self.heads.set(slot, finish);
        }
        self.backlog.push_back(slot, packet, finish);
    }

    pub(super) fn pop(&mut self) -> Option<P> {
        let (_, slot) = self.heads.peek()?;
        let (packet, _) = self.backlog.pop_front(slot)?;
        match self.backlog.front(slot) {
            Some((_, finish)) => self.heads.set(slot, finish),
            None => self.heads.remove(slot),
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests;
