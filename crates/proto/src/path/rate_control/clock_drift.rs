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

/// A drift that exceeds this rate is greater than that of any clock. It shows in this number of parts of this length, seconds, if
/// their falls differ by less than this part of their mean.
const GREAT: f64 = 0.002;
const EARLY_PART_S: f64 = 0.5;
const EARLY_PARTS: usize = 4;
const EARLY_SPREAD: f64 = 0.25;
/// Short parts after which a great drift is not believed any more unless one of them shows it again.
const UNCONFIRMED_MAX: u32 = 6;

/// The estimate, and what it has added up to.
#[derive(Debug)]
pub(in crate::path) struct ClockDrift {
    /// Greatest rate that is believed, seconds per second.
    max: f64,
    /// The least difference of each part, oldest first.
    least_s: VecDeque<f64>,
    part_begin_s: f64,
    /// The least difference and the least round trip in short parts, and when the last of these began.
    early_s: VecDeque<(f64, f64)>,
    early_begin_s: f64,
    /// Short parts since the last that showed the great drift that is believed.
    unconfirmed: u32,
    last_s: f64,
    rate: f64,
    /// Shift of the peer's clock against ours since the beginning, by the drift known at each time, seconds.
    sum_s: f64,
}

impl Default for ClockDrift {
    fn default() -> Self {
        Self::new(DRIFT_MAX)
    }
}

impl ClockDrift {
    /// Drifts up to `max` seconds per second are believed.
    pub(in crate::path) fn new(max: f64) -> Self {
        Self {
            max,
            least_s: VecDeque::new(),
            part_begin_s: 0.0,
            early_s: VecDeque::new(),
            early_begin_s: 0.0,
            unconfirmed: 0,
            last_s: 0.0,
            rate: 0.0,
            sum_s: 0.0,
        }
    }

    /// At `now_s` of our clock the round trip was `rtt_s` and the one-way delay, as the clocks show it, `delay_s`. Returns true if
    /// the peer's clock has turned out to be much too fast, so that the delays from before are too small.
    pub(in crate::path) fn note(&mut self, now_s: f64, rtt_s: f64, delay_s: f64) -> bool {
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
        let is_great = self.note_early(now_s, difference_s, rtt_s);
        self.sum_s += self.rate * (now_s - self.last_s).clamp(0.0, PART_S);
        self.last_s = now_s;
        is_great
    }

    /// Correction to subtract from one-way delays, seconds.
    pub(in crate::path) fn sum_s(&self) -> f64 {
        self.sum_s
    }

    /// A great drift is known early. Returns true when one that lengthens delays becomes known.
    fn note_early(&mut self, now_s: f64, difference_s: f64, rtt_s: f64) -> bool {
        let before = self.rate;
        if self.early_s.is_empty() || now_s - self.early_begin_s >= EARLY_PART_S {
            if now_s - self.early_begin_s >= 2.0 * EARLY_PART_S {
                self.early_s.clear();
            }
            if self.early_s.len() > EARLY_PARTS {
                self.estimate_early();
                self.early_s.pop_front();
            }
            self.early_s.push_back((difference_s, rtt_s));
            self.early_begin_s = now_s;
        }
        if let Some((least_difference_s, least_rtt_s)) = self.early_s.back_mut() {
            *least_difference_s = least_difference_s.min(difference_s);
            *least_rtt_s = least_rtt_s.min(rtt_s);
        }
        self.rate - before > GREAT
    }

    /// A clock that runs away changes one-way delays, and no round trip; a queue on the way back changes the round trip.
    fn estimate_early(&mut self) {
        let parts = || self.early_s.iter().zip(self.early_s.iter().skip(1));
        let falls = || parts().map(|(before, after)| (before.0 - after.0) / EARLY_PART_S);
        let (least, greatest) = (falls().fold(f64::INFINITY, f64::min), falls().fold(f64::NEG_INFINITY, f64::max));
        let rate = falls().sum::<f64>() / (self.early_s.len() - 1) as f64;
        let is_alike = greatest - least < EARLY_SPREAD * rate.abs();
        let moves = parts().map(|(before, after)| (after.1 - before.1).abs() / EARLY_PART_S).fold(0.0, f64::max);
        if rate.abs() > GREAT && rate.abs() <= self.max && is_alike && moves < 0.5 * rate.abs() {
            (self.rate, self.unconfirmed) = (rate, 0);
        } else if self.rate.abs() > DRIFT_MAX {
            self.unconfirmed += 1;
            if self.unconfirmed > UNCONFIRMED_MAX {
                self.rate = 0.0;
            }
        }
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

    /// Round trip of 20 ms, one-way delays by this drift, and these waits on the way back: the rate that is believed after
    /// three seconds, and after ten.
    fn believed(drift: f64, waits_s: impl Fn(f64) -> f64) -> [f64; 2] {
        let mut clock = ClockDrift::new(0.02);
        [3.0, 10.0].map(|until_s| {
            let first = (clock.last_s * 100.0) as u32;
            for step in first..(until_s * 100.0) as u32 {
                let now_s = 0.01 * f64::from(step);
                clock.note(now_s, 0.02 + waits_s(now_s), 5.0 + drift * now_s);
            }
            clock.rate
        })
    }

    #[test]
    fn a_great_drift_is_known_early() {
        for drift in [0.01, -0.01] {
            for rate in believed(drift, |_| 0.0) {
                assert!((rate - drift).abs() < 0.001, "{rate} of {drift}");
            }
        }
        assert_eq!(believed(0.03, |_| 0.0), [0.0; 2], "no clock");
    }

    /// A clock that stops running away is believed again within some seconds.
    #[test]
    fn a_great_drift_that_ends_is_not_believed_any_more() {
        let mut clock = ClockDrift::new(0.02);
        for step in 0..1_000 {
            let now_s = 0.01 * f64::from(step);
            clock.note(now_s, 0.02, 5.0 + 0.01 * now_s.min(4.0));
        }
        assert!(clock.rate.abs() <= DRIFT_MAX, "{}", clock.rate);
    }

    #[test]
    fn a_way_back_that_fills_and_empties_is_no_great_drift() {
        for period_s in [0.7, 1.3, 2.9, 5.1, 11.0] {
            for rate in believed(0.0, |now_s| 0.1 * (now_s % period_s) / period_s) {
                assert!(rate.abs() < GREAT, "{rate}: a sawtooth of {period_s} s");
            }
        }
    }

    #[test]
    fn no_more_is_believed_than_clocks_drift() {
        let left = left_ms(0.01, |_| 0.0);
        assert!((left - 200.0).abs() < 1e-6, "{left} ms");
    }
}
