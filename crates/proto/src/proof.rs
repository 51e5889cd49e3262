//! Proof of decoding (`spec/protocol.md` §6.1). A few secret bytes follow the data of each source symbol and are coded
//! along with them, so only a receiver that has decoded a block knows the XOR of the block's secrets. This module
//! defines the memory layout of such a block; [`send::proofs`](crate::stream::send::proofs) draws the secrets and
//! checks the peer's proofs.
//!
//! The *rows* of a block are its consecutive source symbols: T bytes of data, zero-padded in the last row, and the
//! secret (\[proof-2\]). Without proofs, the rows are the plain bytes of the block.

use std::ops::Range;

use dfcp_fountain::random_linear::{BlockShape, SYMBOL_SIZE_MAX, ShapeError};

/// Bytes of a secret, which follows the data of a source symbol, and of a proof.
pub(crate) const SECRET_BYTES: usize = 4;

/// Largest symbol with proofs, in bytes of data.
const DATA_BYTES_MAX: usize = symbol_size_max(true) as usize;

const _: () = assert!(DATA_BYTES_MAX + SECRET_BYTES <= SYMBOL_SIZE_MAX, "the code takes such symbols");

/// Returns the largest symbol size in bytes. A datagram must also hold the rest of a data segment and, if encrypted,
/// the secret of the proof.
pub(crate) const fn symbol_size_max(sealed: bool) -> u16 {
    let payload_bytes = dfcp_wire::payload_bytes_max(sealed);
    (if sealed { payload_bytes - SECRET_BYTES } else { payload_bytes }) as u16
}

/// Returns the connection's z, in bytes of data per symbol, for the negotiated `symbol_size`.
pub(crate) fn data_bytes_max(symbol_size: u16, proofs: bool) -> usize {
    let z = usize::from(symbol_size);
    if proofs { z.min(DATA_BYTES_MAX) } else { z }
}

/// Memory layout of a block, with or without proofs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Shape of the application's bytes: K, T and L.
    data: BlockShape,
    proofs: bool,
}

impl Layout {
    pub(crate) const fn new(data: BlockShape, proofs: bool) -> Self {
        Self { data, proofs }
    }

    /// Returns the shape of the application's bytes, without secrets.
    pub(crate) const fn data(self) -> BlockShape {
        self.data
    }

    /// Returns the size of an encoding symbol, bytes.
    pub(crate) const fn symbol_size(self) -> usize {
        self.data.symbol_size() + self.secret_bytes()
    }

    /// Returns the shape that the codec works on: rows with secrets.
    ///
    /// # Errors
    /// A symbol is larger than the codec supports.
    pub(crate) const fn coded(self) -> Result<BlockShape, ShapeError> {
        if self.proofs { BlockShape::new(self.data.k(), self.data.k() * self.symbol_size()) } else { Ok(self.data) }
    }

    /// Converts bytes from rows of `laid_bytes`, as written by [`append`], to this block's rows, with zeros for the
    /// secrets. Copies only if the block has several rows and these are shorter than `laid_bytes`.
    pub(crate) fn lay_out(self, mut laid: Vec<u8>, laid_bytes: usize) -> Vec<u8> {
        if !self.proofs {
            return laid;
        }
        let rows_bytes = self.data.k() * self.symbol_size();
        if self.data.k() == 1 || self.data.symbol_size() == laid_bytes {
            laid.resize(rows_bytes, 0);
            return laid;
        }
        let mut rows = vec![0; rows_bytes];
        for (i, row) in rows.chunks_exact_mut(self.symbol_size()).enumerate() {
            copy_rows(&laid, laid_bytes, self.data.source_range(i), row);
        }
        rows
    }

    /// Copies the application's bytes `range` from the block's `rows` to `out`, as far as both reach. Returns the
    /// number of bytes copied.
    pub(crate) fn copy(self, rows: &[u8], range: Range<usize>, out: &mut [u8]) -> usize {
        if self.proofs {
            return copy_rows(rows, self.data.symbol_size(), range, out);
        }
        let fresh = rows.get(range).unwrap_or_default();
        let take = fresh.len().min(out.len());
        out[..take].copy_from_slice(&fresh[..take]);
        take
    }

    /// Returns the number of the application's bytes in the first `rows_bytes` bytes of the rows; `rows_bytes` covers
    /// whole rows.
    pub(crate) const fn data_bytes(self, rows_bytes: usize) -> usize {
        if !self.proofs {
            return rows_bytes;
        }
        let bytes = rows_bytes / self.symbol_size() * self.data.symbol_size();
        if bytes < self.data.length_bytes() { bytes } else { self.data.length_bytes() }
    }

    /// Returns the block's proof: the XOR of its secrets (\[proof-3\]).
    pub(crate) fn proof(self, rows: &[u8]) -> u32 {
        if !self.proofs {
            return 0;
        }
        let secrets = rows.chunks_exact(self.symbol_size()).filter_map(|row| row.last_chunk());
        secrets.fold(0, |proof, secret| proof ^ u32::from_be_bytes(*secret))
    }

    /// Writes a secret from `draw` behind each row. Returns the proof.
    pub(crate) fn fill(self, rows: &mut [u8], mut draw: impl FnMut() -> u32) -> u32 {
        let mut proof = 0;
        for row in rows.chunks_exact_mut(self.symbol_size()) {
            let Some(place) = row.last_chunk_mut() else { break };
            let secret = draw();
            *place = secret.to_be_bytes();
            proof ^= secret;
        }
        proof
    }

    const fn secret_bytes(self) -> usize {
        if self.proofs { SECRET_BYTES } else { 0 }
    }
}

/// Appends `data` to `laid`, which holds `before` bytes of data in rows of `laid_bytes` with room for a secret behind
/// each full row.
pub(crate) fn append(laid: &mut Vec<u8>, before: usize, laid_bytes: usize, data: &[u8]) {
    let mut rest = data;
    let mut room = laid_bytes - before % laid_bytes;
    while !rest.is_empty() {
        let (row, later) = rest.split_at(room.min(rest.len()));
        laid.extend_from_slice(row);
        if row.len() == room {
            laid.extend_from_slice(&[0; SECRET_BYTES]);
        }
        rest = later;
        room = laid_bytes;
    }
}

/// Copies the data bytes `range` from rows of `row_bytes`, each followed by a secret. Returns the number of bytes
/// copied, limited by `out`.
fn copy_rows(rows: &[u8], row_bytes: usize, range: Range<usize>, out: &mut [u8]) -> usize {
    let mut rest = out;
    let mut at = range.start;
    while at < range.end && !rest.is_empty() {
        let (row, offset) = (at / row_bytes, at % row_bytes);
        let take = (row_bytes - offset).min(range.end - at).min(rest.len());
        let from = row * (row_bytes + SECRET_BYTES) + offset;
        let Some(fresh) = rows.get(from..from + take) else { break };
        let (place, later) = rest.split_at_mut(take);
        place.copy_from_slice(fresh);
        rest = later;
        at += take;
    }
    at - range.start
}

#[cfg(test)]
mod tests;
