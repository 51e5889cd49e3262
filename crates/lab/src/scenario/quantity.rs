//! Numbers of a plan, checked, and in a scenario's units.

/// The longest run, and the latest time in one, s.
pub(super) const DURATION_S_MAX: f64 = 1e5;

/// Nanoseconds of a time in seconds.
pub(super) fn ns(s: f64) -> u64 {
    (s * 1e9).round() as u64
}

/// `value` if it lies above 0 and not above `max`.
///
/// # Errors
/// One sentence which calls it `name`.
pub(super) fn positive(name: &str, value: f64, max: f64) -> Result<f64, String> {
    // Written so that NaN is refused.
    if value > 0.0 && value <= max {
        Ok(value)
    } else {
        Err(format!("{name} is {value}, but lies between 0 and {max}"))
    }
}

/// `value` if it lies between 0 and `max`.
///
/// # Errors
/// One sentence which calls it `name`.
pub(super) fn not_negative(name: &str, value: f64, max: f64) -> Result<f64, String> {
    if (0.0..=max).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{name} is {value}, but lies between 0 and {max}"))
    }
}
