//! Encryption and authentication of datagrams (`spec/security.md` §3).
//!
//! # Why no nonce repeats under a key
//!
//! An AEAD loses all its security if a nonce repeats under one key. The full argument that none repeats:
//!
//! 1. The nonce is the key epoch's initialisation vector XOR the 64-bit datagram number in its last eight bytes. XOR
//!    with a constant is one to one, so different numbers have different nonces under one key (\[seal-4\]).
//! 2. One counter numbers all datagrams of a direction, including retransmissions and control. [`SealKeys::seal`]
//!    refuses a number that is not above the last number that it accepted, even if sealing that one failed
//!    (\[seal-5\]). `SealKeys` is not `Clone`, and cannot be made twice from one handshake: `Established::into_keys`
//!    consumes the secrets.
//! 3. The key follows from the traffic secret, the direction, the cipher and the epoch, which is the number divided by
//!    2²⁸. Each direction has its own traffic secret and label. Each connection has fresh secrets, because both ends
//!    put a fresh ephemeral key into the handshake.
//!
//! # Limits
//!
//! At most 2²⁸ datagrams of at most 2048 bytes, hence 2³⁵ cipher blocks of 16 bytes, are sealed under one key. The
//! classical bound for counter mode, σ²/2¹²⁹, puts a distinguisher's advantage below 2⁻⁵⁸ (ChaCha20 has no such bound).
//! Datagrams with a wrong tag are counted over all epochs, and at the limit of RFC 9001 §6.6 the connection must end.

mod open;
mod recorded;
mod seal;
#[cfg(test)]
mod tests;

use ring::aead;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::role::Direction;
use crate::schedule;

pub use open::{OpenError, OpenKeys, PREVIOUS_EPOCH_DATAGRAMS};
pub use recorded::RecordedKeys;
pub use seal::{SealError, SealKeys};

/// Length of an authentication tag, bytes; the same for every cipher.
pub const TAG_BYTES: usize = 16;

/// Number of bits by which a datagram number is shifted to get its key epoch.
pub const EPOCH_SHIFT: u32 = 28;

/// Maximum length of header, plaintext and tag together, bytes. The limits on one key's use rely on it.
pub const SEALED_BYTES_MAX: usize = 2048;

/// Returns the key epoch of a datagram number. The header of a segment carries the epoch modulo 4.
#[must_use]
pub fn epoch_of(number: u64) -> u64 {
    number >> EPOCH_SHIFT
}

/// AEAD cipher of datagrams.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::Cipher;
///
/// assert_eq!(Cipher::from_id(Cipher::Aes128Gcm.id()), Some(Cipher::Aes128Gcm));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// AES-128 in Galois/Counter Mode; wire id 1.
    Aes128Gcm,
    /// AES-256 in Galois/Counter Mode; wire id 2.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439); wire id 3.
    ChaCha20Poly1305,
}

impl Cipher {
    /// All ciphers, in the order of their ids.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Returns the id of the cipher in handshake payloads and key labels.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Aes128Gcm => 1,
            Self::Aes256Gcm => 2,
            Self::ChaCha20Poly1305 => 3,
        }
    }

    /// Returns the cipher with this id, or `None` if there is none.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.id() == id)
    }

    /// Returns true if this CPU has the instructions for fast AES-GCM: AES and carry-less multiplication.
    #[must_use]
    pub fn cpu_has_aes() -> bool {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
        return false;
    }

    /// Returns the number of datagrams with a wrong tag after which a connection must end (RFC 9001 §6.6).
    fn forged_max(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }
}

/// A secret from which keys are derived.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret(pub(crate) [u8; 32]);

/// Chain of epoch secrets of one direction. Each secret gives the next one, but not the previous one (\[seal-3\]).
struct Chain {
    cipher: Cipher,
    direction: Direction,
    /// Secret of the first epoch whose key was not made yet.
    secret: Secret,
}

impl Chain {
    /// Starts the chain at epoch 0.
    fn new(cipher: Cipher, direction: Direction, traffic: &Secret) -> Self {
        let context = [direction as u8, cipher.id()];
        Self { cipher, direction, secret: Secret(*schedule::expand(&traffic.0, "epoch 0", &context)) }
    }

    /// Makes the key of the next epoch. The secret of the following epoch replaces the secret that the key was derived
    /// from.
    fn next_key(&mut self) -> EpochKey {
        let context = [self.direction as u8, self.cipher.id()];
        let key = EpochKey::new(self.cipher, &self.secret, &context);
        self.secret = Secret(*schedule::expand(&self.secret.0, "next epoch", &context));
        key
    }
}

/// Key of one epoch, ready for use. It is boxed, so that it has a single location, which this type overwrites on drop;
/// the library does not.
struct EpochKey {
    cipher: Cipher,
    key: Box<aead::LessSafeKey>,
    iv: [u8; aead::NONCE_LEN],
}

impl EpochKey {
    fn new(cipher: Cipher, secret: &Secret, context: &[u8; 2]) -> Self {
        let iv = *schedule::expand(&secret.0, "iv", context);
        let key = match cipher {
            Cipher::Aes128Gcm => keyed(cipher, &*schedule::expand::<16>(&secret.0, "key", context)),
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => {
                keyed(cipher, &*schedule::expand::<32>(&secret.0, "key", context))
            }
        };
        Self { cipher, key: Box::new(key), iv }
    }

    fn nonce_bytes(&self, number: u64) -> [u8; aead::NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        nonce
    }

    fn nonce(&self, number: u64) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(self.nonce_bytes(number))
    }
}

/// Makes the library's key from `bytes`, which must have the cipher's key length.
fn keyed(cipher: Cipher, bytes: &[u8]) -> aead::LessSafeKey {
    let algorithm = match cipher {
        Cipher::Aes128Gcm => &aead::AES_128_GCM,
        Cipher::Aes256Gcm => &aead::AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    };
    aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, bytes).expect("the key has the cipher's length"))
}

impl Drop for EpochKey {
    /// Overwrites the expanded key with an all-zero key of the same cipher, and so of the same size.
    fn drop(&mut self) {
        self.iv.zeroize();
        let zeros = [0; 32];
        *self.key = keyed(self.cipher, if self.cipher == Cipher::Aes128Gcm { &zeros[..16] } else { &zeros });
        // Without this barrier the compiler may omit a write whose value is never read.
        std::hint::black_box(&self.key);
    }
}
