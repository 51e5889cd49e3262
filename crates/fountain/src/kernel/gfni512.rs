//! x86-64 with GFNI and AVX-512: like [`gfni`](super::gfni), but with 64 bytes at once, and twice as many registers.

use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};
use core::mem::MaybeUninit;

use super::generic::{self, Lanes};
use super::gfni::{Gfni, MATRICES};

/// Proof that the CPU has GFNI, AVX2 and AVX-512 (F and BW).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gfni512(Gfni);

impl Gfni512 {
    pub(super) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let available = std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw");
        #[cfg(not(feature = "std"))]
        let available = cfg!(all(target_feature = "avx512f", target_feature = "avx512bw"));
        Gfni::detect().filter(|_| available).map(Self)
    }

    pub(super) fn dot(self, sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
        if outputs.first().is_some_and(|output| output.len() < Affine512::BYTES) {
            return self.0.dot(sources, coefficients, outputs);
        }
        generic::with_room(sources.len(), |room| {
            // SAFETY: `self` exists only where GFNI and AVX-512 were detected.
            unsafe { dot(sources, coefficients, outputs, room) }
        });
    }

    /// Accumulates 32 bytes at once: the length of coefficient rows is a multiple of 32.
    pub(super) fn accumulate(self, rows: &[u8], factors: &[u8], target: &mut [u8]) {
        self.0.accumulate(rows, factors, target);
    }

    /// Eliminates 32 bytes at once: the length of coefficient rows is a multiple of 32.
    pub(super) fn eliminate(self, rows: &mut [u8], pivot_row: &[u8], column: usize) {
        self.0.eliminate(rows, pivot_row, column);
    }
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn dot(sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]], room: &mut [MaybeUninit<u64>]) {
    // SAFETY: this function enables GFNI and AVX-512.
    unsafe { generic::dot::<Affine512>(sources, coefficients, outputs, room) }
}

#[derive(Clone, Copy)]
struct Affine512(__m512i);

impl Lanes for Affine512 {
    const BYTES: usize = 64;
    const REGISTERS: usize = 32;
    type Multiplier = u64;
    type Coefficient = __m512i;
    type Operand = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's CPU has AVX-512.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(bytes: &[u8]) -> Self {
        let bytes: &[u8] = &bytes[..Self::BYTES];
        // SAFETY: the slice has 64 bytes, and `loadu` asks for no alignment.
        Self(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, bytes: &mut [u8]) {
        let bytes: &mut [u8] = &mut bytes[..Self::BYTES];
        // SAFETY: the slice has 64 bytes, and `storeu` asks for no alignment.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn multiplier(c: u8) -> Self::Multiplier {
        MATRICES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn coefficient(multiplier: &Self::Multiplier) -> Self::Coefficient {
        // SAFETY: the caller's CPU has AVX-512.
        unsafe { _mm512_set1_epi64(multiplier.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self.0
    }

    #[inline(always)]
    unsafe fn mul_add(self, operand: Self::Operand, c: Self::Coefficient) -> Self {
        // SAFETY: the caller's CPU has GFNI and AVX-512.
        Self(unsafe { _mm512_xor_si512(self.0, _mm512_gf2p8affine_epi64_epi8::<0>(operand, c)) })
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: every x86-64 has SSE; the instruction reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
