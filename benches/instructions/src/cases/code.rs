//! Cases of the modern code: kernels, repair symbols, blocks with losses.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder, Encoder};

use super::{Case, counted, random_bytes};

/// Symbol of an encrypted connection: 1420 bytes of data and a secret.
const SYMBOL_BYTES: usize = 1_424;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "multiply",
        unit: "symbol",
        what: "one symbol times a coefficient: a repair symbol of a block of one",
        repetitions: 2_000,
        parts: &[],
        run: |repetitions| repair(1, 1, repetitions),
    },
    Case {
        name: "encode-45",
        unit: "repair symbol",
        what: "one repair symbol, K = 45",
        repetitions: 100,
        parts: &[],
        run: |repetitions| repair(45, 1, repetitions),
    },
    Case {
        name: "encode-45-loss5",
        unit: "block",
        what: "the repair symbols of a block of 45 for 5 % loss: 3, made together",
        repetitions: 50,
        parts: &[],
        run: |repetitions| repair(45, 3, repetitions),
    },
    Case {
        name: "encode-45-loss20",
        unit: "block",
        what: "those for 20 % loss: 12, made together",
        repetitions: 20,
        parts: &[],
        run: |repetitions| repair(45, 12, repetitions),
    },
    Case {
        name: "decode-45",
        unit: "block",
        what: "a block of 45 of which all source symbols come",
        repetitions: 50,
        parts: &[],
        run: |repetitions| decode(45, 0, repetitions),
    },
    Case {
        name: "decode-45-loss5",
        unit: "block",
        what: "a block of 45 of which 2 source symbols are lost",
        repetitions: 50,
        parts: &[],
        run: |repetitions| decode(45, 2, repetitions),
    },
    Case {
        name: "decode-45-loss20",
        unit: "block",
        what: "a block of 45 of which 9 source symbols are lost",
        repetitions: 20,
        parts: &[],
        run: |repetitions| decode(45, 9, repetitions),
    },
    Case {
        name: "decode-128-loss10",
        unit: "block",
        what: "a block of 128 of which 13 source symbols are lost",
        repetitions: 4,
        parts: &[],
        run: |repetitions| decode(128, 13, repetitions),
    },
];

fn encoder(k: usize) -> Result<Encoder<Vec<u8>>> {
    let shape = BlockShape::new(k, k * SYMBOL_BYTES)?;
    Ok(Encoder::new(Kernel::detect(), shape, random_bytes(k as u64, shape.length_bytes()))?)
}

/// Makes `together` repair symbols of one block at a time.
fn repair(k: usize, together: usize, repetitions: u64) -> Result<()> {
    let encoder = encoder(k)?;
    let mut out = vec![0; together * SYMBOL_BYTES];
    counted(|| {
        for esi in (k as u32..).step_by(together).take(repetitions as usize) {
            if together == 1 {
                encoder.write_symbol(esi, &mut out)?;
            } else {
                encoder.write_repairs(esi, &mut out)?;
            }
            black_box(&mut out);
        }
        Ok(())
    })
}

/// Decodes blocks. Each block lacks `lost` source symbols, different ones each time, and gets repair symbols until it
/// is complete. A single decoder is reused, as in a connection.
fn decode(k: usize, lost: usize, repetitions: u64) -> Result<()> {
    let encoder = encoder(k)?;
    let repairs_max = lost + 8;
    let mut symbols = vec![0; (k + repairs_max) * SYMBOL_BYTES];
    for (esi, out) in (0..).zip(symbols.chunks_exact_mut(SYMBOL_BYTES)) {
        encoder.write_symbol(esi, out)?;
    }
    let shape = encoder.shape();
    let mut decoder = Decoder::new(Kernel::detect(), shape);
    let mut one = |repetition: u64, memory: Vec<u8>| {
        decoder.restart(shape, memory);
        // Lost symbols are spread evenly, from a different first symbol in each block.
        let is_lost = |esi: usize| esi < k && ((esi + repetition as usize) * lost) % k < lost;
        for (esi, symbol) in symbols.chunks_exact(SYMBOL_BYTES).enumerate().filter(|(esi, _)| !is_lost(*esi)) {
            decoder.push(esi as u32, symbol)?;
            if decoder.is_complete() {
                break;
            }
        }
        decoder.take_block().context("the block is not complete")
    };
    // The first block allocates memory, which later ones reuse, as in a connection.
    let mut memory = one(0, Vec::new())?;
    counted(|| {
        for repetition in 1..=repetitions {
            memory = black_box(one(repetition, std::mem::take(&mut memory))?);
        }
        Ok(())
    })?;
    ensure!(memory == symbols[..shape.padded_bytes()], "the block is not what was encoded");
    Ok(())
}
