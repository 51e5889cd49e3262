//! Generator that draws several parts of its sequence at once, in vector registers.
//!
//! Each draw depends on the previous one, and this dependency limits the speed of drawing the precode sequentially. The
//! generator is linear over GF(2): a constant matrix per component advances it by any number of draws, to the start of
//! another part of the same sequence.

use super::taus88::{Taus88, step_component};

/// Number of parts drawn side by side.
const LANES: usize = 8;

/// Number of draws in a part.
pub(super) const STRETCH: usize = 24_000;

/// Image of each bit of a component after [`STRETCH`] draws.
type Matrix = [u32; 32];

const AHEAD: [Matrix; 3] = [power(0, STRETCH), power(1, STRETCH), power(2, STRETCH)];

/// States of the generator in [`LANES`] consecutive parts of its sequence.
#[derive(Debug)]
pub(super) struct Lanes([[u32; LANES]; 3]);

impl Lanes {
    pub(super) const COUNT: usize = LANES;

    pub(super) fn new(generator: &Taus88) -> Self {
        let mut lanes = [[0; LANES]; 3];
        for ((component, word), ahead) in lanes.iter_mut().zip(generator.state()).zip(&AHEAD) {
            component[0] = word;
            for lane in 1..LANES {
                component[lane] = apply(ahead, component[lane - 1]);
            }
        }
        Self(lanes)
    }

    /// Returns the next draw of each part.
    #[inline(always)]
    pub(super) fn next(&mut self) -> [u32; LANES] {
        let [s1, s2, s3] = &mut self.0;
        core::array::from_fn(|lane| {
            s1[lane] = step_component(0, s1[lane]);
            s2[lane] = step_component(1, s2[lane]);
            s3[lane] = step_component(2, s3[lane]);
            s1[lane] ^ s2[lane] ^ s3[lane]
        })
    }

    /// Returns the generator at the present position of the last part.
    pub(super) fn last(&self) -> Taus88 {
        Taus88::continued(self.0.map(|component| component[LANES - 1]))
    }
}

/// Returns the matrix of `draws` draws of a component, by repeated squaring.
const fn power(component: usize, draws: usize) -> Matrix {
    let mut result = [0; 32];
    let mut square = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        result[bit] = 1 << bit;
        square[bit] = step_component(component, 1 << bit);
        bit += 1;
    }
    let mut left = draws;
    while left > 0 {
        if left % 2 == 1 {
            result = product(&square, &result);
        }
        square = product(&square, &square);
        left /= 2;
    }
    result
}

/// Returns the product of two matrices: it applies `second`, then `first`.
const fn product(first: &Matrix, second: &Matrix) -> Matrix {
    let mut result = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        result[bit] = apply(first, second[bit]);
        bit += 1;
    }
    result
}

const fn apply(matrix: &Matrix, word: u32) -> u32 {
    let (mut sum, mut left) = (0, word);
    while left != 0 {
        sum ^= matrix[left.trailing_zeros() as usize];
        left &= left - 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_draw_the_generators_sequence() {
        let mut generator = Taus88::from_seed(9);
        let mut lanes = Lanes::new(&generator);
        let rows: alloc::vec::Vec<_> = (0..STRETCH).map(|_| lanes.next()).collect();
        for lane in 0..LANES {
            assert!(rows.iter().all(|row| row[lane] == generator.next_u32()), "lane {lane}");
        }
        assert_eq!(lanes.last(), generator);
    }
}
