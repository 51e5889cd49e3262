//! Received symbols of messages in a report: a list of messages in the order of their ids.

use super::runs::{COMPLETE, EMPTY, RUN_BITS};
use crate::DecodeError;
use crate::bytes::Reader;
use crate::sizes::MESSAGE_SYMBOLS_MAX;

/// Length of an encoded [`MessagesState`], bytes; the list follows.
pub(super) const MESSAGES_HEAD_BYTES: usize = 8;
/// Maximum length of a [`SymbolSet`], bytes.
const SYMBOL_SET_BYTES_MAX: usize = MESSAGE_SYMBOLS_MAX as usize / 8;

/// State of messages in a report, in addition to the list of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessagesState {
    /// Id of the list's first message.
    pub first_id: u32,
    /// XOR of two groups of secrets: secrets of the symbols that the list reports as received, and secrets of all
    /// source symbols of messages that it reports as complete. 0 in connections without proofs.
    pub proof: u32,
}

/// State of one message, or of a run of messages in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageRun<'a> {
    /// Number of decoded messages.
    Complete(u32),
    /// Number of messages without any received symbol.
    Empty(u32),
    /// Received symbols of an incomplete message.
    Partial(SymbolSet<'a>),
}

/// Set of encoding symbol ids of one message: one bit per id, starting with the most significant bit of the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SymbolSet<'a>(&'a [u8]);

impl<'a> SymbolSet<'a> {
    /// Makes a set from its bytes; `None` unless there are 1 to 128 bytes and the last byte is not zero.
    #[must_use]
    pub const fn new(bits: &'a [u8]) -> Option<Self> {
        match bits {
            [.., last] if *last != 0 && bits.len() <= SYMBOL_SET_BYTES_MAX => Some(Self(bits)),
            _ => None,
        }
    }

    /// Returns true if the symbol with this id is in the set.
    #[must_use]
    pub fn contains(self, esi: u32) -> bool {
        let byte = usize::try_from(esi / 8).ok().and_then(|at| self.0.get(at));
        byte.is_some_and(|byte| byte << (esi % 8) & 0x80 != 0)
    }

    /// Returns the ids in the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        (0..self.0.len() as u32 * 8).filter(move |&esi| self.contains(esi))
    }

    pub(super) const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Iterator over a list of messages: one [`MessageRun`] per entry. A long run may be split into several entries.
#[derive(Clone, Debug)]
pub struct MessageRuns<'a>(Reader<'a>);

impl<'a> MessageRuns<'a> {
    /// Validates and reads all entries.
    pub(super) fn read(kind: u8, list: &'a [u8], first_id: u32) -> Result<Self, DecodeError> {
        let refused = |what| Err(DecodeError::RecordValue { kind, what });
        let mut reader = Reader::new(list);
        // A list has at most 64 messages per byte, so this sum cannot overflow.
        let mut end = u64::from(first_id);
        while reader.left() > 0 {
            end += match next(&mut reader) {
                Some(MessageRun::Complete(count) | MessageRun::Empty(count)) => u64::from(count),
                Some(MessageRun::Partial(_)) => 1,
                None => return refused("the symbols of a message are cut, or end with a byte of zero"),
            };
        }
        if end == u64::from(first_id) {
            return refused("it names no message");
        }
        if end > 1 << u32::BITS {
            return refused("it names messages behind the last id");
        }
        Ok(Self(Reader::new(list)))
    }
}

impl<'a> Iterator for MessageRuns<'a> {
    type Item = MessageRun<'a>;

    fn next(&mut self) -> Option<MessageRun<'a>> {
        next(&mut self.0)
    }
}

fn next<'a>(entries: &mut Reader<'a>) -> Option<MessageRun<'a>> {
    let [entry] = entries.array()?;
    let count = u32::from(entry & RUN_BITS) + 1;
    match entry {
        COMPLETE..EMPTY => Some(MessageRun::Complete(count)),
        EMPTY.. => Some(MessageRun::Empty(count)),
        bytes_minus_1 => {
            let bits = entries.take(usize::from(bytes_minus_1) + 1)?;
            SymbolSet::new(bits).map(MessageRun::Partial)
        }
    }
}

impl MessagesState {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { first_id: u32::from_be_bytes(reader.array()?), proof: u32::from_be_bytes(reader.array()?) })
    }
}
