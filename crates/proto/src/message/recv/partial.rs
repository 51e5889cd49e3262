//! Incomplete message: its symbols so far, and the decoder.

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{BlockShape, Decoder, Pushed};
use dfcp_wire::MESSAGE_SYMBOLS_MAX;

use crate::proof::{Layout, SECRET_BYTES};
use crate::stream::recv::slot;

/// Symbols received of one message.
pub(super) struct Partial {
    layout: Layout,
    decoder: Decoder,
    /// Bitmap of received symbols in the format of reports, up to the byte of the last symbol.
    bits: Vec<u8>,
    /// XOR of the secrets of the received symbols.
    secrets: u32,
}

impl Partial {
    /// Returns an empty message of this shape; `None` if the code does not permit the shape.
    pub(super) fn new(kernel: Kernel, shape: BlockShape, proofs: bool) -> Option<Self> {
        let layout = Layout::new(shape, proofs);
        let decoder = Decoder::new(kernel, layout.coded().ok()?);
        Some(Self { layout, decoder, bits: Vec::new(), secrets: 0 })
    }

    /// Returns the most memory that a message of this shape allocates, bytes.
    pub(super) fn bytes_max(shape: BlockShape, proofs: bool) -> usize {
        let symbol_size = Layout::new(shape, proofs).symbol_size();
        slot::open_bytes(shape.k(), symbol_size) as usize + MESSAGE_SYMBOLS_MAX as usize / 8
    }

    pub(super) fn shape(&self) -> BlockShape {
        self.layout.data()
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.bits
    }

    pub(super) fn secrets(&self) -> u32 {
        self.secrets
    }

    /// Adds a symbol, whose length the caller has checked. Returns false if the symbol is a duplicate or useless.
    pub(super) fn push(&mut self, esi: u32, symbol: &[u8]) -> bool {
        let (byte, bit) = (esi as usize / 8, 0x80 >> (esi % 8));
        if self.bits.len() <= byte {
            self.bits.resize(byte + 1, 0);
        }
        if self.bits[byte] & bit != 0
            || !matches!(self.decoder.push(esi, symbol), Ok(pushed) if pushed != Pushed::Complete)
        {
            return false;
        }
        self.bits[byte] |= bit;
        if symbol.len() == self.layout.data().symbol_size() + SECRET_BYTES
            && let Some(secret) = symbol.last_chunk()
        {
            self.secrets ^= u32::from_be_bytes(*secret);
        }
        true
    }

    /// Returns the decoded message and its proof, once. `None` before the message is complete.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, u32)> {
        let rows = self.decoder.take_block()?;
        let proof = self.layout.proof(&rows);
        let length = self.layout.data().length_bytes();
        let mut message = vec![0; length];
        self.layout.copy(&rows, 0..length, &mut message);
        Some((message, proof))
    }
}

impl std::fmt::Debug for Partial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partial").field("shape", &self.layout.data()).finish_non_exhaustive()
    }
}
