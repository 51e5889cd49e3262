//! Owners of unfinished files.

use std::fmt;
use std::sync::Arc;

use crate::seal::Seal;

/// A sender whom a receiver knows again: by the key which it has proven, its own, or one that all who have it share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// From what protects the connection. Without keys a sender cannot be told from others.
    pub fn of(seal: Option<&Seal>) -> Option<Self> {
        let Seal { peer, pre_shared, .. } = seal?;
        match (peer, pre_shared) {
            (Some(key), _) => Some(Self::from_fingerprint(&key.fingerprint().to_string())),
            // No static key has such a name.
            (None, Some(fingerprint)) => Some(Self::from_fingerprint(&format!("PSK-{fingerprint}"))),
            (None, None) => None,
        }
    }

    /// From the fingerprint of its key.
    pub fn from_fingerprint(fingerprint: &str) -> Self {
        Self(fingerprint.into())
    }

    /// The fingerprint of its key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use dfcp::{Cipher, Pattern, PreSharedKey, StaticKey};

    use super::*;

    #[test]
    fn senders_are_told_apart_by_whatever_they_have_proven() {
        let static_key = StaticKey::from_seed(&[1; 32]).public();
        let pre_shared = |byte| PreSharedKey::from_bytes(&[byte; 32]).fingerprint();
        let owner = |pattern, peer, pre_shared| {
            let handshake_hash = [0; 32];
            let seal = Seal { pattern, peer, pre_shared, handshake_hash, cipher: Cipher::Aes128Gcm };
            Owner::of(Some(&seal))
        };
        let by_key = owner(Pattern::Pinned, Some(static_key), None);
        let by_secret = |byte| owner(Pattern::PreShared, None, Some(pre_shared(byte)));
        assert_eq!(by_key.map(|owner| owner.to_string()), Some(static_key.fingerprint().to_string()));
        assert_eq!(by_secret(2), by_secret(2));
        assert_ne!(by_secret(2), by_secret(3));
        // A static key of the same fingerprint, if there could be one, is another sender.
        assert!(by_secret(2).is_some_and(|owner| owner.as_str() != pre_shared(2).to_string()));
        assert_eq!(Owner::of(None), None);
    }
}
