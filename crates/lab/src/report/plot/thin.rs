//! Reduction of long curves to fewer points, without changing the picture.

/// A point on the page with its interval, in page coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Dot {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Page positions of the interval's ends; the end with the lower value first.
    pub(super) interval: Option<(f64, f64)>,
}

/// Reduces `dots`: of each column of width 1, only the first, highest, lowest and last one remain, in order. The
/// picture is unchanged. Each remaining dot gets the widest interval of its column.
pub(super) fn thinned(dots: &[Dot]) -> Vec<Dot> {
    let mut out = Vec::new();
    for column in dots.chunk_by(|a, b| a.x.floor() == b.x.floor()) {
        let by_y = |a: &(usize, &Dot), b: &(usize, &Dot)| a.1.y.total_cmp(&b.1.y);
        let least = column.iter().enumerate().min_by(by_y).map_or(0, |(index, _)| index);
        let most = column.iter().enumerate().max_by(by_y).map_or(0, |(index, _)| index);
        let mut kept = [0, least, most, column.len() - 1];
        kept.sort_unstable();
        let interval = column.iter().filter_map(|dot| dot.interval).reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)));
        for (position, &index) in kept.iter().enumerate() {
            if position == 0 || kept[position - 1] != index {
                out.push(Dot { interval, ..column[index] });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dot(x: f64, y: f64) -> Dot {
        Dot { x, y, interval: None }
    }

    #[test]
    fn a_column_keeps_its_first_extremes_and_last() {
        let column: Vec<Dot> = [5.0, 9.0, 1.0, 4.0, 3.0].iter().map(|&y| dot(7.5, y)).collect();
        let kept: Vec<f64> = thinned(&column).iter().map(|dot| dot.y).collect();
        assert_eq!(kept, [5.0, 9.0, 1.0, 3.0]);
        assert_eq!(thinned(&[dot(1.0, 2.0)]), [dot(1.0, 2.0)]);
        assert!(thinned(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn no_extreme_is_lost_and_the_length_is_bounded(ys in proptest::collection::vec(-100f64..100.0, 1..2000)) {
            let step = 300.0 / ys.len() as f64;
            let dots: Vec<Dot> = ys.iter().enumerate().map(|(index, &y)| dot(index as f64 * step, y)).collect();
            let thin = thinned(&dots);
            let extremes = |dots: &[Dot]| {
                (dots.iter().map(|dot| dot.y).fold(f64::MAX, f64::min), dots.iter().map(|dot| dot.y).fold(f64::MIN, f64::max))
            };
            prop_assert_eq!(extremes(&thin), extremes(&dots));
            prop_assert!(thin.len() <= 4 * 300 && thin.len() <= dots.len());
            prop_assert!(thin.is_sorted_by(|a, b| a.x <= b.x));
        }
    }
}
