//! Credentials and trust of two ends.

use dfcp_proto::{Config, Credentials, PeerKey, PreSharedKey, Security, StaticKey};

/// The ways to protect a modern connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No protection.
    Unsealed,
    /// Keys which nobody has seen before: three messages.
    FirstContact,
    /// The server's key is known: two messages.
    Pinned,
    /// Both have the same key: two messages.
    PreShared,
}

impl Trust {
    /// All.
    pub const ALL: [Self; 4] = [Self::Unsealed, Self::FirstContact, Self::Pinned, Self::PreShared];

    /// Security settings of client and server.
    #[must_use]
    pub fn security(self) -> (Security, Security) {
        let key = StaticKey::from_seed(&[9; 32]);
        let server = Credentials { key: Some(key.clone()), ..PeerKey::Any.into() };
        let (client, server) = match self {
            Self::Unsealed => return (Security::Unsealed, Security::Unsealed),
            Self::FirstContact => (PeerKey::Any.into(), server),
            Self::Pinned => (PeerKey::Known(key.public()).into(), server),
            Self::PreShared => (PreSharedKey::from_bytes(&[7; 32]).into(), PreSharedKey::from_bytes(&[7; 32]).into()),
        };
        (Security::Sealed(client), Security::Sealed(server))
    }
}

/// A sealed end which trusts everybody.
#[must_use]
pub fn sealed() -> Config {
    Config::sealed(PeerKey::Any)
}
