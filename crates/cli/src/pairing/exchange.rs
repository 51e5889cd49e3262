//! The two sides of a pairing as state machines, without input or output.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use ring::hmac;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

use super::code::Code;
use super::error::{PairingError, Refusal};

/// Bytes of a handshake hash, of an element of the group, and of a confirmation.
pub const BODY_BYTES: usize = 32;

const SENDER_IDENTITY: &[u8] = b"DFCP 1 pairing sender\0";
const RECEIVER_IDENTITY: &[u8] = b"DFCP 1 pairing receiver\0";
const SENDER_CONFIRMS: &[u8] = b"DFCP 1 pairing sender confirms\0";
const RECEIVER_CONFIRMS: &[u8] = b"DFCP 1 pairing receiver confirms\0";

/// Byte that the crate puts before an element to tell the sides apart. Our frames do that, so it is not sent.
const SIDE_A: u8 = b'A';
const SIDE_B: u8 = b'B';

/// The side which was told the code.
#[derive(Debug)]
pub struct SenderPairing(Started);

/// The side which made the code.
#[derive(Debug)]
pub struct ReceiverPairing(Started);

/// A sender which has confirmed and waits for the receiver to do so.
#[derive(Debug)]
pub struct AwaitReceiver(Agreed);

/// A receiver which confirms once the sender has.
#[derive(Debug)]
pub struct AwaitSender(Agreed);

impl SenderPairing {
    /// Begins, over a connection with this handshake hash. `seed` must be unpredictable and never serve twice
    /// (\[pair-1\]). Returns the element to be sent.
    #[must_use]
    pub fn start(code: &Code, handshake_hash: &[u8; 32], seed: &[u8; 32]) -> (Self, [u8; BODY_BYTES]) {
        let (started, element) = Started::new(SIDE_A, code, handshake_hash, seed);
        (Self(started), element)
    }

    /// Takes the receiver's element. Returns the confirmation to be sent, which tells the receiver alone, and only
    /// whether the codes are the same.
    ///
    /// # Errors
    /// It is no element of the group.
    pub fn finish(self, element: &[u8; BODY_BYTES]) -> Result<(AwaitReceiver, [u8; BODY_BYTES]), PairingError> {
        let agreed = self.0.finish(SIDE_B, element)?;
        let confirmation = agreed.confirmation(SENDER_CONFIRMS);
        Ok((AwaitReceiver(agreed), confirmation))
    }
}

impl AwaitReceiver {
    /// Checks the receiver's confirmation; `Ok` means that the peer knows the code and that nobody is between.
    ///
    /// # Errors
    /// [`Refusal::WrongCode`].
    pub fn verify(self, confirmation: &[u8; BODY_BYTES]) -> Result<(), Refusal> {
        self.0.verify(RECEIVER_CONFIRMS, confirmation)
    }
}

impl ReceiverPairing {
    /// As [`SenderPairing::start`].
    #[must_use]
    pub fn start(code: &Code, handshake_hash: &[u8; 32], seed: &[u8; 32]) -> (Self, [u8; BODY_BYTES]) {
        let (started, element) = Started::new(SIDE_B, code, handshake_hash, seed);
        (Self(started), element)
    }

    /// Takes the sender's element. There is nothing to be sent before the sender has confirmed.
    ///
    /// # Errors
    /// It is no element of the group.
    pub fn finish(self, element: &[u8; BODY_BYTES]) -> Result<AwaitSender, PairingError> {
        self.0.finish(SIDE_A, element).map(AwaitSender)
    }
}

impl AwaitSender {
    /// Checks the sender's confirmation: this is where a guess is tested. Returns the receiver's, which cannot be had in
    /// another way (`spec/pairing.md` \[pair-3\]).
    ///
    /// # Errors
    /// [`Refusal::WrongCode`].
    pub fn verify(self, confirmation: &[u8; BODY_BYTES]) -> Result<[u8; BODY_BYTES], Refusal> {
        self.0.verify(SENDER_CONFIRMS, confirmation)?;
        Ok(self.0.confirmation(RECEIVER_CONFIRMS))
    }
}

struct Started {
    spake: Spake2<Ed25519Group>,
    handshake_hash: [u8; 32],
}

impl Started {
    fn new(side: u8, code: &Code, handshake_hash: &[u8; 32], seed: &[u8; 32]) -> (Self, [u8; BODY_BYTES]) {
        let password = Password::new(code.password().as_bytes());
        let sender = Identity::new(&[SENDER_IDENTITY, handshake_hash].concat());
        let receiver = Identity::new(&[RECEIVER_IDENTITY, handshake_hash].concat());
        let random = SeededRandom(ChaCha20Rng::from_seed(*seed));
        let (spake, message) = if side == SIDE_A {
            Spake2::start_a_with_rng(&password, &sender, &receiver, random)
        } else {
            Spake2::start_b_with_rng(&password, &sender, &receiver, random)
        };
        let element = *message.last_chunk().expect("its messages are one byte and a 32-byte element");
        (Self { spake, handshake_hash: *handshake_hash }, element)
    }

    fn finish(self, peer_side: u8, element: &[u8; BODY_BYTES]) -> Result<Agreed, PairingError> {
        let mut message = [peer_side; 1 + BODY_BYTES];
        message[1..].copy_from_slice(element);
        let key = self.spake.finish(&message).map_err(|_| PairingError::Protocol("no element of the group"))?;
        Ok(Agreed { key: Zeroizing::new(key), handshake_hash: self.handshake_hash })
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Started(..)")
    }
}

/// The key that two sides with one code and one connection have in common, and others do not.
struct Agreed {
    key: Zeroizing<Vec<u8>>,
    handshake_hash: [u8; 32],
}

impl Agreed {
    fn confirmation(&self, label: &[u8]) -> [u8; BODY_BYTES] {
        let tag = hmac::sign(&self.mac_key(), &[label, &self.handshake_hash].concat());
        *tag.as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes")
    }

    fn verify(&self, label: &[u8], confirmation: &[u8; BODY_BYTES]) -> Result<(), Refusal> {
        // In constant time.
        hmac::verify(&self.mac_key(), &[label, &self.handshake_hash].concat(), confirmation)
            .map_err(|_| Refusal::WrongCode)
    }

    fn mac_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.key)
    }
}

impl fmt::Debug for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Agreed(..)")
    }
}

/// This workspace's generator under the traits which `spake2` knows.
struct SeededRandom(ChaCha20Rng);

impl rand_core_06::RngCore for SeededRandom {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core_06::Error> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}

impl rand_core_06::CryptoRng for SeededRandom {}
