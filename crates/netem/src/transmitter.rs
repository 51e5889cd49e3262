//! Serialisation: the time for which each packet occupies the transmitter.

use std::num::NonZeroU64;
use std::time::Duration;

use dfcp_time::Time;

const NS_PER_S: u128 = 1_000_000_000;

/// Transmitter of one packet at a time. Work is counted in units of bit·ns/s: at R bit/s, R units are done per
/// nanosecond. Integers therefore suffice for any rate and rate change, without accumulating errors.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter<P> {
    /// Rate, bit/s; `None` to send packets instantly.
    rate_bps: Option<NonZeroU64>,
    job: Option<Job<P>>,
    /// Unused work of the last nanosecond of the previous packet, carried over to the next packet.
    credit: u128,
}

#[derive(Clone, Debug)]
struct Job<P> {
    packet: P,
    /// Time of the last update of `work_left`.
    since: Time,
    work_left: u128,
    /// Time at which the work will be done. Cached, because it costs a division and is read several times per packet.
    finish: Time,
}

impl<P> Transmitter<P> {
    pub(crate) fn new(rate_bps: Option<NonZeroU64>) -> Self {
        Self { rate_bps, job: None, credit: 0 }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.job.is_none()
    }

    /// Returns true if packets are sent instantly.
    pub(crate) fn is_infinite(&self) -> bool {
        self.rate_bps.is_none()
    }

    /// Starts to send a packet after an idle time, so that no work is carried over.
    pub(crate) fn start(&mut self, now: Time, size_bytes: u32, packet: P) {
        self.credit = 0;
        self.continue_with(now, size_bytes, packet);
    }

    /// Starts to send a packet at the instant at which the previous one finished.
    pub(crate) fn continue_with(&mut self, now: Time, size_bytes: u32, packet: P) {
        let work = u128::from(size_bytes) * 8 * NS_PER_S;
        let work_left = work.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(work);
        let finish = self.finish_of(now, work_left);
        self.job = Some(Job { packet, since: now, work_left, finish });
    }

    /// Returns the time at which the last bit of the current packet is sent; `None` while idle.
    pub(crate) fn finish_time(&self) -> Option<Time> {
        self.job.as_ref().map(|job| job.finish)
    }

    /// Returns the duration of the current transmission, counted from its start or the latest change of rate.
    pub(crate) fn job_duration(&self) -> Duration {
        self.job.as_ref().map_or(Duration::ZERO, |job| job.finish - job.since)
    }

    /// Removes the current packet if it is sent by `now`; returns it with the time at which it was sent.
    pub(crate) fn finish(&mut self, now: Time) -> Option<(Time, P)> {
        let job = self.job.take_if(|job| job.finish <= now)?;
        let done = self.work_done(job.since, job.finish);
        self.credit += done.saturating_sub(job.work_left);
        Some((job.finish, job.packet))
    }

    /// Changes the rate from `now` on. Work already done on the current packet counts.
    pub(crate) fn set_rate(&mut self, now: Time, rate_bps: Option<NonZeroU64>) {
        let job = self.job.take().map(|mut job| {
            job.work_left = job.work_left.saturating_sub(self.work_done(job.since, now));
            job.since = job.since.max(now);
            job
        });
        self.rate_bps = rate_bps;
        self.job = job.map(|job| Job { finish: self.finish_of(job.since, job.work_left), ..job });
    }

    fn finish_of(&self, since: Time, work_left: u128) -> Time {
        Time::from_ns(since.as_ns().saturating_add(self.duration_ns(work_left)))
    }

    fn duration_ns(&self, work: u128) -> u64 {
        let Some(rate_bps) = self.rate_bps else { return 0 };
        match u64::try_from(work) {
            Ok(work) => work.div_ceil(rate_bps.get()),
            // Packets of gigabytes exceed 64 bits.
            Err(_) => u64::try_from(work.div_ceil(u128::from(rate_bps.get()))).unwrap_or(u64::MAX),
        }
    }

    fn work_done(&self, from: Time, to: Time) -> u128 {
        let Some(rate_bps) = self.rate_bps else { return 0 };
        u128::from(to.as_ns().saturating_sub(from.as_ns())) * u128::from(rate_bps.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate_bps: u64) -> Transmitter<()> {
        Transmitter::new(NonZeroU64::new(rate_bps))
    }

    #[test]
    fn thirds_of_a_nanosecond_are_not_lost() {
        // One byte at 3 Gbit/s takes 8/3 ns. Three packets leave after 8/3, 16/3 and 24/3 ns, rounded up.
        let mut transmitter = at(3_000_000_000);
        transmitter.start(Time::ZERO, 1, ());
        let mut finishes = Vec::new();
        for _ in 0..3 {
            let (time, ()) = transmitter.finish(Time::MAX).unwrap();
            finishes.push(time.as_ns());
            transmitter.continue_with(time, 1, ());
        }
        assert_eq!(finishes, [3, 6, 8]);
    }

    #[test]
    fn idleness_is_not_saved_up() {
        let mut transmitter = at(3_000_000_000);
        transmitter.start(Time::ZERO, 1, ());
        assert_eq!(transmitter.finish(Time::MAX), Some((Time::from_ns(3), ())));
        transmitter.start(Time::from_ns(100), 1, ());
        assert_eq!(transmitter.finish_time(), Some(Time::from_ns(103)));
    }

    #[test]
    fn many_packets_may_share_a_nanosecond() {
        // At 10¹¹ bit/s, 12.5 bytes are sent per nanosecond.
        let mut transmitter = at(100_000_000_000);
        transmitter.start(Time::ZERO, 1, ());
        let mut last = Time::ZERO;
        for _ in 0..25 {
            (last, ()) = transmitter.finish(Time::MAX).unwrap();
            transmitter.continue_with(last, 1, ());
        }
        assert_eq!(last, Time::from_ns(2));
    }

    #[test]
    fn a_new_rate_applies_to_the_rest_of_the_packet() {
        // 1000 bytes at 8 Mbit/s take 1 ms. After half of it, the rate falls to a quarter, so the other half takes 2
        // ms.
        let mut transmitter = at(8_000_000);
        transmitter.start(Time::ZERO, 1000, ());
        transmitter.set_rate(Time::from_us(500), NonZeroU64::new(2_000_000));
        assert_eq!(transmitter.finish_time(), Some(Time::from_us(2_500)));
        transmitter.set_rate(Time::from_us(600), None);
        assert_eq!(transmitter.finish_time(), Some(Time::from_us(600)));
    }
}
