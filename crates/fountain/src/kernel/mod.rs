//! Sums of multiples of symbols over GF(256), with the fastest instructions of the CPU.
//!
//! A [`Kernel`] is chosen once, by [`Kernel::detect`], and passed as a value. The value proves that the CPU has the
//! required instructions. All kernels compute the same bytes.
//!
//! | kernel | instructions | bytes at once |
//! |---|---|---|
//! | `scalar` | any | 32 |
//! | `avx2` | x86-64 `vpshufb` on nibbles | 32 |
//! | `gfni` | x86-64 `vgf2p8affineqb` with AVX2 | 32 |
//! | `gfni512` | the same with AVX-512, for symbols | 64 |
//! | `neon` | AArch64 `tbl` on nibbles | 16 |
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "vector instructions may run only where they were detected")
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod generic;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "x86_64")]
mod gfni512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(test)]
mod tests;

/// Maximum number of sources of one dot product: the symbols of the largest block. Stack space is reserved for them.
pub(crate) const SOURCES_MAX: usize = 256;

/// Instructions for the addition and multiplication of symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel(Unit);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Gfni(gfni::Gfni),
    #[cfg(target_arch = "x86_64")]
    Gfni512(gfni512::Gfni512),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl Kernel {
    /// Returns the fastest kernel of this CPU. Call it once and keep the value.
    #[must_use]
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::scalar())
    }

    /// Returns the kernel that runs on every CPU.
    #[must_use]
    pub const fn scalar() -> Self {
        Self(Unit::Scalar)
    }

    /// Returns all kernels of this CPU, from the slowest to the fastest.
    pub fn available() -> impl Iterator<Item = Self> {
        let units = [
            Some(Unit::Scalar),
            #[cfg(target_arch = "x86_64")]
            avx2::Avx2::detect().map(Unit::Avx2),
            #[cfg(target_arch = "x86_64")]
            gfni::Gfni::detect().map(Unit::Gfni),
            #[cfg(target_arch = "x86_64")]
            gfni512::Gfni512::detect().map(Unit::Gfni512),
            #[cfg(target_arch = "aarch64")]
            neon::Neon::detect().map(Unit::Neon),
        ];
        units.into_iter().flatten().map(Self)
    }

    /// Returns the name of the kernel, as in the table above.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Unit::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni(_) => "gfni",
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni512(_) => "gfni512",
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(_) => "neon",
        }
    }

    /// Computes `outputs[j] = Σ_i coefficients[j][i] · sources[i]`; previous contents of the outputs are overwritten.
    ///
    /// All sources and outputs have the same length in bytes. There is a row of coefficients per output, with one
    /// coefficient per source, and at most [`SOURCES_MAX`] sources. Other shapes are an error of this crate and panic.
    pub(crate) fn dot(self, sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
        if outputs.is_empty() {
            return;
        }
        assert!(sources.len() <= SOURCES_MAX && coefficients.len() == outputs.len());
        assert!(coefficients.iter().all(|row| row.len() == sources.len()));
        match self.0 {
            Unit::Scalar => scalar::dot(sources, coefficients, outputs),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(unit) => unit.dot(sources, coefficients, outputs),
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni(unit) => unit.dot(sources, coefficients, outputs),
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni512(unit) => unit.dot(sources, coefficients, outputs),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(unit) => unit.dot(sources, coefficients, outputs),
        }
    }

    /// Computes `target += Σ_r factors[r] · row r` for `rows`, which are contiguous and as long as `target`. Other
    /// shapes panic. Meant for rows of coefficients: for many or long rows, [`Self::dot`] is faster.
    pub(crate) fn accumulate(self, rows: &[u8], factors: &[u8], target: &mut [u8]) {
        assert!(!target.is_empty() && rows.len() == factors.len() * target.len());
        match self.0 {
            Unit::Scalar => scalar::accumulate(rows, factors, target),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(unit) => unit.accumulate(rows, factors, target),
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni(unit) => unit.accumulate(rows, factors, target),
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni512(unit) => unit.accumulate(rows, factors, target),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(unit) => unit.accumulate(rows, factors, target),
        }
    }

    /// Adds to each of `rows`, which are contiguous and as long as `pivot_row`, the multiple of `pivot_row` by the
    /// row's own byte in `column`. This zeroes the column if the pivot is 1. Other shapes panic.
    pub(crate) fn eliminate(self, rows: &mut [u8], pivot_row: &[u8], column: usize) {
        assert!(column < pivot_row.len());
        debug_assert!(rows.len().is_multiple_of(pivot_row.len()), "rows are as long as the pivot's");
        match self.0 {
            Unit::Scalar => scalar::eliminate(rows, pivot_row, column),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(unit) => unit.eliminate(rows, pivot_row, column),
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni(unit) => unit.eliminate(rows, pivot_row, column),
            #[cfg(target_arch = "x86_64")]
            Unit::Gfni512(unit) => unit.eliminate(rows, pivot_row, column),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(unit) => unit.eliminate(rows, pivot_row, column),
        }
    }
}
