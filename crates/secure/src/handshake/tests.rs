use proptest::prelude::*;

use super::*;
use crate::curve::{LOW_ORDER, MULTIPLICATIONS, is_of_low_order};
use crate::{PreSharedKey, StaticKey};

const PROLOGUE: &[u8] = b"prologue";

fn key(seed: u8) -> StaticKey {
    StaticKey::from_seed(&[seed; 32])
}

fn responder_keys() -> ResponderKeys {
    ResponderKeys { own: Some(key(2)), pre_shared: Some(PreSharedKey::from_bytes(&[3; 32])) }
}

fn initiator_keys(pattern: Pattern) -> InitiatorKeys {
    match pattern {
        Pattern::FirstContact => {
            InitiatorKeys::FirstContact { own: key(1), expected: Some(key(2).public().fingerprint()) }
        }
        Pattern::Pinned => InitiatorKeys::Pinned { own: key(1), responder: key(2).public() },
        Pattern::PreShared => InitiatorKeys::PreShared(PreSharedKey::from_bytes(&[3; 32])),
    }
}

fn initiator(pattern: Pattern) -> Initiator {
    Initiator::new(initiator_keys(pattern), PROLOGUE, [4; 32]).unwrap()
}

type Written = Result<Vec<u8>, HandshakeError>;

/// Returns the bytes that `write` writes into a buffer.
fn written(write: impl FnOnce(&mut [u8]) -> Result<usize, HandshakeError>) -> Written {
    let mut out = vec![0; MESSAGE_BYTES_MAX];
    let length = write(&mut out)?;
    out.truncate(length);
    Ok(out)
}

fn read_first(pattern: Pattern, message: &[u8]) -> Result<(Responder, Vec<u8>), HandshakeError> {
    read_first_with(&responder_keys(), pattern, PROLOGUE, message)
}

fn read_first_with(
    keys: &ResponderKeys,
    pattern: Pattern,
    prologue: &[u8],
    message: &[u8],
) -> Result<(Responder, Vec<u8>), HandshakeError> {
    let mut responder = None;
    let payload = written(|out| {
        let (read, length) = Responder::read_first(keys, pattern, prologue, [5; 32], message, out)?;
        responder = Some(read);
        Ok(length)
    })?;
    Ok((responder.unwrap(), payload))
}

fn answer(responder: Responder, payload: &[u8]) -> (Vec<u8>, Answered) {
    let mut answered = None;
    let message = written(|out| {
        let (length, kept) = responder.write_second(payload, out)?;
        answered = Some(kept);
        Ok(length)
    });
    (message.unwrap(), answered.unwrap())
}

fn read_third(half_open: &mut HalfOpen, message: &[u8]) -> Result<(Established, Vec<u8>), HandshakeError> {
    let mut established = None;
    let payload = written(|out| {
        let (done, length) = half_open.read_third(&responder_keys(), message, out)?;
        established = Some(done);
        Ok(length)
    })?;
    Ok((established.unwrap(), payload))
}

/// Messages and results of a whole handshake.
struct Run {
    messages: Vec<Vec<u8>>,
    initiator: Established,
    responder: Established,
}

fn run(pattern: Pattern, payloads: [&[u8]; 3]) -> Run {
    let mut initiator = initiator(pattern);
    let first = written(|out| initiator.write_first(payloads[0], out)).unwrap();
    let (responder, payload) = read_first(pattern, &first).unwrap();
    assert_eq!(payload, payloads[0]);
    let (second, answered) = answer(responder, payloads[1]);
    assert_eq!(written(|out| initiator.read_second(&second, out)).unwrap(), payloads[1]);
    let mut messages = vec![first, second];
    let responder = match answered {
        Answered::Established(established) => established,
        Answered::HalfOpen(mut half_open) => {
            let third = written(|out| initiator.write_third(payloads[2], out)).unwrap();
            let (established, payload) = read_third(&mut half_open, &third).unwrap();
            assert_eq!(payload, payloads[2]);
            assert_eq!(read_third(&mut half_open, &third).unwrap_err(), HandshakeError::OutOfTurn);
            messages.push(third);
            established
        }
    };
    Run { messages, initiator: initiator.finish().unwrap(), responder }
}

