//! The largest value of the last few rounds.

/// A windowed maximum by three candidates, best first (Kathleen Nichols' algorithm, `lib/win_minmax.c` of Linux).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowedMax {
    candidates: [(u64, f64); 3],
}

impl WindowedMax {
    pub(super) fn get(&self) -> f64 {
        self.candidates[0].1
    }

    /// Takes in a `value` of round `round`; values more than `window` rounds old are forgotten.
    pub(super) fn update(&mut self, window: u64, round: u64, value: f64) {
        let new = (round, value);
        if value >= self.candidates[0].1 || round - self.candidates[2].0 > window {
            self.candidates = [new; 3];
            return;
        }
        if value >= self.candidates[1].1 {
            self.candidates[1] = new;
            self.candidates[2] = new;
        } else if value >= self.candidates[2].1 {
            self.candidates[2] = new;
        }
        self.age(window, new);
    }

    fn age(&mut self, window: u64, new: (u64, f64)) {
        let age = new.0 - self.candidates[0].0;
        if age > window {
            self.candidates = [self.candidates[1], self.candidates[2], new];
            if new.0 - self.candidates[0].0 > window {
                self.candidates = [self.candidates[1], new, new];
            }
        } else if self.candidates[1].0 == self.candidates[0].0 && age > window / 4 {
            self.candidates[1] = new;
            self.candidates[2] = new;
        } else if self.candidates[2].0 == self.candidates[1].0 && age > window / 2 {
            self.candidates[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_is_older_than_the_window() {
        let mut max = WindowedMax::default();
        max.update(10, 0, 5.0);
        for round in 1..=10 {
            max.update(10, round, 3.0);
            assert_eq!(max.get(), 5.0, "{round}");
        }
        max.update(10, 11, 2.0);
        assert_eq!(max.get(), 3.0);
        max.update(10, 12, 7.0);
        assert_eq!(max.get(), 7.0);
        max.update(10, 30, 1.0);
        assert_eq!(max.get(), 1.0);
    }
}
