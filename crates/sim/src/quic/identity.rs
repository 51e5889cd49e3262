//! Identity of the receiver: connection IDs derived from a seed, and a certificate that is the same in every run.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::QuicError;

/// Host name in the certificate.
pub(super) const NAME: &str = "receiver.invalid";

/// Length of a connection ID, bytes; quinn's default.
const ID_BYTES: usize = 8;

/// Ed25519 private key in PKCS #8 (RFC 8410): 16 bytes of structure, then the key. The key is fixed and not secret.
const PRIVATE_KEY: [u8; 48] = {
    let structure = [0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    let mut key = [0x5A; 48];
    let mut at = 0;
    while at < structure.len() {
        key[at] = structure[at];
        at += 1;
    }
    key
};

/// Returns the self-signed certificate of the receiver and its private key. Ed25519 signatures are deterministic and of
/// constant length, so the sizes of the certificate and of handshake messages never change.
pub(super) fn certificate() -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), QuicError> {
    let key = PrivatePkcs8KeyDer::from(PRIVATE_KEY.to_vec());
    let pair = KeyPair::try_from(&key)?;
    let certificate = CertificateParams::new([NAME.to_owned()])?.self_signed(&pair)?;
    Ok((certificate.der().clone(), key))
}

/// Generator of distinct connection IDs from a seed.
#[derive(Debug)]
pub(super) struct SeededIds {
    next: u64,
}

impl SeededIds {
    pub(super) fn new(seed: u64) -> Self {
        Self { next: seed }
    }
}

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        // SplitMix64 visits every 64-bit number once, so the IDs are distinct.
        self.next = self.next.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.next ^ (self.next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ConnectionId::new(&(z ^ (z >> 31)).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_always_the_same() {
        let (first, key) = certificate().unwrap();
        assert_eq!(first, certificate().unwrap().0);
        assert_eq!(key.secret_pkcs8_der(), PRIVATE_KEY);
        assert!((200..400).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn identifiers_depend_on_the_seed_alone() {
        let ids = |seed| {
            let mut generator = SeededIds::new(seed);
            (0..100).map(|_| generator.generate_cid().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(ids(1), ids(1));
        let mut all = [ids(1), ids(2)].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 200);
        assert!(all.iter().all(|id| id.len() == ID_BYTES));
    }
}
