//! Noise messages, genuine and forged (`spec/security.md` §2).
//!
//! Forged messages precede each genuine message of a handshake: changed, random, or from another handshake. Each must
//! be refused and change nothing, so that the genuine message is accepted afterwards. The first message of `XX` is
//! authenticated only by later messages: a changed one may be answered, and that answer must be refused.

use std::sync::LazyLock;

use dfcp_secure::{
    Answered, Cipher, Established, HalfOpen, HandshakeError, Initiator, InitiatorKeys, MESSAGE_BYTES_MAX, Pattern,
    PreSharedKey, Responder, ResponderKeys, StaticKey, TAG_BYTES,
};

use crate::input::{Input, filler, mutate};

const PROLOGUE: &[u8] = b"DFCP 2 and the options of a SYN";
const RESPONDER_SEED: [u8; 32] = [5; 32];

/// All messages of one more handshake of each pattern, with the same static keys, as an attacker may have recorded
/// them.
static RECORDED: LazyLock<[Vec<Vec<u8>>; 3]> = LazyLock::new(|| Pattern::ALL.map(record));

/// Runs one handshake with the pattern, the payloads and the forgeries in the input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let pattern = input.pick(&Pattern::ALL);
    let fingerprint = input.bool();
    let mut initiator = initiator(pattern, fingerprint, [4; 32]);
    let first = write(&mut input, |payload, out| initiator.write_first(payload, out));
    assert_eq!(initiator.write_first(b"", &mut [0; MESSAGE_BYTES_MAX]), Err(HandshakeError::OutOfTurn));

    let misled = forge_first(&mut input, pattern, &first.bytes);
    let responder = read_first(pattern, PROLOGUE, &first.bytes).expect("the genuine first message is accepted");
    assert_eq!(responder.1, first.payload);
    let mut kept = None;
    let second = write_once(&mut input, |payload, out| {
        let (length, answered) = responder.0.write_second(payload, out)?;
        kept = Some(answered);
        Ok(length)
    });
    let Some(second) = second else { return }; // the payload was too long, and the responder has only one try
    let kept = kept.expect("who writes the second message keeps something");

    if pattern == Pattern::FirstContact && fingerprint && input.bool() {
        impersonate(&mut initiator, &first.bytes);
    }
    forge_second(&mut input, pattern, &mut initiator, &second.bytes, &misled);
    let payload = read_second(&mut initiator, &second.bytes).expect("the genuine second message is accepted");
    assert_eq!(payload, second.payload);
    assert_eq!(read_second(&mut initiator, &second.bytes), Err(HandshakeError::OutOfTurn));
    let responder = match kept {
        Answered::Established(established) => established,
        Answered::HalfOpen(half_open) => third(&mut input, &mut initiator, half_open),
    };
    agree(initiator.finish().expect("all messages were exchanged"), responder);
}

/// A message, with its payload.
struct Message {
    payload: Vec<u8>,
    bytes: Vec<u8>,
}

fn static_key(seed: u8) -> StaticKey {
    StaticKey::from_seed(&[seed; 32])
}

fn responder_keys() -> ResponderKeys {
    ResponderKeys { own: Some(static_key(2)), pre_shared: Some(PreSharedKey::from_bytes(&[3; 32])) }
}

fn initiator(pattern: Pattern, fingerprint: bool, seed: [u8; 32]) -> Initiator {
    let expected = fingerprint.then(|| static_key(2).public().fingerprint());
    let keys = match pattern {
        Pattern::FirstContact => InitiatorKeys::FirstContact { own: static_key(1), expected },
        Pattern::Pinned => InitiatorKeys::Pinned { own: static_key(1), responder: static_key(2).public() },
        Pattern::PreShared => InitiatorKeys::PreShared(PreSharedKey::from_bytes(&[3; 32])),
    };
    Initiator::new(keys, PROLOGUE, seed).expect("these keys are those of the pattern")
}

/// Writes a message with the longest possible payload up to a length from the input. Checks that too long a payload, or
/// too short an output, leaves the state unchanged.
fn write(input: &mut Input<'_>, mut write: impl FnMut(&[u8], &mut [u8]) -> Result<usize, HandshakeError>) -> Message {
    let mut payload = filler(7, usize::from(input.u16()) % (MESSAGE_BYTES_MAX + 2));
    loop {
        match write(&payload, &mut []) {
            Err(HandshakeError::PayloadTooLong(bytes)) => payload.truncate(bytes.saturating_sub(16)),
            Err(HandshakeError::BufferTooSmall { needed, available: 0 }) => {
                let mut bytes = vec![0; needed];
                assert_eq!(write(&payload, &mut bytes), Ok(needed));
                return Message { payload, bytes };
            }
            other => panic!("a message was written to no buffer: {other:?}"),
        }
    }
}

