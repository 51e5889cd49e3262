//! Quantiles of many values in little memory.

/// Bins per power of two. A quantile's relative error is thus below 1/64.
const PARTS: u64 = 64;

/// Histogram of integers: exact below [`PARTS`], then [`PARTS`] bins per power of two.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

/// Returns the index of the bin that contains `value`.
fn place(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let shift = value.ilog2() - PARTS.ilog2();
    (u64::from(shift + 1) * PARTS + (value >> shift) - PARTS) as usize
}

/// Returns the least value of the bin with index `place`.
fn value_of(place: usize) -> u64 {
    let place = place as u64;
    match (place / PARTS, place % PARTS) {
        (0, value) => value,
        (power, part) => (PARTS + part) << (power - 1),
    }
}

impl Histogram {
    pub(super) fn add(&mut self, value: u64) {
        let place = place(value);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.total += 1;
    }

    /// Returns the quantile: the lower edge of the first bin up to which at least `share` of all values lie; 0 without
    /// values.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let enough = share * self.total as f64;
        let mut up_to = 0;
        for (place, count) in self.counts.iter().enumerate() {
            up_to += count;
            if up_to as f64 >= enough {
                return value_of(place);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_without_gaps_and_hold_what_they_say() {
        for value in (0..5_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
            let place = place(value);
            assert!(value_of(place) <= value, "{value}");
            assert!(value - value_of(place) <= value / PARTS, "{value}");
        }
        assert!((1..5_000).all(|value| (0..=1).contains(&(place(value) - place(value - 1)))));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.95), 0);
        let mut values: Vec<u64> = (0..1_000).map(|index| index * index % 7_919).collect();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        for (share, exact) in [(0.5, values[499]), (0.95, values[949]), (1.0, values[999])] {
            let found = histogram.quantile(share);
            assert!(found <= exact && exact - found <= exact / PARTS, "{share}: {found} instead of {exact}");
        }
    }
}
