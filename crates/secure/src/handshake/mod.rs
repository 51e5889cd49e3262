//! The handshake: Noise (revision 34) in one of three patterns (`spec/security.md` §2).
//!
//! | pattern | known to the initiator | messages | proven to each end |
//! |---|---|---|---|
//! | [`Pattern::FirstContact`], `XX` | at most a fingerprint | 3 | static key of the other end |
//! | [`Pattern::Pinned`], `IK` | static key of the responder | 2 | static key of the other end |
//! | [`Pattern::PreShared`], `NNpsk0` | the pre-shared key | 2 | possession of the pre-shared key |
//!
//! The caller chooses the payloads of messages. A change of any message is detected: all data, including the prologue,
//! enters a hash that the tags of later messages authenticate. [`Pattern`] states from when on a payload is
//! confidential and authenticated.
//!
//! A damaged, forged or late message is refused with an error and leaves the state unchanged: the genuine message can
//! still be read (\[noise-7\]). The caller keeps the bytes of a written message, and retransmits the same bytes; a
//! message is never encrypted twice.

mod initiator;
mod noise;
mod primitives;
mod responder;
#[cfg(test)]
mod tests;

use std::fmt;

use thiserror::Error;

use crate::keys::{Fingerprint, PublicKey};
use crate::packet::{Cipher, OpenKeys, SealKeys, Secret};
use crate::role::{Direction, Role};

pub use initiator::{Initiator, InitiatorKeys};
pub use responder::{Answered, HalfOpen, Responder, ResponderKeys};

/// Longest handshake message, bytes: it must fit into one datagram (`spec/security.md` \[noise-1\]).
pub const MESSAGE_BYTES_MAX: usize = 1500;

/// Handshake pattern, which determines the required keys and their use.
///
/// The payload of the first message is in plaintext in `XX`, encrypted to the responder's static key in `IK` (without
/// forward secrecy), and encrypted with the pre-shared key in `NNpsk0`. **In all three patterns it may be a replay**
/// until another message of the initiator arrives. Payloads of the second and, in `XX`, third message are confidential
/// and authenticated, with two exceptions: the responder of `XX` does not yet know who receives its second message, and
/// an initiator at first contact without a fingerprint does not know who sent it.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::Pattern;
///
/// assert_eq!(Pattern::from_id(2), Some(Pattern::Pinned));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// `Noise_XX_25519_ChaChaPoly_SHA256`; wire id 1.
    FirstContact,
    /// `Noise_IK_25519_ChaChaPoly_SHA256`; wire id 2.
    Pinned,
    /// `Noise_NNpsk0_25519_ChaChaPoly_SHA256`; wire id 3.
    PreShared,
}

impl Pattern {
    /// All patterns, in the order of their ids.
    pub const ALL: [Self; 3] = [Self::FirstContact, Self::Pinned, Self::PreShared];

    /// Returns the id of the pattern on the wire.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::FirstContact => 1,
            Self::Pinned => 2,
            Self::PreShared => 3,
        }
    }

    /// Returns the pattern with this id, or `None` if there is none.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.id() == id)
    }

    /// Returns the name of the Noise protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstContact => "Noise_XX_25519_ChaChaPoly_SHA256",
            Self::Pinned => "Noise_IK_25519_ChaChaPoly_SHA256",
            Self::PreShared => "Noise_NNpsk0_25519_ChaChaPoly_SHA256",
        }
    }

    /// Returns the bytes that each message has in addition to its payload, in the order of messages.
    #[must_use]
    pub fn overheads(self) -> &'static [usize] {
        const KEY: usize = 32;
        const TAG: usize = 16;
        match self {
            Self::FirstContact => &[KEY, KEY + KEY + TAG + TAG, KEY + TAG + TAG],
            Self::Pinned => &[KEY + KEY + TAG + TAG, KEY + TAG],
            Self::PreShared => &[KEY + TAG, KEY + TAG],
        }
    }

    fn messages(self) -> usize {
        self.overheads().len()
    }
}

