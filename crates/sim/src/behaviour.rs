//! Optional behaviour of DFCP's ends: applications with little to send or slow to read, drifting clocks, and false
//! reports.

use std::time::Duration;

use dfcp_time::Time;

use crate::lie::Lie;

const NS_PER_S: u128 = 1_000_000_000;
/// Interval over which an application gathers data for one write or read, ns.
const PIECE_NS: u128 = 10_000_000;
/// Minimum size of one write or read, bytes: one datagram.
const PIECE_BYTES_MIN: u64 = 1_420;

/// Deviations from ends that are as fast as the path permits and report the truth. By default there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Rate of the sending application; `None` if it always has data.
    pub demand: Option<Demand>,
    /// Rate at which the receiving application reads, bit/s; `None` if it reads immediately.
    pub read_bps: Option<u64>,
    /// Drift of the receiver's clock, ppm; positive if the clock is fast.
    pub clock_ppm: i32,
    /// Falsification of the receiver's reports; `None` if they are true.
    pub lie: Option<Lie>,
}

/// On-off source of application data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Rate during on periods, bit/s.
    pub rate_bps: u64,
    /// Length of an on period; zero if the source is always on.
    pub on: Duration,
    /// Length of an off period.
    pub off: Duration,
}

impl Demand {
    /// Source that never has data.
    pub(crate) const NONE: Self = Self { rate_bps: 0, on: Duration::ZERO, off: Duration::ZERO };

    fn constant(rate_bps: u64) -> Self {
        Self { rate_bps, on: Duration::ZERO, off: Duration::ZERO }
    }

    /// Returns the bytes generated in the first `elapsed_ns`.
    fn bytes_by(self, elapsed_ns: u128) -> u64 {
        let (on, cycle) = (self.on.as_nanos(), (self.on + self.off).as_nanos());
        let active_ns = if on == 0 { elapsed_ns } else { elapsed_ns / cycle * on + (elapsed_ns % cycle).min(on) };
        (active_ns * u128::from(self.rate_bps) / (8 * NS_PER_S)) as u64
    }

    /// Returns the time after which `bytes` have been generated, ns; `None` if that never happens.
    fn time_of(self, bytes: u64) -> Option<u128> {
        let active_ns = (u128::from(bytes) * 8 * NS_PER_S).checked_next_multiple_of(self.rate_bps.into())?
            / u128::from(self.rate_bps);
        let on = self.on.as_nanos();
        if on == 0 || active_ns == 0 {
            return Some(active_ns);
        }
        // A byte that completes an on period is there at the end of that period, before the off period.
        let cycles = (active_ns - 1) / on;
        Some(active_ns + cycles * self.off.as_nanos())
    }

    /// Returns the size of one write or read, bytes.
    fn piece_bytes(self) -> u64 {
        let bytes = u128::from(self.rate_bps) * PIECE_NS / (8 * NS_PER_S);
        (bytes as u64).max(PIECE_BYTES_MIN)
    }
}

/// Limits an application to the bytes that its [`Demand`] has generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    demand: Demand,
    /// Start of the count; `None` before the first use.
    since: Option<Time>,
    used: u64,
}

impl Meter {
    pub(crate) fn new(demand: Demand) -> Self {
        Self { demand, since: None, used: 0 }
    }

    pub(crate) fn at_rate(rate_bps: u64) -> Self {
        Self::new(Demand::constant(rate_bps))
    }

    /// Returns the bytes available at `now`. The first call starts the count.
    pub(crate) fn left(&mut self, now: Time) -> u64 {
        let since = *self.since.get_or_insert(now);
        let elapsed_ns = now.as_ns().saturating_sub(since.as_ns());
        self.demand.bytes_by(elapsed_ns.into()).saturating_sub(self.used)
    }

