//! Keys as text and files, and cookies (`spec/security.md` §1 and §5).

use dfcp_secure::{
    CookieJar, Fingerprint, HandshakeError, Initiator, InitiatorKeys, KeyError, MESSAGE_BYTES_MAX,
    PRE_SHARED_BYTES_MIN, Pattern, PreSharedKey, PublicKey, Responder, ResponderKeys,
};

use crate::input::{Input, mutate};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Parses the input as a key, a fingerprint, a key file or a cookie; the first byte selects which.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(4) {
        0 => text(input.all()),
        1 => {
            let mut changed = public_text(&mut input);
            mutate(&mut input, &mut changed);
            text(&changed);
        }
        2 => key_file(&mut input),
        _ => cookie(&mut input),
    }
}

fn public_text(input: &mut Input<'_>) -> Vec<u8> {
    let mut key = [0; 32];
    let bytes = input.bytes(32);
    key[..bytes.len()].copy_from_slice(bytes);
    let key = PublicKey(key);
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(key.fingerprint().to_string().parse(), Ok(key.fingerprint()));
    if input.bool() { key.to_string().into_bytes() } else { key.fingerprint().to_string().into_bytes() }
}

/// Independent decoder: 43 digits of 6 bits, the last two bits zero, one optional `=`.
fn base64(text: &str) -> Option<[u8; 32]> {
    let text = text.strip_suffix('=').unwrap_or(text);
    let digits: Option<Vec<u8>> =
        text.bytes().map(|byte| ALPHABET.iter().position(|known| *known == byte).map(|at| at as u8)).collect();
    let digits = digits.filter(|digits| digits.len() == 43 && digits[42] & 3 == 0)?;
    let mut out = [0; 32];
    for (at, byte) in out.iter_mut().enumerate() {
        let bits = (0..8).map(|bit| at * 8 + bit).map(|bit| digits[bit / 6] >> (5 - bit % 6) & 1);
        *byte = bits.fold(0, |byte, bit| byte << 1 | bit);
    }
    Some(out)
}

/// Checks that a parsed key equals the result of the independent decoder, and is printed as it was written.
fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let key = text.parse::<PublicKey>();
    assert_eq!(key, base64(text).map(PublicKey).ok_or(KeyError::PublicKeyText));
    let fingerprint = text.parse::<Fingerprint>();
    let expected = text.strip_prefix("SHA256:").and_then(base64).map(Fingerprint);
    assert_eq!(fingerprint, expected.ok_or(KeyError::FingerprintText));
    let shown = key.map(|key| key.to_string()).or_else(|_| fingerprint.map(|fingerprint| fingerprint.to_string()));
    if let Ok(shown) = shown {
        assert_eq!(shown, text.strip_suffix('=').unwrap_or(text));
    }
}

/// Significant part of a key file: all of it except one LF or CR LF at the end.
fn line(content: &[u8]) -> &[u8] {
    match content {
        [line @ .., b'\r', b'\n'] | [line @ .., b'\n'] => line,
        line => line,
    }
}

/// Checks that two files have the same key exactly if they are equal without one line end. Keys are compared through a
/// handshake message.
fn key_file(input: &mut Input<'_>) {
    let edit = input.below(5);
    let bytes = input.bytes(4);
    let content = input.all().to_vec();
    let mut other = content.clone();
    match edit {
        0 => other.push(b'\n'),
        1 => other.extend_from_slice(b"\r\n"),
        2 => other.push(b'\r'),
        3 => other.extend_from_slice(b"\n\n"),
        _ => mutate(&mut Input::new(bytes), &mut other),
    }
    let read = |content: &[u8]| {
        let key = PreSharedKey::from_file_content(content);
        let too_short = content.len() < PRE_SHARED_BYTES_MIN;
        assert_eq!(key.as_ref().err(), too_short.then_some(&KeyError::PreSharedTooShort(content.len())));
        key.ok()
    };
    let (Some(key), Some(other_key)) = (read(&content), read(&other)) else { return };
    assert_eq!(is_same(key, other_key), line(&content) == line(&other));
}

fn is_same(key: PreSharedKey, other: PreSharedKey) -> bool {
    let mut message = [0; MESSAGE_BYTES_MAX];
    let mut initiator = Initiator::new(InitiatorKeys::PreShared(key), b"", [1; 32]).expect("the key is the pattern's");
    let length = initiator.write_first(b"", &mut message).expect("room for the message");
    let keys = ResponderKeys { own: None, pre_shared: Some(other) };
    match Responder::read_first(&keys, Pattern::PreShared, b"", [2; 32], &message[..length], &mut []) {
        Ok(_) => true,
        Err(HandshakeError::Refused) => false,
        Err(error) => panic!("a message under another key: {error}"),
    }
}

/// Checks that a cookie is valid only with the values for which it was issued, in its time step and the next one, and
/// that no other bytes are.
fn cookie(input: &mut Input<'_>) {
    let jar = CookieJar::new([7; 32]);
    let (step, id) = (input.number(), input.number32());
    let (address, message) = (input.short_bytes().to_vec(), input.short_bytes().to_vec());
    let issued = jar.issue(step, &address, id, &message);
    assert!(jar.verify(step, &address, id, &message, &issued));

    let (mut now, mut other_id, mut other_address, mut other_message) = (step, id, address.clone(), message.clone());
    let mut shown = issued.to_vec();
    match input.below(5) {
        0 => now = input.number_near(step),
        1 => other_id = input.number32(),
        2 => mutate(input, &mut other_address),
        3 => mutate(input, &mut other_message),
        _ => mutate(input, &mut shown),
    }
    let same = (other_id, &other_address, &other_message, &shown[..]) == (id, &address, &message, &issued[..]);
    let in_time = now == step || Some(now) == step.checked_add(1);
    let verified = jar.verify(now, &other_address, other_id, &other_message, &shown);
    assert_eq!(verified, same && in_time);
    assert!(!CookieJar::new([8; 32]).verify(step, &address, id, &message, &issued));
}
