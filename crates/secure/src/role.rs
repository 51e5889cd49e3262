//! Roles of the endpoints of a connection, and the directions in which they send.

/// Role of an endpoint in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The endpoint that sent the first message.
    Initiator,
    /// The endpoint that answered it.
    Responder,
}

/// Direction of a connection; its byte is part of the labels of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    FromInitiator = 1,
    FromResponder = 2,
}

impl Role {
    /// Direction in which this endpoint sends.
    pub(crate) fn sends(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromInitiator,
            Self::Responder => Direction::FromResponder,
        }
    }

    /// Direction in which this endpoint receives.
    pub(crate) fn receives(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromResponder,
            Self::Responder => Direction::FromInitiator,
        }
    }
}
