//! Recent minimum of the one-way delay, between two clocks with an unknown offset. The excess over it is queueing
//! delay.

use dfcp_time::{Time, duration_ns};

use crate::limits::{QUEUE_MEMORY, QUEUE_MEMORY_PARTS};
use crate::path::windowed::WindowedMin;

/// One-way delays of one direction, measured with the clocks of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeastDelay {
    /// First delay, µs modulo 2³². Others are stored relative to it.
    origin_us: Option<u32>,
    /// Minimum delay relative to the origin, µs. Windowed, because clocks drift and paths change.
    least_us: WindowedMin<i32, QUEUE_MEMORY_PARTS>,
}

impl LeastDelay {
    /// Takes in a datagram's one-way delay: arrival time less sending time, each by its own end's clock, µs modulo 2³².
    /// Returns the delay relative to the origin, µs.
    pub(crate) fn observe(&mut self, now: Time, delay_us: u32) -> i32 {
        let part = now.as_ns() / (duration_ns(QUEUE_MEMORY) / (QUEUE_MEMORY_PARTS as u64 - 1));
        let origin_us = *self.origin_us.get_or_insert(delay_us);
        let above_us = delay_us.wrapping_sub(origin_us).cast_signed();
        self.least_us.update(part, above_us);
        above_us
    }

    /// Returns the excess over the recent minimum of a delay `above_us` relative to the origin, µs.
    pub(crate) fn excess_us(&self, above_us: i32) -> u64 {
        let least_us = self.least_us.get().unwrap_or(above_us);
        i64::from(above_us).abs_diff(i64::from(least_us))
    }
}
