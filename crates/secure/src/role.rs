//! Roles of a connection's endpoints, and the directions in which they send.

/// Role of an endpoint in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The endpoint that sends the first message.
    Initiator,
    /// The endpoint that answers the first message.
    Responder,
}

/// Direction of a connection. Its byte is part of key labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    FromInitiator = 1,
    FromResponder = 2,
}

impl Role {
    /// Returns the direction in which this endpoint sends.
    pub(crate) fn sends(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromInitiator,
            Self::Responder => Direction::FromResponder,
        }
    }

    /// Returns the direction in which this endpoint receives.
    pub(crate) fn receives(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromResponder,
            Self::Responder => Direction::FromInitiator,
        }
    }
}
