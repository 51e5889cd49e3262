//! Owners of unfinished files.

use std::fmt;
use std::sync::Arc;

use crate::seal::Seal;

/// Sender that a receiver can recognise: by its proven static key, or by a pre-shared key, whose holders count as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Owner proven by the connection; `None` without keys.
    pub fn of(seal: Option<&Seal>) -> Option<Self> {
        let Seal { peer, pre_shared, .. } = seal?;
        match (peer, pre_shared) {
            (Some(key), _) => Some(Self::from_fingerprint(&key.fingerprint().to_string())),
            // No static key's fingerprint has this prefix.
            (None, Some(fingerprint)) => Some(Self::from_fingerprint(&format!("PSK-{fingerprint}"))),
            (None, None) => None,
        }
    }

    /// Owner with this key fingerprint.
    pub fn from_fingerprint(fingerprint: &str) -> Self {
        Self(fingerprint.into())
    }

    /// Fingerprint of the owner's key.
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
        // A static key with an equal fingerprint would still be another sender.
        assert!(by_secret(2).is_some_and(|owner| owner.as_str() != pre_shared(2).to_string()));
        assert_eq!(Owner::of(None), None);
    }
}
