//! CUBIC of Linux 6.12 (`net/ipv4/tcp_cubic.c`, version 2.3), with the kernel's integer arithmetic and clock ticks, and
//! optional HyStart.
//!
//! It differs from RFC 9438 in three points, all of which matter under random loss. The estimate of Reno's window
//! restarts with each epoch and grows by whole segments. Growth is computed once per tick, and only once in 30 ms while
//! the window is constant. A timeout resets the last maximum.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use super::super::window::Window;
use super::Ack;
use super::cubic_2008::cube_root;
use super::hystart::HyStart;

const BETA_SCALE: u64 = 1024;
/// Share of the window kept after a loss, in units of 1/[`BETA_SCALE`].
const BETA: u64 = 717;
/// Parameter C of the cubic function: 410/1024 segments per second cubed.
const CUBE_RTT_SCALE: u64 = 410;
/// 2^40 / [`CUBE_RTT_SCALE`], which converts segments into the cube of a time in 1/1024 s.
const CUBE_FACTOR: u64 = (1 << 40) / CUBE_RTT_SCALE;
/// Acknowledged segments for one segment of Reno's growth, per segment of the window, times 8.
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Maximum of `cnt` before the first loss, so that the window grows by at least 5 % per RTT.
const CNT_BEFORE_LOSS_MAX: u64 = 20;
/// Minimum of `cnt`, so that the window grows by at most half per RTT.
const CNT_MIN: u64 = 2;
/// Clock tick used if the configuration has none, ns.
const DEFAULT_TICK_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// State of CUBIC. Windows are in segments, and times in clock ticks unless stated otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    hystart: Option<HyStart>,
    tick_ns: u64,
    min_rtt_ns: u64,
    /// Number of acknowledged segments per segment of growth.
    cnt: u64,
    last_max_cwnd: u64,
    last_cwnd: u64,
    last_time: u64,
    origin: u64,
    /// Time from the start of the epoch to the inflection point of the cubic curve, 1/1024 s.
    k: u64,
    epoch_start: Option<u64>,
    ack_cnt: u64,
    /// Estimate of the window that Reno would have.
    reno_cwnd: u64,
}

impl Cubic {
    pub(super) fn new(hystart: bool, tick: Duration) -> Self {
        let tick_ns = if tick.is_zero() { DEFAULT_TICK_NS } else { duration_ns(tick) };
        Self::reset(hystart.then(HyStart::new), tick_ns)
    }

    fn reset(hystart: Option<HyStart>, tick_ns: u64) -> Self {
        Self {
            hystart,
            tick_ns,
            min_rtt_ns: u64::MAX,
            cnt: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            epoch_start: None,
            ack_cnt: 0,
            reno_cwnd: 0,
        }
    }

