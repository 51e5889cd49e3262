//! Equations between symbols, solved for the missing ones as far as possible.
//!
//! This module computes with coefficients only. It keeps a row for each stored symbol that was not redundant; the
//! stored symbol is called the row's *operand*. A row has a column for each source symbol, and is solved for one
//! missing source symbol, the row's *pivot*:
//!
//! ```text
//! source[pivot(r)] = Σ_c row(r)[c] · symbol(c)
//! symbol(c) = the operand of the row whose pivot is c, if there is one, else source[c]
//! ```
//!
//! The column of a solved symbol is otherwise unused, so it holds the factors of the operand. A row is therefore never
//! longer than K, and at full rank the rows are, unchanged, the coefficients with which the decoder multiplies symbols.
//! Columns of source symbols that are neither known nor solved are *open*. A missing symbol is determined when its row
//! is zero in all open columns.

use alloc::vec::Vec;
use core::mem;

use super::{K_MAX, coefficients::write_repair_coefficients};
use crate::{gf256, kernel::Kernel};

/// Alignment of rows, bytes: the widest register that any kernel uses for rows.
const ALIGNMENT: usize = 32;

/// Entry of `row_of` for a column that no row is solved for.
const NO_ROW: u16 = u16::MAX;

/// Returns the distance between rows of `k` columns, bytes.
const fn stride(k: usize) -> usize {
    k.next_multiple_of(ALIGNMENT)
}

/// Stored symbol that a row was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operand {
    /// The repair symbol stored under this number.
    Repair(usize),
    /// The source symbol with this index, which arrived after its column had been solved.
    Source(usize),
}

/// Equations of the symbols added so far for the missing source symbols.
pub(super) struct Tableau {
    kernel: Kernel,
    k: usize,
    /// Distance between rows, bytes.
    stride: usize,
    /// Solved rows, followed by rows that are still to be solved.
    rows: Vec<u8>,
    /// Column that each solved row is solved for, and the symbol that the row was made from.
    solved: Vec<(usize, Operand)>,
    /// Row solved for each column, or [`NO_ROW`].
    row_of: Vec<u16>,
    open: Vec<usize>,
}

impl Tableau {
    /// Makes a tableau without memory, unusable before [`begin`](Self::begin).
    pub(super) const fn idle(kernel: Kernel) -> Self {
        Self { kernel, k: 0, stride: 0, rows: Vec::new(), solved: Vec::new(), row_of: Vec::new(), open: Vec::new() }
    }

    /// Starts without equations, for a block whose known source symbols are true in `known`; at least one must be
    /// missing. Reserves space for `room` rows, at least as many as symbols are missing.
    pub(super) fn begin(&mut self, known: &[bool], room: usize) {
        (self.k, self.stride) = (known.len(), stride(known.len()));
        self.rows.clear();
        self.rows.reserve_exact(room * self.stride);
        self.solved.clear();
        self.solved.reserve_exact(room);
        self.open.clear();
        self.open.reserve_exact(room);
        self.open.extend((0..self.k).filter(|i| !known[*i]));
        self.row_of.clear();
        self.row_of.reserve_exact(self.k);
        self.row_of.resize(self.k, NO_ROW);
    }

    /// Keeps no more memory than a block of `k` source symbols may need.
    pub(super) fn shrink_to(&mut self, k: usize) {
        self.rows.clear();
        self.rows.shrink_to(k * stride(k));
        self.solved.clear();
        self.solved.shrink_to(k);
        self.open.clear();
        self.open.shrink_to(k);
        self.row_of.clear();
        self.row_of.shrink_to(k);
    }

