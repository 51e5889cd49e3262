//! Maximum or minimum over a sliding window, in constant memory.

/// Minimum over a sliding window.
pub type WindowedMin<V, const PARTS: usize> = WindowedExtremum<V, PARTS, false>;

/// Maximum over a sliding window.
pub type WindowedMax<V, const PARTS: usize> = WindowedExtremum<V, PARTS, true>;

/// Extremum over a sliding window of `PARTS` parts: the newest part and the `PARTS` − 1 parts before it. `PARTS` is at
/// least 1.
///
/// The caller numbers the parts, for example by rounds, or by time divided by the length of a part. A value then counts
/// for `PARTS` − 1 to `PARTS` times that length.
///
/// Linux keeps three candidates instead (`lib/win_minmax.c`). With irregular values these may forget the best value of
/// the window's last quarter.
#[derive(Clone, Copy, Debug)]
pub struct WindowedExtremum<V, const PARTS: usize, const IS_MAX: bool> {
    newest: u64,
    /// Extremum of each part, indexed by part number modulo `PARTS`.
    extrema: [Option<V>; PARTS],
}

impl<V: PartialOrd + Copy, const PARTS: usize, const IS_MAX: bool> WindowedExtremum<V, PARTS, IS_MAX> {
    /// Creates an empty window.
    #[must_use]
    pub const fn new() -> Self {
        Self { newest: 0, extrema: [None; PARTS] }
    }

    /// Returns the extremum of the window that ends with the newest part. `None` before the first value.
    #[must_use]
    pub fn get(&self) -> Option<V> {
        self.extrema.into_iter().flatten().reduce(Self::better)
    }

    /// Adds `value` to the part with number `part`. A number below the newest counts as the newest.
    pub fn update(&mut self, part: u64, value: V) {
        let part = part.max(self.newest);
        let passed = (part - self.newest).min(PARTS as u64);
        for gone in 0..passed {
            self.extrema[((part - gone) % PARTS as u64) as usize] = None;
        }
        self.newest = part;
        let index = (part % PARTS as u64) as usize;
        self.extrema[index] = Some(self.extrema[index].map_or(value, |best| Self::better(best, value)));
    }

    fn better(best: V, value: V) -> V {
        let is_better = if IS_MAX { value > best } else { value < best };
        if is_better { value } else { best }
    }
}

impl<V: PartialOrd + Copy, const PARTS: usize, const IS_MAX: bool> Default for WindowedExtremum<V, PARTS, IS_MAX> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forgets_what_is_older_than_the_window() {
        let mut max = WindowedMax::<f64, 11>::new();
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
    fn a_number_that_goes_back_counts_as_the_newest() {
        let mut min = WindowedMin::<u32, 2>::new();
        for (part, value, least) in [(10, 5, 5), (0, 7, 5), (0, 3, 3), (11, 9, 3), (12, 8, 8)] {
            min.update(part, value);
            assert_eq!(min.get(), Some(least), "{part}");
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_reached() {
        let mut max = WindowedMax::<u32, 2>::new();
        for (part, value) in [(0, 2), (u64::MAX, 1)] {
            max.update(part, value);
            assert_eq!(max.get(), Some(value));
        }
    }

    /// Reference model: returns the maximum over the newest part and the `parts` − 1 parts before it.
    fn model(samples: &[(u64, i32)], part_length: u64, parts: u64) -> Option<i32> {
        let newest = samples.last()?.0 / part_length;
        samples.iter().filter(|(at, _)| newest - at / part_length < parts).map(|&(_, value)| value).max()
    }

    fn agrees<const PARTS: usize>(part_length: u64, steps: &[(u64, i32)]) -> Result<(), TestCaseError> {
        let mut max = WindowedMax::<i32, PARTS>::new();
        let mut min = WindowedMin::<i32, PARTS>::new();
        let mut samples = Vec::new();
        let mut at = 0;
        for &(gap, value) in steps {
            at += gap;
            samples.push((at, value));
            max.update(at / part_length, value);
            min.update(at / part_length, -value);
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
