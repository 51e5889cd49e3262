//! The code of a session's blocks: what is written becomes symbols by it, and symbols become what is read.
//!
//! A [`Config`](crate::Config) brings it to both ends. There is one for real use, [`RandomLinear`]. A simulator may bring another, by
//! which symbols have no bytes ([`Codec::carried_bytes`]): packets are then larger than their bytes by
//! [`Transmit::virtual_bytes`](crate::Transmit::virtual_bytes), and everything else of a session is as it always is.

mod random_linear;

use std::fmt;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, DecoderError, Encoder, EncoderError, Pushed};
#[cfg(feature = "classic")]
use dfcp_fountain::raptor;

pub use self::random_linear::RandomLinear;
pub use crate::spare::SpareBlocks;

/// Makes the encoders and decoders of blocks. It does no I/O, and equal calls have equal results.
pub trait Codec: fmt::Debug + Send + Sync {
    /// True if bytes are kept, coded and carried by packets. Otherwise they are *virtual*: they count as written, sent and received, and
    /// are read as zeros. Such a codec has nothing to encrypt, so [`Config::validate`](crate::Config::validate) refuses it for encrypted
    /// connections.
    fn carries_bytes(&self) -> bool;

    /// Number of carried bytes of a symbol, or of anything else, that has `bytes`: all or none.
    fn carried_bytes(&self, bytes: usize) -> usize {
        if self.carries_bytes() { bytes } else { 0 }
    }

    /// An encoder of a block, whose `rows` are [carried](Self::carried_bytes) of its bytes. `None`: its symbols have no bytes.
    ///
    /// # Errors
    /// The rows are not those of such a block.
    fn encoder(
        &self,
        kernel: Kernel,
        shape: BlockShape,
        rows: Vec<u8>,
    ) -> Result<Option<Encoder<Vec<u8>>>, EncoderError>;

    /// A decoder of a block. Memory that it needs may come from `spare`, which a codec of another crate leaves alone.
    fn decoder(&self, kernel: Kernel, shape: BlockShape, spare: &SpareBlocks) -> Box<dyn BlockDecoder>;

    /// An encoder of a block of the classic profile. `None`: its segments have no bytes.
    #[cfg(feature = "classic")]
    fn classic_encoder(&self, _initial: raptor::State, _block_id: u32, _block: &[u8]) -> Option<raptor::Encoder> {
        None
    }

    /// A decoder of a block of the classic profile. `None`: its segments are only counted, as with *decoding* off
    /// (\[classic-9\]).
    #[cfg(feature = "classic")]
    fn classic_decoder(&self, _peer_initial: raptor::State, _block_id: u32) -> Option<Box<raptor::Decoder>> {
        None
    }
}

/// Collects the symbols of one block until they give the block.
pub trait BlockDecoder: fmt::Debug + Send + Sync {
    /// Takes encoding symbol `esi`, of which `symbol` has the [carried](Codec::carried_bytes) bytes.
    ///
    /// # Errors
    /// The symbol does not have as many bytes as it should; nothing has changed.
    fn push(&mut self, esi: u32, symbol: &[u8]) -> Result<Progress, DecoderError>;

    /// Symbols which are still needed, at least.
    fn missing(&self) -> usize;

    /// Bytes of the block's rows which are there, without a gap, from the first. Virtual ones count.
    fn available_bytes(&self) -> usize;

    /// The part of these bytes that is carried.
    fn rows(&self) -> &[u8];

    /// The carried bytes of the rows of a complete block. Memory that is not needed any more may go to `spare`.
    fn into_rows(self: Box<Self>, spare: &SpareBlocks) -> Vec<u8>;
}

/// Effect of a symbol on the decoder of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Fate of the symbol.
    pub pushed: Pushed,
    /// Value of [`BlockDecoder::missing`] before.
    pub missing_before: usize,
    /// Its value now.
    pub missing: usize,
    /// True if the whole block is there now.
    pub is_complete: bool,
}
