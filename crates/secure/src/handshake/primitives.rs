//! Primitives of Noise: symmetric ones from the library that also encrypts datagrams, and X25519 from
//! [`curve`](crate::curve). So the program contains only one set of primitives.

use ring::{aead, digest};
use snow::types::{Cipher, Dh, Hash, Random};
use subtle::ConstantTimeEq as _;
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use crate::curve::{public_of, shared_secret};
use crate::keys::StaticKey;
use crate::packet::TAG_BYTES;

const BYTES: usize = 32;

/// An X25519 key pair, initially without keys.
pub(super) struct X25519 {
    /// Static key pair of this endpoint. The Noise library passes only the private key; computing its public key again
    /// would cost a multiplication per message of an unknown sender.
    own: Option<StaticKey>,
    /// Wiped when dropped.
    private: Option<StaticSecret>,
    public: [u8; BYTES],
}

impl X25519 {
    /// Starts without keys. If the private key of `own` is set later, its public key need not be computed.
    pub(super) fn knowing(own: Option<StaticKey>) -> Self {
        Self { own, private: None, public: [0; BYTES] }
    }

    fn set_bytes(&mut self, private: &[u8; BYTES]) {
        self.public = public_of(private);
        self.private = Some(StaticSecret::from(*private));
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        BYTES
    }

    fn priv_len(&self) -> usize {
        BYTES
    }

    fn set(&mut self, privkey: &[u8]) {
        let private: &[u8; BYTES] = privkey.try_into().expect("static keys have 32 bytes");
        match self.own.take().filter(|own| own.private().ct_eq(private).into()) {
            Some(own) => {
                self.public = own.public().0;
                self.private = Some(StaticSecret::from(*private));
            }
            None => self.set_bytes(private),
        }
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        let mut private = Zeroizing::new([0; BYTES]);
        rng.try_fill_bytes(&mut *private)?;
        self.set_bytes(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.private.as_ref().map_or(&[], |private| private.as_bytes())
    }

    /// Computes a shared secret. Fails if the result would not depend on the private key (\[noise-6\]).
    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let private = self.private.as_ref().ok_or(snow::Error::Dh)?;
        let peer: [u8; BYTES] = *pubkey.first_chunk().ok_or(snow::Error::Dh)?;
        let secret = shared_secret(private, peer).ok_or(snow::Error::Dh)?;
        out[..BYTES].copy_from_slice(secret.as_bytes());
        Ok(())
    }
}

/// SHA-256.
pub(super) struct Sha256(digest::Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        *self = Self::default();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(std::mem::take(self).0.finish().as_ref());
    }
}

/// ChaCha20-Poly1305 with the nonces of Noise: four zero bytes, then 64 bits in little-endian order.
#[derive(Default)]
pub(super) struct ChaChaPoly(Option<aead::LessSafeKey>);

fn nonce(number: u64) -> aead::Nonce {
    let mut bytes = [0; aead::NONCE_LEN];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    aead::Nonce::assume_unique_for_key(bytes)
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).ok().map(aead::LessSafeKey::new);
    }

    /// Encrypts a payload. The caller, `Noise::write`, provides space for the tag in `out`, as the trait permits no
    /// error.
    fn encrypt(&self, number: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let key = self.0.as_ref().expect("the Noise library sets a key before it encrypts");
        let (text, rest) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let tag = key.seal_in_place_separate_tag(nonce(number), aead::Aad::from(authtext), text);
        let tag = tag.expect("a message of one datagram is not too long for the cipher");
        rest[..TAG_BYTES].copy_from_slice(tag.as_ref());
        plaintext.len() + TAG_BYTES
    }

    fn decrypt(&self, number: u64, authtext: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, snow::Error> {
        let key = self.0.as_ref().ok_or(snow::Error::Decrypt)?;
        let length = ciphertext.len().checked_sub(TAG_BYTES).ok_or(snow::Error::Decrypt)?;
        let (text, tag) = ciphertext.split_at(length);
        let out = out.get_mut(..length).ok_or(snow::Error::Decrypt)?;
        let tag = aead::Tag::try_from(tag).map_err(|_| snow::Error::Decrypt)?;
        out.copy_from_slice(text);
        let opened = key.open_in_place_separate_tag(nonce(number), aead::Aad::from(authtext), tag, out, 0..);
        opened.map(|_| length).map_err(|_| snow::Error::Decrypt)
    }
}
