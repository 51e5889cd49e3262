//! Which symbols are linearly independent of each other, and how they combine to single source symbols.
//!
//! Only coefficients are worked on here, and only those of the *unknowns*: the source symbols which were missing when
//! the basis was made. A row is the coefficients of the unknowns followed by the share of each stored repair symbol in
//! it, padded so that kernels need no tail:
//!
//! ```text
//! | unknowns  0 … m−1 | padding | repairs 0 … m−1 | padding |
//! ```
//!
//! The rows are kept in reduced echelon form: each has a pivot, which is 1 and the only entry of its column. So a new
//! row is reduced by one dot product, whose factors are just its entries at the pivots; and at full rank the first
//! half of the rows is a permuted identity, and the second the inverse.

use alloc::vec::Vec;

use super::K_MAX;
use crate::kernel::Kernel;

/// Halves of a row are padded to a multiple of this, the widest register of any kernel, in bytes.
const ALIGNMENT: usize = 32;
const ROW_MAX: usize = 2 * K_MAX;

/// The row space of the symbols added so far.
pub(super) struct Basis {
    kernel: Kernel,
    /// Source symbol of each unknown, ascending.
    unknowns: Vec<usize>,
    /// Bytes in either half of a row.
    half: usize,
    rows: Vec<u8>,
    /// The pivot's unknown, of each row.
    pivots: Vec<usize>,
}

impl Basis {
    /// An empty basis for these unknown source symbols, of which there are 1 to [`K_MAX`].
    pub(super) fn new(kernel: Kernel, unknowns: Vec<usize>) -> Self {
        let half = unknowns.len().next_multiple_of(ALIGNMENT);
        let (rows, pivots) = (Vec::with_capacity(unknowns.len() * 2 * half), Vec::with_capacity(unknowns.len()));
        Self { kernel, unknowns, half, rows, pivots }
    }

    /// How many more independent symbols are needed.
    pub(super) fn missing(&self) -> usize {
        self.unknowns.len() - self.pivots.len()
    }

    /// Adds the repair symbol stored as number `repair`, below the number of unknowns, whose coefficients of all source
    /// symbols are given. False if it tells nothing new; then nothing has changed.
    pub(super) fn add_repair(&mut self, coefficients: &[u8], repair: usize) -> bool {
        let mut row = [0; ROW_MAX];
        for (entry, unknown) in row.iter_mut().zip(&self.unknowns) {
            *entry = coefficients[*unknown];
        }
        row[self.half + repair] = 1;
        self.add_row(&row)
    }

    /// Adds source symbol `source`. False if it was known already, or the combination of other symbols.
    pub(super) fn add_source(&mut self, source: usize) -> bool {
        let Ok(column) = self.unknowns.binary_search(&source) else { return false };
        let mut row = [0; ROW_MAX];
        row[column] = 1;
        self.add_row(&row)
    }

    /// The unknowns which the symbols determine, each with the shares of the stored repair symbols in it. What known
    /// source symbols contribute follows from these and the repair symbols' coefficients.
    pub(super) fn determined(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let full = self.missing() == 0;
        self.rows.chunks_exact(2 * self.half).zip(&self.pivots).filter_map(move |(row, pivot)| {
            let (unknowns, repairs) = row.split_at(self.half);
            let alone = full || unknowns.iter().filter(|c| **c != 0).count() == 1;
            alone.then(|| (self.unknowns[*pivot], repairs))
        })
    }

    fn add_row(&mut self, row: &[u8; ROW_MAX]) -> bool {
        if self.missing() == 0 {
            return false;
        }
        let stride = 2 * self.half;
        let mut reduced = [0; ROW_MAX];
        let reduced = &mut reduced[..stride];
        self.reduce(&row[..stride], reduced);
        let Some(pivot) = reduced[..self.unknowns.len()].iter().position(|c| *c != 0) else { return false };

        let at = self.rows.len();
        self.rows.resize(at + stride, 0);
        let (rows, scaled) = self.rows.split_at_mut(at);
        let scale = crate::gf256::inverse(reduced[pivot]);
        self.kernel.dot(&[reduced], &[&[scale]], &mut [scaled]);
        self.kernel.eliminate(rows, scaled, pivot);
        self.pivots.push(pivot);
        true
    }

