//! Delivery times of received datagrams: immediately, in order, or in order with their original spacing.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use tokio::time::Instant;

use crate::limits::{PIPE_HELD_BYTES_MAX, PIPE_HELD_MAX};

/// Order and timing of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// In sending order: each datagram waits for earlier ones until they arrive or expire
    Kept,
    /// As they arrive: repaired datagrams may be overtaken
    Any,
    /// In sending order, each one deadline after it was sent, which preserves the spacing
    Steady,
}

/// Queue of datagrams awaiting delivery. Messages are numbered in sending order, without gaps.
#[derive(Debug)]
pub(super) struct Release {
    order: Order,
    within: Duration,
    /// Waiting datagrams, by number.
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// Times after which no datagram up to the given number can arrive; times rise with numbers. A number without an
    /// entry has the time of the next entry.
    over: BTreeMap<u64, Instant>,
    /// Entries of `over` visited so far.
    #[cfg(test)]
    looked_at: u64,
    /// Lowest number that may still be delivered.
    next: u64,
    /// Datagrams received so far.
    came: u64,
    overtaken: u64,
}

impl Release {
    /// Creates a queue for datagrams that expire `within` this time.
    pub(super) fn new(order: Order, within: Duration) -> Self {
        Self {
            order,
            within,
            held: BTreeMap::new(),
            held_bytes: 0,
            over: BTreeMap::new(),
            #[cfg(test)]
            looked_at: 0,
            next: 0,
            came: 0,
            overtaken: 0,
        }
    }

    /// Queues a datagram that arrived `now`, after a latency of `took`. A datagram whose successors have been delivered
    /// is dropped, except with `Any`. If the queue is full, the oldest datagrams are delivered early.
    pub(super) fn push(&mut self, now: Instant, id: u32, took: Duration, bytes: Vec<u8>) {
        let number = if self.order == Order::Any { self.came } else { self.number(id) };
        if number < self.next {
            self.overtaken += 1;
            return;
        }
        self.came += 1;
        self.held_bytes += bytes.len();
        self.note_over(number, now + self.within.saturating_sub(took));
        if let Some(other) = self.held.insert(number, bytes) {
            self.held_bytes -= other.len();
        }
    }

    /// Records that no datagram up to `number` can arrive after `over_at`: all earlier datagrams expire before it.
    /// Times therefore rise with numbers, and no datagram waits beyond its own expiry. Entries implied by the entry of
    /// a higher number are removed, so each datagram costs one insertion and one removal.
    fn note_over(&mut self, number: u64, over_at: Instant) {
        if self.order != Order::Any {
            if self.over.range(number..).next().is_some_and(|(_, &at)| at <= over_at) {
                return;
            }
            while let Some((&before, _)) = self.over.range(..number).next_back().filter(|&(_, &at)| at >= over_at) {
                self.over.remove(&before);
                self.look();
            }
        }
        self.over.insert(number, over_at);
        self.look();
    }

    fn look(&mut self) {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
    }

    /// Returns the full number of a message id, whose 32 bits wrap: the candidate nearest to the expected number.
    fn number(&self, id: u32) -> u64 {
        self.next.saturating_add_signed(i64::from(id.wrapping_sub(self.next as u32) as i32))
    }

