//! Codecs of a session: they turn written blocks into symbols, and received symbols into blocks.
//!
//! Both ends take their codec from their [`Config`](crate::Config). Real connections use [`RandomLinear`]. A simulator
//! may use a codec whose symbols have no bytes ([`Codec::carried_bytes`]).
//! [`Transmit::virtual_bytes`](crate::Transmit::virtual_bytes) then says by how much a packet counts as longer than its
//! bytes. The rest of a session does not depend on the codec.

mod random_linear;

use std::fmt;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, DecoderError, Encoder, EncoderError, Pushed};
#[cfg(feature = "classic")]
use dfcp_fountain::raptor;

pub use self::random_linear::RandomLinear;
pub use crate::spare::SpareBlocks;

/// A factory of block encoders and decoders. It does no I/O, and equal calls have equal results.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Returns true if bytes are stored, coded and carried by packets. Otherwise bytes are *virtual*: they count as
    /// written, sent and received, and are read as zeros. A codec of virtual bytes has nothing to encrypt, so
    /// [`Config::validate`](crate::Config::validate) refuses it for encrypted connections.
    fn carries_bytes(&self) -> bool;

    /// Returns the number of carried bytes in an object of `bytes`, such as a symbol: all or none.
    fn carried_bytes(&self, bytes: usize) -> usize {
        if self.carries_bytes() { bytes } else { 0 }
    }

    /// Returns an encoder of a block. `rows` holds the [carried](Self::carried_bytes) bytes of the block's rows. `None`
    /// if symbols have no bytes.
    ///
    /// # Errors
    /// `rows` does not have the length that `shape` requires.
    fn encoder(
        &self,
        kernel: Kernel,
        shape: BlockShape,
        rows: Vec<u8>,
    ) -> Result<Option<Encoder<Vec<u8>>>, EncoderError>;

    /// Returns a decoder of a block. Its memory may come from `spare`; codecs of other crates do not use `spare`.
    fn decoder(&self, kernel: Kernel, shape: BlockShape, spare: &SpareBlocks) -> Box<dyn BlockDecoder>;

    /// Returns an encoder of a block of the classic profile. `None` if segments have no bytes.
    #[cfg(feature = "classic")]
    fn classic_encoder(&self, _initial: raptor::State, _block_id: u32, _block: &[u8]) -> Option<raptor::Encoder> {
        None
    }

    /// Returns a decoder of a block of the classic profile. `None` if segments are only counted, as with *decoding* off
    /// (\[classic-9\]).
    #[cfg(feature = "classic")]
    fn classic_decoder(&self, _peer_initial: raptor::State, _block_id: u32) -> Option<Box<raptor::Decoder>> {
        None
    }
}

/// Decoder of one block: collects symbols until they determine the block.
pub trait BlockDecoder: fmt::Debug + Send + Sync {
    /// Adds encoding symbol `esi`; `symbol` holds its [carried](Codec::carried_bytes) bytes.
    ///
    /// # Errors
    /// The symbol has the wrong length; the decoder is unchanged.
    fn push(&mut self, esi: u32, symbol: &[u8]) -> Result<Progress, DecoderError>;

    /// Returns a lower bound of the number of symbols that are still needed.
    fn missing(&self) -> usize;

    /// Returns the length of the decoded prefix of the block's rows, in bytes. Virtual bytes count.
    fn available_bytes(&self) -> usize;

    /// Returns the carried bytes of the decoded prefix.
    fn rows(&self) -> &[u8];

    /// Returns the carried bytes of the rows of a complete block. Memory that is no longer needed may go to `spare`.
    fn into_rows(self: Box<Self>, spare: &SpareBlocks) -> Vec<u8>;
}

/// Effect of a symbol on the decoder of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Fate of the symbol.
    pub pushed: Pushed,
    /// Value of [`BlockDecoder::missing`] before the symbol.
    pub missing_before: usize,
    /// Value of [`BlockDecoder::missing`] after the symbol.
    pub missing: usize,
    /// True if the whole block is decoded.
    pub is_complete: bool,
}
