//! Controlled delay (CoDel, RFC 8289): drops packets at the head of a queue after their sojourn time has exceeded a
//! target for an interval. If enabled, ECN-capable packets are marked instead, by the rules of Linux (`codel_dequeue`):
//! a marked packet is sent, so that only one of several overdue signals is given per packet.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use super::DropCause;
use super::backlog::Backlog;
use super::marker::Marker;
use crate::packet::Packet;

/// Time without drops, in intervals, after which the previous drop rate is forgotten.
const MEMORY_INTERVALS: u32 = 16;

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// Acceptable sojourn time of a standing queue.
    pub(super) target: Duration,
    /// Time for which the sojourn time must exceed the target before the first drop: about the longest RTT of flows in
    /// the queue.
    pub(super) interval: Duration,
    /// True to mark ECN-capable packets instead of dropping them.
    pub(super) ecn: bool,
    /// Sojourn time above which every ECN-capable packet is marked; `None` for no such threshold.
    pub(super) ce_threshold: Option<Duration>,
}

/// Queue that CoDel serves: list `slot` of `backlog`, in which each packet has its arrival time as tag. CoDel does not
/// drop the current packet if at most `largest_bytes` (the largest packet size seen) remain behind it, so that the
/// queue never runs empty by drops.
pub(super) struct Served<'a, P> {
    pub(super) backlog: &'a mut Backlog<P, Time>,
    pub(super) slot: usize,
    pub(super) largest_bytes: u32,
    pub(super) marker: &'a mut Marker,
}

/// CoDel's state for one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Codel {
    /// Time at which the sojourn time will have exceeded the target for an interval. `None` while it is below the
    /// target.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Number of drops since CoDel entered the dropping state.
    count: u32,
    /// Value of `count` when CoDel last entered the dropping state.
    last_count: u32,
}

/// A dequeued packet. `may_drop` is true if the sojourn time has exceeded the target for an interval.
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
    /// Removes and returns the next packet of the queue, after dropping packets as the control law requires.
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
            // If the last dropping state ended recently, continue with its drop rate.
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

/// Returns the time of the next drop: an interval divided by √count after `time`. The throughput of a loss-based sender
/// follows the inverse square root of its loss rate, so this schedule reduces it linearly.
fn control_law(time: Time, interval: Duration, count: u32) -> Time {
    // IEEE square roots are correctly rounded on every platform, so results are reproducible.
    time + Duration::from_nanos((duration_ns(interval) as f64 / f64::from(count.max(1)).sqrt()) as u64)
}

#[cfg(test)]
mod tests;
