//! Texts of which several stand in one frame.

use crate::frame::Fields;

/// Appends a text behind its length, 16 bits. Names and patterns are far shorter than that can say.
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(text);
}

/// Takes such a text of at most `bytes_max`.
pub(super) fn take_text(fields: &mut Fields<'_>, bytes_max: usize) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(fields.array()?));
    if len > bytes_max {
        return None;
    }
    let (text, rest) = fields.0.split_at_checked(len)?;
    fields.0 = rest;
    Some(text.to_vec())
}
