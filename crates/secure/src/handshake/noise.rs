//! Wrapper of the Noise library with this crate's primitives, and ephemeral keys from a seed.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroize as _;

use super::primitives::{ChaChaPoly, Sha256, X25519};
use super::{Established, HandshakeError, MESSAGE_BYTES_MAX, Pattern};
use crate::keys::{Fingerprint, PreSharedKey, PublicKey, StaticKey};
use crate::packet::Secret;
use crate::role::Role;

/// Keys of one endpoint for a handshake.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    pub(super) own: Option<&'a StaticKey>,
    pub(super) peer: Option<&'a PublicKey>,
    pub(super) pre_shared: Option<&'a PreSharedKey>,
}

/// A handshake in progress. Each message is read or written completely, or not at all.
pub(super) struct Noise {
    state: snow::HandshakeState,
    pattern: Pattern,
    role: Role,
    pre_shared: Option<Fingerprint>,
    /// Number of messages read and written.
    done: usize,
}

impl Noise {
    pub(super) fn new(
        pattern: Pattern,
        role: Role,
        prologue: &[u8],
        seed: &[u8; 32],
        keys: Keys<'_>,
    ) -> Result<Self, HandshakeError> {
        let build = || -> Result<snow::HandshakeState, snow::Error> {
            let resolver = Box::new(Resolver { seed: *seed, own: keys.own.cloned() });
            let mut builder = snow::Builder::with_resolver(pattern.name().parse()?, resolver).prologue(prologue)?;
            if let Some(own) = keys.own {
                builder = builder.local_private_key(own.private())?;
            }
            if let Some(peer) = keys.peer {
                builder = builder.remote_public_key(&peer.0)?;
            }
            if let Some(pre_shared) = keys.pre_shared {
                builder = builder.psk(0, pre_shared.bytes())?;
            }
            match role {
                Role::Initiator => builder.build_initiator(),
                Role::Responder => builder.build_responder(),
            }
        };
        let state = build().map_err(|_| HandshakeError::SetUp)?;
        let pre_shared = keys.pre_shared.map(PreSharedKey::fingerprint);
        Ok(Self { state, pattern, role, pre_shared, done: 0 })
    }

    pub(super) fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// Checks that message `index` (0 to 2) is the next message.
    pub(super) fn require(&self, index: usize) -> Result<(), HandshakeError> {
        if self.done == index && index < self.pattern.messages() { Ok(()) } else { Err(HandshakeError::OutOfTurn) }
    }

    /// Writes the next message to `out`, and returns its length.
    pub(super) fn write(&mut self, payload: &[u8], out: &mut [u8]) -> Result<usize, HandshakeError> {
        let overhead = self.pattern.overheads().get(self.done).ok_or(HandshakeError::OutOfTurn)?;
        let needed = overhead + payload.len();
        if needed > MESSAGE_BYTES_MAX {
            return Err(HandshakeError::PayloadTooLong(payload.len()));
        }
        if out.len() < needed {
            return Err(HandshakeError::BufferTooSmall { needed, available: out.len() });
        }
        // The library requires space for a tag even for plaintext payloads.
        let mut message = [0; MESSAGE_BYTES_MAX + 16];
        let length = self.state.write_message(payload, &mut message).map_err(refused)?;
        out[..length].copy_from_slice(&message[..length]);
        self.done += 1;
        Ok(length)
    }

    /// Reads the next message, writes its payload to `out`, and returns the payload's length. Output of a refused
    /// message is wiped.
    pub(super) fn read(&mut self, message: &[u8], out: &mut [u8]) -> Result<usize, HandshakeError> {
        let overhead = self.pattern.overheads().get(self.done).ok_or(HandshakeError::OutOfTurn)?;
        let length = message.len().checked_sub(*overhead).filter(|_| message.len() <= MESSAGE_BYTES_MAX);
        let needed = length.ok_or(HandshakeError::Length(message.len()))?;
        if out.len() < needed {
            return Err(HandshakeError::BufferTooSmall { needed, available: out.len() });
        }
        let read = self.state.read_message(message, out);
        if read.is_err() {
            out[..needed].zeroize();
        }
        let length = read.map_err(refused)?;
        self.done += 1;
        Ok(length)
    }

    pub(super) fn peer(&self) -> Option<PublicKey> {
        self.state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey)
    }

    pub(super) fn established(mut self) -> Result<Established, HandshakeError> {
        if self.done != self.pattern.messages() {
            return Err(HandshakeError::OutOfTurn);
        }
        let handshake_hash = self.state.get_handshake_hash().try_into().map_err(|_| HandshakeError::SetUp)?;
        let (mut first, mut second) = self.state.dangerously_get_raw_split();
        let (from_initiator, from_responder) = (Secret(first), Secret(second));
        first.zeroize();
        second.zeroize();
        let (role, pattern, pre_shared) = (self.role, self.pattern, self.pre_shared);
        let peer = if pattern == Pattern::PreShared { None } else { self.peer() };
        Ok(Established { role, pattern, peer, pre_shared, handshake_hash, from_initiator, from_responder })
    }
}

fn refused(error: snow::Error) -> HandshakeError {
    match error {
        snow::Error::Dh => HandshakeError::WeakKey,
        snow::Error::State(_) => HandshakeError::OutOfTurn,
        _ => HandshakeError::Refused,
    }
}

/// Resolver that gives the Noise library this crate's primitives and seeded random numbers.
struct Resolver {
    seed: [u8; 32],
    /// Wiped when dropped.
    own: Option<StaticKey>,
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Seeded(ChaCha20Rng::from_seed(self.seed))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::new(X25519::knowing(self.own.clone())) as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        (*choice == HashChoice::SHA256).then(|| Box::new(Sha256::default()) as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        (*choice == CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly::default()) as Box<dyn Cipher>)
    }
}

struct Seeded(ChaCha20Rng);

impl Random for Seeded {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(dest);
        Ok(())
    }
}
