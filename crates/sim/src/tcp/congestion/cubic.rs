//! CUBIC (RFC 9438), with HyStart as an option.

use dfcp_time::Time;

use super::super::window::Window;
use super::Ack;
use super::hystart::HyStart;

/// Segments per second cubed.
const C: f64 = 0.4;
/// What is left of the window after a loss.
const BETA: f64 = 0.7;
/// Growth in segments per round trip at which a window reduced by [`BETA`] is as large as Reno's on average.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Windows are in segments, times in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    hystart: Option<HyStart>,
    min_rtt_ns: u64,
    /// Window at the last loss, or less (fast convergence); 0 before the first loss and after a timeout.
    w_max: f64,
    /// Window just before the last reduction.
    w_prior: f64,
    epoch: Option<Epoch>,
    /// Since when the window has not been the limit.
    held_since: Option<Time>,
}

/// A stage of congestion avoidance between two losses.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// The plateau of the cubic function, and how long after the start it is reached.
    origin: f64,
    k: f64,
    /// What Reno would have.
    w_est: f64,
    /// Part of a segment not in the window yet.
    fraction: f64,
}

impl Cubic {
    pub(super) fn new(hystart: bool) -> Self {
        Self {
            hystart: hystart.then(HyStart::new),
            min_rtt_ns: u64::MAX,
            w_max: 0.0,
            w_prior: 0.0,
            epoch: None,
            held_since: None,
        }
    }

    pub(super) fn on_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let Some(rtt_ns) = ack.rtt_ns else { return };
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
        let Some(hystart) = &mut self.hystart else { return };
        if window.in_slow_start() && hystart.on_ack(ack.now, ack.una, ack.end, window.cwnd, rtt_ns, self.min_rtt_ns) {
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
        let cwnd = f64::from(window.cwnd);
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(ack.now, cwnd, self.w_max));
        if let Some(since) = self.held_since.take() {
            epoch.start += ack.now - since;
        }
        let grown = epoch.grow(ack, acked, cwnd, self.w_prior);
        let whole = grown.min(f64::from(window.limit)) as u32;
        epoch.fraction = if whole < window.limit { grown - f64::from(whole) } else { 0.0 };
        window.cwnd = whole;
    }

    pub(super) fn hold(&mut self, now: Time) {
        if self.epoch.is_some() && self.held_since.is_none() {
            self.held_since = Some(now);
        }
    }

    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        let cwnd = f64::from(window.cwnd);
        // Fast convergence: a flow that lost below its last maximum gives up room for others.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.w_prior = cwnd;
        self.epoch = None;
        self.held_since = None;
        ((cwnd * BETA) as u32).max(2)
    }

    pub(super) fn on_timeout(&mut self) {
        // RFC 9438, section 4.8: the next stage starts on the plateau.
        self.w_max = 0.0;
    }
}

impl Epoch {
    fn new(now: Time, cwnd: f64, w_max: f64) -> Self {
        let (origin, k) = if cwnd < w_max { (w_max, cube_root((w_max - cwnd) / C)) } else { (cwnd, 0.0) };
        Self { start: now, origin, k, w_est: cwnd, fraction: 0.0 }
    }

    fn w_cubic(&self, t: f64) -> f64 {
        let offset = t - self.k;
        self.origin + C * offset * offset * offset
    }

    /// The window after an acknowledgement.
    fn grow(&mut self, ack: &Ack, acked: u32, cwnd: f64, w_prior: f64) -> f64 {
        let t = (ack.now - self.start).as_secs_f64();
        let acked = f64::from(acked);
        let alpha = if self.w_est < w_prior { ALPHA } else { 1.0 };
        self.w_est += alpha * acked / cwnd;
        let exact = cwnd + self.fraction;
        if self.w_cubic(t) < self.w_est {
            return exact.max(self.w_est);
        }
        let target = self.w_cubic(t + ack.srtt_ns as f64 / 1e9).clamp(cwnd, 1.5 * cwnd);
        exact + acked * (target - cwnd) / cwnd
    }
}

/// By Newton's method with basic arithmetic only, so that every machine computes the same bits.
fn cube_root(x: f64) -> f64 {
    let mut root = 1.0;
    while root * root * root < x {
        root *= 2.0;
    }
    for _ in 0..60 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for x in [1e-9, 0.001, 0.5, 1.0, 2.0, 8.0, 27.0, 1000.0, 1e9] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-12, "{x}: {root}");
        }
    }

    /// One acknowledgement per segment, `rtt_ms` a window.
    fn run(cubic: &mut Cubic, window: &mut Window, from_ms: u64, rounds: u64, rtt_ms: u64) -> u64 {
        let mut now_ms = from_ms;
        for _ in 0..rounds {
            now_ms += rtt_ms;
            for _ in 0..window.cwnd {
                cubic.grow(
                    window,
                    &Ack {
                        now: Time::from_ms(now_ms),
                        acked: 1,
                        segments: 1,
                        rtt_ns: None,
                        srtt_ns: rtt_ms * 1_000_000,
                        una: 0,
                        end: 0,
                    },
                );
            }
        }
        now_ms
    }

    #[test]
    fn returns_to_the_old_window_after_k() {
        // W_max = 1000: K = cbrt(300 / 0.4) = 9.086 s.
        let mut cubic = Cubic::new(false);
        let mut window = Window::new(1000, Some(1), u32::MAX);
        window.ssthresh = cubic.threshold(&window);
        assert_eq!(window.ssthresh, 700);
        window.cwnd = 700;
        let now = run(&mut cubic, &mut window, 0, 45, 100);
        // Half of K: 1000 - 0.4 · (9.086 - 4.5)³ = 961.
        assert!((955..=966).contains(&window.cwnd), "{}", window.cwnd);
        let now = run(&mut cubic, &mut window, now, 46, 100);
        assert!((998..=1001).contains(&window.cwnd), "{}", window.cwnd);
        run(&mut cubic, &mut window, now, 45, 100);
        // 4.5 s beyond: 1000 + 0.4 · 4.5³ = 1036.
        assert!((1030..=1042).contains(&window.cwnd), "{}", window.cwnd);
        // Fast convergence: a loss below the plateau moves it to 0.85 of the window.
        cubic.threshold(&window);
        window.cwnd = 900;
        cubic.threshold(&window);
        assert!((cubic.w_max - 765.0).abs() < 1e-9);
    }

    #[test]
    fn is_as_fast_as_reno_where_that_is_faster() {
        // W = 20, RTT 10 ms: cubic growth is slow, Reno's is 0.529 segments per round trip.
        let mut cubic = Cubic::new(false);
        let mut window = Window::new(20, Some(1), u32::MAX);
        window.ssthresh = cubic.threshold(&window);
        window.cwnd = 14;
        run(&mut cubic, &mut window, 0, 11, 10);
        assert!((19..=20).contains(&window.cwnd), "{}", window.cwnd);
    }
}
