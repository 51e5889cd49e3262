//! Range checks of a plan's numbers, and their conversion to the units of a scenario.

/// Greatest duration of a run, and greatest point in time, s.
pub(super) const DURATION_S_MAX: f64 = 1e5;

/// Converts seconds to nanoseconds.
pub(super) fn ns(s: f64) -> u64 {
    (s * 1e9).round() as u64
}

/// Checks that `value` is above 0 and at most `max`.
///
/// # Errors
/// Fails with a sentence about the parameter `name`.
pub(super) fn positive(name: &str, value: f64, max: f64) -> Result<f64, String> {
    // The comparison is written so that NaN fails.
    if value > 0.0 && value <= max {
        Ok(value)
    } else {
        Err(format!("{name} is {value}, but lies between 0 and {max}"))
    }
}

/// Checks that `value` is between 0 and `max`.
///
/// # Errors
/// Fails with a sentence about the parameter `name`.
pub(super) fn not_negative(name: &str, value: f64, max: f64) -> Result<f64, String> {
    if (0.0..=max).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{name} is {value}, but lies between 0 and {max}"))
    }
}
