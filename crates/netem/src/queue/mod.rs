//! Queues: a discipline selects the packet to send next, and the packet to drop.
//!
//! A [`Queue`] holds the packets that wait for a transmitter. A [`Link`](crate::Link) contains one. A simulator with
//! its own transmitters may use a queue alone:
//!
//! - a packet that finds the transmitter idle goes through [`pass`](Queue::pass), any other packet through
//!   [`push`](Queue::push);
//! - when the transmitter has sent a packet, [`pop`](Queue::pop) returns the next one. `None` means that the
//!   transmitter becomes idle.
//!
//! A packet, dropped or not, costs O(1) with DropTail and RED, and O(log flows) with other disciplines, provided that
//! the quantum is at least the largest packet. No memory is allocated in steady state. Only SFQ's perturbation is more
//! expensive: it moves all queued packets.
//!
//! ```
//! use dfcp_netem::{Datagram, Discipline, Drr, Queue, QueueLimit};
//! use dfcp_time::Time;
//!
//! let packet = |flow| Datagram { bytes: vec![0u8; 1500], flow, ..Datagram::<()>::default() };
//! let mut queue = Queue::new(Discipline::Drr(Drr::default()), QueueLimit::packets(3), None, 1)?;
//! let mut dropped = Vec::new();
//! for flow in [0, 0, 0, 1] {
//!     queue.push(Time::ZERO, packet(flow), &mut |packet, _cause| dropped.push(packet.flow));
//! }
//! // Flow 0 has filled the queue, so it makes room for flow 1; then they take turns.
//! assert_eq!(dropped, [0]);
//! let sent: Vec<u64> =
//!     std::iter::from_fn(|| queue.pop(Time::ZERO, &mut |_, _| {})).map(|packet| packet.flow).collect();
//! assert_eq!(sent, [0, 1, 0]);
//! # Ok::<(), dfcp_netem::ConfigError>(())
//! ```

mod backlog;
mod codel;
mod discipline;
mod drop_tail;
mod drr;
mod fq_codel;
mod gps;
mod heap;
mod limit;
mod marker;
mod red;
mod sfq;
mod wfq;

use dfcp_time::Time;

pub use self::discipline::{
    Discipline, Drr, FLOWS_MAX, FqCodel, QUANTUM_BYTES_DEFAULT, QUANTUM_BYTES_MIN, Red, RedUnit, Sfq, Wfq,
};
use self::drop_tail::DropTailQueue;
use self::drr::DrrQueue;
use self::fq_codel::FqCodelQueue;
pub use self::limit::{QUEUE_PACKETS_DEFAULT, QueueLimit};
use self::red::RedQueue;
use self::sfq::SfqQueue;
use self::wfq::WfqQueue;
use crate::error::{ConfigError, checked_rate};
use crate::packet::Packet;
use crate::stats::Count;

/// No limit, for a packet that passes an idle transmitter.
const UNLIMITED: QueueLimit = QueueLimit { packets: None, bytes: None };

/// Reason for a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The queue was full.
    Full,
    /// RED's average or CoDel's sojourn time required a drop, although the queue was not full.
    Early,
}

/// Packets that wait for a transmitter, under a [`Discipline`] and a [`QueueLimit`]. The same parameters, seed and
/// sequence of calls give the same results on every machine. Times must not run backwards.
#[derive(Clone, Debug)]
pub struct Queue<P> {
    limit: QueueLimit,
    scheduler: Scheduler<P>,
}

/// All variants except DropTail are boxed, because they are several times larger, and a simulator has hundreds of
/// DropTail queues.
#[derive(Clone, Debug)]
enum Scheduler<P> {
    DropTail(DropTailQueue<P>),
    Drr(Box<DrrQueue<P>>),
    Sfq(Box<SfqQueue<P>>),
    Wfq(Box<WfqQueue<P>>),
    FqCodel(Box<FqCodelQueue<P>>),
    Red(Box<RedQueue<P>>),
}

impl<P: Packet> Queue<P> {
    /// Creates an empty queue. `rate_bps` is the transmitter's rate, which WFQ needs for its fluid model, and RED for
    /// the decay of its average on an idle link. Without it, both assume an infinite rate, and WFQ becomes FIFO. `seed`
    /// determines the hash functions of SFQ and FQ-CoDel, and RED's drops. With an unlimited `limit`, the caller must
    /// bound memory.
    ///
    /// # Errors
    /// Fails if a parameter of `discipline` is invalid or the rate is zero: see [`ConfigError`].
    pub fn new(
        discipline: Discipline,
        limit: QueueLimit,
        rate_bps: Option<u64>,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        discipline.validate()?;
        let rate_bps = checked_rate(rate_bps)?;
        let scheduler = match discipline {
            Discipline::DropTail => Scheduler::DropTail(DropTailQueue::new()),
            Discipline::Drr(drr) => Scheduler::Drr(Box::new(DrrQueue::new(drr))),
            Discipline::Sfq(sfq) => Scheduler::Sfq(Box::new(SfqQueue::new(sfq, seed))),
            Discipline::Wfq(wfq) => Scheduler::Wfq(Box::new(WfqQueue::new(wfq, rate_bps))),
            Discipline::FqCodel(fq_codel) => Scheduler::FqCodel(Box::new(FqCodelQueue::new(fq_codel, seed))),
            Discipline::Red(red) => Scheduler::Red(Box::new(RedQueue::new(red, rate_bps, seed))),
        };
        Ok(Self { limit, scheduler })
    }

