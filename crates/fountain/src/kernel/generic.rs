//! The dot product of symbols, written once for all vector units.
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
//! coefficient; both together are bounded by the number of registers, sixteen on x86-64. Measured on Zen 3, six outputs
//! of two registers are as fast as twelve of one, and with 256 symbols, which come from beyond the first-level
//! cache, faster by 15 %. For one or two outputs, whose coefficients stay in registers, strips of four are 5 % faster
//! than of three with 45 symbols, and 20 % with 180. The multipliers of a group's coefficients are laid out in the order
//! in which they are used, as looking them up by coefficient in every strip costs another 10 %.
//!
//! Outputs are overwritten, never read, so the last strip may overlap the one before it instead of needing a byte loop.
//!
//! Rejected alternatives are in `docs/decisions/0008-decoder-tableau-and-kernel-blocking.md`.

use core::{mem::MaybeUninit, slice};

use super::{SOURCES_MAX, scalar};

/// Most outputs of a group.
const GROUP_MAX: usize = 6;
/// Up to here the multipliers of the largest group take less than three pages.
const SOURCES_FEW: usize = 64;
/// Rows of coefficients which are eliminated together.
const ROWS_TOGETHER: usize = 64;
/// Distance ahead of a strip's end at which its source is fetched. The strips of one pass come from as many places as
/// there are sources, more than the CPU foresees by itself; by measurement, from 64 to 96 are equally good.
const PREFETCH_BYTES: usize = 64;
/// Bytes that one prefetch brings.
const CACHE_LINE_BYTES: usize = 64;

/// One register of a vector unit.
///
/// # Safety
///
/// Every function may be called only on a CPU which has the unit. All are `#[inline(always)]`, so that they end in
/// a caller which enables the unit's target feature.
pub(super) trait Lanes: Copy {
    /// Bytes in a register.
    const BYTES: usize;
    /// Number of the unit's registers.
    const REGISTERS: usize = 16;
    /// Tables or matrices with which the unit multiplies by a coefficient, in memory.
    type Multiplier: Copy;
    /// A coefficient in registers.
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
    /// A hint that the byte at `address`, which need not exist, will be read soon.
    unsafe fn prefetch(address: *const u8);
}

/// Gives `work` room on the stack for the multipliers of the largest group: not more than the sources need, as
/// touching a page of stack takes longer than what a decoder does with a few short rows.
///
/// Filling it with something first would take as long as a fifth of the work.
pub(super) fn with_room<M: Copy>(source_count: usize, work: impl FnOnce(&mut [MaybeUninit<M>])) {
    if source_count <= SOURCES_FEW {
        with_room_of::<M, { SOURCES_FEW * GROUP_MAX }>(work);
    } else {
        with_room_of::<M, { SOURCES_MAX * GROUP_MAX }>(work);
    }
}

/// Never inlined, so that the caller does not reserve the room of both.
#[inline(never)]
fn with_room_of<M: Copy, const LEN: usize>(work: impl FnOnce(&mut [MaybeUninit<M>])) {
    work(&mut [const { MaybeUninit::uninit() }; LEN]);
}

/// `outputs[j] = Σ_i coefficients[j][i] · sources[i]`; other shapes than [`Kernel::dot`](super::Kernel::dot) says
/// panic. The room is that of [`with_room`].
///
/// # Safety
///
/// As for [`Lanes`].
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
        // As few groups as possible, of about the same size.
        let n = outputs.len().div_ceil(outputs.len().div_ceil(GROUP_MAX));
        let (c, o);
        (c, coefficients) = coefficients.split_at(n);
        (o, outputs) = outputs.split_at_mut(n);
        // SAFETY: the lengths were checked above; the rest is handed on to the caller.
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

/// [`dot`] for `N` outputs, `V` registers of each at a time.
///
/// # Safety
///
/// As for [`Lanes`]; and all sources and outputs have one length.
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
    // SAFETY: all of them were written just now, as there is a coefficient for each source; both types have one layout.
    let columns = unsafe { slice::from_raw_parts(columns.as_ptr().cast::<[L::Multiplier; N]>(), columns.len()) };
    // SAFETY: no strip reaches beyond the length of all; the rest is handed on to the caller.
    unsafe {
        let mut at = 0;
        // The last wide strip may overlap the one before it where that takes less time than narrow ones.
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

/// The bytes from `at` of every output, `V` registers of them.
///
/// # Safety
///
/// As for [`Lanes`]; and all sources and outputs have that many bytes there.
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
            // SAFETY: the caller says that the sources reach this far.
            let source = source.get_unchecked(at..at + V * L::BYTES);
            for line in (0..V * L::BYTES).step_by(CACHE_LINE_BYTES) {
                L::prefetch(source.as_ptr_range().end.wrapping_add(PREFETCH_BYTES + line));
            }
            if N <= 2 {
                // So few coefficients stay in registers for all the strip, and the operands come and go.
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
            // SAFETY: the caller says that the outputs reach this far.
            let strip = output.get_unchecked_mut(at..at + V * L::BYTES);
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(&mut strip[v * L::BYTES..]);
            }
        }
    }
}

/// `target += Σ_r factors[r] · row r`; the caller has checked the shapes.
///
/// Here and below rows are cut with `chunks` rather than `chunks_exact`, whose division costs as much as a few of them.
///
/// # Safety
///
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn accumulate<L: Lanes>(rows: &[u8], factors: &[u8], target: &mut [u8]) {
    let len = target.len();
    let mut at = 0;
    // SAFETY: handed on to the caller.
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

/// `V` registers of [`accumulate`] from `at` on.
#[inline(always)]
unsafe fn accumulate_strip<L: Lanes, const V: usize>(rows: &[u8], factors: &[u8], target: &mut [u8], at: usize) {
    let len = target.len();
    // SAFETY: handed on to the caller.
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

/// Adds to each row that multiple of `pivot_row` which its own byte in `column` says; the caller has checked the shapes.
///
/// # Safety
///
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn eliminate<L: Lanes>(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    let len = pivot_row.len();
    for rows in rows.chunks_mut(ROWS_TOGETHER * len) {
        // As the bytes in the column change under way.
        let mut factors = [0; ROWS_TOGETHER];
        for (factor, row) in factors.iter_mut().zip(rows.chunks(len)) {
            *factor = row[column];
        }
        let mut at = 0;
        // SAFETY: handed on to the caller.
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

/// `V` registers of [`eliminate`] from `at` on.
#[inline(always)]
unsafe fn eliminate_strip<L: Lanes, const V: usize>(rows: &mut [u8], pivot_row: &[u8], factors: &[u8], at: usize) {
    // SAFETY: handed on to the caller.
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
