//! Controlled delay, RFC 8289: drops from the head of one queue once its packets have waited too long for too long.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use super::DropCause;
use super::backlog::Backlog;
use crate::packet::Packet;

/// After this many intervals without a drop, what was learnt about the rate of drops is forgotten.
const MEMORY_INTERVALS: u32 = 16;

/// The two constants of the algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// Waiting time which is acceptable as a standing one.
    pub(super) target: Duration,
    /// How long the waiting time must stay above it: about the longest round trip through the queue.
    pub(super) interval: Duration,
}

/// CoDel's state for one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Codel {
    /// When the waiting time will have been above target for an interval; `None` while it is below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since the dropping state was entered.
    count: u32,
    /// `count` when the dropping state was last entered.
    last_count: u32,
}

/// A packet taken from the queue, and whether the waiting time has been above target for long enough.
struct Taken<P> {
    packet: Option<P>,
    may_drop: bool,
}

impl Codel {
    /// The next packet of the queue in `slot`, whose packets are tagged with their arrival, after the drops due before
    /// it. A queue with no more than `largest_bytes` behind the packet in hand (the largest packet there is) is left
    /// alone, so dropping never empties it.
    pub(super) fn pop<P: Packet>(
        &mut self,
        now: Time,
        params: Params,
        largest_bytes: u32,
        backlog: &mut Backlog<P, Time>,
        slot: usize,
        on_drop: &mut impl FnMut(P, DropCause),
    ) -> Option<P> {
        let mut taken = self.take(now, params, largest_bytes, backlog, slot);
        if self.dropping {
            self.dropping = taken.may_drop;
            while self.dropping && now >= self.drop_next {
                drop_taken(taken, on_drop);
                self.count = self.count.saturating_add(1);
                taken = self.take(now, params, largest_bytes, backlog, slot);
                if taken.may_drop {
                    self.drop_next = control_law(self.drop_next, params.interval, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if taken.may_drop {
            drop_taken(taken, on_drop);
            taken = self.take(now, params, largest_bytes, backlog, slot);
            self.dropping = true;
            // Shortly after the last time, the rate of drops which was needed then is a good start.
            let gained = self.count.saturating_sub(self.last_count);
            let is_recent = now - self.drop_next < params.interval.saturating_mul(MEMORY_INTERVALS);
            self.count = if gained > 1 && is_recent { gained } else { 1 };
            self.last_count = self.count;
            self.drop_next = control_law(now, params.interval, self.count);
        }
        taken.packet
    }

    fn take<P: Packet>(
        &mut self,
        now: Time,
        params: Params,
        largest_bytes: u32,
        backlog: &mut Backlog<P, Time>,
        slot: usize,
    ) -> Taken<P> {
        let Some((packet, arrival)) = backlog.pop_front(slot) else {
            self.first_above = None;
            return Taken { packet: None, may_drop: false };
        };
        let is_short = now - arrival < params.target || backlog.slot_bytes(slot) <= u64::from(largest_bytes);
        let may_drop = match self.first_above {
            _ if is_short => {
                self.first_above = None;
                false
            }
            None => {
                self.first_above = Some(now + params.interval);
                false
            }
            Some(first_above) => now >= first_above,
        };
        Taken { packet: Some(packet), may_drop }
    }
}

fn drop_taken<P>(taken: Taken<P>, on_drop: &mut impl FnMut(P, DropCause)) {
    if let Some(packet) = taken.packet {
        on_drop(packet, DropCause::Early);
    }
}

/// The next drop comes an interval divided by √count later: the throughput of a loss-controlled sender goes with the
/// inverse square root of its losses, so this lowers it linearly.
fn control_law(time: Time, interval: Duration, count: u32) -> Time {
    // The square root is rounded correctly on every platform, so the result is the same everywhere.
    time + Duration::from_nanos((duration_ns(interval) as f64 / f64::from(count.max(1)).sqrt()) as u64)
}

#[cfg(test)]
mod tests;
