//! Chunks of an older version of a file at the receiver, for transfers of changes only.

use crate::frame::Fields;
use crate::limits::CONTROL_BYTES_MAX;

/// Length of a chunk's hash, bytes: the BLAKE3 hash is truncated to its first bytes.
pub const CHUNK_HASH_BYTES: usize = 16;

/// Most chunks in one frame.
pub const CHUNKS_PER_FRAME: usize = (CONTROL_BYTES_MAX - 8) / (CHUNK_HASH_BYTES + 4);

/// Hash and length of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkName {
    /// First bytes of the chunk's BLAKE3 hash.
    pub hash: [u8; CHUNK_HASH_BYTES],
    /// Length of the chunk, bytes.
    pub len: u32,
}

/// The next chunks of an older version of a file at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    /// Ordinal of the entry.
    pub index: u32,
    /// Mean chunk length of the receiver's chunking, bytes; the sender must use the same.
    pub average_bytes: u32,
    /// Chunks, in order.
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
