//! Limit on the size of a batch while the socket, not the pacer, limits the rate.

use dfcp_time::Time;

use crate::limits;

/// Limit on segments per call. A batch is encoded before it leaves, and may be out of date by then: a flood would send
/// whole batches of segments whose block the peer has meanwhile decoded. So a full socket gets as many segments per
/// call as it drains in one [`limits::SLOT`]. A socket that was not full lately has no limit.
#[derive(Debug)]
pub(super) struct BatchLimit {
    segments_max: usize,
    /// Time at which the socket was full, and the number of segments it has taken since.
    full: Option<(Time, u64)>,
}

impl BatchLimit {
    pub(super) fn new() -> Self {
        Self { segments_max: usize::MAX, full: None }
    }

    pub(super) fn segments_max(&self) -> usize {
        self.segments_max
    }

    /// Records that the socket has taken `segments`.
    pub(super) fn on_taken(&mut self, segments: u64) {
        if let Some((_, taken)) = &mut self.full {
            *taken += segments;
        }
    }

    /// Records that the socket is full. If it was full before, the segments taken since then have left, which gives its
    /// drain rate.
    pub(super) fn on_full(&mut self, now: Time) {
        let Some((since, taken)) = self.full else {
            self.full = Some((now, 0));
            return;
        };
        let elapsed = now.since(since);
        if elapsed >= limits::DRAIN_MEASURED_MIN {
            let in_slot = u128::from(taken) * limits::SLOT.as_nanos() / elapsed.as_nanos();
            self.segments_max = usize::try_from(in_slot).unwrap_or(usize::MAX).max(1);
            self.full = Some((now, 0));
        }
    }

    /// Removes the limit if the socket was last full more than `DRAIN_VALID` before `now`, as the measurement is out of
    /// date.
    pub(super) fn expire(&mut self, now: Time) {
        if self.full.is_some_and(|(since, _)| now.since(since) > limits::DRAIN_VALID) {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Simulates a second of a socket that drains `segments_per_s` and holds `room` segments, filled by batches up to
    /// the limit. Returns the final limit.
    fn limit_behind(segments_per_s: u64, room: u64) -> usize {
        let mut limit = BatchLimit::new();
        let (mut now, mut held_ns) = (Time::from_s(1), 0);
        let segment_ns = 1_000_000_000 / segments_per_s;
        while now < Time::from_s(2) {
            limit.expire(now);
            if held_ns / segment_ns >= room {
                limit.on_full(now);
                // Linux wakes a sender when half of the room is free.
                let wait_ns = held_ns - room * segment_ns / 2;
                now += Duration::from_nanos(wait_ns);
                held_ns -= wait_ns;
            } else {
                let batch = limit.segments_max().min(43) as u64;
                limit.on_taken(batch);
                held_ns += batch * segment_ns;
            }
        }
        limit.segments_max()
    }

    #[test]
    fn a_full_socket_is_given_what_it_takes_in_a_slot() {
        // 100 Mbit/s, 1 Gbit/s and 10 Gbit/s.
        for (segments_per_s, expected) in [(8_000, 1..=2), (80_000, 18..=20), (800_000, 190..=200)] {
            for room in [4, 90, 400] {
                let limit = limit_behind(segments_per_s, room);
                assert!(
                    expected.contains(&limit),
                    "{limit} segments at {segments_per_s}/s and {room} segments of room"
                );
            }
        }
    }

    #[test]
    fn a_socket_that_is_not_full_takes_all() {
        let mut limit = BatchLimit::new();
        limit.on_taken(1_000);
        assert_eq!(limit.segments_max(), usize::MAX);
        for ms in 0..20 {
            limit.on_full(Time::from_s(1) + Duration::from_millis(ms));
            limit.on_taken(8);
        }
        assert_eq!(limit.segments_max(), 2);
        limit.expire(Time::from_s(1) + Duration::from_millis(100));
        assert_eq!(limit.segments_max(), 2);
        limit.expire(Time::from_s(1) + Duration::from_millis(200));
        assert_eq!(limit.segments_max(), usize::MAX);
    }

    #[test]
    fn even_the_slowest_socket_is_given_a_segment() {
        let mut limit = BatchLimit::new();
        limit.on_full(Time::from_s(1));
        limit.on_full(Time::from_s(1) + Duration::from_millis(50));
        assert_eq!(limit.segments_max(), 1);
    }
}
