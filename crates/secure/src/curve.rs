//! X25519 (RFC 7748), by the library that also provides the group of the pairing code.

use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};

const BYTES: usize = 32;

/// Computes the public key of a private key (RFC 7748).
pub(crate) fn public_of(private: &[u8; BYTES]) -> [u8; BYTES] {
    #[cfg(test)]
    count_multiplication();
    PublicKey::from(&StaticSecret::from(*private)).to_bytes()
}

/// Computes the shared secret of a private key and the peer's public key. Returns `None` for the all-zero secret (RFC
/// 7748 §6.1): the public key was of low order, so the result would not depend on the private key.
pub(crate) fn shared_secret(private: &StaticSecret, peer: [u8; BYTES]) -> Option<SharedSecret> {
    #[cfg(test)]
    count_multiplication();
    Some(private.diffie_hellman(&PublicKey::from(peer))).filter(SharedSecret::was_contributory)
}

/// Points of low order of Curve25519 and its twist (RFC 7748 §6.1), in all encodings without the top bit: 0, 1, the two
/// points of order 8, p − 1, p and p + 1.
#[rustfmt::skip] // one point, two lines
pub(crate) const LOW_ORDER: [[u8; BYTES]; 7] = [
    near_a_power(0x00, 0x00),
    near_a_power(0x01, 0x00),
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
        0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b,
        0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
    near_a_power(0xEC, 0xFF),
    near_a_power(0xED, 0xFF),
    near_a_power(0xEE, 0xFF),
];

/// Returns the encoding of a number near 0 or near 2²⁵⁵: its lowest byte is `lowest`, and all other bytes are `others`.
const fn near_a_power(lowest: u8, others: u8) -> [u8; BYTES] {
    let mut bytes = [others; BYTES];
    bytes[0] = lowest;
    bytes[BYTES - 1] &= 0x7F;
    bytes
}

/// Returns true if every shared secret with this public key is zero. A multiplication would reveal that, too, at a
/// higher cost.
pub(crate) fn is_of_low_order(public: &[u8; BYTES]) -> bool {
    // Public keys are not secret, so the comparison may stop at the first difference.
    let mut masked = *public;
    masked[BYTES - 1] &= 0x7F;
    LOW_ORDER.contains(&masked)
}

#[cfg(test)]
thread_local! {
    /// Number of curve multiplications by this thread.
    pub(crate) static MULTIPLICATIONS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count_multiplication() {
    MULTIPLICATIONS.with(|count| count.set(count.get() + 1));
}
