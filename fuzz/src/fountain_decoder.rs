//! The modern code's decoder (`spec/fountain-code.md`): any symbols in any order, compared with a second elimination.

use std::collections::BTreeSet;

use dfcp_fountain::gf256;
use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{
    BlockShape, Decoder, DecoderError, Encoder, K_MAX, Pushed, SYMBOL_SIZE_MAX, write_coefficients,
};

use crate::input::{Input, filler};

/// Maximum number of pushed symbols: twice the need of the largest block.
const PUSHES_MAX: usize = 2 * K_MAX;
/// Maximum number of source symbols for which the second elimination, which is slow, is run.
const MODEL_K_MAX: usize = 48;

/// Encodes a block of the shape in the input, and decodes it from the symbols in the input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(shape) = shape(&mut input) else { return };
    let block = filler(input.u8().into(), shape.length_bytes());
    let kernel = Kernel::detect();
    let encoder = Encoder::new(kernel, shape, &block[..]).expect("the block has the shape's length");
    let decoder = Decoder::new(kernel, shape);
    let honest = !input.rarely(8);
    let rank = (shape.k() <= MODEL_K_MAX).then(|| Rank::new(shape.k()));
    let mut scenario = Scenario { block: &block, shape, encoder, decoder, honest, seen: BTreeSet::new(), rank };
    let mut esi: u32 = 0;
    for _ in 0..PUSHES_MAX {
        if input.is_empty() {
            break;
        }
        esi = match input.below(8) {
            0..=2 => esi.wrapping_add(1),
            3 => input.below(shape.k()) as u32,
            4 => shape.k() as u32 + u32::from(input.u8()),
            5 => input.number32(),
            6 => {
                scenario.push_misshapen(&mut input);
                continue;
            }
            _ => esi.wrapping_sub(u32::from(input.u8())),
        };
        scenario.push(esi);
    }
    scenario.finish();
}

/// Shape of a block with K and length as a peer could declare them. Checks that impossible shapes are refused as
/// documented.
fn shape(input: &mut Input<'_>) -> Option<BlockShape> {
    let k = input.below(K_MAX + 1);
    let length_bytes = match input.below(4) {
        0 => k + input.below(16),
        1 => (k * usize::from(input.u8())).saturating_sub(input.below(4)),
        2 => usize::from(input.u16()),
        _ => input.number32() as usize,
    };
    let shape = BlockShape::new(k, length_bytes);
    let possible = k > 0 && length_bytes > 0 && length_bytes.div_ceil(k) <= SYMBOL_SIZE_MAX;
    assert_eq!(shape.is_ok(), possible, "{k} symbols for {length_bytes} bytes");
    shape.ok()
}

struct Scenario<'a> {
    block: &'a [u8],
    shape: BlockShape,
    encoder: Encoder<&'a [u8]>,
    decoder: Decoder,
    /// True if symbols come from the encoder. Otherwise they are noise, and only the rank can be checked.
    honest: bool,
    seen: BTreeSet<u32>,
    rank: Option<Rank>,
}

impl Scenario<'_> {
    fn push(&mut self, esi: u32) {
        let mut symbol = vec![0; self.shape.symbol_size()];
        if self.honest {
            self.encoder.write_symbol(esi, &mut symbol).expect("room for one symbol");
        } else {
            symbol = filler(u64::from(esi) + 1, symbol.len());
        }
        let was_complete = self.decoder.is_complete();
        let was_known = self.decoder.source(esi as usize).is_some();
        let was_missing = self.decoder.missing();
        let pushed = self.decoder.push(esi, &symbol).expect("the symbol has the right size");
        let is_new = !was_complete && self.seen.insert(esi);
        let grew = self.rank.as_mut().filter(|_| is_new).map(|rank| rank.add(esi));
        match pushed {
            Pushed::Complete => assert!(was_complete),
            Pushed::Duplicate => assert!(was_known || !is_new, "{esi} is new"),
            Pushed::Redundant => assert!(!grew.unwrap_or(false), "{esi} brought something new"),
            Pushed::Useful => assert!(is_new && !was_known, "{esi} is old"),
        }
        assert_eq!(pushed == Pushed::Complete, was_complete);
        let enough = self.seen.len() >= self.shape.k();
        match &self.rank {
            _ if was_complete => assert_eq!(self.decoder.missing(), 0),
            Some(rank) if enough => assert_eq!(self.decoder.missing(), self.shape.k() - rank.rank()),
            None if enough => assert!(self.decoder.missing() <= was_missing || was_missing == 1),
            _ => assert_eq!(self.decoder.missing(), self.shape.k() - self.seen.len()),
        }
        assert_eq!(self.decoder.is_complete(), self.decoder.missing() == 0);
        self.check_data();
    }

    /// Checks that decoded bytes equal the source, and that they begin without a gap.
    fn check_data(&self) {
        let available = self.decoder.available_bytes();
        assert_eq!(self.decoder.data().len(), available);
        if !self.honest {
            return;
        }
        assert_eq!(self.decoder.data(), &self.block[..available]);
        for i in [0, self.shape.k() / 2, self.shape.k() - 1] {
            let range = self.shape.source_range(i);
            let head = range.end <= available && !range.is_empty();
            match self.decoder.source(i) {
                Some(source) => assert_eq!(source, &self.block[range]),
                None => assert!(!head, "symbol {i} is in the head and not known"),
            }
        }
    }

    /// Checks that a symbol of another size is refused and changes nothing.
    fn push_misshapen(&mut self, input: &mut Input<'_>) {
        let (expected, got) = (self.shape.symbol_size(), input.below(SYMBOL_SIZE_MAX + 2));
        if got == expected {
            return;
        }
        let missing = self.decoder.missing();
        let refused = self.decoder.push(input.number32(), &vec![1; got]);
        assert_eq!(refused, Err(DecoderError::SymbolLength { got, expected }));
        assert_eq!(self.decoder.missing(), missing);
    }

    fn finish(self) {
        let (complete, honest, block) = (self.decoder.is_complete(), self.honest, self.block);
        let decoded = self.decoder.into_block();
        assert_eq!(decoded.is_some(), complete);
        if let Some(decoded) = decoded {
            assert_eq!(decoded.len(), block.len());
            assert!(!honest || decoded == block, "the block is not what was sent");
        }
    }
}

/// Rank of the equations so far, by textbook elimination with the definition of the field.
struct Rank {
    /// Row i has its first nonzero coefficient, a 1, in column i.
    rows: Vec<Option<Vec<u8>>>,
}

impl Rank {
    fn new(k: usize) -> Self {
        Self { rows: vec![None; k] }
    }

    fn rank(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    /// Adds a symbol. Returns true if it is independent of earlier symbols.
    fn add(&mut self, esi: u32) -> bool {
        let mut row = vec![0; self.rows.len()];
        write_coefficients(esi, &mut row);
        for column in 0..row.len() {
            let factor = row[column];
            if factor == 0 {
                continue;
            }
            let Some(pivot) = &self.rows[column] else {
                let inverse = gf256::inverse(factor);
                row.iter_mut().for_each(|coefficient| *coefficient = gf256::mul(*coefficient, inverse));
                self.rows[column] = Some(row);
                return true;
            };
            for (coefficient, pivot) in row.iter_mut().zip(pivot) {
                *coefficient ^= gf256::mul(factor, *pivot);
            }
        }
        false
    }
}