/// Returns all damaged forms of `message`: each single bit flipped, each truncation, and one byte appended.
fn damaged(message: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..message.len() * 8).map(|bit| {
        let mut other = message.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        other
    });
    flipped.chain((0..message.len()).map(|length| message[..length].to_vec())).chain([[message, &[0]].concat()])
}

fn is_refusal(error: HandshakeError) -> bool {
    matches!(error, HandshakeError::Refused | HandshakeError::Length(_) | HandshakeError::WeakKey)
}

/// At first contact anyone can answer. An initiator that rejects an answer keeps waiting, and accepts the genuine
/// answer.
#[test]
fn a_second_message_can_be_refused_after_it_was_read() {
    let mut initiator = initiator(Pattern::FirstContact);
    assert_eq!(initiator.refuse_second(), Err(HandshakeError::OutOfTurn));
    let first = written(|out| initiator.write_first(b"one", out)).unwrap();
    assert_eq!(initiator.refuse_second(), Err(HandshakeError::OutOfTurn));
    let (second, answered) = answer(read_first(Pattern::FirstContact, &first).unwrap().0, b"two");
    for _ in 0..2 {
        assert_eq!(written(|out| initiator.read_second(&second, out)).unwrap(), b"two");
        assert!(initiator.peer().is_some());
        assert_eq!(initiator.refuse_second(), Ok(()));
        assert_eq!(initiator.peer(), None);
        assert!(written(|out| initiator.write_third(b"three", out)).is_err());
    }
    assert_eq!(written(|out| initiator.read_second(&second, out)).unwrap(), b"two");
    let third = written(|out| initiator.write_third(b"three", out)).unwrap();
    let Answered::HalfOpen(mut half_open) = answered else { panic!("it waits for the third message") };
    let (responder, _) = read_third(&mut half_open, &third).unwrap();
    assert_eq!(responder.handshake_hash(), initiator.finish().unwrap().handshake_hash());
}

#[test]
fn both_ends_agree() {
    for pattern in Pattern::ALL {
        let Run { messages, initiator, responder } = run(pattern, [b"one", b"", b"three"]);
        assert_eq!(messages.len(), pattern.messages());
        let payloads = [3, 0, 5];
        for (at, message) in messages.iter().enumerate() {
            assert_eq!(message.len(), payloads[at] + pattern.overheads()[at], "{pattern:?} {at}");
        }
        assert_eq!(initiator.handshake_hash(), responder.handshake_hash());
        assert_eq!(initiator.danger_traffic_secrets(), responder.danger_traffic_secrets());
        assert_ne!(initiator.danger_traffic_secrets()[0], initiator.danger_traffic_secrets()[1]);
        assert_eq!((initiator.role(), responder.role()), (Role::Initiator, Role::Responder));
        let shared = (pattern == Pattern::PreShared).then(|| PreSharedKey::from_bytes(&[3; 32]).fingerprint());
        assert_eq!([initiator.pre_shared(), responder.pre_shared()], [shared; 2]);
        let expected = (pattern != Pattern::PreShared).then(|| (key(2).public(), key(1).public()));
        assert_eq!(initiator.peer().zip(responder.peer()), expected);
        assert_eq!(Pattern::from_id(pattern.id()), Some(pattern));
    }
    assert_eq!((Pattern::from_id(0), Pattern::from_id(4)), (None, None));
}

#[test]
fn the_same_seeds_give_the_same_bytes_and_others_do_not() {
    for pattern in Pattern::ALL {
        let (one, two) = (run(pattern, [b"a", b"b", b"c"]), run(pattern, [b"a", b"b", b"c"]));
        assert_eq!(one.messages, two.messages);
        let mut other = Initiator::new(initiator_keys(pattern), PROLOGUE, [6; 32]).unwrap();
        let first = written(|out| other.write_first(b"a", out)).unwrap();
        assert_ne!(first[..32], one.messages[0][..32]);
    }
}

