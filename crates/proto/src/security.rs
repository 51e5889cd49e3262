//! The peers that a connection trusts, and the keys that it seals with (`spec/security.md`).

use std::fmt;
use std::sync::Arc;

use dfcp_secure::{Cipher, Fingerprint, InitiatorKeys, Pattern, PreSharedKey, PublicKey, StaticKey};

use crate::error::ConfigError;

/// Protection of a modern connection, or none.
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
    /// Every datagram behind the handshake is encrypted and authenticated.
    Sealed(Credentials),
    /// Nothing is: everybody on the path can read and change everything. Both ends must ask for it.
    Unsealed,
}

/// The keys of one end, and the peers that it accepts.
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
    /// This end's static key, by which its peer knows it. Without one a fresh key is made: for each connection that is
    /// opened, or for all which an endpoint accepts.
    pub key: Option<StaticKey>,
    /// A key which both ends have. The side that opens a connection with it needs no other key; the side that accepts takes it as
    /// well as the static keys which `peer` admits.
    pub pre_shared: Option<PreSharedKey>,
    /// The static keys of the peer that are accepted.
    pub peer: PeerKey,
    /// The ciphers to seal with.
    pub ciphers: Ciphers,
}

/// The static key that the peer must have.
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
    /// Nobody has said so yet: only a pre-shared key will do.
    #[default]
    Undecided,
    /// Any. On the opening side this means talking to any host that answers, an attacker included.
    Any,
    /// This one. On the opening side it saves the peer from showing its key, and hides one's own from the start.
    Known(PublicKey),
    /// The one with this fingerprint.
    Fingerprint(Fingerprint),
    /// Those which the verifier approves.
    Verified(Verifier),
}

/// Decides about a peer's static key. It is asked during the handshake, and must answer at once.
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

/// The ciphers that are offered and taken.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Cipher, Ciphers, Config, PeerKey};
///
/// let config = Config::client(PeerKey::Any).with_ciphers(Ciphers::Only(Cipher::Aes256Gcm));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ciphers {
    /// All, the one which is fastest on both CPUs first.
    #[default]
    Fastest,
    /// This one alone.
    Only(Cipher),
}

impl Verifier {
    /// A verifier which approves the keys for which `approve` is true.
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
    /// Trusts `peer`, with a fresh key of its own.
    fn from(peer: PeerKey) -> Self {
        Self { peer, ..Self::default() }
    }
}

impl From<PreSharedKey> for Credentials {
    /// A pre-shared key, and no other.
    fn from(key: PreSharedKey) -> Self {
        Self { pre_shared: Some(key), ..Self::default() }
    }
}

impl Credentials {
    /// The keys to open a connection with; `fresh` is the static key if none is set.
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

    /// Fails if no connection could be accepted: without a trusted static key, and without a pre-shared one.
    pub(crate) fn check_acceptor(&self) -> Result<(), ConfigError> {
        let nobody = matches!(self.peer, PeerKey::Undecided) && self.pre_shared.is_none();
        if nobody { Err(ConfigError::PeerUndecided) } else { Ok(()) }
    }

    /// True if a peer which has proven `key` (none: the pre-shared one) is the right one.
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
    /// The ciphers, best first (\[seal-8\]).
    pub(crate) fn list(self) -> Vec<Cipher> {
        match self {
            Self::Only(cipher) => vec![cipher],
            Self::Fastest if Cipher::cpu_has_aes() => {
                vec![Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm]
            }
            Self::Fastest => vec![Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm, Cipher::Aes256Gcm],
        }
    }

    /// Chooses from a peer's list: the best for both ends together, and among equals the peer's preference.
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
        // One side slow with AES: its preference is taken, on either side, and they agree on some cipher at least.
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
