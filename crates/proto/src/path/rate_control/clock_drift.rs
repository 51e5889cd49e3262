//! Drift of the peer's clock against ours (\[auto-13\]). A one-way delay, which is by both clocks, grows with it; a round trip, which is
//! by ours alone, does not. The delay of the way back changes too, but not steadily.

use std::collections::VecDeque;

/// The difference of round trip and one-way delay is least once in each part, seconds; this many parts are compared.
const PART_S: f64 = 4.0;
const PARTS: usize = 6;
/// Clocks of machines differ by less, in seconds per second.
const DRIFT_MAX: f64 = 0.0003;
/// Falls of an idle way back differ by less, the outer quarters left out.
const SPREAD_MAX: f64 = 0.0001;

/// The estimate, and what it has added up to.
#[derive(Debug, Default)]
pub(in crate::path) struct ClockDrift {
    /// The least difference of each part, oldest first.
    least_s: VecDeque<f64>,
    part_begin_s: f64,
    last_s: f64,
    rate: f64,
    /// Shift of the peer's clock against ours since the beginning, by the drift known at each time, seconds.
    sum_s: f64,
}

impl ClockDrift {
    /// At `now_s` of our clock the round trip was `rtt_s` and the one-way delay, as the clocks show it, `delay_s`.
    pub(in crate::path) fn note(&mut self, now_s: f64, rtt_s: f64, delay_s: f64) {
        let difference_s = rtt_s - delay_s;
        if self.least_s.is_empty() || now_s - self.part_begin_s >= PART_S {
            let is_gap = now_s - self.part_begin_s >= 2.0 * PART_S;
            if is_gap {
                self.least_s.clear();
            }
            if self.least_s.len() == PARTS {
                self.least_s.pop_front();
            }
            self.estimate();
            self.least_s.push_back(difference_s);
            self.part_begin_s = now_s;
        }
        if let Some(least_s) = self.least_s.back_mut() {
            *least_s = least_s.min(difference_s);
        }
        self.sum_s += self.rate * (now_s - self.last_s).clamp(0.0, PART_S);
        self.last_s = now_s;
    }

    /// Correction to subtract from one-way delays, seconds.
    pub(in crate::path) fn sum_s(&self) -> f64 {
        self.sum_s
    }

    /// The median of what the difference fell by from each part to the next: one step of the way back changes one of them. If most of
    /// them differ, the way back is busy, and nothing is learnt.
    fn estimate(&mut self) {
        let pairs = self.least_s.iter().zip(self.least_s.iter().skip(1));
        let mut falls: Vec<f64> = pairs.map(|(before, after)| (before - after) / PART_S).collect();
        if falls.len() < 2 {
            return;
        }
        falls.sort_by(f64::total_cmp);
        let quarter = falls.len() / 4;
        if falls[falls.len() - 1 - quarter] - falls[quarter] > SPREAD_MAX {
            return;
        }
        let (low, high) = (falls[(falls.len() - 1) / 2], falls[falls.len() / 2]);
        let rate = 0.5 * (low + high);
        if rate.abs() <= DRIFT_MAX {
            self.rate = rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remainder of a drift in a minute's one-way delays, ms, with these waits on the way back.
    fn left_ms(drift: f64, waits_s: impl Fn(f64) -> f64) -> f64 {
        let mut clock = ClockDrift::default();
        let at = |step: u32| 0.01 * f64::from(step);
        for step in 0..6_000 {
            let now_s = at(step);
            let queue_s = 0.002 * f64::from(step % 7);
            clock.note(now_s, 0.02 + queue_s + waits_s(now_s), 5.0 + queue_s + drift * now_s);
        }
        // The least delay is remembered for twenty seconds.
        let begin = clock.sum_s;
        for step in 6_000..8_000 {
            let now_s = at(step);
            clock.note(now_s, 0.02 + waits_s(now_s), 5.0 + drift * now_s);
        }
        (drift * 20.0 - (clock.sum_s - begin)) * 1e3
    }

    #[test]
    fn a_steady_drift_is_taken_off() {
        for drift in [0.0, 50e-6, 100e-6, -100e-6] {
            let left = left_ms(drift, |_| 0.0);
            assert!(left.abs() < 0.1, "{drift}: {left} ms");
        }
    }

    #[test]
    fn a_queue_on_the_way_back_is_none() {
        let left = left_ms(100e-6, |now_s| if now_s > 40.0 { 0.05 } else { 0.0 });
        assert!(left.abs() < 0.1, "a step: {left} ms");
        // A sawtooth of some seconds, as flows of TCP make.
        for period_s in [3.0, 7.0, 11.0, 29.0] {
            let left = left_ms(0.0, |now_s| 0.05 * (now_s % period_s) / period_s);
            assert!(left.abs() < 0.5, "a sawtooth of {period_s} s: {left} ms");
        }
    }

    #[test]
    fn no_more_is_believed_than_clocks_drift() {
        let left = left_ms(0.01, |_| 0.0);
        assert!((left - 200.0).abs() < 1e-6, "{left} ms");
    }
}
