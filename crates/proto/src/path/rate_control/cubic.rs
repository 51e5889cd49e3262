//! A window as CUBIC's (RFC 9438), driven by congestion events instead of losses.

/// RFC 9438, section 4.1 and 4.6.
const SCALE_PER_S3: f64 = 0.4;
const DECREASE: f64 = 0.7;
/// Per round trip in the region where Reno would be faster (section 4.3).
const RENO_INCREASE: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);

/// In datagrams and seconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::path) struct VirtualCubic {
    window: f64,
    window_max: f64,
    /// Up to this it doubles in each round trip.
    slow_start_end: f64,
    reno: f64,
    /// Since the last event, and how long the way back up takes.
    elapsed_s: f64,
    plateau_s: f64,
}

impl VirtualCubic {
    pub(in crate::path) fn new(window: f64, slow_start_end: f64) -> Self {
        Self { window, window_max: window, slow_start_end, reno: window, elapsed_s: 0.0, plateau_s: 0.0 }
    }

    pub(in crate::path) fn scale(&mut self, factor: f64) {
        for window in [&mut self.window, &mut self.window_max, &mut self.slow_start_end, &mut self.reno] {
            *window *= factor;
        }
    }

    pub(in crate::path) fn window(&self) -> f64 {
        self.window
    }

    /// `elapsed_s` have passed, with round trips of `rtt_s`; the window does not exceed `most`.
    pub(in crate::path) fn grow(&mut self, elapsed_s: f64, rtt_s: f64, most: f64) {
        if self.window < self.slow_start_end {
            self.window = (self.window * (1.0 + elapsed_s / rtt_s)).min(self.slow_start_end).min(most.max(1.0));
            (self.window_max, self.reno) = (self.window, self.window);
            return;
        }
        self.elapsed_s += elapsed_s;
        self.reno += RENO_INCREASE * elapsed_s / rtt_s;
        let ahead_s = self.elapsed_s + rtt_s - self.plateau_s;
        let cubic = self.window_max + SCALE_PER_S3 * ahead_s * ahead_s * ahead_s;
        // Towards the target within a round trip, and by half of the window at most.
        let target = cubic.clamp(self.window, 1.5 * self.window);
        let step = (target - self.window) * (elapsed_s / rtt_s).min(1.0);
        self.window = (self.window + step).max(self.reno.min(1.5 * self.window)).min(most.max(1.0));
    }

    pub(in crate::path) fn on_event(&mut self) {
        self.slow_start_end = 0.0;
        // Fast convergence (section 4.7).
        self.window_max =
            if self.window < self.window_max { self.window * (1.0 + DECREASE) / 2.0 } else { self.window };
        self.window *= DECREASE;
        self.reno = self.window;
        self.elapsed_s = 0.0;
        self.plateau_s = cube_root((self.window_max - self.window).max(0.0) / SCALE_PER_S3);
    }
}

/// Cube root by Newton's method: unlike `f64::cbrt`, it gives the same bits on every machine.
fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let mut root = value.max(1.0).sqrt();
    for _ in 0..40 {
        root -= (root * root * root - value) / (3.0 * root * root);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for value in [1e-3, 0.5, 1.0, 27.0, 1e6, 1e12] {
            let root = cube_root(value);
            assert!((root * root * root / value - 1.0).abs() < 1e-9, "{value}: {root}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }

    #[test]
    fn it_begins_by_slow_start_until_an_event() {
        let mut cubic = VirtualCubic::new(10.0, 160.0);
        (0..10).for_each(|_| cubic.grow(0.01, 0.1, f64::INFINITY));
        assert!((24.0..28.0).contains(&cubic.window()), "{}", cubic.window());
        let mut slowed = cubic;
        slowed.on_event();
        (0..10).for_each(|_| slowed.grow(0.01, 0.1, f64::INFINITY));
        assert!(slowed.window() < cubic.window(), "{}", slowed.window());
        (0..60).for_each(|_| cubic.grow(0.01, 0.1, f64::INFINITY));
        assert!((160.0..180.0).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn it_comes_back_to_where_it_was_after_the_plateaus_time() {
        let mut cubic = VirtualCubic::new(1_000.0, 0.0);
        cubic.on_event();
        assert!((cubic.window() - 700.0).abs() < 1e-9);
        let plateau_s = cubic.plateau_s;
        assert!((plateau_s - 9.086).abs() < 0.01, "{plateau_s}");
        for _ in 0..(plateau_s / 0.01) as u32 {
            cubic.grow(0.01, 0.1, f64::INFINITY);
        }
        assert!((cubic.window() - 1_000.0).abs() < 10.0, "{}", cubic.window());
    }
}
