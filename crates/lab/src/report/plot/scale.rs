//! Axis scales: mapping of values to positions on the page.

use super::ticks::{self, Ticks};
use crate::report::model::{Axis, Scale};
use crate::report::text;

/// Width of the strip beside a logarithmic axis in which zero is drawn, SVG units.
const ZERO_STRIP: f64 = 26.0;

/// A numeric axis with the page positions of its ends.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) ticks: Ticks,
    log: bool,
    /// Page position of the lower end.
    from: f64,
    to: f64,
    /// Page position of zero and negative values, beyond the break of a logarithmic axis; `None` without such values.
    zero: Option<f64>,
}

/// Range of values that an axis must include.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    low: f64,
    high: f64,
    low_positive: f64,
    has_zero: bool,
}

impl Range {
    /// Returns the range of the finite `values`, extended by the axis's [`reach`](Axis::reach).
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let reach = axis.reach.map(|(low, high)| [low, high]);
        let mut range =
            Self { low: f64::INFINITY, high: f64::NEG_INFINITY, low_positive: f64::INFINITY, has_zero: false };
        for value in reach.into_iter().flatten().chain(values).filter(|value| value.is_finite()) {
            range.low = range.low.min(value);
            range.high = range.high.max(value);
            if value > 0.0 {
                range.low_positive = range.low_positive.min(value);
            } else {
                range.has_zero = true;
            }
        }
        range
    }

    /// Returns true if the range contains no value.
    pub(super) fn is_empty(&self) -> bool {
        self.low > self.high
    }

    /// Extends the range to zero if its lower end is below 80 % of its upper end, or if `always`. A curve between 400
    /// and 945 Mbit/s thus starts at zero, but a Jain index between 0.9 and 1 does not.
    pub(super) fn down_to_zero(self, always: bool) -> Self {
        if self.low > 0.0 && (always || self.low < 0.8 * self.high) { Self { low: 0.0, ..self } } else { self }
    }
}

impl Mapping {
    /// Creates an axis over `range` between the page positions `from` and `to`, with about `count` ticks.
    pub(super) fn new(axis: &Axis, range: Range, (from, to): (f64, f64), count: usize) -> Self {
        let log = axis.scale == Scale::Log;
        if !log {
            let (low, high) = if range.is_empty() { (0.0, 1.0) } else { (range.low, range.high) };
            return Self { ticks: ticks::linear(low, high, count), log, from, to, zero: None };
        }
        // If all values are zero, the axis still needs positive ticks.
        let ticks = if range.low_positive.is_finite() {
            ticks::log(range.low_positive, range.high, count)
        } else {
            ticks::log(1.0, 10.0, count)
        };
        let strip = if from < to { ZERO_STRIP } else { -ZERO_STRIP };
        let zero = range.has_zero.then_some(from);
        Self { ticks, log, from: if range.has_zero { from + strip } else { from }, to, zero }
    }

    /// Returns the page position of `value`; `None` if it is not finite.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let (low, high) = (self.ticks.low(), self.ticks.high());
        let share = if self.log {
            if value <= 0.0 {
                return Some(self.zero.unwrap_or(self.from));
            }
            // A quotient of extreme values could overflow, so logarithms are subtracted.
            (value.ln() - low.ln()) / (high.ln() - low.ln())
        } else {
            (value - low) / (high - low)
        };
        Some(self.from + share.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// Returns true if `value` is drawn on the line for zero, beyond the axis break.
    pub(super) fn is_on_zero_line(&self, value: f64) -> bool {
        self.zero.is_some() && value <= 0.0
    }

    /// Returns the page position where bars start: zero, or the lower end if the axis does not include zero.
    pub(super) fn base(&self) -> f64 {
        self.at(0.0).unwrap_or(self.from)
    }

    /// Returns the page positions of the line for zero and of the axis break; `None` without a break.
    pub(super) fn zero_and_break(&self) -> Option<(f64, f64)> {
        self.zero.map(|zero| (zero, (zero + self.from) / 2.0))
    }

    /// Returns the page positions and texts of the numbers: at all major ticks, and at zero.
    pub(super) fn labels(&self) -> Vec<(f64, String)> {
        let largest = self.ticks.low().abs().max(self.ticks.high().abs());
        let zero = self.zero.map(|place| (place, "0".to_owned()));
        let numbers = self.ticks.major.iter().filter_map(|&tick| {
            let label = match self.ticks.step {
                Some(step) => text::tick(tick, step, largest),
                None => text::log_tick(tick),
            };
            self.at(tick).map(|place| (place, label))
        });
        zero.into_iter().chain(numbers).collect()
    }

    /// Iterates over the page positions of the minor ticks.
    pub(super) fn minor(&self) -> impl Iterator<Item = f64> {
        self.ticks.minor.iter().filter_map(|&tick| self.at(tick))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(axis: &Axis, values: &[f64]) -> Mapping {
        Mapping::new(axis, Range::of(axis, values.iter().copied()), (300.0, 0.0), 6)
    }

    #[test]
    fn a_linear_axis_maps_its_ends_and_refuses_what_is_no_number() {
        let axis = mapping(&Axis::linear("Goodput", "Mbit/s"), &[0.0, 945.0, f64::NAN, f64::INFINITY]);
        assert_eq!((axis.at(0.0), axis.at(500.0), axis.at(1000.0)), (Some(300.0), Some(150.0), Some(0.0)));
        assert_eq!(axis.at(f64::NAN), None);
        assert_eq!(axis.zero_and_break(), None);
    }

    #[test]
    fn zero_stands_past_the_break_of_a_logarithmic_axis() {
        let axis = mapping(&Axis::log("Goodput", "Mbit/s"), &[0.0, 0.2, 900.0]);
        assert_eq!(axis.at(0.0), Some(300.0));
        assert_eq!(axis.at(0.1), Some(300.0 - ZERO_STRIP));
        assert!(axis.is_on_zero_line(0.0) && !axis.is_on_zero_line(0.1));
        assert_eq!(axis.labels().first().map(|(_, label)| label.as_str()), Some("0"));
        let without = mapping(&Axis::log("Goodput", "Mbit/s"), &[0.2, 900.0]);
        assert_eq!(without.at(0.1), Some(300.0));
        assert_eq!(without.zero_and_break(), None);
    }

    #[test]
    fn axes_without_values_still_have_ticks() {
        for axis in [Axis::linear("", ""), Axis::log("", "")] {
            assert!(mapping(&axis, &[]).ticks.major.len() >= 2);
            assert!(mapping(&axis, &[0.0]).ticks.major.len() >= 2);
        }
    }

    #[test]
    fn an_axis_reaches_what_it_must() {
        let axis = Axis::linear("Jain index", "").reaching(0.0, 1.0);
        assert_eq!(mapping(&axis, &[0.93, 0.98]).ticks.low(), 0.0);
    }
}