#[test]
fn a_damaged_second_message_leaves_the_initiator_as_it_was() {
    for pattern in Pattern::ALL {
        let genuine = run(pattern, [b"one", b"two", b"three"]);
        let mut initiator = initiator(pattern);
        written(|out| initiator.write_first(b"one", out)).unwrap();
        for other in damaged(&genuine.messages[1]) {
            assert!(is_refusal(written(|out| initiator.read_second(&other, out)).unwrap_err()), "{pattern:?}");
        }
        assert_eq!(written(|out| initiator.read_second(&genuine.messages[1], out)).unwrap(), b"two");
        if let Some(third) = genuine.messages.get(2) {
            assert_eq!(written(|out| initiator.write_third(b"three", out)).as_ref(), Ok(third));
        }
        assert_eq!(initiator.finish().unwrap().handshake_hash(), genuine.responder.handshake_hash());
    }
}

#[test]
fn a_damaged_third_message_leaves_the_responder_as_it_was() {
    let genuine = run(Pattern::FirstContact, [b"one", b"two", b"three"]);
    let (responder, _) = read_first(Pattern::FirstContact, &genuine.messages[0]).unwrap();
    let Answered::HalfOpen(mut half_open) = answer(responder, b"two").1 else { panic!("XX has three messages") };
    for other in damaged(&genuine.messages[2]) {
        assert!(is_refusal(read_third(&mut half_open, &other).unwrap_err()));
    }
    let (established, payload) = read_third(&mut half_open, &genuine.messages[2]).unwrap();
    assert_eq!((payload.as_slice(), established.peer()), (&b"three"[..], Some(key(1).public())));
    assert_eq!(established.handshake_hash(), genuine.initiator.handshake_hash());
}

/// The first message of `XX` has no authentication: a change is detected by the second message.
#[test]
fn a_damaged_first_message_is_refused_at_once_or_by_the_initiator() {
    for pattern in Pattern::ALL {
        let mut initiator = initiator(pattern);
        let first = written(|out| initiator.write_first(b"one", out)).unwrap();
        for other in damaged(&first) {
            match read_first(pattern, &other) {
                Err(error) => assert!(is_refusal(error)),
                Ok((responder, _)) => {
                    assert_eq!(pattern, Pattern::FirstContact);
                    let (second, _) = answer(responder, b"two");
                    let refused = written(|out| initiator.read_second(&second, out));
                    assert_eq!(refused, Err(HandshakeError::Refused));
                }
            }
        }
        let (responder, payload) = read_first(pattern, &first).unwrap();
        assert_eq!(payload, b"one");
        assert_eq!(written(|out| initiator.read_second(&answer(responder, b"two").0, out)).unwrap(), b"two");
    }
}

#[test]
fn a_wrong_key_or_prologue_is_refused_at_the_first_message_that_can_tell() {
    for pattern in Pattern::ALL {
        let mut initiator = initiator(pattern);
        let first = written(|out| initiator.write_first(b"one", out)).unwrap();
        let other = ResponderKeys { own: Some(key(7)), pre_shared: Some(PreSharedKey::from_bytes(&[7; 32])) };
        let wrong = [(other, PROLOGUE), (responder_keys(), &b"prologuE"[..]), (responder_keys(), b"")];
        for (at, (keys, prologue)) in wrong.iter().enumerate() {
            let read = read_first_with(keys, pattern, prologue, &first);
            if pattern != Pattern::FirstContact {
                assert_eq!(read.unwrap_err(), HandshakeError::Refused, "{pattern:?} {at}");
                continue;
            }
            let (second, _) = answer(read.unwrap().0, b"two");
            let expected = if at == 0 {
                HandshakeError::UnexpectedKey(key(7).public().fingerprint())
            } else {
                HandshakeError::Refused
            };
            assert_eq!(written(|out| initiator.read_second(&second, out)), Err(expected));
            assert_eq!(initiator.peer(), None);
        }
        // None of the failed attempts changed the state.
        let (responder, _) = read_first(pattern, &first).unwrap();
        assert_eq!(responder.peer(), (pattern == Pattern::Pinned).then(|| key(1).public()));
        assert!(written(|out| initiator.read_second(&answer(responder, b"two").0, out)).is_ok());
        assert_eq!(initiator.peer(), (pattern != Pattern::PreShared).then(|| key(2).public()));
    }
}

