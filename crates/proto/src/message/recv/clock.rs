//! Excess one-way delay of message datagrams, which gives a message's age without a common clock (`spec/protocol.md`
//! \[message-7\]).

use dfcp_time::Time;

use crate::limits::QUEUE_DELAY_MAX;
use crate::path::least_delay::LeastDelay;

/// One-way delays of the peer's datagrams, relative to the recent minimum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayClock(LeastDelay);

impl DelayClock {
    /// Records the arrival of a datagram that left at `clock_us` of the peer's clock, µs. Returns the excess of its
    /// delay over the recent minimum, µs.
    pub(super) fn on_datagram(&mut self, now: Time, clock_us: u32) -> u32 {
        let above_us = self.0.observe(now, ((now.as_ns() / 1_000) as u32).wrapping_sub(clock_us));
        let excess_us = self.0.excess_us(above_us);
        if u128::from(excess_us) > QUEUE_DELAY_MAX.as_micros() {
            // No queue is that long: one of the clocks was set.
            *self = Self::default();
            return self.on_datagram(now, clock_us);
        }
        excess_us as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_least_delay_is_told_whatever_the_clocks() {
        for origin in [0, 5_000, u32::MAX - 3_000, 1 << 31] {
            let mut clock = DelayClock::default();
            let mut arrive =
                |ms: u64, sent_ms: u32| clock.on_datagram(Time::from_ms(ms), (sent_ms * 1_000).wrapping_add(origin));
            assert_eq!([arrive(100, 0), arrive(104, 1), arrive(103, 2), arrive(200, 80)], [0, 3_000, 1_000, 20_000]);
            assert_eq!(arrive(300, 205), 0, "faster than all before");
            assert_eq!(arrive(400, 300), 5_000);
        }
    }

    #[test]
    fn a_path_that_became_longer_is_known_after_the_memory_and_a_clock_that_was_set_at_once() {
        let mut clock = DelayClock::default();
        clock.on_datagram(Time::from_s(1), 0);
        assert_eq!(clock.on_datagram(Time::from_ms(10_050), 9_000_000), 50_000);
        assert_eq!(clock.on_datagram(Time::from_ms(26_050), 25_000_000), 0);
        assert_eq!(clock.on_datagram(Time::from_ms(27_000), 1 << 30), 0);
        assert_eq!(clock.on_datagram(Time::from_ms(28_007), (1 << 30) + 1_000_000), 7_000);
    }
}