    /// Offers a packet. `on_drop` receives every packet that is dropped as a result: the offered packet or others.
    pub fn push(&mut self, now: Time, packet: P, on_drop: &mut impl FnMut(P, DropCause)) {
        self.push_within(now, packet, self.limit, on_drop);
    }

    /// Offers a packet to an idle transmitter, and returns the packet to send now: the offered one, unless others wait.
    /// The limit does not apply, but the discipline counts the packet, and RED may drop it.
    pub fn pass(&mut self, now: Time, packet: P, on_drop: &mut impl FnMut(P, DropCause)) -> Option<P> {
        match &self.scheduler {
            // With these disciplines, a packet that passes an empty queue leaves no trace.
            Scheduler::DropTail(queue) if queue.len() == 0 => return Some(packet),
            Scheduler::Drr(queue) if queue.is_idle() => return Some(packet),
            _ => {}
        }
        self.push_within(now, packet, UNLIMITED, on_drop);
        self.pop(now, on_drop)
    }

    /// Removes and returns the next packet to send; `None` if the queue is empty, so that the transmitter becomes idle.
    /// `on_drop` receives the packets that CoDel drops before it.
    pub fn pop(&mut self, now: Time, on_drop: &mut impl FnMut(P, DropCause)) -> Option<P> {
        match &mut self.scheduler {
            Scheduler::DropTail(queue) => queue.pop(),
            Scheduler::Drr(queue) => queue.pop(),
            Scheduler::Sfq(queue) => queue.pop(now),
            Scheduler::Wfq(queue) => queue.pop(),
            Scheduler::FqCodel(queue) => queue.pop(now, on_drop),
            Scheduler::Red(queue) => queue.pop(now),
        }
    }

    /// Changes the transmitter's rate.
    ///
    /// # Errors
    /// Fails if the rate is zero; the queue is then unchanged.
    pub fn set_rate_bps(&mut self, now: Time, rate_bps: Option<u64>) -> Result<(), ConfigError> {
        let rate_bps = checked_rate(rate_bps)?;
        match &mut self.scheduler {
            Scheduler::Wfq(queue) => queue.set_rate(now, rate_bps),
            Scheduler::Red(queue) => queue.set_rate(now, rate_bps),
            Scheduler::DropTail(_) | Scheduler::Drr(_) | Scheduler::Sfq(_) | Scheduler::FqCodel(_) => (),
        }
        Ok(())
    }

    /// Returns the number of queued packets.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.scheduler {
            Scheduler::DropTail(queue) => queue.len(),
            Scheduler::Drr(queue) => queue.len(),
            Scheduler::Sfq(queue) => queue.len(),
            Scheduler::Wfq(queue) => queue.len(),
            Scheduler::FqCodel(queue) => queue.len(),
            Scheduler::Red(queue) => queue.len(),
        }
    }

    /// Returns packets and bytes marked with CE so far.
    #[must_use]
    pub fn ce_marked(&self) -> Count {
        match &self.scheduler {
            Scheduler::FqCodel(queue) => queue.ce_marked(),
            Scheduler::Red(queue) => queue.ce_marked(),
            Scheduler::DropTail(_) | Scheduler::Drr(_) | Scheduler::Sfq(_) | Scheduler::Wfq(_) => Count::default(),
        }
    }

    /// Returns true if no packet is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of queued bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.scheduler {
            Scheduler::DropTail(queue) => queue.bytes(),
            Scheduler::Drr(queue) => queue.bytes(),
            Scheduler::Sfq(queue) => queue.bytes(),
            Scheduler::Wfq(queue) => queue.bytes(),
            Scheduler::FqCodel(queue) => queue.bytes(),
            Scheduler::Red(queue) => queue.bytes(),
        }
    }

    /// Returns the number of packets in the queue of `flow`, which other flows may share by hashing. `None` for
    /// DropTail and RED, which have no flow queues.
    #[must_use]
    pub fn flow_len(&self, flow: u64) -> Option<usize> {
        match &self.scheduler {
            Scheduler::DropTail(_) | Scheduler::Red(_) => None,
            Scheduler::Drr(queue) => Some(queue.flow_len(flow)),
            Scheduler::Sfq(queue) => Some(queue.flow_len(flow)),
            Scheduler::Wfq(queue) => Some(queue.flow_len(flow)),
            Scheduler::FqCodel(queue) => Some(queue.flow_len(flow)),
        }
    }

    fn push_within(&mut self, now: Time, packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        match &mut self.scheduler {
            Scheduler::DropTail(queue) => queue.push(packet, limit, on_drop),
            Scheduler::Drr(queue) => queue.push(packet, limit, on_drop),
            Scheduler::Sfq(queue) => queue.push(now, packet, limit, on_drop),
            Scheduler::Wfq(queue) => queue.push(now, packet, limit, on_drop),
            Scheduler::FqCodel(queue) => queue.push(now, packet, limit, on_drop),
            Scheduler::Red(queue) => queue.push(now, packet, limit, on_drop),
        }
    }
}

/// Returns the state of a slot. The table grows to the highest slot used.
fn make_slot<T: Clone + Default>(table: &mut Vec<T>, slot: usize) -> &mut T {
    if slot >= table.len() {
        table.resize(slot + 1, T::default());
    }
    &mut table[slot]
}

#[cfg(test)]
mod tests;
