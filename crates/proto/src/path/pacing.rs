//! Departure times of datagrams at a paced rate.

use std::num::NonZeroU64;
use std::time::Duration;

use dfcp_time::Time;

/// Longest delay of the caller's timer that a burst may make up for, so that the average rate holds.
const CATCH_UP: Duration = Duration::from_millis(4);

/// Paces datagrams at a given rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Rate; `None` is the line rate, without any wait.
    rate_bps: Option<NonZeroU64>,
    next: Time,
    /// Fraction of a nanosecond carried over, in units of 1/`rate_bps` ns, so that long runs do not drift.
    remainder: u64,
    /// Latest time to which control datagrams may delay the next data datagram. [`Time::MAX`] if there was none since
    /// the last data datagram.
    data_by: Time,
}

impl Pacer {
    pub(crate) fn new(rate_bps: Option<u64>) -> Self {
        Self { rate_bps: rate_bps.and_then(NonZeroU64::new), next: Time::ZERO, remainder: 0, data_by: Time::MAX }
    }

    pub(crate) fn set_rate_bps(&mut self, rate_bps: Option<u64>) {
        self.rate_bps = rate_bps.and_then(NonZeroU64::new);
    }

    pub(crate) fn rate_bps(&self) -> Option<u64> {
        self.rate_bps.map(NonZeroU64::get)
    }

    /// Returns the earliest departure of the next datagram. A time in the past means now.
    pub(crate) fn ready_at(&self) -> Time {
        if self.rate_bps.is_some() { self.next } else { Time::ZERO }
    }

    /// Accounts for a data datagram of `bytes` IP bytes that leaves at `now`.
    pub(crate) fn sent(&mut self, now: Time, bytes: u64) {
        self.data_by = Time::MAX;
        self.count(now, bytes);
    }

    /// Accounts for a control datagram, which is never delayed. Control datagrams together delay the next data datagram
    /// by at most the time of `datagram_bytes`. So a slow sender with many acknowledgements still sends its own data.
    pub(crate) fn sent_control(&mut self, now: Time, bytes: u64, datagram_bytes: u64) {
        let Some(rate_bps) = self.rate_bps() else { return };
        let time = Duration::from_nanos(datagram_bytes.saturating_mul(8_000_000_000) / rate_bps);
        if self.data_by == Time::MAX {
            self.data_by = self.next.max(now) + time;
        }
        self.count(now, bytes);
        self.next = self.next.min(self.data_by);
    }

    fn count(&mut self, now: Time, bytes: u64) {
        let Some(rate_bps) = self.rate_bps() else { return };
        let scaled = bytes.saturating_mul(8_000_000_000).saturating_add(self.remainder);
        self.remainder = scaled % rate_bps;
        self.next = self.next.max(now - CATCH_UP) + Duration::from_nanos(scaled / rate_bps);
    }

    /// Must be called when sending starts after a pause. Late timers are made up for; idle time is not.
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

    /// A slow sender that reports on fast arrivals: its control datagrams exceed its rate.
    #[test]
    fn control_datagrams_put_off_data_by_one_datagrams_time_and_no_more() {
        let mut pacer = Pacer::new(Some(80_000));
        pacer.resume(Time::from_s(1));
        pacer.sent(Time::from_s(1), 1_000);
        let ready = pacer.ready_at();
        assert_eq!(ready, Time::from_ms(1_100));
        for ms in 1_000..1_300 {
            pacer.sent_control(Time::from_ms(ms), 100, 1_000);
            assert!(pacer.ready_at() <= ready + Duration::from_millis(100), "{ms}: {}", pacer.ready_at());
        }
        pacer.sent(Time::from_ms(1_200), 1_000);
        pacer.sent_control(Time::from_ms(1_200), 1_000, 1_000);
        assert_eq!(pacer.ready_at(), Time::from_ms(1_400), "the next one is put off again");
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
