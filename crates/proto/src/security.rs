//! Keys of a connection's end and the peers that it trusts (`spec/security.md`).

use std::fmt;
use std::sync::Arc;

use dfcp_secure::{Cipher, Fingerprint, InitiatorKeys, Pattern, PreSharedKey, PublicKey, StaticKey};

use crate::error::ConfigError;

/// Protection of a modern connection: sealed (the default) or plaintext.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Config, Security};
///
/// assert!(matches!(Config::modern().security, Security::Sealed(_)));
/// assert!(matches!(Config::danger_unsealed().security, Security::Unsealed));
/// ```
#[derive(Clone, Debug)]
pub enum Security {
    /// Every datagram after the handshake is encrypted and authenticated.
    Sealed(Credentials),
    /// Plaintext: everybody on the path can read and change all datagrams. Both ends must configure it.
    Unsealed,
}

/// Keys of one end, and the peers that this end accepts.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Cipher, Ciphers, Config, Credentials, PeerKey, StaticKey};
///
/// let (own, peer) = (StaticKey::from_seed(&[1; 32]), StaticKey::from_seed(&[2; 32]).public());
/// let config = Config::sealed(Credentials {
///     key: Some(own),
///     peer: PeerKey::Known(peer),
///     ciphers: Ciphers::Only(Cipher::ChaCha20Poly1305),
///     ..Credentials::default()
/// });
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Static key of this end, which identifies it to peers. With `None` a fresh key is generated: one for each opened
    /// connection, and one for all connections that an endpoint accepts.
    pub key: Option<StaticKey>,
    /// Key that both ends share. The opening side then uses no other key. The accepting side accepts both this key and
    /// the static keys that `peer` admits.
    pub pre_shared: Option<PreSharedKey>,
    /// Static keys accepted from the peer.
    pub peer: PeerKey,
    /// Ciphers offered when opening a connection, and permitted when accepting one.
    pub ciphers: Ciphers,
}

/// Condition on the peer's static key.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Config, PeerKey, StaticKey};
///
/// let key = StaticKey::from_seed(&[7; 32]).public();
/// let known = Config::client(key);                     // PeerKey::Known
/// let shown = Config::client(key.fingerprint());       // PeerKey::Fingerprint
/// let whoever_answers = Config::client(PeerKey::Any);  // an attacker included
/// ```
#[derive(Clone, Debug, Default)]
pub enum PeerKey {
    /// The default: no static key is accepted. Connections then need a pre-shared key.
    #[default]
    Undecided,
    /// Any key. An opening side then talks to any host that answers, an attacker included.
    Any,
    /// Exactly this key. If the opening side knows it, the peer need not send its key, and the opener's own key is
    /// encrypted from the first message on.
    Known(PublicKey),
    /// The key with this fingerprint.
    Fingerprint(Fingerprint),
    /// Keys that the verifier approves.
    Verified(Verifier),
}

/// Decides about a peer's static key. Called during the handshake, which waits for the result: it must not block.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use std::collections::HashSet;
///
/// use dfcp::{Config, StaticKey, Verifier};
///
/// let friend = StaticKey::from_seed(&[1; 32]).public();
/// let friends = HashSet::from([friend]);
/// let server = Config::server(StaticKey::from_seed(&[2; 32]))
///     .with_peer(Verifier::new(move |key| friends.contains(key)));
/// ```
#[derive(Clone)]
pub struct Verifier(Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>);

/// Ciphers that this end offers and accepts.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Cipher, Ciphers, Config, PeerKey};
///
/// let config = Config::client(PeerKey::Any).with_ciphers(Ciphers::Only(Cipher::Aes256Gcm));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ciphers {
    /// All ciphers. The handshake chooses the one that ranks best on both CPUs together.
    #[default]
    Fastest,
    /// Only this cipher.
    Only(Cipher),
}

impl Verifier {
    /// Creates a verifier that approves exactly the keys for which `approve` returns true.
    pub fn new(approve: impl Fn(&PublicKey) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(approve))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

impl From<PublicKey> for PeerKey {
    fn from(key: PublicKey) -> Self {
        Self::Known(key)
    }
}

impl From<Fingerprint> for PeerKey {
    fn from(fingerprint: Fingerprint) -> Self {
        Self::Fingerprint(fingerprint)
    }
}

impl From<Verifier> for PeerKey {
    fn from(verifier: Verifier) -> Self {
        Self::Verified(verifier)
    }
}

impl From<PeerKey> for Credentials {
    /// Trusts `peer`, and uses a fresh static key on this side.
    fn from(peer: PeerKey) -> Self {
        Self { peer, ..Self::default() }
    }
}

impl From<PreSharedKey> for Credentials {
    /// Uses this pre-shared key only, without a static key.
    fn from(key: PreSharedKey) -> Self {
        Self { pre_shared: Some(key), ..Self::default() }
    }
}

impl Credentials {
    /// Returns the keys for opening a connection. `fresh` generates a static key if none is configured.
    pub(crate) fn initiator_keys(&self, fresh: impl FnOnce() -> StaticKey) -> Result<InitiatorKeys, ConfigError> {
        if let Some(key) = &self.pre_shared {
            return Ok(InitiatorKeys::PreShared(key.clone()));
        }
        let own = || self.key.clone().unwrap_or_else(fresh);
        match self.peer {
            PeerKey::Undecided => Err(ConfigError::PeerUndecided),
            PeerKey::Known(responder) => Ok(InitiatorKeys::Pinned { own: own(), responder }),
            PeerKey::Fingerprint(expected) => Ok(InitiatorKeys::FirstContact { own: own(), expected: Some(expected) }),
            PeerKey::Any | PeerKey::Verified(_) => Ok(InitiatorKeys::FirstContact { own: own(), expected: None }),
        }
    }

