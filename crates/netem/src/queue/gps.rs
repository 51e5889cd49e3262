//! Generalised processor sharing: the ideal fluid server on which weighted fair queueing is based.
//!
//! The fluid server serves all flows with work simultaneously, at rates proportional to their weights. Its virtual time
//! V advances at C / Σ weights, summed over the flows that have work *in the fluid server* (A. Parekh and R. Gallager,
//! "A Generalized Processor Sharing Approach to Flow Control", IEEE/ACM Transactions on Networking 1(3), 1993). The
//! slope changes whenever such a flow runs out of work, which may be long before or after its last packet leaves the
//! real link. A packet of L bits that a flow of weight w offers at virtual time V starts at S = max(V, finish of the
//! flow's previous packet), and finishes at F = S + L/w. F does not depend on later packets, so the order of finishing
//! is known on arrival.

use std::num::NonZeroU64;

use dfcp_time::{Time, duration_ns};

use super::discipline::weight_of;
use super::heap::SlotHeap;
use super::make_slot;

/// Fractional bits of virtual time. Work is counted in bit·ns/s, of which a rate of R bit/s does R per nanosecond.
/// Virtual time is work per unit of weight, in steps of 2⁻¹⁶. With integers, equal claims have equal tags, and 128 bits
/// last for centuries.
const FRACTION_BITS: u32 = 16;
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// Virtual time at which the fluid server finishes a packet.
pub(super) type Tag = u128;

#[derive(Clone, Debug)]
pub(super) struct Gps {
    /// Service rate, bit/s; `None` to serve instantly.
    rate_bps: Option<NonZeroU64>,
    weights: Vec<u16>,
    /// Time of the last update of `virtual_time`.
    updated: Time,
    virtual_time: Tag,
    /// Finish tag of the last packet of each flow.
    finishes: Vec<Tag>,
    /// Flows that have work in the fluid server, ordered by the virtual time at which it ends.
    busy: SlotHeap<Tag>,
    busy_weight: u128,
}

impl Gps {
    pub(super) fn new(rate_bps: Option<NonZeroU64>, weights: Vec<u16>) -> Self {
        Self {
            rate_bps,
            weights,
            updated: Time::ZERO,
            virtual_time: 0,
            finishes: Vec::new(),
            busy: SlotHeap::new(),
            busy_weight: 0,
        }
    }

    pub(super) fn set_rate(&mut self, now: Time, rate_bps: Option<NonZeroU64>) {
        self.advance(now);
        self.rate_bps = rate_bps;
    }

    /// Advances the fluid server to `now`.
    pub(super) fn advance(&mut self, now: Time) {
        let elapsed_ns = duration_ns(now - self.updated);
        self.updated = self.updated.max(now);
        let mut work = self.rate_bps.map_or(u128::MAX, |rate| u128::from(elapsed_ns) * u128::from(rate.get()));
        while let Some((finish, slot)) = self.busy.peek() {
            let needed = (finish - self.virtual_time).saturating_mul(self.busy_weight).div_ceil(1 << FRACTION_BITS);
            if needed > work {
                // `needed` is below 2¹¹² and exceeds `work`, so the shift cannot overflow.
                self.virtual_time += (work << FRACTION_BITS) / self.busy_weight;
                return;
            }
            work -= needed;
            self.virtual_time = finish;
            self.leave(slot);
        }
    }

    /// Adds a packet to the fluid server at the time of the last [`advance`](Self::advance), and returns its finish
    /// tag.
    pub(super) fn admit(&mut self, slot: usize, cost_bytes: u32) -> Tag {
        let service = self.service(slot, cost_bytes);
        let last = make_slot(&mut self.finishes, slot);
        *last = self.virtual_time.max(*last).saturating_add(service);
        let finish = *last;
        if !self.busy.contains(slot) {
            self.busy_weight += u128::from(weight_of(&self.weights, slot));
        }
        self.busy.set(slot, finish);
        finish
    }

    /// Removes the unserved rest of a flow's last packet after the real queue dropped the packet.
    pub(super) fn retract(&mut self, slot: usize, finish: Tag, cost_bytes: u32) {
        let start = finish.saturating_sub(self.service(slot, cost_bytes));
        let end = start.max(self.virtual_time.min(finish));
        self.finishes[slot] = end;
        if end > self.virtual_time {
            self.busy.set(slot, end);
        } else if self.busy.contains(slot) {
            self.leave(slot);
        }
    }

    /// Returns the virtual time that the fluid server needs for a packet.
    fn service(&self, slot: usize, cost_bytes: u32) -> Tag {
        ((u128::from(cost_bytes) * WORK_PER_BYTE) << FRACTION_BITS) / u128::from(weight_of(&self.weights, slot))
    }

    fn leave(&mut self, slot: usize) {
        self.busy.remove(slot);
        self.busy_weight -= u128::from(weight_of(&self.weights, slot));
    }
}