/// Reason why a handshake step failed. After any of these errors, the state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// A received message is too short or too long.
    #[error("a handshake message of {0} bytes has no valid length")]
    Length(usize),
    /// A payload is too long for a message of [`MESSAGE_BYTES_MAX`].
    #[error("a handshake payload of {0} bytes is too long")]
    PayloadTooLong(usize),
    /// The output buffer is too small.
    #[error("the buffer for a handshake message has {available} bytes and needs {needed}")]
    BufferTooSmall {
        /// Bytes required.
        needed: usize,
        /// Bytes available.
        available: usize,
    },
    /// The message is not authentic.
    #[error("a handshake message was forged or damaged, or the two ends' keys, versions or options differ")]
    Refused,
    /// The message contains a public key of low order, which makes the shared secret public.
    #[error("a handshake message has a public key of low order, which nobody uses by accident")]
    WeakKey,
    /// The responder's static key is not the expected one.
    #[error("the peer has another key than expected: {0}; if it was not replaced, somebody stands in between")]
    UnexpectedKey(Fingerprint),
    /// The responder lacks the key for the pattern.
    #[error("the peer asks for a kind of handshake for which there is no key here")]
    NoKey(Pattern),
    /// A method was called in the wrong order.
    #[error("this is not the turn of that handshake message")]
    OutOfTurn,
    /// The Noise library refused its parameters.
    #[error("the handshake could not be set up")]
    SetUp,
}

/// Result of a handshake: the peer's identity, and the traffic secrets, which are wiped on drop.
///
/// **Trust by the responder:** in `XX` immediately, since the initiator proved its key by the third message. In `IK`
/// and `NNpsk0` the first message may be a replay: until the first encrypted datagram is opened, the responder may only
/// send replies, and must not report the connection to the application.
pub struct Established {
    role: Role,
    pattern: Pattern,
    peer: Option<PublicKey>,
    pre_shared: Option<Fingerprint>,
    handshake_hash: [u8; 32],
    from_initiator: Secret,
    from_responder: Secret,
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, pattern, peer, .. } = self;
        let mut shown = f.debug_struct("Established");
        shown.field("role", role).field("pattern", pattern).field("peer", peer).finish_non_exhaustive()
    }
}

impl Established {
    /// Returns the role of this endpoint.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the pattern of the handshake.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// Returns the static key of the peer; `None` with a pre-shared key.
    #[must_use]
    pub fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    /// Returns the fingerprint of the pre-shared key; `None` without one.
    #[must_use]
    pub fn pre_shared(&self) -> Option<Fingerprint> {
        self.pre_shared
    }

    /// Returns the hash of the whole handshake, equal at both endpoints and unique to this connection: a channel
    /// binding for protocols above (`spec/security.md` \[noise-9\]). It is not secret.
    #[must_use]
    pub fn handshake_hash(&self) -> [u8; 32] {
        self.handshake_hash
    }

    /// Derives the keys of both directions, for the cipher negotiated in the payloads. The secrets are wiped, so that a
    /// second pair of keys, which would repeat nonces, cannot be made.
    #[must_use]
    pub fn into_keys(self, cipher: Cipher) -> (SealKeys, OpenKeys) {
        let (mine, theirs) = (self.role.sends(), self.role.receives());
        (SealKeys::new(cipher, mine, self.traffic(mine)), OpenKeys::new(cipher, theirs, self.traffic(theirs)))
    }

    /// Returns true if `sealed` (payload and tag after `header`) is the peer's datagram with this `number` under
    /// `cipher`; then its payload is decrypted in place. The keys are derived for this call only, so that a responder
    /// that waits for the first datagram keeps no state about forgeries.
    #[must_use]
    pub fn opens(&self, cipher: Cipher, number: u64, header: &[u8], sealed: &mut [u8]) -> bool {
        let theirs = self.role.receives();
        OpenKeys::new(cipher, theirs, self.traffic(theirs)).open(number, header, sealed).is_ok()
    }

    fn traffic(&self, direction: Direction) -> &Secret {
        match direction {
            Direction::FromInitiator => &self.from_initiator,
            Direction::FromResponder => &self.from_responder,
        }
    }

    /// Returns the traffic secrets: first of the direction from the initiator, then of the direction from the responder
    /// (`spec/security.md` \[noise-9\]). **They permit reading and forging every datagram of the connection**, in all
    /// epochs. They are for a key log that the user has requested (\[keylog-1\]), and for tests.
    #[must_use]
    pub fn danger_traffic_secrets(&self) -> [&[u8; 32]; 2] {
        [&self.from_initiator.0, &self.from_responder.0]
    }
}
