//! Dot product of symbols, written once for all vector units.
//!
//! ```text
//! for each group of at most six outputs:
//!     for each strip of a few vectors:                    (accumulators stay in registers)
//!         for each source i:
//!             split the strip of source i into nibbles once
//!             for each output j:  accumulator[j] ^= coefficient[j][i] · strip
//!         store the accumulators
//! ```
//!
//! Several outputs share the loads and the splitting of a source, and several registers share the loads of a
//! coefficient; the number of registers (sixteen on x86-64) limits both. Measured on Zen 3: six outputs with two
//! registers each are as fast as twelve outputs with one, and 15 % faster with 256 symbols, which exceed the
//! first-level cache. With one or two outputs, whose coefficients stay in registers, strips of four registers are
//! faster than strips of three: by 5 % with 45 symbols, and by 20 % with 180. The multipliers of a group's coefficients
//! are stored in the order of their use; looking them up by coefficient in every strip costs another 10 %.
//!
//! Outputs are overwritten, never read, so the last strip may overlap the one before it instead of needing a byte loop.
//!
//! Rejected alternatives are in `docs/decisions/0008-decoder-tableau-and-kernel-blocking.md`.

use core::{mem::MaybeUninit, slice};

use super::{SOURCES_MAX, scalar};

/// Maximum number of outputs in a group.
const GROUP_MAX: usize = 6;
/// Number of sources up to which the multipliers of the largest group take at most three pages.
const SOURCES_FEW: usize = 64;
/// Number of coefficient rows eliminated together.
const ROWS_TOGETHER: usize = 64;
/// Prefetch distance from the end of a strip. A pass reads from as many places as there are sources, more than the CPU
/// prefetches by itself. Distances of 64 to 96 bytes measured equally good.
const PREFETCH_BYTES: usize = 64;
/// Bytes loaded by one prefetch.
const CACHE_LINE_BYTES: usize = 64;

/// One register of a vector unit.
///
/// # Safety
///
/// Every function may be called only on a CPU with this vector unit. All are `#[inline(always)]`, so that they are
/// inlined into a caller that enables the unit's target feature.
pub(super) trait Lanes: Copy {
    /// Bytes in a register.
    const BYTES: usize;
    /// Number of registers of the unit.
    const REGISTERS: usize = 16;
    /// In-memory tables or matrices by which the unit multiplies with a coefficient.
    type Multiplier: Copy;
    /// A coefficient loaded into registers.
    type Coefficient: Copy;
    /// A register of source bytes, in the form that multiplication needs.
    type Operand: Copy;

    unsafe fn zero() -> Self;
    /// Loads the first [`Self::BYTES`] bytes of `bytes`; panics if there are fewer.
    unsafe fn load(bytes: &[u8]) -> Self;
    /// Stores to the first [`Self::BYTES`] bytes of `bytes`; panics if there are fewer.
    unsafe fn store(self, bytes: &mut [u8]);
    fn multiplier(c: u8) -> Self::Multiplier;
    unsafe fn coefficient(multiplier: &Self::Multiplier) -> Self::Coefficient;
    unsafe fn operand(self) -> Self::Operand;
    /// Computes `self + c · operand` in the field.
    unsafe fn mul_add(self, operand: Self::Operand, c: Self::Coefficient) -> Self;
    /// Prefetches the byte at `address`, which may be invalid.
    unsafe fn prefetch(address: *const u8);
}

/// Gives `work` stack space for the multipliers of the largest group. The space depends on the number of sources:
/// touching a page of stack takes longer than a decoder's work on a few short rows.
///
/// The space is uninitialised: filling it would take 20 % of the time of the work.
pub(super) fn with_room<M: Copy>(source_count: usize, work: impl FnOnce(&mut [MaybeUninit<M>])) {
    if source_count <= SOURCES_FEW {
        with_room_of::<M, { SOURCES_FEW * GROUP_MAX }>(work);
    } else {
        with_room_of::<M, { SOURCES_MAX * GROUP_MAX }>(work);
    }
}

/// Never inlined, so that a caller does not reserve stack space of both sizes.
#[inline(never)]
fn with_room_of<M: Copy, const LEN: usize>(work: impl FnOnce(&mut [MaybeUninit<M>])) {
    work(&mut [const { MaybeUninit::uninit() }; LEN]);
}

