//! Ticks of an axis: 1-2-5 steps on linear axes, powers of ten or 1-2-5 on logarithmic axes.

/// Greatest magnitude on an axis; larger values are clamped to it, so that no step overflows.
const LARGEST: f64 = 1e300;
const SMALLEST: f64 = 1e-300;

/// Least width of a range, relative to its largest magnitude. In a narrower one, doubles cannot distinguish ticks.
const SPAN_MIN: f64 = 1e-9;

/// Decades below which a logarithmic axis has ticks at 1, 2 and 5; wider axes have ticks at powers of ten only.
const DECADES_125: f64 = 1.7;

/// Ticks of an axis. First and last major tick enclose the data.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Ticks {
    /// Ticks with numbers, ascending; 2 to 12.
    pub(super) major: Vec<f64>,
    /// Ticks without numbers, between the major ticks.
    pub(super) minor: Vec<f64>,
    /// Distance between major ticks; `None` on a logarithmic axis.
    pub(super) step: Option<f64>,
}

impl Ticks {
    /// Returns the lower end of the axis.
    pub(super) fn low(&self) -> f64 {
        self.major.first().copied().unwrap_or(0.0)
    }

    /// Returns the upper end of the axis.
    pub(super) fn high(&self) -> f64 {
        self.major.last().copied().unwrap_or(1.0)
    }
}

/// Returns the ticks of a linear axis from `low` to `high`, with about `steps` intervals (clamped to 2..=10). Rounding
/// to whole steps may add one at either end.
pub(in crate::report) fn linear(low: f64, high: f64, steps: usize) -> Ticks {
    let (low, high) = widened(low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST));
    let least = (high - low) / steps.clamp(2, 10) as f64;
    let power = 10f64.powi(least.log10().floor() as i32);
    // Without the tolerance, a rounding error of the division would turn a step of 0.2 into 0.5.
    let (factor, parts) = [(1.0, 5), (2.0, 4), (5.0, 5)]
        .into_iter()
        .find(|(factor, _)| factor * power >= least * (1.0 - 1e-9))
        .unwrap_or((10.0, 5));
    let step = factor * power;
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil().max(first + 1.0);
    let count = (last - first) as u32;
    let major = (0..=count).map(|index| (first + f64::from(index)) * step).collect();
    let minor = (0..count * parts)
        .filter(|index| index % parts != 0)
        .map(|index| (first + f64::from(index) / f64::from(parts)) * step)
        .collect();
    Ticks { major, minor, step: Some(step) }
}

/// Orders `low` and `high`, and widens a range that is too narrow for ticks.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = if low <= high { (low, high) } else { (high, low) };
    let largest = low.abs().max(high.abs());
    if largest < SMALLEST {
        return (0.0, 1.0);
    }
    if high - low > largest * SPAN_MIN {
        return (low, high);
    }
    (low - largest * 0.1, high + largest * 0.1)
}

/// Returns the ticks of a logarithmic axis from `low` to `high`, both positive. There are at most `majors` powers of
/// ten (clamped to 3..=10); rounding may add one at either end.
pub(in crate::report) fn log(low: f64, high: f64, majors: usize) -> Ticks {
    let (low, high) = (low.min(high).clamp(SMALLEST, LARGEST), high.max(low).clamp(SMALLEST, LARGEST));
    if (high / low).log10() < DECADES_125 { log_125(low, high) } else { log_powers(low, high, majors.clamp(3, 10)) }
}

fn log_powers(low: f64, high: f64, majors: usize) -> Ticks {
    let first = (low.log10() + 1e-9).floor() as i32;
    let last = (high.log10() - 1e-9).ceil() as i32;
    let decades = last - first;
    let stride = divided_up(decades, i32::try_from(majors).unwrap_or(10));
    let count = divided_up(decades, stride);
    // After rounding up, the last tick must still be a finite double.
    let first = first.min(f64::MAX_10_EXP - count * stride);
    let major = (0..=count).map(|index| 10f64.powi(first + index * stride)).collect();
    let minor = if stride == 1 {
        (0..count).flat_map(|index| (2..=9).map(move |digit| f64::from(digit) * 10f64.powi(first + index))).collect()
    } else {
        (1..count * stride).filter(|index| index % stride != 0).map(|index| 10f64.powi(first + index)).collect()
    };
    Ticks { major, minor, step: None }
}

