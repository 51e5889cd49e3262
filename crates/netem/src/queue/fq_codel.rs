//! Flow queues with CoDel, RFC 8290.
//!
//! Flows are hashed into queues, each with its own CoDel. A queue that becomes busy is served before the others for one
//! quantum, and then joins them in a deficit round robin. If the limit is exceeded, the queue with the most bytes loses
//! packets from its head: half of its bytes, but at most one batch. CoDel considers the bytes of its own queue only.

use std::collections::VecDeque;

use dfcp_time::Time;

use super::DropCause;
use super::backlog::{Backlog, cost_bytes};
use super::codel::{Codel, Params, Served};
use super::discipline::{FqCodel, hash_slot};
use super::limit::QueueLimit;
use super::marker::Marker;
use crate::packet::Packet;
use crate::random::{Random, Stream};
use crate::stats::Count;

#[derive(Clone, Debug)]
pub(super) struct FqCodelQueue<P> {
    config: FqCodel,
    hash_key: u64,
    /// Packets, each tagged with its arrival time.
    backlog: Backlog<P, Time>,
    queues: Vec<FlowQueue>,
    new_queues: VecDeque<u32>,
    old_queues: VecDeque<u32>,
    /// Size of the largest packet seen, bytes.
    largest_bytes: u32,
    marker: Marker,
}

#[derive(Clone, Debug, Default)]
struct FlowQueue {
    deficit_bytes: i64,
    /// True if the queue, possibly empty, is in one of the two lists.
    listed: bool,
    codel: Codel,
}

impl<P: Packet> FqCodelQueue<P> {
    pub(super) fn new(config: FqCodel, seed: u64) -> Self {
        Self {
            config,
            hash_key: Random::new(seed, Stream::Queue).bits(),
            backlog: Backlog::new(),
            queues: vec![FlowQueue::default(); config.queues as usize],
            new_queues: VecDeque::new(),
            old_queues: VecDeque::new(),
            largest_bytes: 0,
            marker: Marker::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.backlog.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    pub(super) fn ce_marked(&self) -> Count {
        self.marker.marked()
    }

    pub(super) fn flow_len(&self, flow: u64) -> usize {
        self.backlog.slot_len(self.queue_of(flow))
    }

    pub(super) fn push(&mut self, now: Time, packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        let size_bytes = packet.size_bytes();
        if !self.backlog.can_hold(limit, size_bytes) {
            on_drop(packet, DropCause::Full);
            return;
        }
        let slot = self.queue_of(packet.flow());
        self.largest_bytes = self.largest_bytes.max(size_bytes);
        let queue = &mut self.queues[slot];
        if !queue.listed {
            queue.listed = true;
            queue.deficit_bytes = i64::from(self.config.quantum_bytes);
            self.new_queues.push_back(slot as u32);
        }
        self.backlog.push_back(slot, packet, now);
        while !limit.allows(self.backlog.len(), self.backlog.bytes()) {
            let Some(longest) = self.backlog.longest() else { return };
            self.drop_batch(longest, on_drop);
        }
    }

    pub(super) fn pop(&mut self, now: Time, on_drop: &mut impl FnMut(P, DropCause)) -> Option<P> {
        let FqCodel { target, interval, ecn, ce_threshold, .. } = self.config;
        let params = Params { target, interval, ecn, ce_threshold };
        loop {
            let is_new = !self.new_queues.is_empty();
            let list = if is_new { &mut self.new_queues } else { &mut self.old_queues };
            let slot = *list.front()?;
            let queue = &mut self.queues[slot as usize];
            if queue.deficit_bytes <= 0 {
                queue.deficit_bytes += i64::from(self.config.quantum_bytes);
                list.pop_front();
                self.old_queues.push_back(slot);
                continue;
            }
            let served = Served {
                backlog: &mut self.backlog,
                slot: slot as usize,
                largest_bytes: self.largest_bytes,
                marker: &mut self.marker,
            };
            let popped = queue.codel.pop(now, params, served, on_drop);
            if let Some(packet) = popped {
                queue.deficit_bytes -= i64::from(cost_bytes(packet.size_bytes()));
                return Some(packet);
            }
            // An empty new queue first joins the old ones. Otherwise a flow that offers each packet when the previous
            // one has left would always be new, and always served first.
            list.pop_front();
            if is_new && !self.old_queues.is_empty() {
                self.old_queues.push_back(slot);
            } else {
                queue.listed = false;
            }
        }
    }

    fn queue_of(&self, flow: u64) -> usize {
        hash_slot(flow, self.hash_key, self.config.queues)
    }

    fn drop_batch(&mut self, slot: usize, on_drop: &mut impl FnMut(P, DropCause)) {
        let half_bytes = self.backlog.slot_bytes(slot) / 2;
        for _ in 0..self.config.drop_batch_packets {
            let Some((packet, _)) = self.backlog.pop_front(slot) else { return };
            on_drop(packet, DropCause::Full);
            if self.backlog.slot_bytes(slot) <= half_bytes {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
