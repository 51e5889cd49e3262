//! x86-64 with GFNI and AVX2: `vgf2p8affineqb` multiplies 32 bytes by an 8×8 matrix over GF(2) at once.
//!
//! GFNI's own product uses another polynomial (0x11B). However, the product with a constant is linear over GF(2) in any
//! field of 256 elements, so a matrix per coefficient yields the products of this field.

use core::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
};
use core::mem::MaybeUninit;

use super::generic::{self, Lanes};
use crate::gf256;

/// Proof that the CPU has GFNI and AVX2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gfni(());

impl Gfni {
    pub(super) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let available = std::is_x86_feature_detected!("gfni") && std::is_x86_feature_detected!("avx2");
        #[cfg(not(feature = "std"))]
        let available = cfg!(all(target_feature = "gfni", target_feature = "avx2"));
        available.then_some(Self(()))
    }

    pub(super) fn dot(self, sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
        generic::with_room(sources.len(), |room| {
            // SAFETY: `self` exists only where GFNI and AVX2 were detected.
            unsafe { dot(sources, coefficients, outputs, room) }
        });
    }

    pub(super) fn accumulate(self, rows: &[u8], factors: &[u8], target: &mut [u8]) {
        // SAFETY: `self` exists only where GFNI and AVX2 were detected.
        unsafe { accumulate(rows, factors, target) }
    }

    pub(super) fn eliminate(self, rows: &mut [u8], pivot_row: &[u8], column: usize) {
        // SAFETY: `self` exists only where GFNI and AVX2 were detected.
        unsafe { eliminate(rows, pivot_row, column) }
    }
}

#[target_feature(enable = "gfni,avx2")]
fn dot(sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]], room: &mut [MaybeUninit<u64>]) {
    // SAFETY: this function enables GFNI and AVX2.
    unsafe { generic::dot::<Affine>(sources, coefficients, outputs, room) }
}

#[target_feature(enable = "gfni,avx2")]
fn accumulate(rows: &[u8], factors: &[u8], target: &mut [u8]) {
    // SAFETY: this function enables GFNI and AVX2.
    unsafe { generic::accumulate::<Affine>(rows, factors, target) }
}

#[target_feature(enable = "gfni,avx2")]
fn eliminate(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    // SAFETY: this function enables GFNI and AVX2.
    unsafe { generic::eliminate::<Affine>(rows, pivot_row, column) }
}

/// Matrices for the multiplication by each coefficient; 2 KiB.
pub(super) static MATRICES: [u64; 256] = matrices();

/// Computes the matrices. The instruction takes the row of output bit b from byte 7 − b of the matrix, and the column
/// of input bit i from bit i of each byte.
const fn matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut column = 0;
        while column < 8 {
            let product = gf256::mul(c as u8, 1 << column);
            let mut bit = 0;
            while bit < 8 {
                matrices[c] |= ((product >> bit & 1) as u64) << (8 * (7 - bit) + column);
                bit += 1;
            }
            column += 1;
        }
        c += 1;
    }
    matrices
}

#[derive(Clone, Copy)]
struct Affine(__m256i);

impl Lanes for Affine {
    const BYTES: usize = 32;
    type Multiplier = u64;
    type Coefficient = __m256i;
    type Operand = __m256i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's CPU has AVX2.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(bytes: &[u8]) -> Self {
        let bytes: &[u8] = &bytes[..Self::BYTES];
        // SAFETY: the slice has 32 bytes, and `loadu` asks for no alignment.
        Self(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, bytes: &mut [u8]) {
        let bytes: &mut [u8] = &mut bytes[..Self::BYTES];
        // SAFETY: the slice has 32 bytes, and `storeu` asks for no alignment.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn multiplier(c: u8) -> Self::Multiplier {
        MATRICES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn coefficient(multiplier: &Self::Multiplier) -> Self::Coefficient {
        // SAFETY: the caller's CPU has AVX2.
        unsafe { _mm256_set1_epi64x(multiplier.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self.0
    }

    #[inline(always)]
    unsafe fn mul_add(self, operand: Self::Operand, c: Self::Coefficient) -> Self {
        // SAFETY: the caller's CPU has GFNI and AVX2.
        Self(unsafe { _mm256_xor_si256(self.0, _mm256_gf2p8affine_epi64_epi8::<0>(operand, c)) })
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: every x86-64 has SSE; the instruction reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Model of the instruction, so that the matrices are tested on CPUs without it.
    fn affine(x: u8, matrix: u64) -> u8 {
        let row = |b: u32| matrix.to_le_bytes()[7 - b as usize];
        (0..8).map(|b| (((row(b) & x).count_ones() & 1) as u8) << b).sum()
    }

    #[test]
    fn the_matrices_multiply() {
        // Under Miri, the tests of all kernels execute the instruction itself; all coefficients would take minutes.
        for c in (0..=255_u8).step_by(if cfg!(miri) { 15 } else { 1 }) {
            for x in (0..=255_u8).step_by(if cfg!(miri) { 51 } else { 1 }) {
                assert_eq!(affine(x, MATRICES[usize::from(c)]), gf256::mul(c, x), "{c}·{x}");
            }
        }
    }
}