fn log_125(low: f64, high: f64) -> Ticks {
    let first = low.log10().floor() as i32 - 1;
    let candidates: Vec<f64> =
        (0..5).flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(first + decade))).collect();
    let begin = candidates.iter().rposition(|&tick| tick <= low * (1.0 + 1e-9)).unwrap_or(0);
    let end = candidates.iter().position(|&tick| tick >= high * (1.0 - 1e-9)).unwrap_or(candidates.len() - 1);
    let end = end.max(begin + 1).min(candidates.len() - 1);
    let major = candidates[begin..=end].to_vec();
    let (low, high) = (candidates[begin], candidates[end]);
    let minor = (0..5)
        .flat_map(|decade| (1..=9).map(move |digit| f64::from(digit) * 10f64.powi(first + decade)))
        .filter(|&tick| tick > low && tick < high && !major.iter().any(|at| (at / tick - 1.0).abs() < 1e-9))
        .collect();
    Ticks { major, minor, step: None }
}

/// Divides two positive numbers, rounding up.
const fn divided_up(number: i32, divisor: i32) -> i32 {
    (number + divisor - 1) / divisor
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn linear_ticks_of_hand_checked_ranges() {
        assert_eq!(linear(0.0, 945.0, 6).major, [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(linear(0.0, 100.0, 5).major, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear(10.0, 100.0, 5).major, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear(-3.0, 4.0, 4).major, [-4.0, -2.0, 0.0, 2.0, 4.0]);
        assert_eq!(linear(0.0, 10.0, 2).minor, [1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(linear(5.0, 5.0, 4).major, [4.5, 5.0, 5.5]);
        assert_eq!(linear(0.0, 0.0, 5).major.first(), Some(&0.0));
    }

    #[test]
    fn log_ticks_of_hand_checked_ranges() {
        assert_eq!(log(0.3, 945.0, 8).major, [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(log(1.0, 1000.0, 8).minor.len(), 3 * 8);
        assert_eq!(log(10.0, 90.0, 8).major, [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(log(10.0, 90.0, 8).minor, [30.0, 40.0, 60.0, 70.0, 80.0, 90.0]);
        assert_eq!(log(100.0, 100.0, 8).major, [100.0, 200.0]);
        assert_eq!(log(1.0, 1e6, 3).major, [1.0, 100.0, 10_000.0, 1e6]);
        assert_eq!(log(1.0, 1e6, 3).minor, [10.0, 1000.0, 100_000.0]);
    }

    fn check(ticks: &Ticks, low: f64, high: f64) -> Result<(), TestCaseError> {
        prop_assert!((2..=12).contains(&ticks.major.len()), "{ticks:?}");
        prop_assert!(ticks.major.iter().all(|tick| tick.is_finite()), "{ticks:?}");
        prop_assert!(ticks.major.is_sorted_by(|a, b| a < b), "{ticks:?}");
        prop_assert!(ticks.minor.is_sorted_by(|a, b| a < b), "{ticks:?}");
        // A double divides the range no more precisely than this.
        let slack = (ticks.high() - ticks.low()).abs() * 1e-6;
        prop_assert!(ticks.low() <= low + slack && ticks.high() >= high - slack, "{low} {high} {ticks:?}");
        let within = |tick: &f64| *tick > ticks.low() && *tick < ticks.high();
        prop_assert!(ticks.minor.iter().all(within), "{ticks:?}");
        prop_assert!(ticks.minor.iter().all(|tick| !ticks.major.contains(tick)), "{ticks:?}");
        Ok(())
    }

    proptest! {
        #[test]
        fn linear_ticks_cover_any_range(a in any::<f64>(), b in any::<f64>(), steps in 0usize..20) {
            prop_assume!(a.is_finite() && b.is_finite());
            let (low, high) = (a.min(b).clamp(-LARGEST, LARGEST), a.max(b).clamp(-LARGEST, LARGEST));
            check(&linear(a, b, steps), low, high)?;
        }

        #[test]
        fn linear_ticks_cover_usual_ranges(low in -1e4..1e4f64, span in 1e-3..1e4f64, steps in 2usize..10) {
            let ticks = linear(low, low + span, steps);
            check(&ticks, low, low + span)?;
            prop_assert!(ticks.major.len() <= steps + 2, "{ticks:?}");
        }

        #[test]
        fn log_ticks_cover_any_range(low in -300f64..300.0, decades in 0f64..600.0, majors in 0usize..20) {
            let (low, high) = (10f64.powf(low), 10f64.powf((low + decades).min(300.0)));
            let ticks = log(low, high, majors);
            check(&ticks, low, high)?;
            prop_assert!(ticks.low() <= low * 1.000_001 && ticks.low() > 0.0, "{ticks:?}");
        }
    }
}