    /// Returns the next datagram to deliver `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_full = self.held_bytes > PIPE_HELD_BYTES_MAX || self.held.len() > PIPE_HELD_MAX;
        if !is_full && self.next_timeout()? > now {
            return None;
        }
        let (number, bytes) = self.held.pop_first()?;
        self.held_bytes -= bytes.len();
        self.over.remove(&number);
        self.next = number + 1;
        Some(bytes)
    }

    /// Returns the time at which [`pop`](Self::pop) returns the next datagram; a past time means now.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let (&number, _) = self.held.first_key_value()?;
        let (_, &over_at) = self.over.range(number..).next()?;
        let is_next = self.order == Order::Any || (self.order == Order::Kept && number == self.next);
        // All messages have the same lifetime: at `over_at`, every earlier one has arrived or expired.
        Some(if is_next { over_at.checked_sub(self.within).unwrap_or(over_at) } else { over_at })
    }

    /// Returns the number of datagrams dropped because later ones had been delivered.
    pub(super) fn overtaken(&self) -> u64 {
        self.overtaken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Departures (ms, number) for given arrivals (ms, number, latency in ms).
    fn leave(order: Order, came: &[(u32, u32, u32)]) -> Vec<(u32, u8)> {
        let (start, mut release) = (Instant::now(), Release::new(order, 80 * MS));
        let mut left = Vec::new();
        for ms in 0..500 {
            let now = start + ms * MS;
            for &(_, id, took) in came.iter().filter(|&&(at, ..)| at == ms) {
                release.push(now, id, took * MS, vec![id as u8]);
            }
            left.extend(std::iter::from_fn(|| release.pop(now)).map(|bytes| (ms, bytes[0])));
        }
        left
    }

    /// Arrivals. Number 1 is repaired 50 ms later, number 3 never arrives.
    const CAME: [(u32, u32, u32); 4] = [(25, 0, 25), (33, 2, 25), (79, 1, 75), (41, 4, 25)];

    #[test]
    fn each_order_is_what_it_says() {
        assert_eq!(leave(Order::Any, &CAME), [(25, 0), (33, 2), (41, 4), (79, 1)]);
        assert_eq!(
            leave(Order::Kept, &CAME),
            [(25, 0), (79, 1), (79, 2), (96, 4)],
            "3 is given up when 4's time is over"
        );
        assert_eq!(leave(Order::Steady, &CAME), [(80, 0), (84, 1), (88, 2), (96, 4)]);
    }

    #[test]
    fn what_comes_after_its_successors_have_gone_is_dropped_and_counted() {
        let (start, mut release) = (Instant::now(), Release::new(Order::Kept, 80 * MS));
        release.push(start, 1, 80 * MS, vec![1]);
        assert_eq!(release.pop(start), Some(vec![1]));
        release.push(start + MS, 0, 80 * MS, vec![0]);
        assert_eq!((release.pop(start + 500 * MS), release.overtaken()), (None, 1));
    }

    #[test]
    fn what_is_held_has_a_limit() {
        let (start, mut release) = (Instant::now(), Release::new(Order::Kept, Duration::from_secs(3600)));
        for id in 1..=200 {
            release.push(start, id, Duration::ZERO, vec![0; 65_507]);
            while release.pop(start).is_some() {}
            assert!(release.held_bytes <= PIPE_HELD_BYTES_MAX, "after {id}");
        }
        let mut release = Release::new(Order::Steady, Duration::from_secs(3600));
        for id in 1..=PIPE_HELD_MAX as u32 + 10 {
            release.push(start, id, Duration::ZERO, Vec::new());
            while release.pop(start).is_some() {}
        }
        assert_eq!(release.held.len(), PIPE_HELD_MAX);
    }

    /// Attack: a peer chooses the order and lateness of its datagrams.
    #[test]
    fn a_datagram_costs_no_more_when_many_are_held() {
        for count in [100_u32, 60_000] {
            for took_of in [|id: u32| id, |id: u32| 60_000 - id, |id: u32| id % 977 * 61] {
                let (start, mut release) = (Instant::now(), Release::new(Order::Kept, Duration::from_secs(3600)));
                for id in 1..=count {
                    release.push(start, id, took_of(id) * MS, Vec::new());
                }
                assert!(release.looked_at <= 2 * u64::from(count), "{} for {count}", release.looked_at);
            }
        }
    }

    #[test]
    fn numbers_may_wrap() {
        let (now, mut release) = (Instant::now(), Release::new(Order::Kept, 80 * MS));
        release.next = u64::from(u32::MAX);
        for id in [0, u32::MAX, 1] {
            release.push(now, id, Duration::ZERO, id.to_be_bytes().to_vec());
        }
        let left: Vec<_> = std::iter::from_fn(|| release.pop(now)).collect();
        assert_eq!(left, [u32::MAX.to_be_bytes(), 0_u32.to_be_bytes(), 1_u32.to_be_bytes()]);
    }

    proptest! {
        /// Random datagrams: none is delivered twice, out of order, or later than its time.
        #[test]
        fn order_is_kept_and_nothing_waits_for_ever(
            steady: bool, came in proptest::collection::vec((0_u32..200, 0_u32..60, 0_u32..120), 1..60),
        ) {
            let mut seen = std::collections::BTreeSet::new();
            let came: Vec<_> = came.into_iter().filter(|&(_, id, _)| seen.insert(id)).collect();
            let left = leave(if steady { Order::Steady } else { Order::Kept }, &came);
            prop_assert!(left.windows(2).all(|pair| pair[0].1 < pair[1].1), "{:?}", left);
            for (at, id) in left {
                let &(arrived, _, _) = came.iter().find(|&&(_, of, _)| of == u32::from(id)).unwrap();
                prop_assert!(at >= arrived && at <= arrived + 80, "{} came at {}, left at {}", id, arrived, at);
            }
        }
    }
}
