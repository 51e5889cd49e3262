//! Long-term keys: static X25519 keys, their fingerprints, and pre-shared keys.

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64Unpadded, Encoding};
use ring::digest;
use thiserror::Error;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{curve::public_of, schedule};

/// Minimum length of a pre-shared key's file, bytes.
pub const PRE_SHARED_BYTES_MIN: usize = 32;

const FINGERPRINT_PREFIX: &str = "SHA256:";

/// Reason why a key was refused.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::{KeyError, PublicKey};
///
/// assert_eq!("not a key".parse::<PublicKey>(), Err(KeyError::PublicKeyText));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text is not a public key.
    #[error("a public key is 43 characters of base64; this text is not")]
    PublicKeyText,
    /// The text is not a fingerprint.
    #[error("a fingerprint is \"SHA256:\" and 43 characters of base64; this text is not")]
    FingerprintText,
    /// The pre-shared key is so short that it could be guessed.
    #[error(
        "a pre-shared key needs at least 32 random bytes, and this one has {0}; make one with: head -c 32 /dev/urandom | base64"
    )]
    PreSharedTooShort(usize),
}

/// A private X25519 key (RFC 7748), which identifies an endpoint. Wiped on drop; `Debug` shows its public key.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::StaticKey;
///
/// let key = StaticKey::from_seed(&[7; 32]); // real programs need 32 unpredictable bytes: `dfcp::generate_key`
/// let stored = key.to_bytes(); // for a file that only its owner can read
/// assert_eq!(StaticKey::from_bytes(&stored).public(), key.public());
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct StaticKey {
    private: [u8; 32],
    #[zeroize(skip)]
    public: PublicKey,
}

impl StaticKey {
    /// Makes a new key from 32 unpredictable bytes; the same seed gives the same key (`spec/security.md` \[key-4\]).
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self::from_bytes(&schedule::expand(seed, "static key", &[]))
    }

    /// Restores a stored key from the bytes of [`StaticKey::to_bytes`]. All 32-byte values are valid keys.
    #[must_use]
    pub fn from_bytes(private: &[u8; 32]) -> Self {
        Self { private: *private, public: PublicKey(public_of(private)) }
    }

    /// Returns the bytes of the private key. They must be stored with read access for the owner only.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.private)
    }

    /// Returns the public key of this private key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn private(&self) -> &[u8; 32] {
        &self.private
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// A public X25519 key. Its text form is 43 characters of base64.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::{PublicKey, StaticKey};
///
/// let key = StaticKey::from_seed(&[7; 32]).public();
/// let told: PublicKey = key.to_string().parse()?;
/// assert_eq!(told, key);
/// # Ok::<(), dfcp::KeyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Returns the SHA-256 hash of the key, for comparison by people.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(sha256(&[&self.0]))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        from_base64(text).map(Self).ok_or(KeyError::PublicKeyText)
    }
}

/// SHA-256 of a public key, or the identifier of a pre-shared key. Its text form is the one of `ssh`: `SHA256:` and 43
/// characters of base64.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::{Fingerprint, StaticKey};
///
/// let fingerprint = StaticKey::from_seed(&[7; 32]).public().fingerprint();
/// assert!(fingerprint.to_string().starts_with("SHA256:"));
/// assert_eq!(fingerprint.to_string().parse::<Fingerprint>()?, fingerprint);
/// # Ok::<(), dfcp::KeyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FINGERPRINT_PREFIX}{}", base64(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digest = text.strip_prefix(FINGERPRINT_PREFIX).and_then(from_base64);
        digest.map(Self).ok_or(KeyError::FingerprintText)
    }
}

/// A secret key given to both endpoints in advance. Wiped on drop, and never displayed.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use dfcp::PreSharedKey;
///
/// let key = PreSharedKey::from_file_content(b"GrnJbm1kSUAaWE4WnW5Xg6M2gkEBqJWQqt9A7Ew2bZc=\n")?;
/// assert!(PreSharedKey::from_file_content(b"swordfish").is_err(), "no password: it can be guessed");
/// # Ok::<(), dfcp::KeyError>(())
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PreSharedKey([u8; 32]);