    /// Returns the number of bytes allocated.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.rows.capacity()
            + self.solved.capacity() * size_of::<(usize, Operand)>()
            + self.open.capacity() * size_of::<usize>()
            + self.row_of.capacity() * size_of::<u16>()
    }

    /// Returns the number of further independent symbols needed.
    pub(super) fn missing(&self) -> usize {
        self.open.len()
    }

    /// Adds the repair symbols `esis`, which are or will be stored under the numbers from `number` on. Calls
    /// `redundant` with the index in `esis` of each redundant symbol. Redundant symbols are left out, and later symbols
    /// take their numbers.
    pub(super) fn add_repairs(&mut self, esis: &[u32], number: usize, mut redundant: impl FnMut(usize)) {
        for esi in esis {
            let mut coefficients = [0; K_MAX];
            write_repair_coefficients(*esi, &mut coefficients[..self.k]);
            self.append(coefficients);
        }
        let mut next = number;
        for n in 0..esis.len() {
            if self.solve_next(Operand::Repair(next)) {
                next += 1;
            } else {
                redundant(n);
            }
        }
    }

    /// Adds source symbol `source`, which was not known before.
    pub(super) fn add_source(&mut self, source: usize) {
        if let Some(at) = self.open.iter().position(|column| *column == source) {
            self.open.remove(at);
        } else {
            let mut coefficients = [0; K_MAX];
            coefficients[source] = 1;
            self.append(coefficients);
            self.solve_next(Operand::Source(source));
        }
    }

    /// Returns the row that determines the missing source symbol `source`, if there is one.
    pub(super) fn determining_row(&self, source: usize) -> Option<&[u8]> {
        let at = usize::from(self.row_of[source]) * self.stride;
        let row = self.rows.get(at..at + self.k)?;
        self.open.iter().all(|column| row[*column] == 0).then_some(row)
    }

    /// Returns the column that holds the factors of the known source symbol `source`, if there is one.
    pub(super) fn column_of(&self, source: usize) -> Option<usize> {
        if self.row_of[source] == NO_ROW {
            return Some(source);
        }
        let late = |(_, operand): &&(usize, Operand)| *operand == Operand::Source(source);
        self.solved.iter().find(late).map(|(column, _)| *column)
    }

    /// Returns the columns that hold the factors of repair symbols, with the numbers of these symbols.
    pub(super) fn repair_columns(&self) -> impl Iterator<Item = (usize, usize)> {
        self.solved.iter().filter_map(|(column, operand)| match operand {
            Operand::Repair(number) => Some((*column, *number)),
            Operand::Source(_) => None,
        })
    }

    /// Appends an unsolved row, for a symbol that is the sum of the source symbols with these coefficients.
    fn append(&mut self, mut row: [u8; K_MAX]) {
        if !self.solved.is_empty() {
            // Replace the solved columns of this row by their own rows.
            let mut factors = [0; K_MAX];
            for (factor, (column, _)) in factors.iter_mut().zip(&self.solved) {
                *factor = mem::take(&mut row[*column]);
            }
            let (solved, _) = self.rows.split_at(self.solved.len() * self.stride);
            self.kernel.accumulate(solved, &factors[..self.solved.len()], &mut row[..self.stride]);
        }
        self.rows.extend_from_slice(&row[..self.stride]);
    }

    /// Solves the first unsolved row for one of its open source symbols; `operand` is the symbol of the row. If the row
    /// has no open source symbol, removes it and returns false.
    fn solve_next(&mut self, operand: Operand) -> bool {
        let at = self.solved.len() * self.stride;
        let row = &mut self.rows[at..at + self.stride];
        let Some(found) = self.open.iter().position(|column| row[*column] != 0) else {
            self.rows.drain(at..at + self.stride);
            return false;
        };
        let pivot = self.open.remove(found);

        // Solve operand = row[pivot] · source[pivot] + others for source[pivot]; minus equals plus in this field. The
        // pivot column then holds the factors of the operand: the inverse of row[pivot] in this row, and the inverse
        // times the previous factor in the other rows. Adding multiples of this row yields the latter if its pivot
        // column is first increased by 1.
        let inverse = gf256::inverse(row[pivot]);
        row[pivot] ^= 1;
        let mut scaled = [0; K_MAX];
        let scaled = &mut scaled[..self.stride];
        self.kernel.accumulate(row, &[inverse], scaled);
        row[pivot] = 0;
        self.kernel.eliminate(&mut self.rows, scaled, pivot);
        let row = &mut self.rows[at..at + self.stride];
        row.copy_from_slice(scaled);
        row[pivot] = inverse;
        self.row_of[pivot] = self.solved.len() as u16;
        self.solved.push((pivot, operand));
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    fn bytes(coefficients: &[u8]) -> [u8; K_MAX] {
        let mut row = [0; K_MAX];
        row[..coefficients.len()].copy_from_slice(coefficients);
        row
    }

    /// Returns the rank, by Gaussian elimination.
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

    /// Model with one byte per source symbol and per stored repair symbol.
    struct Model {
        tableau: Tableau,
        data: Vec<u8>,
        known: Vec<bool>,
        rows: Vec<Vec<u8>>,
        repairs: Vec<u8>,
    }

    impl Model {
        fn new(data: Vec<u8>, known: Vec<bool>) -> Self {
            let unit = |i: usize| (0..data.len()).map(|c| u8::from(c == i)).collect();
            let rows = (0..data.len()).filter(|i| known[*i]).map(unit).collect();
            let mut tableau = Tableau::idle(Kernel::detect());
            tableau.begin(&known, data.len());
            Self { tableau, data, known, rows, repairs: vec![] }
        }

        fn add_repair(&mut self, row: Vec<u8>) -> bool {
            self.tableau.append(bytes(&row));
            let added = self.tableau.solve_next(Operand::Repair(self.repairs.len()));
            if added {
                self.repairs.push(row.iter().zip(&self.data).fold(0, |sum, (c, x)| sum ^ gf256::mul(*c, *x)));
            }
            self.rows.push(row);
            added
        }

        fn add_source(&mut self, source: usize) {
            self.known[source] = true;
            self.tableau.add_source(source);
            self.rows.push((0..self.data.len()).map(|c| u8::from(c == source)).collect());
        }

        /// Returns the value of the operand in each column, if it is known.
        fn operands(&self) -> Vec<Option<u8>> {
            let mut operands = vec![None; self.data.len()];
            for (column, number) in self.tableau.repair_columns() {
                operands[column] = Some(self.repairs[number]);
            }
            for i in (0..self.data.len()).filter(|i| self.known[*i]) {
                if let Some(column) = self.tableau.column_of(i) {
                    assert_eq!(operands[column].replace(self.data[i]), None);
                }
            }
            operands
        }

        /// Checks that rows solve for exactly the symbols that linear algebra determines, and with the right values.
        fn check(&self) {
            let (k, rank_now) = (self.data.len(), rank(self.rows.clone()));
            assert_eq!(self.tableau.missing(), k - rank_now);
            let operands = self.operands();
            for i in (0..k).filter(|i| !self.known[*i]) {
                let mut rows = self.rows.clone();
                rows.push((0..k).map(|c| u8::from(c == i)).collect());
                let row = self.tableau.determining_row(i);
                assert_eq!(row.is_some(), rank(rows) == rank_now, "{i}");
                let Some(row) = row else { continue };
                let sum = row.iter().zip(&operands).fold(0, |sum, (c, x)| match x {
                    Some(x) => sum ^ gf256::mul(*c, *x),
                    None => {
                        assert_eq!(*c, 0);
                        sum
                    }
                });
                assert_eq!(sum, self.data[i], "{i}");
            }
        }
    }

    proptest! {
        #[test]
        fn rank_is_exact_and_what_is_determined_is_so(
            data in prop::collection::vec(any::<u8>(), 1..40),
            known in prop::collection::vec(any::<bool>(), 40),
            // Few distinct values make many dependent rows.
            entries in prop::collection::vec(0..3_u8, 40 * 60),
            sources in prop::collection::vec(0..160_usize, 60),
        ) {
            let k = data.len();
            let mut known = known[..k].to_vec();
            known[0] = false;
            let mut model = Model::new(data, known);
            for (entries, source) in entries.chunks(40).zip(sources) {
                if model.tableau.missing() == 0 {
                    break;
                }
                if source >= k {
                    let before = rank(model.rows.clone());
                    let added = model.add_repair(entries[..k].to_vec());
                    prop_assert_eq!(added, rank(model.rows.clone()) > before);
                } else if !model.known[source] && model.tableau.determining_row(source).is_none() {
                    model.add_source(source);
                }
                model.check();
            }
        }

        #[test]
        fn repair_symbols_alone_are_inverted(k in 1..=K_MAX, seed: u32) {
            let data: Vec<u8> = (0..k).map(|i| (i as u32).wrapping_mul(seed) as u8).collect();
            let mut model = Model::new(data, vec![false; k]);
            let mut first = seed;
            while model.tableau.missing() > 0 {
                let mut esis: Vec<_> = (0..model.tableau.missing() as u32).map(|n| first.wrapping_add(n)).collect();
                first = first.wrapping_add(esis.len() as u32);
                let mut redundant = vec![];
                model.tableau.add_repairs(&esis, model.repairs.len(), |n| redundant.push(n));
                for n in redundant.into_iter().rev() {
                    esis.remove(n);
                }
                for esi in esis {
                    let mut row = vec![0; k];
                    write_repair_coefficients(esi, &mut row);
                    model.repairs.push(row.iter().zip(&model.data).fold(0, |sum, (c, x)| sum ^ gf256::mul(*c, *x)));
                }
            }
            let operands = model.operands();
            for i in 0..k {
                let row = model.tableau.determining_row(i).expect("the rank is full");
                let sum = row.iter().zip(&operands).fold(0, |sum, (c, x)| sum ^ gf256::mul(*c, x.expect("stored")));
                prop_assert_eq!(sum, model.data[i]);
            }
        }
    }
}
