//! The codec of real connections, which keeps, encodes and sends every byte.

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder, DecoderError, Encoder, EncoderError};
#[cfg(feature = "classic")]
use dfcp_fountain::raptor;

use crate::codec::{BlockDecoder, Codec, Progress};
use crate::spare::SpareBlocks;

/// The codes of `spec/fountain-code.md`: random linear in the modern profile, and the thesis's code in the classic one.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomLinear;

impl Codec for RandomLinear {
    fn carries_bytes(&self) -> bool {
        true
    }

    fn encoder(
        &self,
        kernel: Kernel,
        shape: BlockShape,
        rows: Vec<u8>,
    ) -> Result<Option<Encoder<Vec<u8>>>, EncoderError> {
        Encoder::new(kernel, shape, rows).map(Some)
    }

    /// Creates a decoder with memory from `spare`, at most as much as a new decoder would finally allocate.
    fn decoder(&self, kernel: Kernel, shape: BlockShape, spare: &SpareBlocks) -> Box<dyn BlockDecoder> {
        let memory = spare.take_or_new(shape.padded_bytes());
        match spare.take_decoder() {
            Some(mut decoder) => {
                decoder.restart(shape, memory);
                decoder
            }
            None => Box::new(Decoder::with_memory(kernel, shape, memory)),
        }
    }

    #[cfg(feature = "classic")]
    fn classic_encoder(&self, initial: raptor::State, block_id: u32, block: &[u8]) -> Option<raptor::Encoder> {
        raptor::Encoder::new(initial, block_id, block).ok()
    }

    #[cfg(feature = "classic")]
    fn classic_decoder(&self, peer_initial: raptor::State, block_id: u32) -> Option<Box<raptor::Decoder>> {
        Some(Box::new(raptor::Decoder::new(peer_initial, block_id)))
    }
}

impl BlockDecoder for Decoder {
    fn push(&mut self, esi: u32, symbol: &[u8]) -> Result<Progress, DecoderError> {
        let missing_before = Self::missing(self);
        let pushed = Self::push(self, esi, symbol)?;
        Ok(Progress { pushed, missing_before, missing: Self::missing(self), is_complete: self.is_complete() })
    }

    fn missing(&self) -> usize {
        Self::missing(self)
    }

    fn available_bytes(&self) -> usize {
        Self::available_bytes(self)
    }

    fn rows(&self) -> &[u8] {
        self.data()
    }

    fn into_rows(mut self: Box<Self>, spare: &SpareBlocks) -> Vec<u8> {
        let rows = self.take_block().unwrap_or_default();
        spare.give_decoder(self);
        rows
    }
}