    /// Port of `cubictcp_acked`.
    pub(super) fn on_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let Some(rtt_ns) = ack.rtt_ns else { return };
        // Right after a recovery, the RTT still contains the queue from before.
        if self.epoch_start.is_some_and(|start| self.ticks(ack.now) < start + SECOND_NS / self.tick_ns) {
            return;
        }
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns.max(1_000));
        let Some(hystart) = &mut self.hystart else { return };
        if window.in_slow_start() && hystart.on_ack(ack, window.cwnd, rtt_ns, self.min_rtt_ns) {
            window.ssthresh = window.cwnd;
        }
    }

    pub(super) fn grow(&mut self, window: &mut Window, ack: &Ack) {
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked == 0 {
            return;
        }
        self.update(u64::from(window.cwnd), u64::from(acked), ack.now);
        window.additive_increase(u32::try_from(self.cnt).unwrap_or(u32::MAX), acked);
    }

    /// Called when sending resumes after a pause since `last_sent`: the epoch does not age during the pause.
    pub(super) fn on_transmit_start(&mut self, now: Time, last_sent: Time) {
        let now = self.ticks(now);
        let pause = now.saturating_sub(self.ticks(last_sent));
        self.epoch_start = self.epoch_start.map(|start| (start + pause).min(now));
    }

    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        let cwnd = u64::from(window.cwnd);
        self.epoch_start = None;
        // Fast convergence: a loss below the last maximum means that another flow needs room.
        self.last_max_cwnd =
            if cwnd < self.last_max_cwnd { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        u32::try_from(cwnd * BETA / BETA_SCALE).unwrap_or(u32::MAX).max(2)
    }

    /// Port of `bictcp_reset`.
    pub(super) fn on_timeout(&mut self) {
        *self = Self::reset(self.hystart.map(|_| HyStart::new()), self.tick_ns);
    }

    fn ticks(&self, time: Time) -> u64 {
        time.as_ns() / self.tick_ns
    }

    /// Port of `bictcp_update`.
    fn update(&mut self, cwnd: u64, acked: u64, now: Time) {
        let time = self.ticks(now);
        self.ack_cnt += acked;
        let idle = time - self.last_time;
        if self.last_cwnd == cwnd && idle <= SECOND_NS / self.tick_ns / 32 {
            return;
        }
        if self.epoch_start.is_none() || idle > 0 {
            self.last_cwnd = cwnd;
            self.last_time = time;
            self.follow_cubic(cwnd, acked, time);
        }
        self.be_friendly(cwnd);
        self.cnt = self.cnt.max(CNT_MIN);
    }

    fn follow_cubic(&mut self, cwnd: u64, acked: u64, time: u64) {
        let epoch_start = match self.epoch_start {
            Some(start) => start,
            None => self.start_epoch(cwnd, acked, time),
        };
        let min_rtt = if self.min_rtt_ns == u64::MAX { 0 } else { self.min_rtt_ns.div_ceil(self.tick_ns) };
        let t = u128::from(time + min_rtt - epoch_start) * 1024 * u128::from(self.tick_ns) / u128::from(SECOND_NS);
        let t = u64::try_from(t).unwrap_or(u64::MAX);
        let offset = u128::from(t.abs_diff(self.k));
        let cube = offset.saturating_mul(offset).saturating_mul(offset);
        let delta = u64::try_from(cube.saturating_mul(u128::from(CUBE_RTT_SCALE)) >> 40).unwrap_or(u64::MAX);
        let target = if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max_cwnd == 0 {
            self.cnt = self.cnt.min(CNT_BEFORE_LOSS_MAX);
        }
    }

    fn start_epoch(&mut self, cwnd: u64, acked: u64, time: u64) -> u64 {
        self.epoch_start = Some(time);
        self.ack_cnt = acked;
        self.reno_cwnd = cwnd;
        if self.last_max_cwnd <= cwnd {
            self.k = 0;
            self.origin = cwnd;
        } else {
            self.k = cube_root(CUBE_FACTOR.saturating_mul(self.last_max_cwnd - cwnd));
            self.origin = self.last_max_cwnd;
        }
        time
    }

    /// Makes the window grow at least as fast as Reno's (`tcp_friendliness`).
    fn be_friendly(&mut self, cwnd: u64) {
        // Keep the remainder in the count. Subtracting 1 first is the kernel's rule: more than `per_segment` must be
        // acknowledged.
        let per_segment = ((cwnd * RENO_SCALE) >> 3).max(1);
        let segments = self.ack_cnt.saturating_sub(1) / per_segment;
        self.ack_cnt -= segments * per_segment;
        self.reno_cwnd += segments;
        if self.reno_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(1);

    /// Simulates one acknowledgement per two segments, with an RTT of `rtt_ms`. Returns the time at the end, ms.
    fn run(cubic: &mut Cubic, window: &mut Window, from_ms: u64, rounds: u64, rtt_ms: u64) -> u64 {
        let mut now_ms = from_ms;
        for _ in 0..rounds {
            let acks = u64::from(window.cwnd / 2).max(1);
            for number in 1..=acks {
                let now = Time::from_ns(now_ms * 1_000_000 + number * rtt_ms * 1_000_000 / acks);
                cubic.grow(window, &Ack::plain(now, 2));
            }
            now_ms += rtt_ms;
        }
        now_ms
    }

    #[test]
    fn returns_to_the_old_window_after_k() {
        // W_max = 1000, window 700 after the loss: K = cbrt(300 / 0.4) = 9.08 s.
        let mut cubic = Cubic::new(false, TICK);
        let mut window = Window::new(1000, Some(1), u32::MAX);
        window.ssthresh = cubic.threshold(&window);
        assert_eq!(window.ssthresh, 700);
        window.cwnd = 700;
        let now = run(&mut cubic, &mut window, 0, 45, 100);
        // After half of K: 1000 - 0.4 · 4.58³ = 961.
        assert!((955..=966).contains(&window.cwnd), "{}", window.cwnd);
        let now = run(&mut cubic, &mut window, now, 46, 100);
        assert!((995..=1001).contains(&window.cwnd), "{}", window.cwnd);
        run(&mut cubic, &mut window, now, 45, 100);
        // 4.5 s after K: 1000 + 0.4 · 4.5³ = 1036.
        assert!((1030..=1042).contains(&window.cwnd), "{}", window.cwnd);
        // Fast convergence: after a loss below the last maximum, the new maximum is 0.85 of the window.
        cubic.threshold(&window);
        window.cwnd = 900;
        cubic.threshold(&window);
        assert_eq!(cubic.last_max_cwnd, 765);
    }

    #[test]
    fn is_as_fast_as_its_estimate_of_reno_where_that_is_faster() {
        // W = 20, RTT 10 ms: the cubic function is flat for long, while Reno's estimate grows by one segment per 15/8
        // windows.
        let mut cubic = Cubic::new(false, TICK);
        let mut window = Window::new(20, Some(1), u32::MAX);
        window.ssthresh = cubic.threshold(&window);
        window.cwnd = 14;
        run(&mut cubic, &mut window, 0, 11, 10);
        assert!((17..=19).contains(&window.cwnd), "{}", window.cwnd);
    }

    #[test]
    fn a_pause_does_not_age_the_stage() {
        let mut cubic = Cubic::new(false, TICK);
        let mut window = Window::new(100, Some(1), u32::MAX);
        cubic.grow(&mut window, &Ack::plain(Time::from_ms(1_000), 1));
        assert_eq!(cubic.epoch_start, Some(1_000));
        cubic.on_transmit_start(Time::from_ms(3_000), Time::from_ms(1_500));
        assert_eq!(cubic.epoch_start, Some(2_500));
    }

    #[test]
    fn the_timer_forgets_everything() {
        let mut cubic = Cubic::new(true, TICK);
        let window = Window::new(100, Some(1), u32::MAX);
        cubic.threshold(&window);
        cubic.on_timeout();
        assert_eq!((cubic.last_max_cwnd, cubic.epoch_start), (0, None));
    }
}
