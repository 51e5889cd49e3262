//! The largest or the smallest of recent values, in constant memory.

/// Which end of the values counts.
#[derive(Clone, Copy, Debug)]
enum End {
    Least,
    Greatest,
}

/// A windowed minimum or maximum: the extremum of the present part of the window and of the `PARTS` − 1 parts before it.
///
/// So a value counts for `PARTS` − 1 to `PARTS` times the length of a part; `PARTS` is at least 1. Positions are whatever the
/// caller counts, such as nanoseconds or rounds. One that goes back counts as the newest.
///
/// Linux keeps three candidates instead (`lib/win_minmax.c`), which may forget the best value of the window's last quarter when
/// values come irregularly.
#[derive(Clone, Copy, Debug)]
pub struct WindowedExtremum<V, const PARTS: usize> {
    end: End,
    part_length: u64,
    /// Number of the newest part, from position 0 on.
    newest: u64,
    /// The extremum of each part, at its number modulo `PARTS`.
    extrema: [Option<V>; PARTS],
}

impl<V: PartialOrd + Copy, const PARTS: usize> WindowedExtremum<V, PARTS> {
    /// The least value of the last parts, each of which is `part_length` long, at least 1.
    #[must_use]
    pub const fn min(part_length: u64) -> Self {
        Self::new(End::Least, part_length)
    }

    /// The greatest value of the last parts, each of which is `part_length` long, at least 1.
    #[must_use]
    pub const fn max(part_length: u64) -> Self {
        Self::new(End::Greatest, part_length)
    }

    const fn new(end: End, part_length: u64) -> Self {
        let part_length = if part_length == 0 { 1 } else { part_length };
        Self { end, part_length, newest: 0, extrema: [None; PARTS] }
    }

    /// The extremum at the position of the newest value; `None` before the first.
    #[must_use]
    pub fn get(&self) -> Option<V> {
        self.extrema.into_iter().flatten().reduce(|best, value| self.better(best, value))
    }

    /// Takes in `value` at the position `at`.
    pub fn update(&mut self, at: u64, value: V) {
        let part = (at / self.part_length).max(self.newest);
        let passed = (part - self.newest).min(PARTS as u64);
        for gone in 0..passed {
            self.extrema[((part - gone) % PARTS as u64) as usize] = None;
        }
        self.newest = part;
        let index = (part % PARTS as u64) as usize;
        self.extrema[index] = Some(self.extrema[index].map_or(value, |best| self.better(best, value)));
    }

    fn better(&self, best: V, value: V) -> V {
        let is_better = match self.end {
            End::Least => value < best,
            End::Greatest => value > best,
        };
        if is_better { value } else { best }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forgets_what_is_older_than_the_window() {
        let mut max = WindowedExtremum::<f64, 11>::max(1);
        assert_eq!(max.get(), None);
        max.update(0, 5.0);
        for round in 1..=10 {
            max.update(round, 3.0);
            assert_eq!(max.get(), Some(5.0), "{round}");
        }
        for (round, value, greatest) in [(11, 2.0, 3.0), (12, 7.0, 7.0), (30, 1.0, 1.0)] {
            max.update(round, value);
            assert_eq!(max.get(), Some(greatest), "{round}");
        }
    }

    #[test]
    fn a_position_that_goes_back_counts_as_the_newest() {
        let mut min = WindowedExtremum::<u32, 2>::min(10);
        for (at, value, least) in [(100, 5, 5), (0, 7, 5), (0, 3, 3), (110, 9, 3), (120, 8, 8)] {
            min.update(at, value);
            assert_eq!(min.get(), Some(least), "{at}");
        }
    }

    #[test]
    fn the_ends_of_the_positions_are_reached() {
        let mut max = WindowedExtremum::<u32, 2>::max(0);
        for (at, value) in [(0, 2), (u64::MAX, 1)] {
            max.update(at, value);
            assert_eq!(max.get(), Some(value));
        }
    }

    /// The greatest of the values of the newest part and of the `parts` − 1 before it.
    fn model(samples: &[(u64, i32)], part_length: u64, parts: u64) -> Option<i32> {
        let newest = samples.last()?.0 / part_length;
        samples.iter().filter(|(at, _)| newest - at / part_length < parts).map(|&(_, value)| value).max()
    }

    fn agrees<const PARTS: usize>(part_length: u64, steps: &[(u64, i32)]) -> Result<(), TestCaseError> {
        let mut max = WindowedExtremum::<i32, PARTS>::max(part_length);
        let mut min = WindowedExtremum::<i32, PARTS>::min(part_length);
        let mut samples = Vec::new();
        let mut at = 0;
        for &(gap, value) in steps {
            at += gap;
            samples.push((at, value));
            max.update(at, value);
            min.update(at, -value);
            prop_assert_eq!(max.get(), model(&samples, part_length, PARTS as u64), "{:?}", samples);
            prop_assert_eq!(min.get(), max.get().map(|greatest| -greatest));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn it_is_the_extremum_of_the_window(
            part_length in 1_u64..20,
            steps in prop::collection::vec((prop_oneof![8 => 0_u64..4, 1 => 0_u64..90], -20_i32..20), 1..100),
        ) {
            agrees::<1>(part_length, &steps)?;
            agrees::<2>(part_length, &steps)?;
            agrees::<11>(part_length, &steps)?;
        }
    }
}
