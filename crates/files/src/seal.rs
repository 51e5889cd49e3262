//! Encryption of a connection, for display and for use by programs.

use dfcp::{Cipher, Fingerprint, Pattern, PublicKey};

/// Result of the handshake of an encrypted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Handshake pattern, which depends on the keys known before the handshake.
    pub pattern: Pattern,
    /// Static key that the peer has proven; `None` in the pattern with a pre-shared key only.
    pub peer: Option<PublicKey>,
    /// Fingerprint of the pre-shared key; `None` without one.
    pub pre_shared: Option<Fingerprint>,
    /// Handshake hash, which is equal at both ends and unique to the connection.
    pub handshake_hash: [u8; 32],
    /// Cipher that protects the datagrams.
    pub cipher: Cipher,
}

impl Seal {
    /// Returns a description such as `encrypted with AES-128-GCM, peer SHA256:...`.
    #[must_use]
    pub fn describe(&self) -> String {
        let cipher = cipher_name(self.cipher);
        match &self.peer {
            Some(key) => format!("encrypted with {cipher}, peer {}", key.fingerprint()),
            None => format!("encrypted with {cipher}, peer has the pre-shared key"),
        }
    }
}

/// Returns the name of the cipher as used in RFCs.
#[must_use]
pub const fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => "AES-128-GCM",
        Cipher::Aes256Gcm => "AES-256-GCM",
        Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
    }
}

/// Returns the name of the pattern in the Noise specification.
#[must_use]
pub const fn pattern_name(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::FirstContact => "XX",
        Pattern::Pinned => "IK",
        Pattern::PreShared => "NNpsk0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_named_by_its_key_or_by_the_secret_that_it_shares() {
        let key = dfcp::StaticKey::from_seed(&[1; 32]).public();
        let seal = Seal {
            pattern: Pattern::Pinned,
            peer: Some(key),
            pre_shared: None,
            handshake_hash: [0; 32],
            cipher: Cipher::ChaCha20Poly1305,
        };
        assert_eq!(seal.describe(), format!("encrypted with ChaCha20-Poly1305, peer {}", key.fingerprint()));
        let pre_shared = Seal { pattern: Pattern::PreShared, peer: None, ..seal };
        assert_eq!(pre_shared.describe(), "encrypted with ChaCha20-Poly1305, peer has the pre-shared key");
    }
}
