//! The least one-way delay lately, between two clocks that share no origin: what is above it was waited for in queues.

use dfcp_time::{Time, duration_ns};

use crate::limits::{QUEUE_MEMORY, QUEUE_MEMORY_PARTS};
use crate::path::windowed::WindowedMin;

/// Delays of one direction, by the clocks of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeastDelay {
    /// The first delay seen, modulo 2³² µs, of which the others are told apart.
    origin_us: Option<u32>,
    /// Above the origin, by parts of the memory; clocks drift, and paths change.
    least_us: WindowedMin<i32, QUEUE_MEMORY_PARTS>,
}

impl LeastDelay {
    /// Takes in the time between a datagram's sending and its arrival, each by its own end's clock, in microseconds modulo 2³². What it is
    /// above the origin.
    pub(crate) fn observe(&mut self, now: Time, delay_us: u32) -> i32 {
        let part = now.as_ns() / (duration_ns(QUEUE_MEMORY) / (QUEUE_MEMORY_PARTS as u64 - 1));
        let origin_us = *self.origin_us.get_or_insert(delay_us);
        let above_us = delay_us.wrapping_sub(origin_us).cast_signed();
        self.least_us.update(part, above_us);
        above_us
    }

    /// Excess over the least of a delay that is `above_us` above the origin, microseconds.
    pub(crate) fn excess_us(&self, above_us: i32) -> u64 {
        let least_us = self.least_us.get().unwrap_or(above_us);
        i64::from(above_us).abs_diff(i64::from(least_us))
    }
}
