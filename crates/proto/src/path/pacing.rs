//! When the next datagram may leave at a paced rate.

use std::time::Duration;

use dfcp_time::Time;

/// How much lateness of the caller's timer is caught up in a burst, so that the average rate holds.
const CATCH_UP: Duration = Duration::from_millis(4);

/// Paces datagrams at a rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// `None` is the line rate: never wait.
    rate_bps: Option<u64>,
    next: Time,
    /// Billionths of a nanosecond-bit left over, so that long runs do not drift.
    remainder: u64,
}

impl Pacer {
    pub(crate) fn new(rate_bps: Option<u64>) -> Self {
        Self { rate_bps, next: Time::ZERO, remainder: 0 }
    }

    pub(crate) fn set_rate_bps(&mut self, rate_bps: Option<u64>) {
        self.rate_bps = rate_bps;
    }

    pub(crate) fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// When the next datagram may leave; at or before `now` means at once.
    pub(crate) fn ready_at(&self) -> Time {
        if self.rate_bps.is_some() { self.next } else { Time::ZERO }
    }

    /// Accounts for a datagram of `bytes` IP bytes which leaves at `now`, whether it had to wait or not.
    pub(crate) fn sent(&mut self, now: Time, bytes: u64) {
        let Some(rate_bps) = self.rate_bps.filter(|&rate| rate > 0) else { return };
        let scaled = bytes.saturating_mul(8_000_000_000).saturating_add(self.remainder);
        self.remainder = scaled % rate_bps;
        self.next = self.next.max(now - CATCH_UP) + Duration::from_nanos(scaled / rate_bps);
    }

    /// Accounts for a control datagram, which does not wait. It delays data by at most `datagram_bytes`' time, so that a
    /// slow sender which has much to acknowledge still gets its own data out.
    pub(crate) fn sent_control(&mut self, now: Time, bytes: u64, datagram_bytes: u64) {
        let Some(rate_bps) = self.rate_bps.filter(|&rate| rate > 0) else { return };
        let latest = now + Duration::from_nanos(datagram_bytes.saturating_mul(8_000_000_000) / rate_bps);
        let before = self.next;
        self.sent(now, bytes);
        self.next = self.next.min(latest.max(before));
    }

    /// To be called when sending starts after a pause: lateness of a timer is caught up, idleness is not.
    pub(crate) fn resume(&mut self, now: Time) {
        self.next = self.next.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_second_carries_a_seconds_bits() {
        let mut pacer = Pacer::new(Some(100_000_000));
        pacer.resume(Time::from_s(1));
        let mut sent = 0_u64;
        while pacer.ready_at() < Time::from_s(2) {
            pacer.sent(pacer.ready_at(), 1476);
            sent += 1;
        }
        assert_eq!(sent, 100_000_000_u64.div_ceil(1476 * 8));
    }

    #[test]
    fn a_late_timer_is_caught_up_but_idleness_is_not() {
        let mut pacer = Pacer::new(Some(8_000_000));
        pacer.resume(Time::from_s(1));
        pacer.sent(Time::from_s(1), 1000);
        assert_eq!(pacer.ready_at(), Time::from_s(1) + Duration::from_millis(1));
        let burst = |pacer: &mut Pacer, now| {
            (0..100)
                .take_while(|_| {
                    pacer.ready_at() <= now && {
                        pacer.sent(now, 1000);
                        true
                    }
                })
                .count()
        };
        assert_eq!(burst(&mut pacer, Time::from_s(2)), 5, "4 ms of catching up, and the one that is due");
        pacer.resume(Time::from_s(3));
        assert_eq!(burst(&mut pacer, Time::from_s(3)), 1);
    }
}
