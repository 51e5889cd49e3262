//! Packets in flight: sent by the transmitter, not yet arrived.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use dfcp_time::Time;

/// Packets ordered by arrival time, FIFO among equals. Packets in order are in a plain queue; only packets held back
/// for reordering need the heap.
#[derive(Clone, Debug)]
pub(crate) struct Flight<P> {
    in_order: VecDeque<Traveller<P>>,
    held_back: BinaryHeap<Traveller<P>>,
    /// Arrival time of the last packet added in order. Later packets in order arrive no earlier.
    last_arrival: Time,
    next_number: u64,
}

#[derive(Clone, Debug)]
struct Traveller<P> {
    arrival: Time,
    /// Sequence number of departure, which breaks ties.
    number: u64,
    packet: P,
}

impl<P> Traveller<P> {
    fn key(&self) -> (Time, u64) {
        (self.arrival, self.number)
    }
}

/// Reversed order, because a [`BinaryHeap`] returns its greatest element first.
impl<P> Ord for Traveller<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<P> PartialOrd for Traveller<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Traveller<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Traveller<P> {}

impl<P> Flight<P> {
    pub(crate) fn new() -> Self {
        Self { in_order: VecDeque::new(), held_back: BinaryHeap::new(), last_arrival: Time::ZERO, next_number: 0 }
    }

    /// Returns the time at which a packet due at `arrival` arrives without overtaking packets in order.
    pub(crate) fn in_order_arrival(&self, arrival: Time) -> Time {
        arrival.max(self.last_arrival)
    }

    /// Adds a packet behind all other packets in order.
    pub(crate) fn add_in_order(&mut self, arrival: Time, packet: P) {
        let arrival = self.in_order_arrival(arrival);
        self.last_arrival = arrival;
        let number = self.take_number();
        self.in_order.push_back(Traveller { arrival, number, packet });
    }

    /// Adds a packet that other packets may overtake.
    pub(crate) fn add_held_back(&mut self, arrival: Time, packet: P) {
        let number = self.take_number();
        self.held_back.push(Traveller { arrival, number, packet });
    }

    /// Returns the time of the next arrival; `None` without packets.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        let in_order = self.in_order.front().map(|traveller| traveller.arrival);
        match self.held_back.peek() {
            Some(late) => Some(in_order.map_or(late.arrival, |at| at.min(late.arrival))),
            None => in_order,
        }
    }

    /// Returns the last arrival time up to `end`, of packets in order only.
    pub(crate) fn last_arrival_until(&self, end: Time) -> Option<Time> {
        let arrived = self.in_order.partition_point(|traveller| traveller.arrival <= end);
        self.in_order.get(arrived.checked_sub(1)?).map(|traveller| traveller.arrival)
    }

    /// Returns true if a packet in order arrives after `end`.
    pub(crate) fn has_arrival_after(&self, end: Time) -> bool {
        self.in_order.back().is_some_and(|last| last.arrival > end)
    }

    /// Removes the next packet if it arrives by `now`, and returns it with its arrival time.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, P)> {
        if self.held_back.is_empty() {
            self.in_order.front().filter(|first| first.arrival <= now)?;
            return self.in_order.pop_front().map(|first| (first.arrival, first.packet));
        }
        let in_order = self.in_order.front().map(Traveller::key);
        let held_back = self.held_back.peek().map(Traveller::key);
        let held_back_first = match (in_order, held_back) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(in_order), Some(held_back)) => held_back < in_order,
        };
        let (arrival, _) = if held_back_first { held_back? } else { in_order? };
        if arrival > now {
            return None;
        }
        let traveller = if held_back_first { self.held_back.pop() } else { self.in_order.pop_front() };
        traveller.map(|traveller| (arrival, traveller.packet))
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
