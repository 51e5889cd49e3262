//! Code id 1: the systematic random linear fountain over GF(256); `spec/fountain-code.md`, section "Code id 1".
//!
//! A block of at most [`K_MAX`] · [`SYMBOL_SIZE_MAX`] bytes is divided into K source symbols. Encoding symbol `esi` is
//! source symbol `esi` if `esi` < K, otherwise the repair symbol whose K coefficients follow from `esi` alone. Any K
//! encoding symbols rebuild the block with a probability of 99.6 %, and each additional symbol makes a failure 256
//! times rarer. No coefficient is zero, so any repair symbol certainly repairs the loss of any single source symbol.
//!
//! | file | purpose |
//! |---|---|
//! | `shape` | division of a block into symbols |
//! | `coefficients` | from an ESI to coefficients |
//! | `encoder` | block → symbols |
//! | `decoder` | symbols → block: known symbols, stored symbols, and output |
//! | `tableau` | the equations between the symbols, solved for the missing ones |

mod coefficients;
mod decoder;
mod encoder;
mod shape;
mod tableau;

#[cfg(test)]
pub(crate) use coefficients::SplitMix64;
pub use coefficients::write_coefficients;
pub use decoder::{Decoder, DecoderError, Pushed};
pub use encoder::{Encoder, EncoderError};
pub use shape::{BlockShape, ShapeError};

use crate::kernel::SOURCES_MAX;

/// Maximum number of source symbols in a block.
pub const K_MAX: usize = 256;

// A repair symbol is one dot product over all source symbols, so the kernel must accept all of them.
const _: () = assert!(K_MAX <= SOURCES_MAX);

/// Largest symbol, bytes: the payload of a UDP datagram over IPv4 in an IP packet of 1500 bytes.
pub const SYMBOL_SIZE_MAX: usize = 1472;