/// Like [`write`], for a writer that can be called only once; `None` if the payload was too long.
fn write_once(
    input: &mut Input<'_>,
    write: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, HandshakeError>,
) -> Option<Message> {
    let payload = filler(8, usize::from(input.u16()) % (MESSAGE_BYTES_MAX + 2));
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    match write(&payload, &mut bytes) {
        Ok(length) => {
            bytes.truncate(length);
            Some(Message { payload, bytes })
        }
        Err(HandshakeError::PayloadTooLong(_)) => None,
        Err(error) => panic!("a second message was not written: {error}"),
    }
}

fn read(
    message: &[u8],
    read: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, HandshakeError>,
) -> Result<Vec<u8>, HandshakeError> {
    let mut payload = vec![0; message.len()];
    let length = read(message, &mut payload)?;
    payload.truncate(length);
    Ok(payload)
}

fn read_first(pattern: Pattern, prologue: &[u8], message: &[u8]) -> Result<(Responder, Vec<u8>), HandshakeError> {
    read_first_with(&responder_keys(), pattern, prologue, message)
}

fn read_first_with(
    keys: &ResponderKeys,
    pattern: Pattern,
    prologue: &[u8],
    message: &[u8],
) -> Result<(Responder, Vec<u8>), HandshakeError> {
    let mut responder = None;
    let payload = read(message, |message, out| {
        let (read, length) = Responder::read_first(keys, pattern, prologue, RESPONDER_SEED, message, out)?;
        responder = Some(read);
        Ok(length)
    })?;
    Ok((responder.expect("a message which was read leaves a responder"), payload))
}

fn read_second(initiator: &mut Initiator, message: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    read(message, |message, out| initiator.read_second(message, out))
}

fn record(pattern: Pattern) -> Vec<Vec<u8>> {
    let mut other = initiator(pattern, true, [40; 32]);
    let message = || vec![0; MESSAGE_BYTES_MAX];
    let (mut first, mut second, mut third) = (message(), message(), message());
    let length = other.write_first(b"recorded", &mut first).expect("a short payload fits");
    first.truncate(length);
    let (responder, _) = read_first(pattern, PROLOGUE, &first).expect("a genuine message");
    let (length, _) = responder.write_second(b"recorded", &mut second).expect("a short payload fits");
    second.truncate(length);
    read_second(&mut other, &second).expect("a genuine message");
    third.truncate(other.write_third(b"recorded", &mut third.clone()).unwrap_or(0));
    vec![first, second, third]
}

/// A forged message for position `index` of the handshake, from the input; `None` if it equals the genuine one.
fn forged(input: &mut Input<'_>, genuine: &[u8], index: usize) -> Option<Vec<u8>> {
    let message = match input.below(4) {
        0 => input.short_bytes().to_vec(),
        1 => RECORDED[input.below(3)][index].clone(),
        _ => {
            let mut message = genuine.to_vec();
            mutate(input, &mut message);
            message
        }
    };
    (message != genuine).then_some(message)
}

fn assert_refusal(error: HandshakeError) {
    let refusals = matches!(error, HandshakeError::Refused | HandshakeError::Length(_) | HandshakeError::WeakKey);
    assert!(refusals, "a forged message was refused for another reason: {error:?}");
}

/// Delivers forged first messages; returns the answers to those that `XX` cannot distinguish from genuine ones.
fn forge_first(input: &mut Input<'_>, pattern: Pattern, genuine: &[u8]) -> Vec<Vec<u8>> {
    let mut misled = Vec::new();
    for _ in 0..input.below(4) {
        let Some(message) = forged(input, genuine, 0) else { continue };
        match read_first(pattern, PROLOGUE, &message) {
            Err(error) => assert_refusal(error),
            Ok((responder, _)) => {
                // A recorded first message is genuine, too: SECURITY calls this a replay.
                let replayed = RECORDED[usize::from(pattern.id()) - 1][0] == message;
                assert!(pattern == Pattern::FirstContact || replayed, "a forged first message was accepted");
                let mut answer = vec![0; MESSAGE_BYTES_MAX];
                match responder.write_second(b"misled", &mut answer) {
                    Ok((length, _)) => {
                        answer.truncate(length);
                        misled.push(answer);
                    }
                    Err(error) => assert_refusal(error),
                }
            }
        }
    }
    if pattern != Pattern::FirstContact && input.bool() {
        let other = read_first(pattern, b"DFCP 2 and other options", genuine);
        assert_eq!(other.err(), Some(HandshakeError::Refused), "the options were changed unnoticed");
    }
    misled
}

