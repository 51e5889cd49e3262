//! Peer identities established by a handshake.

use dfcp_secure::{Cipher, Fingerprint, Pattern, PublicKey};

/// Identity that a handshake has established.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Identity, PublicKey};
///
/// /// Returns the account of a peer that has proven a key. (`Stream::identity` returns the identity.)
/// fn account(identity: Option<Identity>, accounts: &[(PublicKey, &'static str)]) -> Option<&'static str> {
///     let key = identity?.peer?;
///     accounts.iter().find(|(known, _)| *known == key).map(|&(_, name)| name)
/// }
/// assert_eq!(account(None, &[]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Handshake pattern: the keys by which the two ends knew each other.
    pub pattern: Pattern,
    /// Static key that the peer has proven; `None` with a pre-shared key.
    pub peer: Option<PublicKey>,
    /// Fingerprint of the pre-shared key; `None` without a pre-shared key. All owners of that key are one peer to this
    /// end.
    pub pre_shared: Option<Fingerprint>,
    /// Hash of the handshake, equal at both ends and unique to this connection: a name for channel binding in
    /// higher-layer protocols. Not secret.
    pub handshake_hash: [u8; 32],
    /// Cipher that encrypts datagrams.
    pub cipher: Cipher,
}