#[test]
fn a_missing_key_is_said() {
    for pattern in Pattern::ALL {
        let first = &run(pattern, [&[]; 3]).messages[0];
        let refused = read_first_with(&ResponderKeys::default(), pattern, PROLOGUE, first);
        assert_eq!(refused.unwrap_err(), HandshakeError::NoKey(pattern));
    }
}

#[test]
fn other_keys_cannot_finish_a_half_open_handshake() {
    let genuine = run(Pattern::FirstContact, [b"one", b"two", b"three"]);
    let (responder, _) = read_first(Pattern::FirstContact, &genuine.messages[0]).unwrap();
    let Answered::HalfOpen(mut half_open) = answer(responder, b"two").1 else { panic!("XX has three messages") };
    let other = ResponderKeys { own: Some(key(9)), pre_shared: None };
    let refused = half_open.read_third(&other, &genuine.messages[2], &mut [0; 100]);
    assert_eq!(refused.unwrap_err(), HandshakeError::Refused);
    assert!(read_third(&mut half_open, &genuine.messages[2]).is_ok());
}

/// RFC 7748's points of small order, also with the top bit set, which is ignored. The list contains exactly the public
/// keys whose shared secrets are zero in the library.
#[test]
fn public_keys_of_low_order_are_refused_before_any_multiplication() {
    for point in LOW_ORDER {
        let with_top_bit = core::array::from_fn(|i| point[i] | if i == 31 { 0x80 } else { 0 });
        for point in [point, with_top_bit] {
            let pinned = InitiatorKeys::Pinned { own: key(1), responder: PublicKey(point) };
            let mut to_point = Initiator::new(pinned, PROLOGUE, [4; 32]).unwrap();
            assert_eq!(written(|out| to_point.write_first(b"", out)), Err(HandshakeError::WeakKey));
            let (keys, message) = (responder_keys(), [&point[..], &[0; 80]].concat());
            let before = MULTIPLICATIONS.get();
            for pattern in [Pattern::FirstContact, Pattern::Pinned, Pattern::PreShared] {
                let read = Responder::read_first(&keys, pattern, PROLOGUE, [5; 32], &message, &mut [0; 200]);
                assert_eq!(read.unwrap_err(), HandshakeError::WeakKey);
            }
            assert_eq!(MULTIPLICATIONS.get(), before);
        }
    }
    for seed in 0..200 {
        let public = key(seed).public();
        assert!(!is_of_low_order(&public.0));
        let pinned = InitiatorKeys::Pinned { own: key(1), responder: public };
        assert!(written(|out| Initiator::new(pinned, PROLOGUE, [4; 32]).unwrap().write_first(b"", out)).is_ok());
    }
}

#[test]
fn turns_are_kept() {
    let mut initiator = initiator(Pattern::Pinned);
    let mut out = [0; MESSAGE_BYTES_MAX];
    assert_eq!(initiator.read_second(&[0; 100], &mut out), Err(HandshakeError::OutOfTurn));
    assert_eq!(initiator.write_third(b"", &mut out), Err(HandshakeError::OutOfTurn));
    let first = written(|out| initiator.write_first(b"", out)).unwrap();
    assert_eq!(initiator.write_first(b"", &mut out), Err(HandshakeError::OutOfTurn));
    let (second, _) = answer(read_first(Pattern::Pinned, &first).unwrap().0, b"");
    initiator.read_second(&second, &mut out).unwrap();
    assert_eq!(initiator.read_second(&second, &mut out), Err(HandshakeError::OutOfTurn));
    assert_eq!(initiator.write_third(b"", &mut out), Err(HandshakeError::OutOfTurn));
    assert!(initiator.finish().is_ok());
    let early = Initiator::new(initiator_keys(Pattern::PreShared), PROLOGUE, [4; 32]).unwrap();
    assert_eq!(early.finish().unwrap_err(), HandshakeError::OutOfTurn);
}

