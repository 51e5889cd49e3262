//! Initiator: the endpoint that sends the first handshake message.

use std::fmt;

use zeroize::Zeroizing;

use super::noise::{Keys, Noise};
use super::{Established, HandshakeError, Pattern};
use crate::keys::{Fingerprint, PreSharedKey, PublicKey, StaticKey};
use crate::role::Role;

/// Keys of an initiator. They determine the pattern.
#[derive(Clone, Debug)]
pub enum InitiatorKeys {
    /// The responder's key is unknown: [`Pattern::FirstContact`].
    FirstContact {
        /// Static key of this endpoint.
        own: StaticKey,
        /// Fingerprint of the responder's key, if configured.
        expected: Option<Fingerprint>,
    },
    /// The responder's key is known: [`Pattern::Pinned`].
    Pinned {
        /// Static key of this endpoint.
        own: StaticKey,
        /// Public key of the responder.
        responder: PublicKey,
    },
    /// Both endpoints have a pre-shared key: [`Pattern::PreShared`].
    PreShared(PreSharedKey),
}

impl InitiatorKeys {
    /// Returns the pattern for these keys.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        match self {
            Self::FirstContact { .. } => Pattern::FirstContact,
            Self::Pinned { .. } => Pattern::Pinned,
            Self::PreShared(_) => Pattern::PreShared,
        }
    }

    fn keys(&self) -> Keys<'_> {
        let none = Keys { own: None, peer: None, pre_shared: None };
        match self {
            Self::FirstContact { own, .. } => Keys { own: Some(own), ..none },
            Self::Pinned { own, responder } => Keys { own: Some(own), peer: Some(responder), ..none },
            Self::PreShared(key) => Keys { pre_shared: Some(key), ..none },
        }
    }
}

/// Initiator's side of one handshake. Methods must be called in this order: [`write_first`](Initiator::write_first),
/// [`read_second`](Initiator::read_second), [`write_third`](Initiator::write_third) (for [`Pattern::FirstContact`]
/// only), and [`finish`](Initiator::finish). Other orders fail with [`HandshakeError::OutOfTurn`].
pub struct Initiator {
    keys: InitiatorKeys,
    prologue: Box<[u8]>,
    seed: Zeroizing<[u8; 32]>,
    first_payload: Box<[u8]>,
    noise: Noise,
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Initiator {
    /// Starts a handshake. `prologue` is data on which both endpoints must agree without sending it. `seed` must be 32
    /// unpredictable bytes, used for this handshake only.
    ///
    /// # Errors
    /// Fails with [`HandshakeError::SetUp`] if the Noise library refuses its parameters, which no keys can cause.
    pub fn new(keys: InitiatorKeys, prologue: &[u8], seed: [u8; 32]) -> Result<Self, HandshakeError> {
        let seed = Zeroizing::new(seed);
        let noise = Noise::new(keys.pattern(), Role::Initiator, prologue, &seed, keys.keys())?;
        Ok(Self { keys, prologue: prologue.into(), seed, first_payload: Box::default(), noise })
    }

    /// Returns the pattern of this handshake.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        self.noise.pattern()
    }

    /// Writes the first message to `out` and returns its length. The caller must keep the bytes, as retransmissions
    /// must be identical.
    ///
    /// # Errors
    /// Fails with a [`HandshakeError`]; the state is unchanged.
    pub fn write_first(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, HandshakeError> {
        self.noise.require(0)?;
        let length = self.noise.write(payload, out)?;
        self.first_payload = payload.into();
        Ok(length)
    }

    /// Reads the second message and writes its payload to `out`. A buffer of the message's length always suffices.
    /// Returns the payload's length.
    ///
    /// # Errors
    /// Fails with a [`HandshakeError`]; the state is unchanged, and another message can be read.
    pub fn read_second(&mut self, message: &[u8], out: &mut [u8]) -> Result<usize, HandshakeError> {
        self.noise.require(1)?;
        let length = self.noise.read(message, out)?;
        if let InitiatorKeys::FirstContact { expected: Some(expected), .. } = self.keys {
            let peer = self.noise.peer().ok_or(HandshakeError::SetUp)?.fingerprint();
            if peer != expected {
                out[..length].fill(0);
                self.noise = self.rebuilt()?;
                return Err(HandshakeError::UnexpectedKey(peer));
            }
        }
        Ok(length)
    }

    /// Reverts [`read_second`](Self::read_second), for a caller that does not trust the message: at first contact
    /// anyone can write a second message, with their own key. The genuine second message can still be read.
    ///
    /// # Errors
    /// Fails with [`HandshakeError::OutOfTurn`] unless the second message was read last.
    pub fn refuse_second(&mut self) -> Result<(), HandshakeError> {
        self.noise.require(2)?;
        self.noise = self.rebuilt()?;
        Ok(())
    }

    /// Returns the responder's static key: with a pinned key from the start, at first contact after the second message
    /// was read. So the user can confirm the key before the third message is written.
    #[must_use]
    pub fn peer(&self) -> Option<PublicKey> {
        match self.pattern() {
            Pattern::FirstContact => self.noise.require(2).is_ok().then(|| self.noise.peer()).flatten(),
            Pattern::Pinned => self.noise.peer(),
            Pattern::PreShared => None,
        }
    }

    /// Writes the third message ([`Pattern::FirstContact`] only) to `out` and returns its length. The caller must keep
    /// the bytes, as retransmissions must be identical.
    ///
    /// # Errors
    /// Fails with a [`HandshakeError`]; the state is unchanged.
    pub fn write_third(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, HandshakeError> {
        self.noise.require(2)?;
        self.noise.write(payload, out)
    }

    /// Returns the result of the handshake, after all messages of the pattern were read and written.
    ///
    /// # Errors
    /// Fails with [`HandshakeError::OutOfTurn`] if messages are missing.
    pub fn finish(self) -> Result<Established, HandshakeError> {
        self.noise.established()
    }

    /// Rebuilds the state after the first message: the library cannot revert a message that it has accepted.
    fn rebuilt(&self) -> Result<Noise, HandshakeError> {
        let mut noise = Noise::new(self.pattern(), Role::Initiator, &self.prologue, &self.seed, self.keys.keys())?;
        noise.write(&self.first_payload, &mut [0; super::MESSAGE_BYTES_MAX])?;
        Ok(noise)
    }
}