    /// Fails if no peer could ever be accepted, since neither a trusted static key nor a pre-shared key is configured.
    pub(crate) fn check_acceptor(&self) -> Result<(), ConfigError> {
        let nobody = matches!(self.peer, PeerKey::Undecided) && self.pre_shared.is_none();
        if nobody { Err(ConfigError::PeerUndecided) } else { Ok(()) }
    }

    /// Returns true if a peer that has proven `key` is trusted. `None` stands for a peer without a static key, which is
    /// trusted if it has proven the pre-shared key.
    pub(crate) fn admits(&self, pattern: Pattern, key: Option<&PublicKey>) -> bool {
        let Some(key) = key else { return pattern == Pattern::PreShared };
        match &self.peer {
            PeerKey::Undecided => false,
            PeerKey::Any => true,
            PeerKey::Known(known) => known == key,
            PeerKey::Fingerprint(fingerprint) => *fingerprint == key.fingerprint(),
            PeerKey::Verified(verifier) => verifier.0(key),
        }
    }
}

impl Ciphers {
    /// Returns the ciphers in order of preference on this CPU (\[seal-8\]).
    pub(crate) fn list(self) -> Vec<Cipher> {
        match self {
            Self::Only(cipher) => vec![cipher],
            Self::Fastest if Cipher::cpu_has_aes() => {
                vec![Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm]
            }
            Self::Fastest => vec![Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm, Cipher::Aes256Gcm],
        }
    }

    /// Chooses a cipher from a peer's list: the least sum of the places in both lists; of equal sums, the peer's
    /// preference.
    pub(crate) fn choose(self, theirs: &[u8]) -> Option<Cipher> {
        let ours = self.list();
        let rank = |cipher: &Cipher| {
            let (at, place) =
                (ours.iter().position(|own| own == cipher)?, theirs.iter().position(|id| *id == cipher.id())?);
            Some(at + place)
        };
        let common = theirs.iter().filter_map(|id| Cipher::from_id(*id)).filter(|cipher| rank(cipher).is_some());
        common.min_by_key(|cipher| rank(cipher))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ciphers: &[Cipher]) -> Vec<u8> {
        ciphers.iter().map(|cipher| cipher.id()).collect()
    }

    #[test]
    fn both_cpus_count() {
        use Cipher::{Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};
        let (with_aes, without) = ([Aes128Gcm, ChaCha20Poly1305, Aes256Gcm], [ChaCha20Poly1305, Aes128Gcm, Aes256Gcm]);
        let ours = Ciphers::Fastest.list();
        let expected = if ours[0] == Aes128Gcm { Aes128Gcm } else { ChaCha20Poly1305 };
        assert_eq!(Ciphers::Fastest.choose(&ids(&ours)), Some(expected));
        // One side is slow with AES: that side's first choice is taken, whichever side it is, so both ends agree on a
        // cipher.
        let theirs = if expected == Aes128Gcm { without } else { with_aes };
        assert_eq!(Ciphers::Fastest.choose(&ids(&theirs)), Some(theirs[0]));
        // [noise-10]: places 1 + 0 are less than 0 + 2, so the initiator's first choice is not taken.
        assert_eq!(Ciphers::Fastest.choose(&ids(&[ours[2], ours[0], ours[1]])), Some(ours[0]));
        assert_eq!(Ciphers::Fastest.choose(&[Aes256Gcm.id()]), Some(Aes256Gcm));
        assert_eq!(Ciphers::Only(Aes256Gcm).choose(&ids(&with_aes)), Some(Aes256Gcm));
        assert_eq!(Ciphers::Only(Aes256Gcm).choose(&[Aes128Gcm.id(), 77]), None);
        assert_eq!(Ciphers::Fastest.choose(&[]), None);
    }

    #[test]
    fn nobody_is_trusted_by_default() {
        let none = Credentials::default();
        let key = StaticKey::from_seed(&[1; 32]);
        assert!(matches!(none.initiator_keys(|| key.clone()), Err(ConfigError::PeerUndecided)));
        assert!(none.check_acceptor().is_err());
        for pattern in Pattern::ALL {
            assert!(!none.admits(pattern, Some(&key.public())));
        }
    }

    #[test]
    fn each_way_to_know_a_peer_admits_that_peer_alone() {
        let (friend, foe) = (StaticKey::from_seed(&[1; 32]).public(), StaticKey::from_seed(&[2; 32]).public());
        let ways = [
            PeerKey::Known(friend),
            PeerKey::Fingerprint(friend.fingerprint()),
            PeerKey::Verified(Verifier::new(move |key| *key == friend)),
        ];
        for peer in ways {
            let credentials = Credentials { peer, ..Credentials::default() };
            assert!(credentials.admits(Pattern::FirstContact, Some(&friend)), "{credentials:?}");
            assert!(!credentials.admits(Pattern::FirstContact, Some(&foe)), "{credentials:?}");
            assert!(!credentials.admits(Pattern::Pinned, None), "{credentials:?}");
        }
    }
}
