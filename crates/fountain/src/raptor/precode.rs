//! LDPC precode: each source byte is added into three check bytes (thesis §3.7.2).

use super::derived::{Purpose, derived};
use super::lanes::{Lanes, STRETCH};
use super::state::State;
use super::taus88::Taus88;
use super::{CHECK_BYTES, SOURCE_BYTES};
use alloc::vec::Vec;

/// Number of distinct check bytes that each source byte is added into. The thesis names a distribution without
/// specifying it; with this constant, the thesis's ε = 5 % holds (spec: “Precode”).
pub const CHECKS_PER_SOURCE_BYTE: usize = 3;

/// Generator of the check indices (0 .. 2000) of every source byte of a block, in source order.
#[derive(Debug)]
pub(super) struct PrecodeDraws(Taus88);

impl PrecodeDraws {
    pub(super) fn new(initial: State, block_id: u32) -> Self {
        Self(Taus88::at(derived(initial, Purpose::Precode, block_id)))
    }

    /// Collects the checks of all source bytes, 381 kB.
    pub(super) fn collect(self) -> Vec<[u16; CHECKS_PER_SOURCE_BYTE]> {
        let mut all = Vec::with_capacity(SOURCE_BYTES);
        self.for_each(|_, checks| all.push(checks));
        all
    }

    /// Adds each of the block's [`SOURCE_BYTES`] bytes into its checks. `checks` has [`CHECK_BYTES`] bytes, which must
    /// be zero.
    pub(super) fn add_into(self, source: &[u8], checks: &mut [u8]) {
        self.for_each(|index, own_checks| {
            for check in own_checks {
                checks[usize::from(check)] ^= source[index];
            }
        });
    }

    /// Calls `visit` with the index of each source byte and its checks.
    fn for_each(self, mut visit: impl FnMut(usize, [u16; CHECKS_PER_SOURCE_BYTE])) {
        let mut indices = CheckIndices::new(&self.0);
        for index in 0..SOURCE_BYTES {
            visit(index, indices.next_checks());
        }
    }
}

/// Draws of the generator modulo 2000, in sequence.
struct CheckIndices {
    /// Draws made in advance: `rows[t][lane]` is number `lane · STRETCH + t`.
    rows: Vec<[u16; Lanes::COUNT]>,
    next_row: usize,
    lane: usize,
    /// Generator of the draws after `rows`, needed only for a block with over 1000 repeated draws.
    later: Taus88,
}

impl CheckIndices {
    fn new(generator: &Taus88) -> Self {
        const { assert!(Lanes::COUNT * STRETCH > CHECKS_PER_SOURCE_BYTE * SOURCE_BYTES) };
        let mut lanes = Lanes::new(generator);
        let rows = (0..STRETCH).map(|_| lanes.next().map(check_index)).collect();
        Self { rows, next_row: 0, lane: 0, later: lanes.last() }
    }

    #[inline]
    fn next_checks(&mut self) -> [u16; CHECKS_PER_SOURCE_BYTE] {
        // In nearly all cases the next three draws of the part are distinct.
        if let Some([first, second, third]) = self.rows.get(self.next_row..self.next_row + 3)
            && self.lane < Lanes::COUNT
        {
            let [first, second, third] = [first[self.lane], second[self.lane], third[self.lane]];
            if first != second && first != third && second != third {
                self.next_row += 3;
                return [first, second, third];
            }
        }
        self.next_checks_one_by_one()
    }

    #[cold]
    fn next_checks_one_by_one(&mut self) -> [u16; CHECKS_PER_SOURCE_BYTE] {
        let first = self.next_index();
        let second = self.next_unlike(|index| index == first);
        let third = self.next_unlike(|index| index == first || index == second);
        [first, second, third]
    }

    fn next_unlike(&mut self, taken: impl Fn(u16) -> bool) -> u16 {
        loop {
            let index = self.next_index();
            if !taken(index) {
                return index;
            }
        }
    }

    fn next_index(&mut self) -> u16 {
        if self.next_row == self.rows.len() {
            self.next_row = 0;
            self.lane += 1;
        }
        let Some(&index) = self.rows.get(self.next_row).and_then(|row| row.get(self.lane)) else {
            return check_index(self.later.next_u32());
        };
        self.next_row += 1;
        index
    }
}

#[inline(always)]
fn check_index(draw: u32) -> u16 {
    (draw % CHECK_BYTES as u32) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_indices_are_the_draws_in_sequence_past_the_last_stretch() {
        let mut generator = Taus88::from_seed(3);
        let mut indices = CheckIndices::new(&generator);
        for draw in 0..Lanes::COUNT * STRETCH + 100 {
            assert_eq!(indices.next_index(), check_index(generator.next_u32()), "draw {draw}");
        }
        let [first, second, third] = indices.next_checks();
        assert_eq!(first, check_index(generator.next_u32()));
        assert!(first != second && first != third && second != third);
    }
}
