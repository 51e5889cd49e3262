//! Ids of streams (`spec/wire-format.md` §3).

/// Who opened a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opener {
    /// The side that opened the session.
    Initiator,
    /// The side that accepted it.
    Acceptor,
}

/// Who may send on a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamKind {
    /// Both sides.
    Bidirectional,
    /// Its opener alone.
    OneWay,
}

/// The id of a stream: bit 0 tells its opener, bit 1 its kind, and the others count the streams of that kind which the
/// opener has opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(u32);

/// Streams of one kind that one side can open in a session.
pub const STREAM_INDEX_MAX: u32 = (1 << 30) - 1;

impl StreamId {
    /// The stream which every session has.
    pub const FIRST: Self = Self(0);

    /// The id of a side's stream number `index` of a kind, from 0; `None` past [`STREAM_INDEX_MAX`].
    #[must_use]
    pub const fn new(opener: Opener, kind: StreamKind, index: u32) -> Option<Self> {
        if index > STREAM_INDEX_MAX {
            return None;
        }
        let opener = match opener {
            Opener::Initiator => 0,
            Opener::Acceptor => 1,
        };
        let kind = match kind {
            StreamKind::Bidirectional => 0,
            StreamKind::OneWay => 2,
        };
        Some(Self(index << 2 | kind | opener))
    }

    /// The id as it stands in a datagram.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// As it stands in a datagram.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        self.0
    }

    /// Who opened it.
    #[must_use]
    pub const fn opener(self) -> Opener {
        if self.0 & 1 == 0 { Opener::Initiator } else { Opener::Acceptor }
    }

    /// Who may send on it.
    #[must_use]
    pub const fn kind(self) -> StreamKind {
        if self.0 & 2 == 0 { StreamKind::Bidirectional } else { StreamKind::OneWay }
    }

    /// How many streams of its kind its opener had opened before it.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 >> 2
    }
}

/// How many streams of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamLimits {
    /// Bidirectional ones.
    pub bidirectional: u32,
    /// One-way ones.
    pub one_way: u32,
}
