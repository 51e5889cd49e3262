//! CUBIC 2.2 of Linux 2.6.26 (`net/ipv4/tcp_cubic.c`), with the kernel's integer arithmetic and 250 Hz ticks.
//!
//! It differs from RFC 9438 as follows. A loss reduces the window to 717/1024; it was 819/1024 in 2.6.24, but the
//! documents' figures about small buffers, queues and random loss all fit 717. Acknowledgements are counted, corrected
//! by an estimate of the segments that each of them covers. Before the first loss, the window grows by one segment per
//! 50 acknowledged segments. Growth is limited only to one segment per acknowledgement.

use dfcp_time::Time;

use super::super::window::Window;
use super::Ack;
use super::hystart::HyStart;

const BETA_SCALE: u64 = 1024;
const BETA: u64 = 717;
/// Parameter C of the cubic function: 410/1024 segments per second cubed.
const CUBE_RTT_SCALE: u64 = 410;
/// 2^40 / [`CUBE_RTT_SCALE`], which converts segments into the cube of a time in 1/1024 s.
const CUBE_FACTOR: u64 = (1 << 40) / CUBE_RTT_SCALE;
/// Acknowledgements for one segment of Reno's growth, per segment of the window, times 8.
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Clock ticks per second (`CONFIG_HZ` of Debian's kernel).
const HZ: u64 = 250;
const TICK_NS: u64 = 1_000_000_000 / HZ;
/// Fixed-point shift of the ratio of segments per acknowledgement.
const ACK_RATIO_SHIFT: u32 = 4;

/// State of CUBIC. Windows are in segments, and times in clock ticks unless stated otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Cubic2008 {
    hystart: Option<HyStart>,
    min_rtt_ns: u64,
    /// Number of acknowledgements per segment of growth.
    cnt: u64,
    last_max_cwnd: u64,
    loss_cwnd: u64,
    last_cwnd: u64,
    last_time: u64,
    origin: u64,
    /// Time from the start of the epoch to the inflection point of the cubic curve, 1/1024 s.
    k: u64,
    epoch_start: Option<u64>,
    ack_cnt: u64,
    tcp_cwnd: u64,
    delayed_ack: u64,
}

impl Cubic2008 {
    pub(super) fn new(hystart: bool) -> Self {
        Self {
            hystart: hystart.then(HyStart::new),
            min_rtt_ns: u64::MAX,
            cnt: 0,
            last_max_cwnd: 0,
            loss_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            epoch_start: None,
            ack_cnt: 0,
            tcp_cwnd: 0,
            delayed_ack: 2 << ACK_RATIO_SHIFT,
        }
    }

