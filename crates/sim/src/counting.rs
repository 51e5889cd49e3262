//! Codec of simulated flows, which counts symbols without coding or storing them.

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, DecoderError, Encoder, EncoderError, K_MAX, Pushed};
use dfcp_proto::codec::{BlockDecoder, Codec, Progress, SpareBlocks};

/// Codec without bytes: nothing is coded, copied or kept. Data segments end after their options, but packets have the
/// size that they would have with their symbols. A block is decoded as soon as K different symbols (modern profile) or
/// *Redundancy* bytes of symbols (classic profile) have arrived. Written bytes are discarded, and zeros are read. Both
/// ends must use this codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

impl Codec for Counting {
    fn carries_bytes(&self) -> bool {
        false
    }

    fn encoder(
        &self,
        _kernel: Kernel,
        _shape: BlockShape,
        _rows: Vec<u8>,
    ) -> Result<Option<Encoder<Vec<u8>>>, EncoderError> {
        Ok(None)
    }

    fn decoder(&self, _kernel: Kernel, shape: BlockShape, _spare: &SpareBlocks) -> Box<dyn BlockDecoder> {
        Box::new(Count { shape, source: [0; K_MAX / 64], symbols: 0 })
    }
}

/// Set of the source symbols that have arrived, and count of all symbols.
#[derive(Debug)]
struct Count {
    shape: BlockShape,
    source: [u64; K_MAX / 64],
    symbols: usize,
}

impl Count {
    /// Counts a symbol. A repair symbol must not arrive twice, because duplicates are detected only for source symbols.
    fn add(&mut self, esi: u32) -> Pushed {
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
}

impl BlockDecoder for Count {
    fn push(&mut self, esi: u32, _symbol: &[u8]) -> Result<Progress, DecoderError> {
        let missing_before = self.missing();
        let pushed = self.add(esi);
        let missing = self.missing();
        Ok(Progress { pushed, missing_before, missing, is_complete: missing == 0 })
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

    fn rows(&self) -> &[u8] {
        &[]
    }

    fn into_rows(self: Box<Self>, _spare: &SpareBlocks) -> Vec<u8> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use dfcp_proto::codec::RandomLinear;
    use dfcp_proto::{Config, ConfigError, StaticKey};

    use super::*;

    #[test]
    fn counts_as_the_decoder_does() {
        let shape = BlockShape::new(130, 130 * 10 - 3).unwrap();
        let (kernel, spare) = (Kernel::detect(), SpareBlocks::default());
        let [mut real, mut counted] =
            [&RandomLinear as &dyn Codec, &Counting].map(|codec| codec.decoder(kernel, shape, &spare));
        // Source symbols with gaps, symbol 5 twice, symbol 70 late, and then repair symbols in place of the missing
        // ones.
        let source = (0..128).filter(|esi| !matches!(esi, 70 | 127)).chain([5, 70]);
        let mut is_complete = false;
        for esi in source.chain(200..206) {
            let same = real.push(esi, &[0; 10]).unwrap();
            assert_eq!(counted.push(esi, &[]).unwrap(), same, "{esi}");
            assert_eq!(counted.missing(), real.missing(), "{esi}");
            assert_eq!(counted.available_bytes(), real.available_bytes(), "{esi}");
            is_complete = same.is_complete;
        }
        assert!(is_complete);
    }

    #[test]
    fn an_encrypted_connection_has_something_to_encrypt() {
        let sealed = Config::server(StaticKey::from_seed(&[1; 32])).with_codec(&Counting);
        assert_eq!(sealed.validate(), Err(ConfigError::NothingToSeal));
        assert_eq!(Config::danger_unsealed().with_codec(&Counting).validate(), Ok(()));
    }
}
