//! Controlled delay (CoDel, RFC 8289): drops from the head of one queue once its sojourn time has been too long for an
//! interval. If enabled, ECN-capable packets are marked instead, by the rules of Linux (`codel_dequeue`). A marked
//! packet is sent, so each packet gives at most one of several overdue signals.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use super::DropCause;
use super::backlog::Backlog;
use super::marker::Marker;
use crate::packet::Packet;

/// Intervals without a drop after which the learnt drop rate is forgotten.
const MEMORY_INTERVALS: u32 = 16;

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// Acceptable standing sojourn time.
    pub(super) target: Duration,
    /// Time for which the sojourn time must exceed the target: about the longest RTT through the queue.
    pub(super) interval: Duration,
    /// Mark instead of dropping.
    pub(super) ecn: bool,
    /// Sojourn time above which packets are marked at once.
    pub(super) ce_threshold: Option<Duration>,
}

/// Queue under service in `slot`, whose packets are tagged with their arrival. CoDel drops nothing while at most
/// `largest_bytes` (the size of the largest packet) remain behind the current packet, so dropping never empties the
/// queue.
pub(super) struct Served<'a, P> {
    pub(super) backlog: &'a mut Backlog<P, Time>,
    pub(super) slot: usize,
    pub(super) largest_bytes: u32,
    pub(super) marker: &'a mut Marker,
}

/// CoDel's state for one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Codel {
    /// Time at which the sojourn time will have exceeded the target for an interval; `None` while it is below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since the dropping state was entered.
    count: u32,
    /// `count` when the dropping state was last entered.
    last_count: u32,
}

/// Dequeued packet, and true if the sojourn time has exceeded the target long enough.
struct Taken<P> {
    packet: Option<P>,
    may_drop: bool,
    waited: Duration,
    is_marked: bool,
}

impl<P: Packet> Taken<P> {
    fn mark(&mut self, marker: &mut Marker) -> bool {
        let packet = self.packet.as_mut().filter(|_| !self.is_marked);
        self.is_marked |= packet.is_some_and(|packet| marker.mark(packet));
        self.is_marked
    }
}

impl Codel {
    /// Next packet of the queue, after the drops that are due.
    pub(super) fn pop<P: Packet>(
        &mut self,
        now: Time,
        params: Params,
        mut queue: Served<'_, P>,
        on_drop: &mut impl FnMut(P, DropCause),
    ) -> Option<P> {
        let mut taken = self.take(now, params, &mut queue);
        if self.dropping {
            self.dropping = taken.may_drop;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if params.ecn && taken.mark(queue.marker) {
                    self.drop_next = control_law(self.drop_next, params.interval, self.count);
                    break;
                }
                drop_taken(taken, on_drop);
                taken = self.take(now, params, &mut queue);
                if taken.may_drop {
                    self.drop_next = control_law(self.drop_next, params.interval, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if taken.may_drop {
            if !(params.ecn && taken.mark(queue.marker)) {
                drop_taken(taken, on_drop);
                taken = self.take(now, params, &mut queue);
            }
            self.dropping = true;
            // Soon after the last dropping state, its drop rate is a good start.
            let gained = self.count.saturating_sub(self.last_count);
            let is_recent = now - self.drop_next < params.interval.saturating_mul(MEMORY_INTERVALS);
            self.count = if gained > 1 && is_recent { gained } else { 1 };
            self.last_count = self.count;
            self.drop_next = control_law(now, params.interval, self.count);
        }
        if params.ce_threshold.is_some_and(|threshold| taken.waited > threshold) {
            taken.mark(queue.marker);
        }
        taken.packet
    }

    fn take<P: Packet>(&mut self, now: Time, params: Params, queue: &mut Served<'_, P>) -> Taken<P> {
        let Some((packet, arrival)) = queue.backlog.pop_front(queue.slot) else {
            self.first_above = None;
            return Taken { packet: None, may_drop: false, waited: Duration::ZERO, is_marked: false };
        };
        let waited = now - arrival;
        let is_short = waited < params.target || queue.backlog.slot_bytes(queue.slot) <= u64::from(queue.largest_bytes);
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
        Taken { packet: Some(packet), may_drop, waited, is_marked: false }
    }
}

fn drop_taken<P>(taken: Taken<P>, on_drop: &mut impl FnMut(P, DropCause)) {
    if let Some(packet) = taken.packet {
        on_drop(packet, DropCause::Early);
    }
}

/// Time of the next drop: an interval divided by √count later. A loss-controlled sender's throughput follows the
/// inverse square root of its loss rate, so this spacing lowers the throughput linearly.
fn control_law(time: Time, interval: Duration, count: u32) -> Time {
    // The square root is correctly rounded on every platform, so results are reproducible.
    time + Duration::from_nanos((duration_ns(interval) as f64 / f64::from(count.max(1)).sqrt()) as u64)
}

#[cfg(test)]
mod tests;