    pub(crate) fn use_up(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// Returns the time at which the next piece is available. `None` if there is none, or if the count has not started.
    pub(crate) fn next(&self) -> Option<Time> {
        let after_ns = self.demand.time_of(self.used + self.demand.piece_bytes())?;
        let at_ns = u128::from(self.since?.as_ns()) + after_ns;
        u64::try_from(at_ns).ok().map(Time::from_ns)
    }
}

/// Clock whose rate is wrong by `ppm` millionths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    ppm: i32,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    pub(crate) fn new(ppm: i32) -> Self {
        Self { ppm }
    }

    /// Returns the time that the clock shows at the true time `now`.
    pub(crate) fn shows(self, now: Time) -> Time {
        let ns = i128::from(now.as_ns());
        let shown = ns + ns * i128::from(self.ppm) / MILLION;
        Time::from_ns(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// Returns the first true time at which the clock shows `at` or later.
    pub(crate) fn time_of(self, at: Time) -> Time {
        if self.ppm == 0 || at == Time::MAX {
            return at;
        }
        let scaled = i128::from(at.as_ns()) * MILLION;
        let rate = (MILLION + i128::from(self.ppm)).max(1);
        let mut ns = u64::try_from(scaled / rate).unwrap_or(u64::MAX).saturating_sub(1);
        while self.shows(Time::from_ns(ns)) < at && ns < u64::MAX {
            ns += 1;
        }
        Time::from_ns(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON_OFF: Demand = Demand { rate_bps: 8_000_000, on: Duration::from_secs(1), off: Duration::from_millis(500) };

    #[test]
    fn bytes_come_while_they_come() {
        let by_ms = |ms: u128| ON_OFF.bytes_by(ms * 1_000_000);
        assert_eq!(
            [0, 500, 1_000, 1_400, 1_500, 2_000, 3_000].map(by_ms),
            [0, 500_000, 1_000_000, 1_000_000, 1_000_000, 1_500_000, 2_000_000]
        );
        assert_eq!(Demand::constant(8_000).bytes_by(NS_PER_S * 3), 3_000);
    }

    #[test]
    fn the_time_of_a_byte_is_the_first_at_which_it_is_there() {
        for demand in [ON_OFF, Demand::constant(12_345_678), Demand::constant(7)] {
            for bytes in [1, 999_999, 1_000_000, 1_000_001, 3_000_000] {
                let at_ns = demand.time_of(bytes).unwrap();
                assert!(demand.bytes_by(at_ns) >= bytes, "{demand:?} {bytes}");
                assert!(demand.bytes_by(at_ns - 1) < bytes, "{demand:?} {bytes}");
            }
        }
        assert_eq!(Demand::constant(0).time_of(1), None);
    }

    #[test]
    fn a_meter_lets_through_pieces_and_never_more_than_came() {
        let mut meter = Meter::new(ON_OFF);
        assert_eq!(meter.next(), None, "it has not begun");
        let mut now = Time::from_ms(70);
        let mut total = 0;
        assert_eq!(meter.left(now), 0);
        while now < Time::from_ms(3_070) {
            now = meter.next().unwrap();
            let left = meter.left(now);
            assert!(left >= 10_000, "{left}");
            meter.use_up(left);
            total += left;
        }
        assert_eq!(total, 2_000_000 + 10_000, "the piece of the next time is there 10 ms into it");
    }

    #[test]
    fn a_drifting_clock_and_its_inverse_agree() {
        for ppm in [-100, 0, 100, 5_000] {
            let clock = Clock::new(ppm);
            for ns in [0, 1, 9_999, 10_001, 1_234_567_890, 30_000_000_000] {
                let at = clock.shows(Time::from_ns(ns));
                let back = clock.time_of(at);
                assert!(clock.shows(back) >= at && back <= Time::from_ns(ns), "{ppm} {ns}");
                assert!(back == Time::ZERO || clock.shows(Time::from_ns(back.as_ns() - 1)) < at, "{ppm} {ns}");
            }
        }
        assert_eq!(Clock::new(100).shows(Time::from_ms(10_000)), Time::from_ms(10_001));
    }
}
