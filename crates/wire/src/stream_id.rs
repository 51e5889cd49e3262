//! Ids of the streams of a connection.

use core::fmt;

/// Side that opened a stream: bit 0 of the stream's id (like in RFC 9000 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opener {
    /// The side that sent the SYN.
    Initiator,
    /// The side that answered the SYN.
    Acceptor,
}

/// Directions of a stream: bit 1 of the stream's id (like in RFC 9000 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamKind {
    /// Both sides send.
    Bidirectional,
    /// Only the opener sends.
    OneWay,
}

/// Stream id. Bit 0 is the opener, bit 1 the kind, and the other 30 bits are an index: each opener counts its streams
/// of each kind from 0. The default is [`FIRST`](Self::FIRST).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(u32);

const ACCEPTOR: u32 = 1;
const ONE_WAY: u32 = 1 << 1;
const INDEX_SHIFT: u32 = 2;

impl StreamId {
    /// Stream 0, which every connection has from its start: the first bidirectional stream of the initiator. Its id is
    /// never sent.
    pub const FIRST: Self = Self(0);

    /// Makes a stream id; `None` if the index exceeds 30 bits.
    #[must_use]
    pub const fn new(opener: Opener, kind: StreamKind, index: u32) -> Option<Self> {
        if index >> (u32::BITS - INDEX_SHIFT) != 0 {
            return None;
        }
        let opener = match opener {
            Opener::Initiator => 0,
            Opener::Acceptor => ACCEPTOR,
        };
        let kind = match kind {
            StreamKind::Bidirectional => 0,
            StreamKind::OneWay => ONE_WAY,
        };
        Some(Self(index << INDEX_SHIFT | kind | opener))
    }

    /// Decodes the id of a segment or record; every word is valid.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Returns the id as in a segment or record.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        self.0
    }

    /// Returns the side that opened the stream.
    #[must_use]
    pub const fn opener(self) -> Opener {
        if self.0 & ACCEPTOR == 0 { Opener::Initiator } else { Opener::Acceptor }
    }

    /// Returns the directions of the stream.
    #[must_use]
    pub const fn kind(self) -> StreamKind {
        if self.0 & ONE_WAY == 0 { StreamKind::Bidirectional } else { StreamKind::OneWay }
    }

    /// Returns the index of the stream among the streams of the same opener and kind, below 2³⁰.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 >> INDEX_SHIFT
    }
}

/// Displays the number on the wire, which is unique among the streams of a connection.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Number of streams of each kind.
///
/// ```
/// # use dfcp_wire as dfcp;
/// use dfcp::StreamLimits;
///
/// // A request server: each request is a bidirectional stream, with a hundred at a time. Other streams are refused.
/// let limits = StreamLimits { bidirectional: 100, ..StreamLimits::default() };
/// assert_eq!(limits.one_way, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamLimits {
    /// Number of bidirectional streams.
    pub bidirectional: u32,
    /// Number of one-way streams.
    pub one_way: u32,
}

#[cfg(test)]
mod tests {
    use super::{Opener, StreamId, StreamKind};

    #[test]
    fn an_id_has_its_opener_in_bit_0_and_its_kind_in_bit_1() {
        let ids = [
            (0, Opener::Initiator, StreamKind::Bidirectional, 0),
            (1, Opener::Acceptor, StreamKind::Bidirectional, 0),
            (2, Opener::Initiator, StreamKind::OneWay, 0),
            (7, Opener::Acceptor, StreamKind::OneWay, 1),
            (u32::MAX, Opener::Acceptor, StreamKind::OneWay, (1 << 30) - 1),
        ];
        for (word, opener, kind, index) in ids {
            let id = StreamId::from_word(word);
            assert_eq!((id.opener(), id.kind(), id.index(), id.to_word()), (opener, kind, index, word));
            assert_eq!(StreamId::new(opener, kind, index), Some(id));
        }
        assert_eq!(StreamId::default(), StreamId::FIRST);
        assert_eq!(StreamId::new(Opener::Initiator, StreamKind::OneWay, 1 << 30), None);
    }
}