#[test]
fn buffers_and_lengths_are_checked_before_anything_is_done() {
    for pattern in Pattern::ALL {
        let mut initiator = initiator(pattern);
        let needed = pattern.overheads()[0] + 3;
        let too_small = initiator.write_first(b"one", &mut vec![0; needed - 1]);
        assert_eq!(too_small, Err(HandshakeError::BufferTooSmall { needed, available: needed - 1 }));
        let long = vec![0; MESSAGE_BYTES_MAX];
        assert_eq!(initiator.write_first(&long, &mut [0; 4000]), Err(HandshakeError::PayloadTooLong(long.len())));
        let mut first = vec![0; needed];
        assert_eq!(initiator.write_first(b"one", &mut first), Ok(needed));
        let read = Responder::read_first(&responder_keys(), pattern, PROLOGUE, [5; 32], &first, &mut [0; 2]);
        assert_eq!(read.unwrap_err(), HandshakeError::BufferTooSmall { needed: 3, available: 2 });
        let longest = MESSAGE_BYTES_MAX - pattern.overheads()[0];
        let mut other = Initiator::new(initiator_keys(pattern), PROLOGUE, [4; 32]).unwrap();
        assert_eq!(written(|out| other.write_first(&long[..longest], out)).unwrap().len(), MESSAGE_BYTES_MAX);
    }
}

/// Counts the curve multiplications of a responder until it refuses an unknown sender's first message.
#[test]
fn only_a_message_to_the_static_key_costs_a_multiplication_before_it_is_refused() {
    let multiplications = |work: &dyn Fn() -> Option<HandshakeError>| {
        let before = MULTIPLICATIONS.get();
        let _refused = work();
        MULTIPLICATIONS.get() - before
    };
    let other = ResponderKeys { own: Some(key(9)), pre_shared: Some(PreSharedKey::from_bytes(&[9; 32])) };
    let read_by_other = |pattern, message: &[u8]| read_first_with(&other, pattern, PROLOGUE, message).err();
    for (pattern, cost) in [(Pattern::FirstContact, 0), (Pattern::Pinned, 1), (Pattern::PreShared, 0)] {
        let first = written(|out| initiator(pattern).write_first(b"payload", out)).unwrap();
        assert_eq!(multiplications(&|| read_by_other(pattern, &first)), cost, "{pattern:?}");
        let short = &first[..pattern.overheads()[0] - 1];
        assert_eq!(multiplications(&|| read_by_other(pattern, short)), 0, "{pattern:?} cut");
    }
}

#[test]
fn a_half_open_responder_is_small() {
    let mut initiator = initiator(Pattern::FirstContact);
    let payload = [0; 60];
    let first = written(|out| initiator.write_first(&payload, out)).unwrap();
    let (second, answered) = answer(read_first(Pattern::FirstContact, &first).unwrap().0, &payload);
    let Answered::HalfOpen(half_open) = answered else { panic!("XX has three messages") };
    assert!(half_open.memory_bytes() + second.len() <= 512, "{} + {}", half_open.memory_bytes(), second.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_never_panic_and_change_nothing(noise in prop::collection::vec(any::<u8>(), 0..1700), id in 1_u8..4) {
        let pattern = Pattern::from_id(id).unwrap();
        if let Ok((responder, payload)) = read_first(pattern, &noise) {
            prop_assert_eq!(pattern, Pattern::FirstContact);
            prop_assert_eq!(&payload[..], &noise[32..]);
            let mut out = [0; MESSAGE_BYTES_MAX];
            if let Ok((_, Answered::HalfOpen(mut half_open))) = responder.write_second(b"", &mut out) {
                prop_assert!(is_refusal(read_third(&mut half_open, &noise).unwrap_err()));
            }
        }
        let mut initiator = initiator(pattern);
        let first = written(|out| initiator.write_first(b"", out)).unwrap();
        prop_assert!(is_refusal(written(|out| initiator.read_second(&noise, out)).unwrap_err()));
        let (second, _) = answer(read_first(pattern, &first).unwrap().0, b"");
        prop_assert!(written(|out| initiator.read_second(&second, out)).is_ok());
    }

    #[test]
    fn payloads_of_any_length_come_back(lengths in prop::array::uniform3(0_usize..1400), id in 1_u8..4) {
        let payloads = lengths.map(|length| (0..length).map(|i| i as u8).collect::<Vec<_>>());
        run(Pattern::from_id(id).unwrap(), [&payloads[0], &payloads[1], &payloads[2]]);
    }
}
