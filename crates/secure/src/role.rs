//! The two ends of a connection, and the directions in which they send.

/// Role of an end in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sent the first message.
    Initiator,
    /// Answered it.
    Responder,
}

/// One way of a connection; the byte stands in the labels of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    FromInitiator = 1,
    FromResponder = 2,
}

impl Role {
    /// The direction of the datagrams that this end sends.
    pub(crate) fn sends(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromInitiator,
            Self::Responder => Direction::FromResponder,
        }
    }

    /// The direction of the datagrams that it receives.
    pub(crate) fn receives(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromResponder,
            Self::Responder => Direction::FromInitiator,
        }
    }
}
