//! Protection of a connection, for display and for programs.

use dfcp_secure::{Cipher, Fingerprint, Pattern, PublicKey};
use serde_json::{Value, json};

/// Outcome of an encrypted connection's handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Handshake pattern: the way in which the two ends knew each other.
    pub pattern: Pattern,
    /// The static key which the peer has proven; `None` with a pre-shared key.
    pub peer: Option<PublicKey>,
    /// Fingerprint of the pre-shared key; `None` without one.
    pub pre_shared: Option<Fingerprint>,
    /// The same at both ends of this connection, and of no other.
    pub handshake_hash: [u8; 32],
    /// Cipher of the datagrams.
    pub cipher: Cipher,
}

impl Seal {
    /// `encrypted with AES-128-GCM, peer SHA256:...`
    #[must_use]
    pub fn describe(&self) -> String {
        let cipher = cipher_name(self.cipher);
        match &self.peer {
            Some(key) => format!("encrypted with {cipher}, peer {}", key.fingerprint()),
            None => format!("encrypted with {cipher}, peer has the pre-shared key"),
        }
    }

    /// Adds the fields `peer_key` (the fingerprint), `cipher` and `pattern` to a JSON object; all are null without a
    /// seal.
    pub fn add_to(seal: Option<&Self>, object: &mut Value) {
        object["peer_key"] = json!(seal.and_then(|seal| seal.peer).map(|key| key.fingerprint().to_string()));
        object["cipher"] = json!(seal.map(|seal| cipher_name(seal.cipher)));
        object["pattern"] = json!(seal.map(|seal| pattern_name(seal.pattern)));
    }
}

/// As RFCs write it.
#[must_use]
pub const fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => "AES-128-GCM",
        Cipher::Aes256Gcm => "AES-256-GCM",
        Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
    }
}

/// As Noise writes it.
const fn pattern_name(pattern: Pattern) -> &'static str {
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
    fn people_and_programs_see_the_same() {
        let key = dfcp_secure::StaticKey::from_seed(&[1; 32]).public();
        let seal = Seal {
            pattern: Pattern::Pinned,
            peer: Some(key),
            pre_shared: None,
            handshake_hash: [0; 32],
            cipher: Cipher::ChaCha20Poly1305,
        };
        assert_eq!(seal.describe(), format!("encrypted with ChaCha20-Poly1305, peer {}", key.fingerprint()));
        let mut object = json!({ "event": "connected" });
        Seal::add_to(Some(&seal), &mut object);
        assert_eq!((object["pattern"].as_str(), object["cipher"].as_str()), (Some("IK"), Some("ChaCha20-Poly1305")));
        assert_eq!(object["peer_key"], key.fingerprint().to_string());
        Seal::add_to(None, &mut object);
        assert!(object["peer_key"].is_null() && object["cipher"].is_null() && object["event"] == "connected");
    }
}
