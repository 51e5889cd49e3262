//! Responder: the endpoint that answers the first handshake message.

use std::fmt;

use zeroize::{Zeroize as _, Zeroizing};

use super::noise::{Keys, Noise};
use super::{Established, HandshakeError, MESSAGE_BYTES_MAX, Pattern};
use crate::curve::is_of_low_order;
use crate::keys::{PreSharedKey, PublicKey, StaticKey};
use crate::role::Role;

/// Keys of a responder, for all its handshakes. A pattern without a key is refused.
#[derive(Clone, Debug, Default)]
pub struct ResponderKeys {
    /// Key for [`Pattern::FirstContact`] and [`Pattern::Pinned`].
    pub own: Option<StaticKey>,
    /// Key for [`Pattern::PreShared`].
    pub pre_shared: Option<PreSharedKey>,
}

impl ResponderKeys {
    fn keys(&self, pattern: Pattern) -> Result<Keys<'_>, HandshakeError> {
        let none = Keys { own: None, peer: None, pre_shared: None };
        let keys = match pattern {
            Pattern::FirstContact | Pattern::Pinned => self.own.as_ref().map(|own| Keys { own: Some(own), ..none }),
            Pattern::PreShared => self.pre_shared.as_ref().map(|key| Keys { pre_shared: Some(key), ..none }),
        };
        keys.ok_or(HandshakeError::NoKey(pattern))
    }
}

/// A responder between reading the first message and writing the second. It takes about 2 kB and should exist within
/// one call only: write the second message immediately, and keep [`Answered`].
pub struct Responder {
    noise: Noise,
    /// Transcript: prologue and first message.
    transcript: Vec<u8>,
    prologue_bytes: usize,
    seed: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("pattern", &self.noise.pattern()).finish_non_exhaustive()
    }
}

/// State of a responder after its answer.
#[derive(Debug)]
pub enum Answered {
    /// The handshake is complete, without a third message ([`Pattern::Pinned`] and [`Pattern::PreShared`]). See
    /// [`Established`] about replays.
    Established(Established),
    /// The handshake waits for the third message ([`Pattern::FirstContact`]).
    HalfOpen(HalfOpen),
}

impl Responder {
    /// Reads a first message and writes its payload to `out`. A buffer of the message's length always suffices. Returns
    /// the responder and the payload's length. `seed` must be 32 unpredictable bytes, used for this handshake only.
    ///
    /// # Errors
    /// Fails with a [`HandshakeError`]; no state of the message is kept.
    pub fn read_first(
        keys: &ResponderKeys,
        pattern: Pattern,
        prologue: &[u8],
        seed: [u8; 32],
        message: &[u8],
        out: &mut [u8],
    ) -> Result<(Self, usize), HandshakeError> {
        if message.len() < pattern.overheads()[0] || message.len() > MESSAGE_BYTES_MAX {
            return Err(HandshakeError::Length(message.len()));
        }
        // The first message of every pattern starts with an ephemeral key. A weak key of an unknown sender must not
        // cost a multiplication. Without this check, patterns other than `Pinned` would detect it only while writing
        // the second message.
        if message.first_chunk().is_some_and(is_of_low_order) {
            return Err(HandshakeError::WeakKey);
        }
        let seed = Zeroizing::new(seed);
        let mut noise = Noise::new(pattern, Role::Responder, prologue, &seed, keys.keys(pattern)?)?;
        let length = noise.read(message, out)?;
        let transcript = if pattern == Pattern::FirstContact { [prologue, message].concat() } else { Vec::new() };
        Ok((Self { noise, transcript, prologue_bytes: prologue.len(), seed }, length))
    }

    /// Returns the initiator's static key, if the first message contains it ([`Pattern::Pinned`]). The message may be a
    /// replay.
    #[must_use]
    pub fn peer(&self) -> Option<PublicKey> {
        if self.noise.pattern() == Pattern::Pinned { self.noise.peer() } else { None }
    }

    /// Writes the second message to `out`. Returns its length and the state to keep. The caller must keep the bytes,
    /// too: a copy of the first message is answered with the same bytes, never with a second encryption
    /// (`spec/security.md` \[noise-5\]).
    ///
    /// # Errors
    /// Fails with a [`HandshakeError`] before any encryption, so the first message may be read again, even with the
    /// same seed.
    pub fn write_second(mut self, payload: &[u8], out: &mut [u8]) -> Result<(usize, Answered), HandshakeError> {
        let length = self.noise.write(payload, out)?;
        if self.noise.pattern() != Pattern::FirstContact {
            return Ok((length, Answered::Established(self.noise.established()?)));
        }
        let message_bytes = self.transcript.len() - self.prologue_bytes;
        let lengths = (u16::try_from(self.prologue_bytes), u16::try_from(message_bytes));
        let (Ok(prologue_bytes), Ok(message_bytes)) = lengths else { return Err(HandshakeError::SetUp) };
        self.transcript.extend_from_slice(payload);
        let half_open = HalfOpen {
            transcript: Some(self.transcript.into_boxed_slice()),
            prologue_bytes,
            message_bytes,
            seed: self.seed,
        };
        Ok((length, Answered::HalfOpen(half_open)))
    }
}

/// A responder that waits for the third message, in little memory. The library's state of 1 to 2 kB is rebuilt from the
/// seed and the transcript when the third message arrives. That takes three curve multiplications. As the state is
/// rebuilt for each message, a forged third message cannot damage it.
pub struct HalfOpen {
    /// Transcript: prologue, first message and second payload; `None` after the third message was read.
    transcript: Option<Box<[u8]>>,
    prologue_bytes: u16,
    message_bytes: u16,
    seed: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for HalfOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HalfOpen").field("memory_bytes", &self.memory_bytes()).finish_non_exhaustive()
    }
}

impl HalfOpen {
    /// Returns the bytes of this value, including its heap, but without the second message, which the caller keeps.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.transcript.as_ref().map_or(0, |transcript| transcript.len())
    }

    /// Reads the third message with the keys of [`Responder::read_first`] and writes its payload to `out`. A buffer of
    /// the message's length always suffices. Returns the result and the payload's length.
    ///
    /// # Errors
    /// Fails with a [`HandshakeError`]; the state is unchanged, and another message can be read. After a success every
    /// call fails with [`HandshakeError::OutOfTurn`], because the same keys must not exist twice.
    pub fn read_third(
        &mut self,
        keys: &ResponderKeys,
        message: &[u8],
        out: &mut [u8],
    ) -> Result<(Established, usize), HandshakeError> {
        let transcript = self.transcript.as_ref().ok_or(HandshakeError::OutOfTurn)?;
        let pattern = Pattern::FirstContact;
        // Check the length before any multiplication, so that an impossible message is cheap.
        if message.len() < pattern.overheads()[2] || message.len() > MESSAGE_BYTES_MAX {
            return Err(HandshakeError::Length(message.len()));
        }
        let (prologue, said) = transcript.split_at(self.prologue_bytes.into());
        let (first, second_payload) = said.split_at(self.message_bytes.into());
        let mut noise = Noise::new(pattern, Role::Responder, prologue, &self.seed, keys.keys(pattern)?)?;
        let mut scratch = [0; MESSAGE_BYTES_MAX];
        noise.read(first, &mut scratch)?;
        noise.write(second_payload, &mut scratch)?;
        let length = noise.read(message, out)?;
        let established = noise.established()?;
        self.transcript = None;
        self.seed.zeroize();
        Ok((established, length))
    }
}
