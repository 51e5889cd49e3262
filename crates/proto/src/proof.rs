//! Proof of decoding (`spec/protocol.md` §6.1): in each source symbol a few secret bytes follow the data, coded along
//! with them, so that only a receiver which has decoded a block knows the XOR of its secrets. This page knows how such a block lies
//! in memory; [`send::proofs`](crate::stream::send::proofs) draws the secrets and checks what the peer says.
//!
//! A block's *rows* are its source symbols one behind the other: T bytes of data, the last row's padded with zeros,
//! and the secret (\[proof-2\]). Without proofs they are the block's bytes, and nothing else.

use std::ops::Range;

use dfcp_fountain::random_linear::{BlockShape, SYMBOL_SIZE_MAX, ShapeError};

/// Secret bytes behind the data of a source symbol, and bytes of a proof.
pub(crate) const SECRET_BYTES: usize = 4;

/// The most application bytes per symbol where there are proofs.
const DATA_BYTES_MAX: usize = symbol_size_max(true) as usize;

const _: () = assert!(DATA_BYTES_MAX + SECRET_BYTES <= SYMBOL_SIZE_MAX, "the code takes such symbols");

/// The largest symbol, in bytes: the datagram must hold the rest of a data segment, too, and if it is sealed the secret
/// which proves decoding.
pub(crate) const fn symbol_size_max(sealed: bool) -> u16 {
    let payload_bytes = dfcp_wire::payload_bytes_max(sealed);
    (if sealed { payload_bytes - SECRET_BYTES } else { payload_bytes }) as u16
}

/// The connection's z, given that it was negotiated as `symbol_size`.
pub(crate) fn data_bytes_max(symbol_size: u16, proofs: bool) -> usize {
    let z = usize::from(symbol_size);
    if proofs { z.min(DATA_BYTES_MAX) } else { z }
}

/// A block's layout in memory, and its shape for the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The application's bytes: K, T and L.
    data: BlockShape,
    proofs: bool,
}

impl Layout {
    pub(crate) const fn new(data: BlockShape, proofs: bool) -> Self {
        Self { data, proofs }
    }

    /// The application's bytes alone.
    pub(crate) const fn data(self) -> BlockShape {
        self.data
    }

    /// Bytes of an encoding symbol.
    pub(crate) const fn symbol_size(self) -> usize {
        self.data.symbol_size() + self.secret_bytes()
    }

    /// The shape which the code runs over.
    ///
    /// # Errors
    /// If a symbol is larger than the code takes.
    pub(crate) const fn coded(self) -> Result<BlockShape, ShapeError> {
        if self.proofs { BlockShape::new(self.data.k(), self.data.k() * self.symbol_size()) } else { Ok(self.data) }
    }

    /// Turns bytes laid out in rows of `laid_bytes`, as [`append`] does, into this block's rows; secrets are left zero.
    /// A copy is made only if the rows of a block of several are shorter.
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

    /// Copies the application's bytes `range` out of the block's `rows` into `out`, as far as both reach; their number.
    pub(crate) fn copy(self, rows: &[u8], range: Range<usize>, out: &mut [u8]) -> usize {
        if self.proofs {
            return copy_rows(rows, self.data.symbol_size(), range, out);
        }
        let fresh = rows.get(range).unwrap_or_default();
        let take = fresh.len().min(out.len());
        out[..take].copy_from_slice(&fresh[..take]);
        take
    }

    /// Number of the application's bytes in the first `rows_bytes` bytes of the rows, which are whole rows.
    pub(crate) const fn data_bytes(self, rows_bytes: usize) -> usize {
        if !self.proofs {
            return rows_bytes;
        }
        let bytes = rows_bytes / self.symbol_size() * self.data.symbol_size();
        if bytes < self.data.length_bytes() { bytes } else { self.data.length_bytes() }
    }

    /// The block's proof: the XOR of its secrets (\[proof-3\]).
    pub(crate) fn proof(self, rows: &[u8]) -> u32 {
        if !self.proofs {
            return 0;
        }
        let secrets = rows.chunks_exact(self.symbol_size()).filter_map(|row| row.last_chunk());
        secrets.fold(0, |proof, secret| proof ^ u32::from_be_bytes(*secret))
    }

    /// Puts a secret of `draw` behind each row; the proof.
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

/// Appends `data` to `laid`, which holds `before` bytes of data in rows of `laid_bytes`, each full one followed by room
/// for its secret.
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

/// Copies the data bytes `range` out of rows of `row_bytes` each followed by a secret; how many there were room for.
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
