//! Stochastic fair queueing.
//!
//! P. McKenney, "Stochastic Fairness Queueing", IEEE INFOCOM 1990, in the variant of Linux's `sch_sfq`. Flows are
//! hashed into buckets, which take turns of one quantum each. A bucket sends while its allotment is positive, and
//! carries the overdraft of its last packet over to its next turn. A full queue drops from the longest bucket, which is
//! the one with the most bytes; Linux counts packets. When the hash function changes, queued packets move to their new
//! buckets, so that each flow's packets stay in order.

use std::collections::VecDeque;

use dfcp_time::Time;

use super::DropCause;
use super::backlog::{Backlog, cost_bytes};
use super::discipline::{Sfq, hash_slot};
use super::limit::QueueLimit;
use crate::packet::Packet;
use crate::random::{Random, Stream};

#[derive(Clone, Debug)]
pub(super) struct SfqQueue<P> {
    config: Sfq,
    random: Random,
    hash_key: u64,
    next_perturbation: Option<Time>,
    backlog: Backlog<P, ()>,
    buckets: Vec<Bucket>,
    /// Buckets in order of service. A bucket whose packets were all dropped remains until its turn.
    active: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Bytes that the bucket may still send in this turn; negative after an overdraft.
    allotment_bytes: i64,
    /// True if the bucket is in `active`.
    listed: bool,
}

impl<P: Packet> SfqQueue<P> {
    pub(super) fn new(config: Sfq, seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Queue);
        Self {
            hash_key: random.bits(),
            random,
            next_perturbation: config.perturbation.map(|interval| Time::ZERO + interval),
            backlog: Backlog::new(),
            buckets: vec![Bucket::default(); config.buckets as usize],
            active: VecDeque::new(),
            config,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.backlog.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    pub(super) fn flow_len(&self, flow: u64) -> usize {
        self.backlog.slot_len(self.bucket_of(flow))
    }

    pub(super) fn push(&mut self, now: Time, packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        self.perturb(now);
        let slot = self.bucket_of(packet.flow());
        let has_room = self.backlog.make_room(limit, slot, packet.size_bytes(), |evicted| {
            on_drop(evicted.packet, DropCause::Full);
        });
        if has_room {
            self.append(slot, packet);
        } else {
            on_drop(packet, DropCause::Full);
        }
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<P> {
        self.perturb(now);
        loop {
            let slot = *self.active.front()? as usize;
            if self.backlog.slot_len(slot) == 0 {
                self.retire(slot);
                continue;
            }
            let bucket = &mut self.buckets[slot];
            if bucket.allotment_bytes <= 0 {
                bucket.allotment_bytes += i64::from(self.config.quantum_bytes);
                self.active.rotate_left(1);
                continue;
            }
            let (packet, ()) = self.backlog.pop_front(slot)?;
            bucket.allotment_bytes -= i64::from(cost_bytes(packet.size_bytes()));
            if self.backlog.slot_len(slot) == 0 {
                self.retire(slot);
            }
            return Some(packet);
        }
    }

    fn bucket_of(&self, flow: u64) -> usize {
        hash_slot(flow, self.hash_key, self.config.buckets)
    }

    fn append(&mut self, slot: usize, packet: P) {
        let bucket = &mut self.buckets[slot];
        if !bucket.listed {
            *bucket = Bucket { allotment_bytes: i64::from(self.config.quantum_bytes), listed: true };
            self.active.push_back(slot as u32);
        }
        self.backlog.push_back(slot, packet, ());
    }

    fn retire(&mut self, slot: usize) {
        self.active.pop_front();
        self.buckets[slot] = Bucket::default();
    }

    /// Changes the hash function if due, and moves all queued packets to their new buckets. Packets are taken bucket by
    /// bucket from the head, so that each flow keeps its order.
    fn perturb(&mut self, now: Time) {
        let (Some(interval), Some(due)) = (self.config.perturbation, self.next_perturbation) else { return };
        if now < due {
            return;
        }
        // At the end of time the sum saturates, and no further change follows.
        self.next_perturbation = Some(now + interval).filter(|&next| next > now);
        self.hash_key = self.random.bits();
        let mut waiting = Vec::with_capacity(self.backlog.len());
        while let Some(&slot) = self.active.front() {
            while let Some((packet, ())) = self.backlog.pop_front(slot as usize) {
                waiting.push(packet);
            }
            self.retire(slot as usize);
        }
        for packet in waiting {
            self.append(self.bucket_of(packet.flow()), packet);
        }
    }
}

#[cfg(test)]
mod tests;
