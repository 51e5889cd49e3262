//! The frames of a file transfer.

mod basis;
mod delete;
mod entry;
mod link;
mod listing;
mod to_receiver;
mod to_sender;

pub use self::basis::{Basis, CHUNK_HASH_BYTES, CHUNKS_PER_FRAME, ChunkName};
pub use self::delete::Delete;
pub use self::entry::{Entry, HAS_MORE_NAMES};
pub use self::link::{Link, LinkKind};
pub use self::listing::Listing;
pub use self::to_receiver::ToReceiver;
pub use self::to_sender::{Confirmed, Hello, Partial, Progress, ToSender};
use crate::frame::Fields;
use crate::limits::SENTENCE_BYTES_MAX;

/// Bytes of a BLAKE3 hash, and of a chaining value in its tree.
pub const HASH_BYTES: usize = 32;

fn sentence(body: &[u8]) -> Option<String> {
    if body.len() > SENTENCE_BYTES_MAX {
        return None;
    }
    std::str::from_utf8(body).ok().map(str::to_owned)
}

/// Appends a text with a 16-bit length before it. Names and patterns are far shorter than that limit.
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(text);
}

/// Decodes a text with a 16-bit length before it; at most `bytes_max` bytes.
fn take_text(fields: &mut Fields<'_>, bytes_max: usize) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(fields.array()?));
    if len > bytes_max {
        return None;
    }
    let (text, rest) = fields.0.split_at_checked(len)?;
    fields.0 = rest;
    Some(text.to_vec())
}

#[cfg(test)]
mod tests;