    /// `reduced` = `row` without its part in the row space. There are fewer rows than unknowns.
    fn reduce(&self, row: &[u8], reduced: &mut [u8]) {
        let count = 1 + self.pivots.len();
        let (mut sources, mut factors) = (Vec::with_capacity(count), Vec::with_capacity(count));
        sources.push(row);
        sources.extend(self.rows.chunks_exact(row.len()));
        factors.push(1);
        factors.extend(self.pivots.iter().map(|pivot| row[*pivot]));
        self.kernel.dot(&sources, &[&factors], &mut [reduced]);
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::gf256;

    /// Rank by schoolbook elimination.
    fn rank(mut rows: Vec<Vec<u8>>) -> usize {
        let mut rank = 0;
        for column in 0..rows.first().map_or(0, Vec::len) {
            let Some(found) = (rank..rows.len()).find(|r| rows[*r][column] != 0) else { continue };
            rows.swap(rank, found);
            let pivot = rows[rank].clone();
            for row in &mut rows[rank + 1..] {
                let factor = gf256::mul(row[column], gf256::inverse(pivot[column]));
                for (entry, p) in row.iter_mut().zip(&pivot) {
                    *entry ^= gf256::mul(factor, *p);
                }
            }
            rank += 1;
        }
        rank
    }

    proptest! {
        #[test]
        fn rank_is_exact_and_what_is_determined_is_so(
            m in 1..40_usize,
            // Few distinct values make many dependent rows.
            entries in prop::collection::vec(0..3_u8, 40 * 60),
            sources in prop::collection::vec(0..160_usize, 60),
        ) {
            let kernel = Kernel::detect();
            let mut basis = Basis::new(kernel, (0..m).collect());
            let (mut rows, mut repairs): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (vec![], vec![]);
            for (entries, source) in entries.chunks(40).zip(sources) {
                let (row, added) = if source < m {
                    let mut row = vec![0; m];
                    row[source] = 1;
                    (row, basis.add_source(source))
                } else {
                    let row = entries[..m].to_vec();
                    if basis.missing() == 0 {
                        break;
                    }
                    let added = basis.add_repair(&row, repairs.len());
                    if added {
                        repairs.push(row.clone());
                    }
                    (row, added)
                };
                let before = rank(rows.clone());
                rows.push(row);
                let after = rank(rows.clone());
                prop_assert_eq!(added, after > before);
                prop_assert_eq!(basis.missing(), m - after);
            }
            let before = rank(rows.clone());
            let determined: Vec<_> = basis.determined().map(|(unknown, _)| unknown).collect();
            for unknown in 0..m {
                let mut unit = vec![0; m];
                unit[unknown] = 1;
                rows.push(unit);
                prop_assert_eq!(determined.contains(&unknown), rank(rows.clone()) == before);
                rows.pop();
            }
        }

        #[test]
        fn at_full_rank_the_shares_are_the_inverse(m in 1..40_usize, seed: u32) {
            let mut basis = Basis::new(Kernel::detect(), (0..m).collect());
            let mut rows: Vec<Vec<u8>> = vec![];
            for esi in (0..200).map(|n| seed.wrapping_add(n)) {
                let mut row = vec![0; m];
                crate::random_linear::coefficients::write_repair_coefficients(esi, &mut row);
                if basis.missing() > 0 && basis.add_repair(&row, rows.len()) {
                    rows.push(row);
                }
            }
            prop_assert_eq!(basis.missing(), 0);
            let mut seen = 0;
            for (unknown, shares) in basis.determined() {
                for column in 0..m {
                    let sum = rows.iter().zip(shares).fold(0, |sum, (row, share)| sum ^ gf256::mul(row[column], *share));
                    prop_assert_eq!(sum, u8::from(column == unknown));
                }
                seen += 1;
            }
            prop_assert_eq!(seen, m);
        }
    }
}
