//! AArch64: `tbl` looks up 16 nibbles in a table of 16 products at once.

use core::arch::aarch64::{uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8};
use core::mem::MaybeUninit;

use super::generic::{self, Lanes};
use crate::gf256::{NIBBLE_PRODUCTS, NibbleProducts};

/// Proof that the CPU has NEON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        #[cfg(feature = "std")]
        let available = std::arch::is_aarch64_feature_detected!("neon");
        #[cfg(not(feature = "std"))]
        let available = cfg!(target_feature = "neon");
        available.then_some(Self(()))
    }

    pub(super) fn dot(self, sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
        generic::with_room(sources.len(), |room| {
            // SAFETY: `self` exists only where NEON was detected.
            unsafe { dot(sources, coefficients, outputs, room) }
        });
    }

    pub(super) fn accumulate(self, rows: &[u8], factors: &[u8], target: &mut [u8]) {
        // SAFETY: `self` exists only where NEON was detected.
        unsafe { accumulate(rows, factors, target) }
    }

    pub(super) fn eliminate(self, rows: &mut [u8], pivot_row: &[u8], column: usize) {
        // SAFETY: `self` exists only where NEON was detected.
        unsafe { eliminate(rows, pivot_row, column) }
    }
}

#[target_feature(enable = "neon")]
fn dot(sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]], room: &mut [MaybeUninit<NibbleProducts>]) {
    // SAFETY: this function enables NEON.
    unsafe { generic::dot::<Nibbles>(sources, coefficients, outputs, room) }
}

#[target_feature(enable = "neon")]
fn accumulate(rows: &[u8], factors: &[u8], target: &mut [u8]) {
    // SAFETY: this function enables NEON.
    unsafe { generic::accumulate::<Nibbles>(rows, factors, target) }
}

#[target_feature(enable = "neon")]
fn eliminate(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    // SAFETY: this function enables NEON.
    unsafe { generic::eliminate::<Nibbles>(rows, pivot_row, column) }
}

#[derive(Clone, Copy)]
struct Nibbles(uint8x16_t);

impl Lanes for Nibbles {
    const BYTES: usize = 16;
    type Multiplier = NibbleProducts;
    type Coefficient = (uint8x16_t, uint8x16_t);
    type Operand = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's CPU has NEON.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(bytes: &[u8]) -> Self {
        let bytes: &[u8] = &bytes[..Self::BYTES];
        // SAFETY: the slice has 16 bytes, and bytes need no alignment.
        Self(unsafe { vld1q_u8(bytes.as_ptr()) })
    }

    #[inline(always)]
    unsafe fn store(self, bytes: &mut [u8]) {
        let bytes: &mut [u8] = &mut bytes[..Self::BYTES];
        // SAFETY: the slice has 16 bytes, and bytes need no alignment.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn multiplier(c: u8) -> Self::Multiplier {
        NIBBLE_PRODUCTS[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn coefficient(multiplier: &Self::Multiplier) -> Self::Coefficient {
        // SAFETY: both tables have 16 bytes.
        unsafe { (vld1q_u8(multiplier.low.as_ptr()), vld1q_u8(multiplier.high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the caller's CPU has NEON.
        unsafe { (vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, (low, high): Self::Operand, c: Self::Coefficient) -> Self {
        // SAFETY: the caller's CPU has NEON.
        Self(unsafe { veorq_u8(veorq_u8(self.0, vqtbl1q_u8(c.0, low)), vqtbl1q_u8(c.1, high)) })
    }

    /// Does nothing: Rust has no stable prefetch intrinsic for AArch64.
    #[inline(always)]
    unsafe fn prefetch(_address: *const u8) {}
}