impl PreSharedKey {
    /// Makes a key from 32 unpredictable bytes, used unchanged.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(*bytes)
    }

    /// Makes a key from the content of a key file: HKDF-SHA256 of the content, without one line end at its end, which
    /// editors add (`spec/security.md` \[key-3\]).
    ///
    /// HKDF is not a password hash: the file must have at least 32 bytes, and they must be random.
    ///
    /// # Errors
    /// Fails with [`KeyError::PreSharedTooShort`] for fewer than [`PRE_SHARED_BYTES_MIN`] bytes.
    pub fn from_file_content(content: &[u8]) -> Result<Self, KeyError> {
        if content.len() < PRE_SHARED_BYTES_MIN {
            return Err(KeyError::PreSharedTooShort(content.len()));
        }
        let line = content.strip_suffix(b"\n").unwrap_or(content);
        let line = line.strip_suffix(b"\r").filter(|_| line.len() < content.len()).unwrap_or(line);
        Ok(Self(*schedule::extract_and_expand(line, "pre-shared key")))
    }

    /// Returns the identifier of the key (`spec/security.md` \[key-5\]). It is not secret: it reveals nothing about a
    /// random key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(*schedule::expand(&self.0, "pre-shared key fingerprint", &[]))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreSharedKey(..)")
    }
}

/// Encodes as base64 of 43 characters (RFC 4648 §4, no padding), like in fingerprints of `ssh`.
fn base64(bytes: &[u8; 32]) -> String {
    Base64Unpadded::encode_string(bytes)
}

/// Decodes the text of [`base64`]; `None` for any other text. One trailing `=` is ignored (\[key-2\]).
fn from_base64(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let decoded = Base64Unpadded::decode(text.strip_suffix('=').unwrap_or(text), &mut bytes).ok()?;
    (decoded.len() == bytes.len()).then_some(bytes)
}

/// Returns SHA-256 of the concatenated `parts`.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Private key of Alice in RFC 7748 §6.1.
    const PRIVATE: [u8; 32] = [
        0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf, 0x4c,
        0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
    ];
    const PUBLIC: [u8; 32] = [
        0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e, 0xf7, 0x5a, 0x0d, 0xbf,
        0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e, 0xaa, 0x9b, 0x4e, 0x6a,
    ];

    #[test]
    fn a_stored_key_is_the_key() {
        let key = StaticKey::from_bytes(&PRIVATE);
        assert_eq!(key.public(), PublicKey(PUBLIC));
        assert_eq!(*key.to_bytes(), PRIVATE);
        assert_eq!(StaticKey::from_bytes(&key.to_bytes()).public(), key.public());
    }

    #[test]
    fn texts_are_read_back() {
        for seed in 0..50 {
            let public = StaticKey::from_seed(&[seed; 32]).public();
            assert_eq!(public.to_string().parse(), Ok(public));
            assert_eq!(public.fingerprint().to_string().parse(), Ok(public.fingerprint()));
        }
        assert_eq!("x".parse::<PublicKey>(), Err(KeyError::PublicKeyText));
        let public = PublicKey(PUBLIC);
        assert_eq!(public.to_string().parse::<Fingerprint>(), Err(KeyError::FingerprintText));
    }

    #[test]
    fn known_texts() {
        assert_eq!(base64(&[0; 32]), "A".repeat(43));
        assert_eq!(base64(&[0xFF; 32]), "/".repeat(42) + "8");
        let counted = core::array::from_fn(|i| i as u8);
        assert_eq!(base64(&counted), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
        assert_eq!(from_base64("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), Some(counted));
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        for bad in [
            "",
            "A",
            &good[1..],
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9",
            &format!("{good}A"),
            &format!("{good}=="),
            &format!("{}=", &good[1..]),
            &good.replace('E', "-"),
            &good.replace('E', " "),
            &good.replace('E', "é"),
        ] {
            assert_eq!(from_base64(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_name_of_a_pre_shared_key_is_that_of_the_specification() {
        let name = |byte| PreSharedKey::from_bytes(&[byte; 32]).fingerprint().to_string();
        assert_eq!(name(3), "SHA256:B/hF48s6P7dmpRrPSdT/jVGJnYi+WSO2oB0muhvChwk");
        assert_ne!(name(3), name(4));
    }

    #[test]
    fn debug_shows_no_secret() {
        let key = StaticKey::from_bytes(&PRIVATE);
        let shown = format!("{key:?} {:?}", PreSharedKey::from_bytes(&PRIVATE));
        assert_eq!(shown, format!("StaticKey {{ public: PublicKey({}), .. }} PreSharedKey(..)", key.public()));
    }

    #[test]
    fn a_line_end_does_not_matter_in_a_key_file() {
        let text = b"0123456789abcdef0123456789abcdef";
        let key = |content: &[u8]| *PreSharedKey::from_file_content(content).unwrap().bytes();
        assert_eq!(key(text), key(&[text.as_slice(), b"\n"].concat()));
        assert_eq!(key(text), key(&[text.as_slice(), b"\r\n"].concat()));
        assert_ne!(key(text), key(&[text.as_slice(), b"\n\n"].concat()));
        assert_ne!(key(text), key(&[text.as_slice(), b"\r"].concat()));
        assert_eq!(PreSharedKey::from_file_content(&text[1..]).unwrap_err(), KeyError::PreSharedTooShort(31));
    }
}
