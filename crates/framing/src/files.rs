//! The frames of a file transfer.

mod basis;
mod delete;
mod entry;
mod link;
mod listing;
mod text;
mod to_receiver;
mod to_sender;

pub use self::basis::{Basis, CHUNK_HASH_BYTES, CHUNKS_PER_FRAME, ChunkName};
pub use self::delete::Delete;
pub use self::entry::{Entry, HAS_MORE_NAMES};
pub use self::link::{Link, LinkKind};
pub use self::listing::Listing;
pub use self::to_receiver::ToReceiver;
pub use self::to_sender::{Confirmed, Hello, Partial, Progress, ToSender};
use crate::limits::SENTENCE_BYTES_MAX;

/// Bytes of a BLAKE3 hash, and of a chaining value inside of its tree.
pub const HASH_BYTES: usize = 32;

fn sentence(body: &[u8]) -> Option<String> {
    if body.len() > SENTENCE_BYTES_MAX {
        return None;
    }
    std::str::from_utf8(body).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests;
