//! State machines of the two sides of a pairing, without I/O.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use ring::hmac;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

use super::code::Code;
use super::error::{PairingError, Refusal};

/// Length in bytes of a handshake hash, of a group element, and of a confirmation.
pub const BODY_BYTES: usize = 32;

const SENDER_IDENTITY: &[u8] = b"DFCP 1 pairing sender\0";
const RECEIVER_IDENTITY: &[u8] = b"DFCP 1 pairing receiver\0";
const SENDER_CONFIRMS: &[u8] = b"DFCP 1 pairing sender confirms\0";
const RECEIVER_CONFIRMS: &[u8] = b"DFCP 1 pairing receiver confirms\0";

/// Byte by which the crate `spake2` marks the side of an element. The frames identify the side, so the byte is not sent.
const SIDE_A: u8 = b'A';
const SIDE_B: u8 = b'B';

/// Pairing at the side that was given the code.
#[derive(Debug)]
pub struct SenderPairing(Started);

/// Pairing at the side that made the code.
#[derive(Debug)]
pub struct ReceiverPairing(Started);

/// Sender that has sent its confirmation and awaits the receiver's confirmation.
#[derive(Debug)]
pub struct AwaitReceiver(Agreed);

/// Receiver that confirms only after the sender has.
#[derive(Debug)]
pub struct AwaitSender(Agreed);

impl SenderPairing {
    /// Starts a pairing over the connection with this handshake hash. `seed` must be unpredictable and used once (\[pair-1\]). Returns the
    /// element to send.
    #[must_use]
    pub fn start(code: &Code, handshake_hash: &[u8; 32], seed: &[u8; 32]) -> (Self, [u8; BODY_BYTES]) {
        let (started, element) = Started::new(SIDE_A, code, handshake_hash, seed);
        (Self(started), element)
    }

    /// Takes the receiver's element, and returns the confirmation to send. The confirmation reveals only whether the
    /// codes are equal, and only to the receiver.
    ///
    /// # Errors
    /// Fails if the bytes are no element of the group.
    pub fn finish(self, element: &[u8; BODY_BYTES]) -> Result<(AwaitReceiver, [u8; BODY_BYTES]), PairingError> {
        let agreed = self.0.finish(SIDE_B, element)?;
        let confirmation = agreed.confirmation(SENDER_CONFIRMS);
        Ok((AwaitReceiver(agreed), confirmation))
    }
}

impl AwaitReceiver {
    /// Checks the receiver's confirmation; `Ok` proves that the peer knows the code and that there is no man in the middle.
    ///
    /// # Errors
    /// Fails with [`Refusal::WrongCode`].
    pub fn verify(self, confirmation: &[u8; BODY_BYTES]) -> Result<(), Refusal> {
        self.0.verify(RECEIVER_CONFIRMS, confirmation)
    }
}

impl ReceiverPairing {
    /// Starts a pairing, as [`SenderPairing::start`] does.
    #[must_use]
    pub fn start(code: &Code, handshake_hash: &[u8; 32], seed: &[u8; 32]) -> (Self, [u8; BODY_BYTES]) {
        let (started, element) = Started::new(SIDE_B, code, handshake_hash, seed);
        (Self(started), element)
    }

    /// Takes the sender's element. Nothing is sent until the sender has confirmed.
    ///
    /// # Errors
    /// Fails if the bytes are no element of the group.
    pub fn finish(self, element: &[u8; BODY_BYTES]) -> Result<AwaitSender, PairingError> {
        self.0.finish(SIDE_A, element).map(AwaitSender)
    }
}

impl AwaitSender {
    /// Checks the sender's confirmation, which tests one guess at the code. Returns the receiver's confirmation only on
    /// success (`spec/pairing.md` \[pair-3\]).
    ///
    /// # Errors
    /// Fails with [`Refusal::WrongCode`].
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

/// Key that only two sides with the same code and connection share.
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
        // The comparison takes constant time.
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

/// Adapter of this workspace's generator to the traits of `spake2`.
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
