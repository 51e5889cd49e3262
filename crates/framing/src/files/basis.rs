//! Chunks of a file that the receiver has.

use crate::frame::Fields;
use crate::limits::CONTROL_BYTES_MAX;

/// Bytes of the hash by which a chunk is known: those of BLAKE3 from its start on.
pub const CHUNK_HASH_BYTES: usize = 16;

/// Chunks that one frame names.
pub const CHUNKS_PER_FRAME: usize = (CONTROL_BYTES_MAX - 8) / (CHUNK_HASH_BYTES + 4);

/// A chunk by its hash and its length, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkName {
    /// The first bytes of its BLAKE3 hash.
    pub hash: [u8; CHUNK_HASH_BYTES],
    /// Its length, bytes.
    pub len: u32,
}

/// The next chunks of a file that the receiver has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    /// The ordinal of the entry of which an older version is there.
    pub index: u32,
    /// The mean length for which its content was cut, bytes; the sender cuts its own for the same.
    pub average_bytes: u32,
    /// The chunks, in order.
    pub chunks: Vec<ChunkName>,
}

impl Basis {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_be_bytes());
        out.extend_from_slice(&self.average_bytes.to_be_bytes());
        for ChunkName { hash, len } in &self.chunks {
            out.extend_from_slice(hash);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let index = u32::from_be_bytes(fields.array()?);
        let average_bytes = u32::from_be_bytes(fields.array()?);
        let mut chunks = Vec::new();
        while !fields.0.is_empty() {
            chunks.push(ChunkName { hash: fields.array()?, len: u32::from_be_bytes(fields.array()?) });
        }
        Some(Self { index, average_bytes, chunks })
    }
}
