//! Keys and trust of two ends.

use dfcp_proto::{Config, Credentials, PeerKey, PreSharedKey, Security, StaticKey};

/// Protection of a modern connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No encryption.
    Unsealed,
    /// Encrypted. The client does not know the server's key: the handshake takes three messages.
    FirstContact,
    /// Encrypted. The client knows the server's key: the handshake takes two messages.
    Pinned,
    /// Encrypted with a pre-shared key: the handshake takes two messages.
    PreShared,
}

impl Trust {
    /// All kinds of protection.
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

/// Configuration of an encrypted end that trusts everyone.
#[must_use]
pub fn sealed() -> Config {
    Config::sealed(PeerKey::Any)
}
