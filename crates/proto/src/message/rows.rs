//! Memory layout of messages for coding (`spec/protocol.md` \[message-4\], \[message-5\]).
//!
//! A message by itself is coded like a block: each source symbol is followed by its secret. Several messages are coded
//! together over one *row* per message. A row has a head, which a receiver needs if it decodes the message from repair
//! symbols only, then the message's bytes, its secret, and zeros up to the length of the longest row.

use dfcp_fountain::random_linear::BlockShape;

use crate::proof::SECRET_BYTES;

/// Bytes of a row's head: message length, hand-over time by the sender's clock, lifetime; 4 bytes each.
pub(super) const HEAD_BYTES: usize = 12;

/// Difference between the largest symbol of a stream and the largest symbol of a message, bytes (`spec/wire-format.md`
/// §5).
const WORDS_BYTES: usize = dfcp_wire::MESSAGE_WORDS_BYTES;

/// Returns the size of a message's largest symbol, bytes, in a session whose stream symbols have at most `z` bytes.
pub(crate) const fn symbol_bytes_max(z: usize) -> usize {
    z.saturating_sub(WORDS_BYTES)
}

/// Returns the size of the longest message that can be coded together with others, bytes. `z` is the largest stream
/// symbol.
pub(super) const fn grouped_bytes_max(z: usize) -> usize {
    symbol_bytes_max(z).saturating_sub(HEAD_BYTES)
}

/// Header of a row. A row is the padded form of a message in which it is coded together with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowHead {
    pub(super) length_bytes: u32,
    /// Hand-over time of the message by the sender's clock, µs, modulo 2³².
    pub(super) created_us: u32,
    /// Lifetime of the message, µs; `u32::MAX` for a reliable message.
    pub(super) lifetime_us: u32,
}

impl RowHead {
    /// Fills `row` with the head, the message, `secret` if there are proofs, and zeros.
    pub(super) fn write(self, message: &[u8], secret: Option<u32>, row: &mut [u8]) {
        row.fill(0);
        let words = [self.length_bytes, self.created_us, self.lifetime_us];
        for (place, word) in row.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let end = HEAD_BYTES + message.len();
        if let Some(place) = row.get_mut(HEAD_BYTES..end) {
            place.copy_from_slice(message);
        }
        if let (Some(secret), Some(place)) = (secret, row.get_mut(end..end + SECRET_BYTES)) {
            place.copy_from_slice(&secret.to_be_bytes());
        }
    }

    /// Reads a row: head, message, and secret (0 without proofs). Returns `None` if the head states more bytes than the
    /// row has.
    pub(super) fn read(row: &[u8], proofs: bool) -> Option<(Self, &[u8], u32)> {
        let word = |at: usize| row.get(4 * at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let head = Self { length_bytes: word(0)?, created_us: word(1)?, lifetime_us: word(2)? };
        let (message, rest) = row.get(HEAD_BYTES..)?.split_at_checked(head.length_bytes as usize)?;
        let secret = if proofs { u32::from_be_bytes(*rest.first_chunk()?) } else { 0 };
        Some((head, message, secret))
    }
}

/// Returns the length of a message's row without padding, bytes.
pub(super) const fn row_bytes(length_bytes: usize, proofs: bool) -> usize {
    HEAD_BYTES + length_bytes + if proofs { SECRET_BYTES } else { 0 }
}

/// Returns the code's shape for `count` rows of `row_bytes` bytes. `None` if the code permits no such shape.
pub(super) fn group_shape(count: usize, row_bytes: usize) -> Option<BlockShape> {
    BlockShape::new(count, count.checked_mul(row_bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written(
            message in proptest::collection::vec(any::<u8>(), 0..200),
            words in any::<(u32, u32, u32)>(),
            (proofs, padding) in (any::<bool>(), 0_usize..20),
        ) {
            let head = RowHead { length_bytes: message.len() as u32, created_us: words.0, lifetime_us: words.1 };
            let mut row = vec![7; row_bytes(message.len(), proofs) + padding];
            head.write(&message, proofs.then_some(words.2), &mut row);
            prop_assert_eq!(RowHead::read(&row, proofs), Some((head, &message[..], if proofs { words.2 } else { 0 })));
        }

        #[test]
        fn no_row_makes_it_fail(row in proptest::collection::vec(any::<u8>(), 0..64), proofs in any::<bool>()) {
            if let Some((head, message, _)) = RowHead::read(&row, proofs) {
                prop_assert_eq!(head.length_bytes as usize, message.len());
            }
        }
    }
}
