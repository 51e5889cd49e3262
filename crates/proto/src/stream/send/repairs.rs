//! Repair symbols made in batches, which takes up to 40 % less time than making them one by one.

use dfcp_fountain::random_linear::Encoder;

use crate::limits::REPAIRS_TOGETHER_MAX;
use crate::stream::send::symbol::{CodeError, Symbol};

/// Repair symbols of one block that will be sent next.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    block_id: u32,
    /// Id of the first symbol.
    first_esi: u32,
    /// Number of symbols.
    count: u32,
    /// Symbols back to back.
    bytes: Vec<u8>,
}

impl Repairs {
    /// Writes the repair symbol `symbol` of the block of `encoder`. If `wanted` consecutive symbols will be sent, makes
    /// the next symbols in the same batch. `out` has exactly the symbol's length.
    ///
    /// # Errors
    /// The block has no such symbol.
    pub(crate) fn write(
        &mut self,
        encoder: &Encoder<Vec<u8>>,
        symbol: Symbol,
        wanted: u32,
        out: &mut [u8],
    ) -> Result<(), CodeError> {
        if let Some(bytes) = self.made(symbol, out.len()) {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let count = wanted.min(REPAIRS_TOGETHER_MAX).min(u32::MAX - symbol.esi);
        if count < 2 {
            return encoder.write_symbol(symbol.esi, out).map_err(|_| CodeError);
        }
        let bytes = count as usize * out.len();
        self.bytes.reserve_exact(bytes.saturating_sub(self.bytes.len()));
        self.bytes.resize(bytes, 0);
        self.count = 0;
        encoder.write_repairs(symbol.esi, &mut self.bytes).map_err(|_| CodeError)?;
        (self.block_id, self.first_esi, self.count) = (symbol.block_id, symbol.esi, count);
        out.copy_from_slice(self.made(symbol, out.len()).ok_or(CodeError)?);
        Ok(())
    }

    /// Returns the bytes of `symbol`, of `length` bytes, if it is in the batch.
    fn made(&self, symbol: Symbol, length: usize) -> Option<&[u8]> {
        let place = symbol.esi.checked_sub(self.first_esi).filter(|&place| place < self.count);
        let at = place.filter(|_| symbol.block_id == self.block_id)? as usize * length;
        self.bytes.get(at..at + length)
    }

    /// Frees the batch, when nothing more will be sent for a while.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use dfcp_fountain::kernel::Kernel;
    use dfcp_fountain::random_linear::BlockShape;
    use dfcp_wire::BlockInfo;

    use super::*;
    use crate::limits::REPAIRS_BYTES_MAX;
    use crate::stream::send::symbol::Reason;

    const SYMBOL_BYTES: usize = 100;
    const K: usize = 7;

    fn block(fill: u8) -> Encoder<Vec<u8>> {
        let bytes: Vec<u8> = (0..(K * SYMBOL_BYTES) as u32).map(|i| (i * 31 + u32::from(fill)) as u8).collect();
        Encoder::new(Kernel::detect(), BlockShape::new(K, bytes.len()).unwrap(), bytes).unwrap()
    }

    /// Alternating blocks, repeated symbols, right and wrong values of `wanted`: the result is always the encoder's own
    /// symbol.
    #[test]
    fn what_is_made_together_is_what_is_made_one_by_one() {
        let blocks = [block(1), block(2)];
        let info = BlockInfo { k: K as u16, length_bytes: (K * SYMBOL_BYTES) as u32, end_of_stream: false };
        let mut repairs = Repairs::default();
        for (step, wanted) in [0, 1, 2, 5, 16, 1_000].into_iter().cycle().take(400).enumerate() {
            let block_id = (step as u32 / 5) % 2;
            let esi = K as u32 + (step as u32 * 3) % 40;
            let symbol = Symbol {
                stream: dfcp_wire::StreamId::FIRST,
                block_id,
                esi,
                info,
                reason: Reason::Round,
                fragment: dfcp_wire::Fragment::WHOLE,
                symbol_size: SYMBOL_BYTES,
            };
            let encoder = &blocks[block_id as usize];
            let (mut out, mut expected) = ([0; SYMBOL_BYTES], [0; SYMBOL_BYTES]);
            repairs.write(encoder, symbol, wanted, &mut out).unwrap();
            encoder.write_symbol(esi, &mut expected).unwrap();
            assert_eq!(out, expected, "step {step}");
        }
        let longest = REPAIRS_TOGETHER_MAX as usize * SYMBOL_BYTES;
        assert!(repairs.bytes.capacity() <= longest && longest as u64 <= REPAIRS_BYTES_MAX);
    }
}
