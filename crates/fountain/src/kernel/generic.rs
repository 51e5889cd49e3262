//! The dot product of symbols, written once for all vector units.
//!
//! ```text
//! for each group of at most twelve outputs:
//!     for each strip of a few vectors:                    (accumulators stay in registers)
//!         for each source i:
//!             split the strip of source i into nibbles once
//!             for each output j:  accumulator[j] ^= coefficient[j][i] · strip
//!         store the accumulators
//! ```
//!
//! Several outputs share the loads and the splitting of a source, and several registers share the loads of a
//! coefficient; both together are bounded by the number of registers, sixteen on x86-64. Measured on Zen 3, eight
//! to twelve outputs of one register are the fastest, and with 256 symbols, which come from beyond the first-level
//! cache, by far. The multipliers of a group's coefficients are laid out in the order in which they are
//! used, as looking them up by coefficient in every strip costs another 10 %.
//!
//! Outputs are overwritten, never read, so the last strip may overlap the one before it instead of needing a byte loop.

use core::{mem::MaybeUninit, slice};

use super::{SOURCES_MAX, scalar};

/// Most outputs of a group: as many accumulators as leave four of sixteen registers free.
const GROUP_MAX: usize = 12;
/// Up to here the multipliers of the largest group, 384 bytes for a source, and a strip of all sources fit the
/// first-level cache.
const SOURCES_CACHED: usize = 64;
/// Most outputs of a group with more sources, by measurement.
const GROUP_MAX_UNCACHED: usize = 9;

/// One register of a vector unit.
///
/// # Safety
///
/// Every function may be called only on a CPU which has the unit. All are `#[inline(always)]`, so that they end in
/// a caller which enables the unit's target feature.
pub(super) trait Lanes: Copy {
    /// Bytes in a register.
    const BYTES: usize;
    /// What the unit needs to multiply by a coefficient, in memory.
    type Multiplier: Copy;
    /// The same in registers.
    type Coefficient: Copy;
    /// A register of source bytes in the form in which it is multiplied.
    type Operand: Copy;

    unsafe fn zero() -> Self;
    /// The first [`Self::BYTES`] bytes of `bytes`; panics when there are fewer.
    unsafe fn load(bytes: &[u8]) -> Self;
    /// Writes to the first [`Self::BYTES`] bytes of `bytes`; panics when there are fewer.
    unsafe fn store(self, bytes: &mut [u8]);
    fn multiplier(c: u8) -> Self::Multiplier;
    unsafe fn coefficient(multiplier: &Self::Multiplier) -> Self::Coefficient;
    unsafe fn operand(self) -> Self::Operand;
    /// `self + c · operand`, in the field.
    unsafe fn mul_add(self, operand: Self::Operand, c: Self::Coefficient) -> Self;
}

/// `outputs[j] = Σ_i coefficients[j][i] · sources[i]`; the caller has checked the shapes. Takes 96 KiB of
/// stack.
///
/// # Safety
///
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn dot<L: Lanes>(sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let (mut coefficients, mut outputs) = (coefficients, outputs);
    // Filling it with something first would take as long as a fifth of the work, and one array in each `group` would
    // make the compiler reserve the sum of all.
    let mut room = [const { MaybeUninit::uninit() }; SOURCES_MAX * GROUP_MAX];
    let group_max = if sources.len() <= SOURCES_CACHED { GROUP_MAX } else { GROUP_MAX_UNCACHED };
    while !outputs.is_empty() {
        // As few groups as possible, of about the same size.
        let n = outputs.len().div_ceil(outputs.len().div_ceil(group_max));
        let (c, o);
        (c, coefficients) = coefficients.split_at(n);
        (o, outputs) = outputs.split_at_mut(n);
        // SAFETY: handed on to the caller.
        unsafe {
            match n {
                1 => group::<L, 1, 3>(sources, c, o, &mut room),
                2 => group::<L, 2, 3>(sources, c, o, &mut room),
                3 => group::<L, 3, 3>(sources, c, o, &mut room),
                4 => group::<L, 4, 2>(sources, c, o, &mut room),
                5 => group::<L, 5, 1>(sources, c, o, &mut room),
                6 => group::<L, 6, 1>(sources, c, o, &mut room),
                7 => group::<L, 7, 1>(sources, c, o, &mut room),
                8 => group::<L, 8, 1>(sources, c, o, &mut room),
                9 => group::<L, 9, 1>(sources, c, o, &mut room),
                10 => group::<L, 10, 1>(sources, c, o, &mut room),
                11 => group::<L, 11, 1>(sources, c, o, &mut room),
                _ => group::<L, GROUP_MAX, 1>(sources, c, o, &mut room),
            }
        }
    }
}

/// [`dot`] for a single output, with 8 KiB of stack: touching 96 takes longer than what a decoder does with short rows.
///
/// # Safety
///
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn dot_one<L: Lanes>(sources: &[&[u8]], coefficients: &[u8], output: &mut [u8]) {
    let mut room = [const { MaybeUninit::uninit() }; SOURCES_MAX];
    // SAFETY: handed on to the caller.
    unsafe { group::<L, 1, 3>(sources, &[coefficients], &mut [output], &mut room) }
}

/// [`dot`] for `N` outputs, `V` registers of each at a time.
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
        for (column, c) in columns.iter_mut().zip(coefficients[n]) {
            column[n].write(L::multiplier(*c));
        }
    }
    // SAFETY: all of them were written just now, as there is a coefficient for each source; both types have one layout.
    let columns = unsafe { slice::from_raw_parts(columns.as_ptr().cast::<[L::Multiplier; N]>(), columns.len()) };
    // SAFETY: handed on to the caller.
    unsafe {
        let mut at = 0;
        while at + V * L::BYTES <= len {
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

/// The bytes from `at` of every output, `V` registers of them.
#[inline(always)]
unsafe fn strip<L: Lanes, const N: usize, const V: usize>(
    sources: &[&[u8]],
    columns: &[[L::Multiplier; N]],
    outputs: &mut [&mut [u8]],
    at: usize,
) {
    // SAFETY: handed on to the caller.
    unsafe {
        let mut sums = [[L::zero(); V]; N];
        for (source, column) in sources.iter().zip(columns) {
            let source = &source[at..at + V * L::BYTES];
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
        for (output, sums) in outputs.iter_mut().zip(sums) {
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(&mut output[at + v * L::BYTES..]);
            }
        }
    }
}

/// Adds to each row that multiple of `pivot_row` which its own byte in `column` says; the caller has checked the shapes.
///
/// # Safety
///
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn eliminate<L: Lanes>(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    let whole = pivot_row.len() - pivot_row.len() % L::BYTES;
    let (pivots, pivot_tail) = pivot_row.split_at(whole);
    for row in rows.chunks_exact_mut(pivot_row.len()) {
        let c = row[column];
        let (row, row_tail) = row.split_at_mut(whole);
        // SAFETY: handed on to the caller.
        unsafe {
            let coefficient = L::coefficient(&L::multiplier(c));
            for (sum, pivot) in row.chunks_exact_mut(L::BYTES).zip(pivots.chunks_exact(L::BYTES)) {
                L::load(sum).mul_add(L::load(pivot).operand(), coefficient).store(sum);
            }
        }
        scalar::mul_add(row_tail, c, pivot_tail);
    }
}
