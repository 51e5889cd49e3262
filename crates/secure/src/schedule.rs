//! Key derivation: HKDF-SHA256 (RFC 5869) with this protocol's labels (`spec/security.md` \[key-1\]).

use ring::hkdf;
use zeroize::Zeroizing;

const PREFIX: &[u8] = b"DFCP 2 ";

/// HKDF-Expand with the pseudorandom key `secret` and the info `"DFCP 2 " label 0x00 context`.
pub(crate) fn expand<const N: usize>(secret: &[u8; 32], label: &str, context: &[u8]) -> Zeroizing<[u8; N]> {
    expand_from(&hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret), label, context)
}

/// HKDF-Extract with an empty salt, then HKDF-Expand, for input that is not uniformly random.
pub(crate) fn extract_and_expand<const N: usize>(input: &[u8], label: &str) -> Zeroizing<[u8; N]> {
    expand_from(&hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(input), label, &[])
}

fn expand_from<const N: usize>(key: &hkdf::Prk, label: &str, context: &[u8]) -> Zeroizing<[u8; N]> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut out = Zeroizing::new([0; N]);
    key.expand(&[PREFIX, label.as_bytes(), &[0], context], Length(N))
        .and_then(|material| material.fill(out.as_mut_slice()))
        .expect("HKDF-SHA256 gives any length up to 8160 bytes");
    out
}
