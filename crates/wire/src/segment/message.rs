//! Symbols of messages. A message is a unit of bytes that is worthless after its lifetime.

use super::Fields;
use crate::bytes::Reader;
use crate::sizes::{MESSAGE_BYTES_MAX, MESSAGE_GROUP_BYTES, MESSAGE_SYMBOLS_MAX, MESSAGE_WORDS_BYTES};
use crate::{BlockInfo, DecodeError, Flags, StreamId};

/// Carries an encoding symbol of one message, or of several consecutive ones, as its payload. Belongs to the feature
/// [`MESSAGES`](crate::Features::MESSAGES); `spec/wire-format.md` §5 defines the fields. Times are taken at the sender
/// when the datagram leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Id of the message, or of the first of several messages. Ids do not wrap.
    pub id: u32,
    /// Encoding symbol id, below [`MESSAGE_SYMBOLS_MAX`]: first the source symbols in order, then repair symbols.
    pub esi: u32,
    /// Messages from which the symbol was computed.
    pub coverage: Coverage,
    /// Clock of the sender, µs modulo 2³².
    pub clock_us: u32,
    /// Age of the message `id`, µs.
    pub age_us: u32,
    /// Lifetime of the message, µs; [`LIFETIME_UNLIMITED`](Self::LIFETIME_UNLIMITED) for a reliable message.
    pub lifetime_us: u32,
}

/// Messages from which a symbol was computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// One message.
    One(MessageInfo),
    /// Several messages: the symbol is a repair symbol over all source symbols of these messages.
    Several(MessageGroup),
}

/// Shape of a message, equal in all segments of this message alone. Encoding clamps values out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageInfo {
    /// Number of source symbols, 1 to [`BlockInfo::K_MAX`], and at most the length in bytes; an empty message has one
    /// symbol.
    pub k: u16,
    /// Length of the message, bytes; 0 to [`MESSAGE_BYTES_MAX`].
    pub length_bytes: u32,
}

/// Consecutive messages that a repair symbol covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageGroup {
    /// Number of messages, at least 2; the first one has the segment's id.
    pub count: u16,
    /// Number of source symbols of all these messages, at least `count` and at most [`BlockInfo::K_MAX`].
    pub source_symbols: u16,
}

const LENGTH_SHIFT: u32 = 5;
const K_SHIFT: u32 = 24;
const LENGTH_MASK: u32 = BlockInfo::LENGTH_BYTES_MAX;
const SPARE: u32 = 0x1F;

impl Message {
    /// Lifetime of a reliable message.
    pub const LIFETIME_UNLIMITED: u32 = u32::MAX;

    pub(super) fn fields(self) -> Fields {
        let s2 = match self.coverage {
            Coverage::One(info) => info.to_s2(),
            Coverage::Several(_) => 0,
        };
        Fields { flags: Flags::MESSAGE, block_id: self.id, s1: self.esi, s2, stream: StreamId::FIRST }
    }

    /// Encodes the words after the header, and returns their length in bytes.
    pub(super) fn write_words(self, out: &mut [u8]) -> usize {
        let (group, bytes) = match self.coverage {
            Coverage::One(_) => (0, MESSAGE_WORDS_BYTES),
            Coverage::Several(MessageGroup { count, source_symbols }) => {
                (u32::from(count) << 16 | u32::from(source_symbols), MESSAGE_WORDS_BYTES + MESSAGE_GROUP_BYTES)
            }
        };
        let words = [self.clock_us, self.age_us, self.lifetime_us, group];
        for (place, word) in out[..bytes].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Decodes a segment with the message bit, and with `words` between header and payload.
    #[cold]
    pub(super) fn read(fields: Fields, words: &[u8]) -> Result<Self, DecodeError> {
        let Fields { flags, block_id, s1, s2, .. } = fields;
        if flags != Flags::MESSAGE {
            return Err(DecodeError::FlagCombination { flags });
        }
        let mut reader = Reader::new(words);
        let mut word = || reader.array().map(u32::from_be_bytes);
        let (Some(clock_us), Some(age_us), Some(lifetime_us)) = (word(), word(), word()) else {
            return Err(DecodeError::MessageWords);
        };
        let coverage = match word() {
            None => Coverage::One(MessageInfo::from_s2(s2)?),
            Some(_) if s2 != 0 => return Err(DecodeError::MessageField { field: "S2", value: s2 }),
            Some(group) => {
                Coverage::Several(MessageGroup { count: (group >> 16) as u16, source_symbols: group as u16 })
            }
        };
        let message = Self { id: block_id, esi: s1, coverage, clock_us, age_us, lifetime_us };
        message.check().map(|()| message)
    }

    /// Checks the fields like a receiver, which drops invalid segments.
    ///
    /// # Errors
    /// Fails with [`DecodeError::MessageField`] for the first field that is out of range or contradicts another field.
    pub fn check(&self) -> Result<(), DecodeError> {
        let refuse = |field, value| Err(DecodeError::MessageField { field, value });
        if self.esi >= MESSAGE_SYMBOLS_MAX {
            return refuse("encoding symbol id", self.esi);
        }
        match self.coverage {
            Coverage::One(MessageInfo { k, length_bytes }) => {
                if length_bytes > MESSAGE_BYTES_MAX {
                    return refuse("length", length_bytes);
                }
                if k == 0 || k > BlockInfo::K_MAX || u32::from(k) > length_bytes.max(1) {
                    return refuse("K", k.into());
                }
            }
            Coverage::Several(MessageGroup { count, source_symbols }) => {
                if count < 2 || self.id.checked_add(u32::from(count) - 1).is_none() {
                    return refuse("count of messages", count.into());
                }
                if source_symbols < count || source_symbols > BlockInfo::K_MAX {
                    return refuse("count of source symbols", source_symbols.into());
                }
                if self.esi < source_symbols.into() {
                    return refuse("encoding symbol id", self.esi);
                }
            }
        }
        if self.lifetime_us != Self::LIFETIME_UNLIMITED && self.age_us >= self.lifetime_us {
            return refuse("age", self.age_us);
        }
        Ok(())
    }
}

impl MessageInfo {
    /// Encodes into S2: K−1 and the length like in [`BlockInfo`], and five zero bits.
    fn to_s2(self) -> u32 {
        let k_minus_1 = u32::from(self.k.clamp(1, BlockInfo::K_MAX)) - 1;
        k_minus_1 << K_SHIFT | self.length_bytes.min(MESSAGE_BYTES_MAX) << LENGTH_SHIFT
    }

    const fn from_s2(s2: u32) -> Result<Self, DecodeError> {
        if s2 & SPARE != 0 {
            return Err(DecodeError::MessageField { field: "S2", value: s2 });
        }
        Ok(Self { k: (s2 >> K_SHIFT) as u16 + 1, length_bytes: s2 >> LENGTH_SHIFT & LENGTH_MASK })
    }
}