/// Answers with the key of an impostor; the fingerprint must reveal it ([noise-8]).
fn impersonate(initiator: &mut Initiator, first: &[u8]) {
    let keys = ResponderKeys { own: Some(static_key(66)), pre_shared: None };
    let (responder, _) =
        read_first_with(&keys, Pattern::FirstContact, PROLOGUE, first).expect("anybody can read the first message");
    let mut answer = vec![0; MESSAGE_BYTES_MAX];
    let (length, _) = responder.write_second(b"impostor", &mut answer).expect("room for the message");
    let refused = read_second(initiator, &answer[..length]);
    assert_eq!(refused, Err(HandshakeError::UnexpectedKey(static_key(66).public().fingerprint())));
}

fn forge_second(
    input: &mut Input<'_>,
    pattern: Pattern,
    initiator: &mut Initiator,
    genuine: &[u8],
    misled: &[Vec<u8>],
) {
    for _ in 0..input.below(4) {
        if let Some(message) = forged(input, genuine, 1) {
            assert_refusal(read_second(initiator, &message).expect_err("a forged second message was accepted"));
        }
    }
    for answer in misled {
        assert_refusal(read_second(initiator, answer).expect_err("the answer to a forged message was accepted"));
    }
    assert_eq!(initiator.write_third(b"", &mut [0; MESSAGE_BYTES_MAX]), Err(HandshakeError::OutOfTurn));
    if pattern != Pattern::Pinned {
        assert_eq!(initiator.peer(), None, "a refused message left a key");
    }
}

/// Exchanges the third message of `XX`, after forged ones; returns the responder's result.
fn third(input: &mut Input<'_>, initiator: &mut Initiator, mut half_open: HalfOpen) -> Established {
    assert_eq!(initiator.peer(), Some(static_key(2).public()));
    let genuine = write(input, |payload, out| initiator.write_third(payload, out));
    let keys = responder_keys();
    let mut out = vec![0; MESSAGE_BYTES_MAX];
    for _ in 0..input.below(4) {
        if let Some(message) = forged(input, &genuine.bytes, 2) {
            let refused = half_open.read_third(&keys, &message, &mut out);
            assert_refusal(refused.expect_err("a forged third message was accepted"));
        }
    }
    if !genuine.payload.is_empty() {
        let refused = half_open.read_third(&keys, &genuine.bytes, &mut []).err();
        assert!(matches!(refused, Some(HandshakeError::BufferTooSmall { .. })), "{refused:?}");
    }
    let (established, length) =
        half_open.read_third(&keys, &genuine.bytes, &mut out).expect("the genuine third message is accepted");
    assert_eq!(out[..length], genuine.payload);
    let again = half_open.read_third(&keys, &genuine.bytes, &mut out).err();
    assert_eq!(again, Some(HandshakeError::OutOfTurn), "the same keys must not exist twice");
    established
}

/// Checks that both ends have the same secrets: each opens datagrams that the other sealed.
fn agree(initiator: Established, responder: Established) {
    assert_eq!(initiator.handshake_hash(), responder.handshake_hash());
    let known = initiator.pattern() != Pattern::PreShared;
    assert_eq!(initiator.peer(), known.then(|| static_key(2).public()));
    assert_eq!(responder.peer(), known.then(|| static_key(1).public()));
    let (mut initiator, mut responder) =
        (initiator.into_keys(Cipher::Aes128Gcm), responder.into_keys(Cipher::Aes128Gcm));
    for (seal, open) in [(&mut initiator.0, &mut responder.1), (&mut responder.0, &mut initiator.1)] {
        let mut datagram = *b"sealed, and room for the tag....";
        let (text, tag) = datagram.split_at_mut(16);
        let mut made = [0; TAG_BYTES];
        seal.seal(0, b"header", text, &mut made).expect("the first number is free");
        tag.copy_from_slice(&made);
        assert_eq!(open.open(0, b"header", &mut datagram), Ok(16));
        assert_eq!(&datagram[..16], b"sealed, and room");
    }
}
