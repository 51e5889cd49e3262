//! Sealing of an open connection (`spec/security.md` §3).

use dfcp_secure::{Cipher, Established, Fingerprint, OpenKeys, Pattern, PublicKey, SealKeys};

use crate::identity::Identity;

const _: () = assert!(dfcp_wire::TAG_BYTES == dfcp_secure::TAG_BYTES, "segments have room for a tag");

/// The keys of both directions, and the identity that the peer has proven.
#[derive(Debug)]
pub(crate) struct Protection {
    pub(super) seal: SealKeys,
    pub(super) open: OpenKeys,
    pattern: Pattern,
    cipher: Cipher,
    proven: Proven,
    handshake_hash: [u8; 32],
}

/// The peer's proof. One enum instead of two options: it saves memory in every connection.
#[derive(Debug)]
enum Proven {
    Key(PublicKey),
    Secret(Fingerprint),
    /// Neither a key nor a secret: only that all datagrams come from the same peer.
    Nothing,
}

impl Protection {
    pub(crate) fn new(established: Established, cipher: Cipher) -> Self {
        let (pattern, handshake_hash) = (established.pattern(), established.handshake_hash());
        let proven = match (established.peer(), established.pre_shared()) {
            (Some(key), _) => Proven::Key(key),
            (None, Some(secret)) => Proven::Secret(secret),
            (None, None) => Proven::Nothing,
        };
        let (seal, open) = established.into_keys(cipher);
        Self { seal, open, pattern, cipher, proven, handshake_hash }
    }

    pub(crate) fn identity(&self) -> Identity {
        let Self { pattern, cipher, handshake_hash, .. } = *self;
        let (peer, pre_shared) = match self.proven {
            Proven::Key(key) => (Some(key), None),
            Proven::Secret(secret) => (None, Some(secret)),
            Proven::Nothing => (None, None),
        };
        Identity { pattern, peer, pre_shared, handshake_hash, cipher }
    }
}
