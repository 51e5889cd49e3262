//! x86-64 with AVX2: `vpshufb` looks up 32 nibbles in a table of 16 products at once.

use core::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_load_si128, _mm_prefetch, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_xor_si256,
};
use core::mem::MaybeUninit;

use super::generic::{self, Lanes};
use crate::gf256::{NIBBLE_PRODUCTS, NibbleProducts};

/// Proof that the CPU has AVX2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let available = std::is_x86_feature_detected!("avx2");
        #[cfg(not(feature = "std"))]
        let available = cfg!(target_feature = "avx2");
        available.then_some(Self(()))
    }

    pub(super) fn dot(self, sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
        generic::with_room(sources.len(), |room| {
            // SAFETY: `self` exists only where AVX2 was detected.
            unsafe { dot(sources, coefficients, outputs, room) }
        });
    }

    pub(super) fn accumulate(self, rows: &[u8], factors: &[u8], target: &mut [u8]) {
        // SAFETY: `self` exists only where AVX2 was detected.
        unsafe { accumulate(rows, factors, target) }
    }

    pub(super) fn eliminate(self, rows: &mut [u8], pivot_row: &[u8], column: usize) {
        // SAFETY: `self` exists only where AVX2 was detected.
        unsafe { eliminate(rows, pivot_row, column) }
    }
}

#[target_feature(enable = "avx2")]
fn dot(sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]], room: &mut [MaybeUninit<NibbleProducts>]) {
    // SAFETY: this function enables AVX2.
    unsafe { generic::dot::<Nibbles>(sources, coefficients, outputs, room) }
}

#[target_feature(enable = "avx2")]
fn accumulate(rows: &[u8], factors: &[u8], target: &mut [u8]) {
    // SAFETY: this function enables AVX2.
    unsafe { generic::accumulate::<Nibbles>(rows, factors, target) }
}

#[target_feature(enable = "avx2")]
fn eliminate(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    // SAFETY: this function enables AVX2.
    unsafe { generic::eliminate::<Nibbles>(rows, pivot_row, column) }
}

#[derive(Clone, Copy)]
struct Nibbles(__m256i);

impl Lanes for Nibbles {
    const BYTES: usize = 32;
    type Multiplier = NibbleProducts;
    type Coefficient = (__m256i, __m256i);
    type Operand = (__m256i, __m256i);

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
        NIBBLE_PRODUCTS[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn coefficient(multiplier: &Self::Multiplier) -> Self::Coefficient {
        // SAFETY: both tables have 16 bytes, and the structure is aligned to 32.
        unsafe {
            let low = _mm_load_si128(multiplier.low.as_ptr().cast());
            let high = _mm_load_si128(multiplier.high.as_ptr().cast());
            (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
        }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the caller's CPU has AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            (_mm256_and_si256(self.0, mask), _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask))
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, (low, high): Self::Operand, c: Self::Coefficient) -> Self {
        // SAFETY: the caller's CPU has AVX2.
        unsafe {
            let sum = _mm256_xor_si256(self.0, _mm256_shuffle_epi8(c.0, low));
            Self(_mm256_xor_si256(sum, _mm256_shuffle_epi8(c.1, high)))
        }
    }

    #[inline(always)]
    unsafe fn prefetch(address: *const u8) {
        // SAFETY: every x86-64 has SSE; the instruction reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
}
