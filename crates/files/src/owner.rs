//! Identities of senders, by which partial files are assigned to them.

use std::fmt;
use std::sync::Arc;

use crate::seal::Seal;

/// Sender that a receiver can recognise in another session. It has proven a static key or a pre-shared key; all holders
/// of one pre-shared key count as the same sender.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Returns the owner proven by the connection; `None` for a connection without keys.
    pub fn of(seal: Option<&Seal>) -> Option<Self> {
        let Seal { peer, pre_shared, .. } = seal?;
        match (peer, pre_shared) {
            (Some(key), _) => Some(Self::from_fingerprint(&key.fingerprint().to_string())),
            // The prefix cannot occur in a static key's fingerprint, so the two kinds never collide.
            (None, Some(fingerprint)) => Some(Self::from_fingerprint(&format!("PSK-{fingerprint}"))),
            (None, None) => None,
        }
    }

    /// Returns the owner with this key fingerprint.
    pub fn from_fingerprint(fingerprint: &str) -> Self {
        Self(fingerprint.into())
    }

    /// Returns the fingerprint of the owner's key.
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
        // The owner differs from the bare fingerprint, which could belong to a static key.
        assert!(by_secret(2).is_some_and(|owner| owner.as_str() != pre_shared(2).to_string()));
        assert_eq!(Owner::of(None), None);
    }
}
