//! Degree distribution Ω of the LT code.

/// Degrees with a nonzero probability (thesis §3.10.2, table 3.1), ascending.
pub const DEGREES: [usize; 10] = [1, 2, 3, 4, 5, 8, 9, 19, 65, 66];

/// Number of the 2³² − 1 values of the generator that belong to each of [`DEGREES`] (thesis table 3.1).
pub const OMEGA: [u32; 10] = [
    34_226_663,
    2_119_871_247,
    713_910_892,
    312_012_818,
    354_584_619,
    240_767_758,
    159_897_657,
    238_757_710,
    107_473_182,
    13_464_749,
];

/// Largest draw that belongs to each class.
const LAST: [u32; 10] = {
    let mut last = OMEGA;
    let mut class = 1;
    while class < last.len() {
        last[class] += last[class - 1];
        class += 1;
    }
    last
};

/// Returns the index in [`DEGREES`] of the draw's degree: the first class whose cumulative Ω is at least the draw.
#[inline]
pub(super) fn class_of(draw: u32) -> usize {
    // The last class ends at 2³² − 1, so nine comparisons decide; counting them avoids a branch that could be mispredicted.
    LAST[..LAST.len() - 1].iter().map(|&last| usize::from(draw > last)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omega_fills_the_generators_range() {
        assert_eq!(OMEGA.iter().map(|&steps| u64::from(steps)).sum::<u64>(), u64::from(u32::MAX));
        assert_eq!(LAST[9], u32::MAX);
    }

    #[test]
    fn a_class_ends_at_its_cumulative_value() {
        assert_eq!(class_of(0), 0);
        let mut end = 0_u32;
        for (class, steps) in OMEGA.iter().enumerate() {
            end += steps;
            assert_eq!(class_of(end), class);
            if class < 9 {
                assert_eq!(class_of(end + 1), class + 1);
            }
        }
    }
}