/// Computes `outputs[j] = Σ_i coefficients[j][i] · sources[i]`; panics for shapes other than those of
/// [`Kernel::dot`](super::Kernel::dot). `room` comes from [`with_room`].
///
/// # Safety
///
/// Same as for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn dot<L: Lanes>(
    sources: &[&[u8]],
    coefficients: &[&[u8]],
    outputs: &mut [&mut [u8]],
    room: &mut [MaybeUninit<L::Multiplier>],
) {
    let len = outputs.first().map_or(0, |output| output.len());
    assert!(sources.iter().all(|source| source.len() == len) && outputs.iter().all(|output| output.len() == len));
    let (mut coefficients, mut outputs) = (coefficients, outputs);
    while !outputs.is_empty() {
        // Use as few groups as possible, of about equal size.
        let n = outputs.len().div_ceil(outputs.len().div_ceil(GROUP_MAX));
        let (c, o);
        (c, coefficients) = coefficients.split_at(n);
        (o, outputs) = outputs.split_at_mut(n);
        // SAFETY: the lengths were checked above; the caller guarantees the other conditions.
        unsafe {
            match n {
                3.. if L::REGISTERS >= 32 => match n {
                    3 => group::<L, 3, 4>(sources, c, o, room),
                    4 => group::<L, 4, 4>(sources, c, o, room),
                    5 => group::<L, 5, 4>(sources, c, o, room),
                    _ => group::<L, GROUP_MAX, 4>(sources, c, o, room),
                },
                1 => group::<L, 1, 4>(sources, c, o, room),
                2 => group::<L, 2, 4>(sources, c, o, room),
                3 => group::<L, 3, 3>(sources, c, o, room),
                4 => group::<L, 4, 2>(sources, c, o, room),
                5 => group::<L, 5, 2>(sources, c, o, room),
                _ => group::<L, GROUP_MAX, 2>(sources, c, o, room),
            }
        }
    }
}

/// Computes [`dot`] for `N` outputs, with `V` registers of each output at a time.
///
/// # Safety
///
/// Same as for [`Lanes`]; all sources and outputs must have the same length.
#[inline(always)]
unsafe fn group<L: Lanes, const N: usize, const V: usize>(
    sources: &[&[u8]],
    coefficients: &[&[u8]],
    outputs: &mut [&mut [u8]],
    room: &mut [MaybeUninit<L::Multiplier>],
) {
    let len = outputs[0].len();
    if len < L::BYTES {
        return scalar::dot(sources, coefficients, outputs);
    }
    let (columns, _) = room.as_chunks_mut::<N>();
    let columns = &mut columns[..sources.len()];
    for n in 0..N {
        for (column, c) in columns.iter_mut().zip(&coefficients[n][..sources.len()]) {
            column[n].write(L::multiplier(*c));
        }
    }
    // SAFETY: all columns were just written, as there is a coefficient for each source; both types have the same
    // layout.
    let columns = unsafe { slice::from_raw_parts(columns.as_ptr().cast::<[L::Multiplier; N]>(), columns.len()) };
    // SAFETY: no strip exceeds the common length; the caller guarantees the other conditions.
    unsafe {
        let mut at = 0;
        // The last wide strip may overlap the previous one if that is faster than narrow strips.
        while len - at > V * L::BYTES / 2 && len >= V * L::BYTES {
            at = at.min(len - V * L::BYTES);
            strip::<L, N, V>(sources, columns, outputs, at);
            at += V * L::BYTES;
        }
        while at < len {
            at = at.min(len - L::BYTES);
            strip::<L, N, 1>(sources, columns, outputs, at);
            at += L::BYTES;
        }
    }
}

/// Computes `V` registers of every output, from byte `at` on.
///
/// # Safety
///
/// Same as for [`Lanes`]; all sources and outputs must have `V` registers of bytes from `at` on.
#[inline(always)]
unsafe fn strip<L: Lanes, const N: usize, const V: usize>(
    sources: &[&[u8]],
    columns: &[[L::Multiplier; N]],
    outputs: &mut [&mut [u8]],
    at: usize,
) {
    // SAFETY: the caller guarantees the conditions.
    unsafe {
        let mut sums = [[L::zero(); V]; N];
        for (source, column) in sources.iter().zip(columns) {
            // SAFETY: the caller guarantees that the sources reach this far.
            let source = source.get_unchecked(at..at + V * L::BYTES);
            for line in (0..V * L::BYTES).step_by(CACHE_LINE_BYTES) {
                L::prefetch(source.as_ptr_range().end.wrapping_add(PREFETCH_BYTES + line));
            }
            if N <= 2 {
                // The few coefficients stay in registers for the whole strip, while the operands are loaded one by one.
                let mut coefficients = [L::coefficient(&column[0]); N];
                for (c, multiplier) in coefficients.iter_mut().zip(column) {
                    *c = L::coefficient(multiplier);
                }
                for v in 0..V {
                    let operand = L::load(&source[v * L::BYTES..]).operand();
                    for (sums, c) in sums.iter_mut().zip(coefficients) {
                        sums[v] = sums[v].mul_add(operand, c);
                    }
                }
            } else {
                let mut operands = [L::zero().operand(); V];
                for (v, operand) in operands.iter_mut().enumerate() {
                    *operand = L::load(&source[v * L::BYTES..]).operand();
                }
                for (sums, multiplier) in sums.iter_mut().zip(column) {
                    let c = L::coefficient(multiplier);
                    for (sum, operand) in sums.iter_mut().zip(operands) {
                        *sum = sum.mul_add(operand, c);
                    }
                }
            }
        }
        for (output, sums) in outputs.iter_mut().zip(sums) {
            // SAFETY: the caller guarantees that the outputs reach this far.
            let strip = output.get_unchecked_mut(at..at + V * L::BYTES);
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(&mut strip[v * L::BYTES..]);
            }
        }
    }
}

