//! Identities of peers.

use dfcp_secure::{Cipher, Fingerprint, Pattern, PublicKey};

/// The identity that a handshake has established.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Identity, PublicKey};
///
/// /// The account of a peer, if it has proven a key. (`Stream::identity` has the identity.)
/// fn account(identity: Option<Identity>, accounts: &[(PublicKey, &'static str)]) -> Option<&'static str> {
///     let key = identity?.peer?;
///     accounts.iter().find(|(known, _)| *known == key).map(|&(_, name)| name)
/// }
/// assert_eq!(account(None, &[]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The handshake's pattern: by which keys the two ends knew each other.
    pub pattern: Pattern,
    /// The static key which the peer has proven; `None` with a pre-shared key.
    pub peer: Option<PublicKey>,
    /// Fingerprint of the pre-shared key; `None` without one. All owners of that key are one peer to this end.
    pub pre_shared: Option<Fingerprint>,
    /// The same at both ends of this connection, and of no other: a name to which protocols above can bind themselves.
    /// Not secret.
    pub handshake_hash: [u8; 32],
    /// The cipher that seals datagrams.
    pub cipher: Cipher,
}
