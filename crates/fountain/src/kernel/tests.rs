use alloc::vec::Vec;

use super::*;
use crate::{gf256, random_linear::SplitMix64};

/// Step between tested lengths and alignments. Miri executes AVX2 and GFNI on any machine, but slowly, so that only
/// every n-th value is tested under Miri.
const fn step(under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { 1 }
}

fn bytes(random: &mut SplitMix64, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next() as u8).collect()
}

/// Symbols of `len` bytes at different alignments in one buffer, each with a spare byte before and after.
fn layout(count: usize, len: usize, alignment: usize) -> Vec<core::ops::Range<usize>> {
    (0..count).map(|i| i * (len + 9) + alignment..i * (len + 9) + alignment + len).collect()
}

/// Returns the product by its definition. Under Miri, where that takes a millisecond, uses tables that have their own
/// test.
fn product(c: u8, b: u8) -> u8 {
    if cfg!(miri) {
        let table = &gf256::NIBBLE_PRODUCTS[usize::from(c)];
        table.low[usize::from(b & 15)] ^ table.high[usize::from(b >> 4)]
    } else {
        gf256::mul(c, b)
    }
}

/// Returns the dot product by its definition, one byte at a time.
fn dot_naive(sources: &[&[u8]], row: &[u8], at: usize) -> u8 {
    sources.iter().zip(row).fold(0, |sum, (source, c)| sum ^ product(*c, source[at]))
}

fn check_dot(kernel: Kernel, random: &mut SplitMix64, shape: (usize, usize, usize, usize)) {
    let (source_count, output_count, len, alignment) = shape;
    let source_bytes = bytes(random, source_count * (len + 9) + alignment + 9);
    let sources: Vec<_> = layout(source_count, len, alignment).into_iter().map(|range| &source_bytes[range]).collect();
    let rows: Vec<_> = (0..output_count).map(|_| bytes(random, source_count)).collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();

    let before = bytes(random, output_count * (len + 9) + alignment + 9);
    let mut after = before.clone();
    let ranges = layout(output_count, len, alignment);
    let mut outputs: Vec<_> =
        after.chunks_mut(len + 9).take(output_count).map(|chunk| &mut chunk[alignment..alignment + len]).collect();
    kernel.dot(&sources, &rows, &mut outputs);

    let name = kernel.name();
    for (j, range) in ranges.iter().enumerate() {
        for at in 0..len {
            let want = dot_naive(&sources, rows[j], at);
            assert_eq!(after[range.start + at], want, "{name} {shape:?}, output {j}, byte {at}");
        }
    }
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(before == after || ranges.iter().any(|range| range.contains(&at)), "{name} {shape:?} wrote to {at}");
    }
}

#[test]
fn every_kernel_computes_dot_products_at_all_lengths_and_alignments() {
    for kernel in Kernel::available() {
        let mut random = SplitMix64::new(1);
        for len in (1..=300).step_by(step(97)) {
            for alignment in (0..=8).step_by(step(5)) {
                check_dot(kernel, &mut random, (3, 1 + (len + alignment) % 13, len, alignment));
            }
        }
        for alignment in (0..=8).skip(step(10) - 1) {
            check_dot(kernel, &mut random, (45, 9, 1420, alignment));
            check_dot(kernel, &mut random, (2, 4, 1472, alignment));
        }
    }
}

#[test]
fn every_kernel_equals_the_scalar_one_at_all_symbol_sizes() {
    let mut random = SplitMix64::new(2);
    let source_bytes = bytes(&mut random, 5 * 1472 + 64);
    let rows: Vec<_> = (0..6).map(|_| bytes(&mut random, 5)).collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    for len in (1..=1472).step_by(step(740)) {
        let alignment = len % 33;
        let sources: Vec<_> = source_bytes[alignment..].chunks_exact(len).take(5).collect();
        let rows = &rows[..1 + len % 6];
        let run = |kernel: Kernel| {
            let mut out = alloc::vec![0; rows.len() * len];
            kernel.dot(&sources, rows, &mut out.chunks_exact_mut(len).collect::<Vec<_>>());
            out
        };
        let want = run(Kernel::scalar());
        for kernel in Kernel::available() {
            assert!(run(kernel) == want, "{} at {len}", kernel.name());
        }
    }
}

#[test]
fn every_kernel_takes_every_number_of_sources_and_outputs() {
    for kernel in Kernel::available() {
        let mut random = SplitMix64::new(3);
        for source_count in [0, 1, 2, 17, 64, 65, 255, 256].into_iter().step_by(step(5)) {
            for output_count in (0..=14).step_by(step(6)) {
                check_dot(kernel, &mut random, (source_count, output_count, if cfg!(miri) { 33 } else { 100 }, 1));
            }
        }
    }
}

#[test]
fn every_kernel_accumulates_rows_at_all_lengths() {
    for kernel in Kernel::available() {
        let mut random = SplitMix64::new(5);
        for len in (1..=130).chain([256, 511, 512]).step_by(step(45)) {
            for count in 0..=4 {
                let (rows, factors) = (bytes(&mut random, count * len), bytes(&mut random, count));
                let before = bytes(&mut random, len);
                let mut after = before.clone();
                kernel.accumulate(&rows, &factors, &mut after);
                let rows: Vec<_> = rows.chunks_exact(len).collect();
                for at in 0..len {
                    let want = before[at] ^ dot_naive(&rows, &factors, at);
                    assert_eq!(after[at], want, "{} {count} × {len}, byte {at}", kernel.name());
                }
            }
        }
    }
}

#[test]
fn every_kernel_eliminates_with_every_coefficient_at_all_lengths() {
    for kernel in Kernel::available() {
        let mut random = SplitMix64::new(4);
        for len in (1..=130).chain([256, 511, 512]).step_by(step(45)) {
            let column = len / 2;
            let pivot_row = bytes(&mut random, len);
            let coefficients: Vec<u8> = (0..=255).step_by(step(51)).collect();
            let mut before = bytes(&mut random, coefficients.len() * len);
            for (c, row) in coefficients.iter().zip(before.chunks_exact_mut(len)) {
                row[column] = *c;
            }
            let mut after = before.clone();
            kernel.eliminate(&mut after, &pivot_row, column);
            let rows = before.chunks_exact(len).zip(after.chunks_exact(len));
            for (c, (before, after)) in coefficients.into_iter().zip(rows) {
                for at in 0..len {
                    let want = before[at] ^ product(c, pivot_row[at]);
                    assert_eq!(after[at], want, "{} {c} × {len}, byte {at}", kernel.name());
                }
            }
        }
    }
}

#[test]
fn the_kernel_detected_is_the_last_one_available() {
    assert_eq!(Kernel::available().next(), Some(Kernel::scalar()));
    assert_eq!(Some(Kernel::detect()), Kernel::available().last());
}
