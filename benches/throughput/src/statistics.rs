//! Statistics over rounds.

use serde::Serialize;

/// Statistics of a figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Number of rounds.
    pub(crate) rounds: usize,
}

impl Spread {
    /// Computes the statistics; `None` without values. The median of an even number is the mean of the middle two.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (half, rounds) = (sorted.len() / 2, sorted.len());
        let median = if rounds % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) };
        Some(Self { median, min, max, rounds })
    }

    /// Formats the median, and the range if there was more than one round; `-` for `None`.
    pub(crate) fn show(this: Option<Self>, decimals: usize) -> String {
        match this {
            None => "-".to_owned(),
            Some(Self { median, rounds: 1, .. }) => format!("{median:.decimals$}"),
            Some(Self { median, min, max, .. }) => format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})"),
        }
    }
}

/// Ratios of measurements from the same round, which had the same other load; rounds without one of the two, or with a zero divisor, are
/// left out.
pub(crate) fn quotients(dividends: &[(u32, f64)], divisors: &[(u32, f64)]) -> Option<Spread> {
    Spread::of(dividends.iter().filter_map(|&(round, dividend)| {
        let &(_, divisor) = divisors.iter().find(|&&(other, _)| other == round)?;
        (divisor > 0.0).then(|| dividend / divisor)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { median: 3.0, min: 3.0, max: 3.0, rounds: 1 }));
        assert_eq!(Spread::of([5.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 5.0, rounds: 3 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
    }

    #[test]
    fn a_single_round_has_no_range() {
        assert_eq!(Spread::show(Spread::of([1.25]), 1), "1.2");
        assert_eq!(Spread::show(Spread::of([1.0, 3.0, 2.0]), 2), "2.00 (1.00–3.00)");
        assert_eq!(Spread::show(None, 2), "-");
    }

    #[test]
    fn quotients_are_of_the_same_round() {
        let spread = quotients(&[(1, 6.0), (2, 8.0), (3, 1.0)], &[(2, 2.0), (1, 3.0), (4, 1.0)]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max, spread.rounds), (2.0, 3.0, 4.0, 2));
        assert_eq!(quotients(&[(1, 6.0)], &[(1, 0.0)]), None);
    }
}
