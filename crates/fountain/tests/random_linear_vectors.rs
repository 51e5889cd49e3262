//! Golden vectors of `spec/fountain-code.md`, section “Code id 1”, written by the independent `random_linear_reference.py`. The vectors of
//! a code id never change.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first mistake")]

use dfcp_fountain::{
    kernel::Kernel,
    random_linear::{BlockShape, Decoder, Encoder, write_coefficients},
};

const COEFFICIENTS: &str = include_str!("../../../spec/vectors/random_linear_coefficients.txt");
const BLOCK: &str = include_str!("../../../spec/vectors/random_linear_block.txt");

fn lines(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn block(length_bytes: usize) -> Vec<u8> {
    (0..length_bytes).map(|i| (7 * i * i + 13 * i + i / 256 + 1) as u8).collect()
}

#[test]
fn coefficients_are_those_of_the_specification() {
    let mut count = 0;
    for line in lines(COEFFICIENTS) {
        let [esi, k, want] = line[..] else { panic!("{line:?}") };
        let mut coefficients = vec![0; k.parse().unwrap()];
        write_coefficients(esi.parse().unwrap(), &mut coefficients);
        assert_eq!(coefficients, bytes(want), "{esi} of {k}");
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn symbols_are_those_of_the_specification_with_every_kernel() {
    let mut count = 0;
    for line in lines(BLOCK) {
        let [k, length_bytes, esi, want] = line[..] else { panic!("{line:?}") };
        let shape = BlockShape::new(k.parse().unwrap(), length_bytes.parse().unwrap()).unwrap();
        let (esi, want) = (esi.parse::<u32>().unwrap(), bytes(want));
        for kernel in Kernel::available() {
            let encoder = Encoder::new(kernel, shape, block(shape.length_bytes())).unwrap();
            let mut symbol = vec![0xAA; shape.symbol_size()];
            encoder.write_symbol(esi, &mut symbol).unwrap();
            assert_eq!(symbol, want, "{} {line:?}", kernel.name());
        }
        count += 1;
    }
    assert_eq!(count, 42);
}

#[test]
fn a_golden_symbol_repairs_the_loss_of_any_source_symbol() {
    for line in lines(BLOCK) {
        let [k, length_bytes, esi, symbol] = line[..] else { panic!("{line:?}") };
        let shape = BlockShape::new(k.parse().unwrap(), length_bytes.parse().unwrap()).unwrap();
        let esi = esi.parse::<u32>().unwrap();
        if (esi as usize) < shape.k() {
            continue;
        }
        let block = block(shape.length_bytes());
        let mut padded = block.clone();
        padded.resize(shape.k() * shape.symbol_size(), 0);
        for lost in 0..shape.k() {
            let mut decoder = Decoder::new(Kernel::detect(), shape);
            decoder.push(esi, &bytes(symbol)).unwrap();
            for (i, source) in padded.chunks_exact(shape.symbol_size()).enumerate().filter(|(i, _)| *i != lost) {
                decoder.push(i as u32, source).unwrap();
            }
            assert_eq!(decoder.into_block().as_ref(), Some(&block), "{k} {length_bytes} {esi}, lost {lost}");
        }
    }
}
