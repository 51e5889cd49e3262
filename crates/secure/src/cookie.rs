//! Stateless cookies: proof that a sender receives at its source address, without memory per address.

use ring::hmac;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::keys::sha256;
use crate::schedule;

/// Length of a cookie, bytes: one for the time step, 16 for the authentication code.
pub const COOKIE_BYTES: usize = 17;

/// A cookie: bytes that a responder asks an initiator to return.
pub type Cookie = [u8; COOKIE_BYTES];

/// Issuer and verifier of a responder's cookies.
///
/// A cookie is bound to the sender's address, its connection id and its first handshake message, so it proves nothing
/// for another address or attempt (`spec/security.md` \[cookie-2\]). It is valid in the time step of its issue and in
/// the next one. The caller defines the time steps (for example, seconds since an epoch divided by 15). Each time step
/// has its own key.
///
/// A cookie may be replayed while it is valid. That is harmless: the replay proves the same address for the same
/// attempt.
pub struct CookieJar {
    seed: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieJar(..)")
    }
}

impl CookieJar {
    /// Makes a jar. `seed` must be 32 unpredictable bytes, used for this jar only.
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed: Zeroizing::new(seed) }
    }

    /// Returns the cookie for an initiator at `address` with the first Noise message `message`, at time step `step`.
    /// The caller defines the byte form of `address`, which includes the port.
    #[must_use]
    pub fn issue(&self, step: u64, address: &[u8], connection_id: u32, message: &[u8]) -> Cookie {
        let key =
            hmac::Key::new(hmac::HMAC_SHA256, &*schedule::expand::<32>(&self.seed, "cookie", &step.to_be_bytes()));
        let mut code = hmac::Context::with_key(&key);
        code.update(&(address.len() as u64).to_be_bytes());
        code.update(address);
        code.update(&connection_id.to_be_bytes());
        code.update(&sha256(&[message]));
        let mut cookie = [0; COOKIE_BYTES];
        let [low, tag @ ..] = &mut cookie;
        *low = step as u8;
        tag.copy_from_slice(&code.sign().as_ref()[..COOKIE_BYTES - 1]);
        cookie
    }

    /// Returns true if the first byte of `cookie` is the low byte of time step `step`. A genuine cookie is then valid
    /// in this step and in the next one.
    #[must_use]
    pub fn is_of(step: u64, cookie: &Cookie) -> bool {
        cookie.first() == Some(&(step as u8))
    }

    /// Returns a connection id for the initiator at `address` with its own `connection_id` and the first Noise message
    /// `message`. The result is always the same for the same arguments, so that copies of a message are recognised
    /// without a table. Other parties cannot predict it. Never 0.
    #[must_use]
    pub fn connection_id(&self, address: &[u8], connection_id: u32, message: &[u8]) -> u32 {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*schedule::expand::<32>(&self.seed, "connection id", &[]));
        let mut code = hmac::Context::with_key(&key);
        code.update(&connection_id.to_be_bytes());
        code.update(&sha256(&[message]));
        code.update(address);
        let code = code.sign();
        let (head, _) = code.as_ref().split_at(4);
        head.iter().fold(0, |id: u32, byte| id << 8 | u32::from(*byte)).max(1)
    }

    /// Returns a keyed hash of a first message and its prologue, under which a refused message is remembered. Other
    /// parties cannot predict it, and so cannot construct two messages with the same hash. Never 0.
    #[must_use]
    pub fn message_hash(&self, prologue: &[u8], message: &[u8]) -> u64 {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*schedule::expand::<32>(&self.seed, "first message", &[]));
        let mut code = hmac::Context::with_key(&key);
        code.update(&(prologue.len() as u64).to_be_bytes());
        code.update(prologue);
        code.update(message);
        let code = code.sign();
        let (head, _) = code.as_ref().split_at(8);
        head.iter().fold(0, |hash: u64, byte| hash << 8 | u64::from(*byte)).max(1)
    }

    /// Returns true if `cookie` was issued for these arguments at time step `step` or the previous one. Compares in
    /// constant time.
    #[must_use]
    pub fn verify(&self, step: u64, address: &[u8], connection_id: u32, message: &[u8], cookie: &[u8]) -> bool {
        let Some(&low) = cookie.first() else { return false };
        // The low byte of the time step selects one of the two keys, so that a forgery costs one code, not two.
        let Some(issued) = [Some(step), step.checked_sub(1)].into_iter().flatten().find(|at| *at as u8 == low) else {
            return false;
        };
        let own = self.issue(issued, address, connection_id, message);
        own.ct_eq(cookie).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADDRESS: &[u8] = &[192, 0, 2, 1, 0x23, 0x28];

    #[test]
    fn holds_in_its_step_and_the_next() {
        let jar = CookieJar::new([7; 32]);
        for step in [0, 1, 255, 256, u64::MAX - 300] {
            let cookie = jar.issue(step, ADDRESS, 9, b"first");
            let accepted: Vec<u64> = (step.saturating_sub(3)..step + 260)
                .filter(|now| jar.verify(*now, ADDRESS, 9, b"first", &cookie))
                .collect();
            assert_eq!(accepted, [step, step + 1]);
        }
    }

    #[test]
    fn connection_ids_are_stable_and_differ() {
        let jar = CookieJar::new([7; 32]);
        let ids: std::collections::BTreeSet<u32> = (0..2_000).map(|id| jar.connection_id(ADDRESS, id, b"m")).collect();
        assert!(ids.len() > 1_998 && !ids.contains(&0));
        assert_eq!(jar.connection_id(ADDRESS, 5, b"m"), jar.connection_id(ADDRESS, 5, b"m"));
        assert_ne!(jar.connection_id(ADDRESS, 5, b"m"), jar.connection_id(&ADDRESS[1..], 5, b"m"));
        assert_ne!(jar.connection_id(ADDRESS, 5, b"m"), jar.connection_id(ADDRESS, 5, b"n"));
        assert_ne!(jar.connection_id(ADDRESS, 5, b"m"), CookieJar::new([8; 32]).connection_id(ADDRESS, 5, b"m"));
    }

    #[test]
    fn message_hashes_differ_with_everything_that_is_read() {
        let hash =
            |seed: u8, prologue: &[u8], message: &[u8]| CookieJar::new([seed; 32]).message_hash(prologue, message);
        let own = hash(7, b"options", b"message");
        assert_eq!(own, hash(7, b"options", b"message"));
        for (seed, prologue, message) in
            [(8, "options", "message"), (7, "option", "smessage"), (7, "0ptions", "message"), (7, "options", "messagE")]
        {
            assert_ne!(own, hash(seed, prologue.as_bytes(), message.as_bytes()), "{seed} {prologue} {message}");
        }
    }

    #[test]
    fn is_bound_to_everything() {
        let jar = CookieJar::new([7; 32]);
        let cookie = jar.issue(5, ADDRESS, 9, b"first");
        assert!(jar.verify(5, ADDRESS, 9, b"first", &cookie));
        assert!(!jar.verify(5, &ADDRESS[1..], 9, b"first", &cookie));
        assert!(!jar.verify(5, ADDRESS, 8, b"first", &cookie));
        assert!(!jar.verify(5, ADDRESS, 9, b"firsT", &cookie));
        assert!(!CookieJar::new([8; 32]).verify(5, ADDRESS, 9, b"first", &cookie));
        for bit in 0..COOKIE_BYTES * 8 {
            let mut forged = cookie;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!jar.verify(5, ADDRESS, 9, b"first", &forged), "bit {bit}");
        }
        for length in 0..COOKIE_BYTES {
            assert!(!jar.verify(5, ADDRESS, 9, b"first", &cookie[..length]));
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_refused(step: u64, address in prop::collection::vec(any::<u8>(), 0..40), id: u32, cookie in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(!CookieJar::new([1; 32]).verify(step, &address, id, b"", &cookie));
        }
    }
}