    pub(super) fn on_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if ack.segments > 0 {
            let ratio = self.delayed_ack >> ACK_RATIO_SHIFT;
            self.delayed_ack = (self.delayed_ack + u64::from(ack.segments) - ratio).max(1);
        }
        let Some(rtt_ns) = ack.rtt_ns else { return };
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
        let Some(hystart) = &mut self.hystart else { return };
        if window.in_slow_start() && hystart.on_ack(ack, window.cwnd, rtt_ns, self.min_rtt_ns) {
            window.ssthresh = window.cwnd;
        }
    }

    pub(super) fn grow(&mut self, window: &mut Window, ack: &Ack) {
        if window.cwnd <= window.ssthresh {
            window.cwnd = window.cwnd.saturating_add(ack.acked).min(window.limit);
            return;
        }
        self.update(u64::from(window.cwnd), ack.now);
        let cnt = u32::try_from(self.cnt).unwrap_or(u32::MAX);
        if window.credit >= cnt {
            window.cwnd = window.cwnd.saturating_add(1).min(window.limit);
            window.credit = 0;
        } else {
            window.credit += 1;
        }
    }

    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        let cwnd = u64::from(window.cwnd);
        self.epoch_start = None;
        self.last_max_cwnd =
            if cwnd < self.last_max_cwnd { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        self.loss_cwnd = cwnd;
        u32::try_from(cwnd * BETA / BETA_SCALE).unwrap_or(u32::MAX).max(2)
    }

    /// Port of `bictcp_reset`.
    pub(super) fn on_timeout(&mut self) {
        *self = Self { hystart: self.hystart, ..Self::new(false) };
    }

    /// Port of `bictcp_update`.
    fn update(&mut self, cwnd: u64, now: Time) {
        let time = now.as_ns() / TICK_NS;
        self.ack_cnt += 1;
        if self.last_cwnd == cwnd && time - self.last_time <= HZ / 32 {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_time = time;
        let epoch_start = match self.epoch_start {
            Some(start) => start,
            None => self.start_epoch(cwnd, time),
        };
        let min_rtt = if self.min_rtt_ns == u64::MAX { 0 } else { self.min_rtt_ns / TICK_NS };
        let t = ((time + min_rtt - epoch_start) << 10) / HZ;
        let offset = u128::from(t.abs_diff(self.k));
        let delta = u64::try_from((u128::from(CUBE_RTT_SCALE) * offset * offset * offset) >> 40).unwrap_or(u64::MAX);
        let target = if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.loss_cwnd == 0 {
            self.cnt = 50;
        }
        self.be_friendly(cwnd);
        self.cnt = ((self.cnt << ACK_RATIO_SHIFT) / self.delayed_ack).max(1);
    }

    fn start_epoch(&mut self, cwnd: u64, time: u64) -> u64 {
        self.epoch_start = Some(time);
        self.ack_cnt = 1;
        self.tcp_cwnd = cwnd;
        if self.last_max_cwnd <= cwnd {
            self.k = 0;
            self.origin = cwnd;
        } else {
            self.k = cube_root(CUBE_FACTOR.saturating_mul(self.last_max_cwnd - cwnd));
            self.origin = self.last_max_cwnd;
        }
        time
    }

    /// Makes the window grow at least as fast as Reno's.
    fn be_friendly(&mut self, cwnd: u64) {
        let every = (cwnd * RENO_SCALE) >> 3;
        if every > 0 && self.ack_cnt > every {
            let steps = (self.ack_cnt - 1) / every;
            self.ack_cnt -= steps * every;
            self.tcp_cwnd += steps;
        }
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
    }
}

/// Returns the integer cube root, rounded down.
pub(super) fn cube_root(x: u64) -> u64 {
    let mut root = 0u64;
    for bit in (0..22).rev() {
        let next = root | 1 << bit;
        if u128::from(next) * u128::from(next) * u128::from(next) <= u128::from(x) {
            root = next;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for (x, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000, 100), (u64::MAX, 2_642_245)] {
            assert_eq!(cube_root(x), root, "{x}");
        }
    }

    #[test]
    fn a_loss_takes_three_tenths_and_converges_fast() {
        let mut cubic = Cubic2008::new(false);
        let window = Window::new(1000, None, u32::MAX);
        assert_eq!(cubic.threshold(&window), 700);
        assert_eq!(cubic.last_max_cwnd, 1000);
        // A loss below the last maximum gives the new maximum 900 · 1741 / 2048 = 765.
        assert_eq!(cubic.threshold(&Window::new(900, None, u32::MAX)), 630);
        assert_eq!(cubic.last_max_cwnd, 765);
        cubic.on_timeout();
        assert_eq!(cubic.last_max_cwnd, 0);
    }

    #[test]
    fn the_window_returns_after_k() {
        // W_max = 1000, cwnd = 800: K = cbrt(200 / 0.4) = 7.94 s, which is 8127 in units of 1/1024 s.
        let mut cubic = Cubic2008::new(false);
        let mut window = Window::new(1000, None, u32::MAX);
        window.ssthresh = cubic.threshold(&window);
        window.cwnd = 800;
        for round in 1..=80u64 {
            for _ in 0..window.cwnd / 2 {
                let now = Time::from_ms(100 * round);
                let ack = Ack { rtt_ns: Some(100_000_000), acked: 1, ..Ack::plain(now, 2) };
                cubic.on_rtt(&mut window, &ack);
                cubic.grow(&mut window, &ack);
            }
        }
        assert!((8100..8150).contains(&cubic.k), "{}", cubic.k);
        assert!((990..=1003).contains(&window.cwnd), "{}", window.cwnd);
    }
}