/// Computes `target += Σ_r factors[r] · row r`; the caller has checked the shapes.
///
/// Rows are split by `chunks`: `chunks_exact` has a division that costs as much as a few rows.
///
/// # Safety
///
/// Same as for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn accumulate<L: Lanes>(rows: &[u8], factors: &[u8], target: &mut [u8]) {
    let len = target.len();
    let mut at = 0;
    // SAFETY: the caller guarantees the conditions.
    unsafe {
        while at + 2 * L::BYTES <= len {
            accumulate_strip::<L, 2>(rows, factors, target, at);
            at += 2 * L::BYTES;
        }
        if at + L::BYTES <= len {
            accumulate_strip::<L, 1>(rows, factors, target, at);
            at += L::BYTES;
        }
    }
    if at < len {
        for (row, c) in rows.chunks(len).zip(factors) {
            scalar::mul_add(&mut target[at..], *c, &row[at..]);
        }
    }
}

/// Computes `V` registers of [`accumulate`], from byte `at` on.
#[inline(always)]
unsafe fn accumulate_strip<L: Lanes, const V: usize>(rows: &[u8], factors: &[u8], target: &mut [u8], at: usize) {
    let len = target.len();
    // SAFETY: the caller guarantees the conditions.
    unsafe {
        let mut sums = [L::zero(); V];
        for (v, sum) in sums.iter_mut().enumerate() {
            *sum = L::load(&target[at + v * L::BYTES..]);
        }
        for (row, c) in rows.chunks(len).zip(factors) {
            let coefficient = L::coefficient(&L::multiplier(*c));
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = sum.mul_add(L::load(&row[at + v * L::BYTES..]).operand(), coefficient);
            }
        }
        for (v, sum) in sums.into_iter().enumerate() {
            sum.store(&mut target[at + v * L::BYTES..]);
        }
    }
}

/// Adds to each row the multiple of `pivot_row` by the row's own byte in `column`; the caller has checked the shapes.
///
/// # Safety
///
/// Same as for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn eliminate<L: Lanes>(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    let len = pivot_row.len();
    for rows in rows.chunks_mut(ROWS_TOGETHER * len) {
        // Copy the factors, because the bytes in the column change during the elimination.
        let mut factors = [0; ROWS_TOGETHER];
        for (factor, row) in factors.iter_mut().zip(rows.chunks(len)) {
            *factor = row[column];
        }
        let mut at = 0;
        // SAFETY: the caller guarantees the conditions.
        unsafe {
            while at + 2 * L::BYTES <= len {
                eliminate_strip::<L, 2>(rows, pivot_row, &factors, at);
                at += 2 * L::BYTES;
            }
            if at + L::BYTES <= len {
                eliminate_strip::<L, 1>(rows, pivot_row, &factors, at);
                at += L::BYTES;
            }
        }
        if at < len {
            for (row, c) in rows.chunks_mut(len).zip(factors) {
                scalar::mul_add(&mut row[at..], c, &pivot_row[at..]);
            }
        }
    }
}

/// Computes `V` registers of [`eliminate`], from byte `at` on.
#[inline(always)]
unsafe fn eliminate_strip<L: Lanes, const V: usize>(rows: &mut [u8], pivot_row: &[u8], factors: &[u8], at: usize) {
    // SAFETY: the caller guarantees the conditions.
    unsafe {
        let mut operands = [L::zero().operand(); V];
        for (v, operand) in operands.iter_mut().enumerate() {
            *operand = L::load(&pivot_row[at + v * L::BYTES..]).operand();
        }
        for (row, c) in rows.chunks_mut(pivot_row.len()).zip(factors) {
            let coefficient = L::coefficient(&L::multiplier(*c));
            let strip = &mut row[at..at + V * L::BYTES];
            for (v, operand) in operands.into_iter().enumerate() {
                let sum = &mut strip[v * L::BYTES..];
                L::load(sum).mul_add(operand, coefficient).store(sum);
            }
        }
    }
}
