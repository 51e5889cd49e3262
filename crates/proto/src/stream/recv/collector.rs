//! The symbols of an open block: collected and decoded, or only counted.

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder, DecoderError, K_MAX, Pushed};

use crate::spare::SpareBlocks;

/// The symbols of one open block.
#[derive(Debug)]
pub(crate) enum Collector {
    /// They have bytes.
    Real(Box<Decoder>),
    /// They have none ([`Content::Elided`](crate::Content::Elided)).
    Elided(Count),
}

/// Record of the source symbols that have come, and the number of all symbols.
#[derive(Debug)]
pub(crate) struct Count {
    shape: BlockShape,
    source: [u64; K_MAX / 64],
    symbols: usize,
}

impl Collector {
    /// With memory from `spare`, of which it takes no more than a new collector would take in the end.
    pub(crate) fn real(kernel: Kernel, shape: BlockShape, spare: &SpareBlocks) -> Self {
        let memory = spare.take_or_new(shape.padded_bytes());
        Self::Real(match spare.take_decoder() {
            Some(mut decoder) => {
                decoder.restart(shape, memory);
                decoder
            }
            None => Box::new(Decoder::with_memory(kernel, shape, memory)),
        })
    }

    pub(crate) fn counted(shape: BlockShape) -> Self {
        Self::Elided(Count { shape, source: [0; K_MAX / 64], symbols: 0 })
    }

    /// Takes a symbol. An elided repair symbol must not have come before: only source symbols are told apart.
    pub(crate) fn push(&mut self, esi: u32, symbol: &[u8]) -> Result<Pushed, DecoderError> {
        match self {
            Self::Real(decoder) => decoder.push(esi, symbol),
            Self::Elided(count) => Ok(count.push(esi)),
        }
    }

    /// Symbols which are still needed, at least.
    pub(crate) fn missing(&self) -> usize {
        match self {
            Self::Real(decoder) => decoder.missing(),
            Self::Elided(count) => count.missing(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Real(decoder) => decoder.is_complete(),
            Self::Elided(count) => count.missing() == 0,
        }
    }

    /// Bytes of the block's rows which are there, without a gap, from the first.
    pub(crate) fn available_bytes(&self) -> usize {
        match self {
            Self::Real(decoder) => decoder.available_bytes(),
            Self::Elided(count) => count.available_bytes(),
        }
    }

    /// The rows, as far as they are there; nothing if they are only counted.
    pub(crate) fn rows(&self) -> &[u8] {
        match self {
            Self::Real(decoder) => decoder.data(),
            Self::Elided(_) => &[],
        }
    }

    /// The rows of a complete block; what they were collected with goes to `spare`.
    pub(crate) fn into_rows(self, spare: &SpareBlocks) -> Vec<u8> {
        match self {
            Self::Real(mut decoder) => {
                let rows = decoder.take_block().unwrap_or_default();
                spare.give_decoder(decoder);
                rows
            }
            Self::Elided(_) => Vec::new(),
        }
    }
}

impl Count {
    fn push(&mut self, esi: u32) -> Pushed {
        if self.missing() == 0 {
            return Pushed::Complete;
        }
        if let Some(word) = self.source.get_mut(esi as usize / 64).filter(|_| (esi as usize) < self.shape.k()) {
            let bit = 1 << (esi % 64);
            if *word & bit != 0 {
                return Pushed::Duplicate;
            }
            *word |= bit;
        }
        self.symbols += 1;
        Pushed::Useful
    }

    fn missing(&self) -> usize {
        self.shape.k() - self.symbols
    }

    fn available_bytes(&self) -> usize {
        if self.missing() == 0 {
            return self.shape.length_bytes();
        }
        let full = self.source.iter().take_while(|&&word| word == u64::MAX).count();
        let symbols = 64 * full + self.source.get(full).map_or(0, |word| word.trailing_ones() as usize);
        (symbols * self.shape.symbol_size()).min(self.shape.length_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_the_decoder_does() {
        let shape = BlockShape::new(130, 130 * 10 - 3).unwrap();
        let mut real = Collector::real(Kernel::detect(), shape, &SpareBlocks::default());
        let mut counted = Collector::counted(shape);
        // Source symbols with gaps, one of them twice, and repair symbols for the rest.
        let source = (0..128).filter(|esi| !matches!(esi, 70 | 127)).chain([5, 70]);
        for esi in source.chain(200..206) {
            let same = real.push(esi, &[0; 10]).unwrap();
            assert_eq!(counted.push(esi, &[]).unwrap(), same, "{esi}");
            assert_eq!(counted.missing(), real.missing(), "{esi}");
            assert_eq!(counted.available_bytes(), real.available_bytes(), "{esi}");
            assert_eq!(counted.is_complete(), real.is_complete(), "{esi}");
        }
        assert!(counted.is_complete());
    }
}
