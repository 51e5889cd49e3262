//! Tests: pairings over in-memory streams, on tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::exchange::{ReceiverPairing, SenderPairing};
use super::frame::{FRAME_BYTES, Frame};
use super::*;
use crate::limits::{PAIRING_GUESSES_MAX, PAIRING_RUN_MAX};

const H: [u8; 32] = [7; 32];

fn code(bits: u64) -> Code {
    Code::from_bits(bits)
}

fn one_time(bits: u64) -> OneTimeCode {
    OneTimeCode::new(code(bits), Instant::now().into_std() + Duration::from_secs(900), Arc::default())
}

fn pipe() -> (DuplexStream, DuplexStream) {
    duplex(FRAME_BYTES)
}

async fn pair(
    sender: (u64, [u8; 32]),
    receiver: (&OneTimeCode, [u8; 32]),
) -> (Result<(), PairingError>, Result<(), PairingError>) {
    let (mut near, mut far) = pipe();
    let typed = code(sender.0);
    tokio::join!(
        pair_as_sender(&mut near, &typed, &sender.1),
        pair_as_receiver(&mut far, receiver.0, &receiver.1, false)
    )
}

fn refusal(outcome: &Result<(), PairingError>) -> Option<Refusal> {
    outcome.as_ref().err().and_then(PairingError::refusal)
}

/// Forwards frames and records them.
async fn relay(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) -> Vec<[u8; FRAME_BYTES]> {
    let (mut seen, mut frame) = (Vec::new(), [0; FRAME_BYTES]);
    while from.read_exact(&mut frame).await.is_ok() {
        seen.push(frame);
        if to.write_all(&frame).await.is_err() {
            break;
        }
    }
    seen
}

/// Runs a pairing through a relay. Returns both outcomes, and the frames of the sender and of the receiver.
async fn relayed(
    sender: (u64, [u8; 32]),
    receiver: (&OneTimeCode, [u8; 32]),
) -> ([Result<(), PairingError>; 2], [Vec<[u8; FRAME_BYTES]>; 2]) {
    let ((mut near, near_relay), (mut far, far_relay)) = (pipe(), pipe());
    let ((from_near, to_near), (from_far, to_far)) = (tokio::io::split(near_relay), tokio::io::split(far_relay));
    let typed = code(sender.0);
    let send = async move { (pair_as_sender(&mut near, &typed, &sender.1).await, drop(near)).0 };
    let receive = async move { (pair_as_receiver(&mut far, receiver.0, &receiver.1, false).await, drop(far)).0 };
    let (sent, received, forth, back) = tokio::join!(send, receive, relay(from_near, to_far), relay(from_far, to_near));
    ([sent, received], [forth, back])
}

#[tokio::test(start_paused = true)]
async fn the_right_code_pairs_once() {
    let one_time = one_time(5);
    let (sent, received) = pair((5, H), (&one_time, H)).await;
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
    let (sent, received) = pair((5, H), (&one_time, H)).await;
    assert_eq!((refusal(&sent), refusal(&received)), (Some(Refusal::Used), Some(Refusal::Used)));
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_left_for_what_follows() {
    let (mut near, mut far) = pipe();
    let (typed, one_time) = (code(5), one_time(5));
    let send = async {
        pair_as_sender(&mut near, &typed, &H).await.unwrap();
        near.write_all(b"data").await.unwrap();
    };
    let receive = async {
        pair_as_receiver(&mut far, &one_time, &H, false).await.unwrap();
        let mut data = [0; 4];
        far.read_exact(&mut data).await.unwrap();
        data
    };
    assert_eq!(tokio::join!(send, receive).1, *b"data");
}

#[tokio::test(start_paused = true)]
async fn both_learn_of_a_wrong_code_and_three_void_it() {
    let one_time = one_time(5);
    for wrong in 0..u64::from(PAIRING_GUESSES_MAX) {
        let (sent, received) = pair((100 + wrong, H), (&one_time, H)).await;
        assert!(matches!(sent, Err(PairingError::PeerRefused(Refusal::WrongCode))), "{sent:?}");
        assert!(matches!(received, Err(PairingError::Refused(Refusal::WrongCode))), "{received:?}");
    }
    let (sent, received) = pair((5, H), (&one_time, H)).await;
    assert_eq!((refusal(&sent), refusal(&received)), (Some(Refusal::Guessed), Some(Refusal::Guessed)));
}

#[tokio::test(start_paused = true)]
async fn a_right_code_after_wrong_ones_pairs() {
    let one_time = one_time(5);
    for _ in 1..PAIRING_GUESSES_MAX {
        assert!(pair((6, H), (&one_time, H)).await.1.is_err());
    }
    let (sent, received) = pair((5, H), (&one_time, H)).await;
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_code_is_said_to_be() {
    let one_time = one_time(5);
    tokio::time::advance(Duration::from_secs(900)).await;
    let (sent, received) = pair((5, H), (&one_time, H)).await;
    assert_eq!((refusal(&sent), refusal(&received)), (Some(Refusal::Expired), Some(Refusal::Expired)));
}

#[tokio::test(start_paused = true)]
async fn a_man_in_the_middle_pairs_with_nobody() {
    let one_time = one_time(5);
    let ([sent, received], [forth, back]) = relayed((5, H), (&one_time, [8; 32])).await;
    assert_eq!((refusal(&sent), refusal(&received)), (Some(Refusal::WrongCode), Some(Refusal::WrongCode)));
    assert_eq!((forth.len(), back.len()), (2, 2));
    // The receiver has not confirmed: its second frame refuses.
    assert_eq!(Frame::decode(&back[1]).unwrap(), Frame::Refused(Refusal::WrongCode as u8));
    // The same relay within one session succeeds, so only the hash made the difference above.
    let ([sent, received], _) = relayed((5, H), (&one_time, H)).await;
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
}

#[tokio::test(start_paused = true)]
async fn an_old_run_cannot_be_replayed_to_either_side() {
    let ([sent, received], [forth, back]) = relayed((5, H), (&one_time(5), H)).await;
    assert!(sent.is_ok() && received.is_ok());
    // A new code with the same words in the same session still has fresh elements.
    let again = one_time(5);
    let (mut near, mut far) = duplex(1000);
    near.write_all(&forth.concat()).await.unwrap();
    assert_eq!(refusal(&pair_as_receiver(&mut far, &again, &H, false).await), Some(Refusal::WrongCode));
    let (mut near, mut far) = duplex(1000);
    near.write_all(&back.concat()).await.unwrap();
    assert_eq!(refusal(&pair_as_sender(&mut far, &code(5), &H).await), Some(Refusal::WrongCode));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_breaks_off_costs_no_guess() {
    let one_time = one_time(5);
    let (_, [forth, _]) = relayed((6, H), (&self::one_time(6), H)).await;
    let frames = forth.concat();
    for bytes in 0..frames.len() {
        let (mut near, mut far) = duplex(1000);
        near.write_all(&frames[..bytes]).await.unwrap();
        near.shutdown().await.unwrap();
        let outcome = pair_as_receiver(&mut far, &one_time, &H, false).await;
        assert!(matches!(outcome, Err(PairingError::Closed)), "{bytes}: {outcome:?}");
    }
    let (sent, received) = pair((5, H), (&one_time, H)).await;
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_run_and_gives_its_guess_back() {
    let one_time = one_time(5);
    let (_, [forth, _]) = relayed((6, H), (&self::one_time(6), H)).await;
    for frames in [0, 1] {
        let runs = (0..PAIRING_GUESSES_MAX).map(|_| async {
            let (mut near, mut far) = duplex(1000);
            near.write_all(&forth[..frames].concat()).await.unwrap();
            pair_as_receiver(&mut far, &one_time, &H, false).await
        });
        // The runs are concurrent: each starts before the first ends.
        let (started, mut runs) = (Instant::now(), runs);
        let (first, second, third) = (runs.next().unwrap(), runs.next().unwrap(), runs.next().unwrap());
        let outcomes: [_; PAIRING_GUESSES_MAX as usize] = tokio::join!(first, second, third).into();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(PairingError::TimedOut { .. }))), "{outcomes:?}");
        assert!(started.elapsed() < PAIRING_RUN_MAX * 2);
    }
    let (mut near, _far) = pipe();
    assert!(matches!(pair_as_sender(&mut near, &code(5), &H).await, Err(PairingError::TimedOut { .. })));
    assert!(pair((5, H), (&one_time, H)).await.1.is_ok());
}

#[tokio::test(start_paused = true)]
async fn something_else_at_the_far_end_is_said() {
    let one_time = one_time(5);
    for (bytes, expected) in [
        ([b'G'; FRAME_BYTES], "does not speak"),
        (
            {
                let mut frame = Frame::Element(H).encode();
                frame[5] = 2;
                frame
            },
            "version 2",
        ),
        (Frame::Confirm(H).encode(), "out of place"),
        (
            {
                let mut frame = Frame::Element(H).encode();
                frame[6] = 9;
                frame
            },
            "malformed",
        ),
        // y = 2 is no point of the curve ([pair-2]).
        (
            Frame::Element({
                let mut body = [0; 32];
                body[0] = 2;
                body
            })
            .encode(),
            "no element",
        ),
        (Frame::Refused(77).encode(), "reason 77"),
        (Frame::Refused(Refusal::Busy as u8).encode(), "somebody else"),
    ] {
        for receiving in [false, true] {
            let (mut near, mut far) = duplex(1000);
            near.write_all(&bytes).await.unwrap();
            let outcome = if receiving {
                pair_as_receiver(&mut far, &one_time, &H, false).await
            } else {
                pair_as_sender(&mut far, &code(5), &H).await
            };
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
    assert!(pair((5, H), (&one_time, H)).await.1.is_ok());
}

#[test]
fn equal_seeds_give_equal_elements_and_confirmations_have_a_direction() {
    let (sender, from_sender) = SenderPairing::start(&code(5), &H, &[1; 32]);
    assert_eq!(SenderPairing::start(&code(5), &H, &[1; 32]).1, from_sender);
    let (receiver, from_receiver) = ReceiverPairing::start(&code(5), &H, &[2; 32]);
    let (sender, confirmation) = sender.finish(&from_receiver).unwrap();
    let receiver = receiver.finish(&from_sender).unwrap();
    let answer = receiver.verify(&confirmation).unwrap();
    assert_ne!(answer, confirmation);
    assert_eq!(sender.verify(&answer), Ok(()));
    // A reflected confirmation is refused.
    let (sender, _) = SenderPairing::start(&code(5), &H, &[1; 32]);
    let (sender, confirmation) = sender.finish(&from_receiver).unwrap();
    assert_eq!(sender.verify(&confirmation), Err(Refusal::WrongCode));
}

#[test]
fn an_element_sent_back_to_its_author_pairs_nobody() {
    let (sender, element) = SenderPairing::start(&code(5), &H, &[1; 32]);
    let (sender, confirmation) = sender.finish(&element).unwrap();
    assert_eq!(sender.verify(&confirmation), Err(Refusal::WrongCode));
}

#[test]
fn refusals_are_read_back() {
    for reason in 0..=255 {
        match Refusal::from_wire(reason) {
            Some(refusal) => assert_eq!(refusal as u8, reason),
            None => assert!(reason == 0 || reason > 6, "{reason}"),
        }
    }
}

proptest! {
    #[test]
    fn no_frame_makes_it_panic(bytes in any::<[u8; FRAME_BYTES]>(), head in any::<bool>(), kind in 0_u8..5) {
        let mut bytes = bytes;
        if head {
            let reason = bytes[7] % 2;
            bytes[..8].copy_from_slice(&[b'D', b'F', b'C', b'P', b'K', 1, kind, reason]);
        }
        if let Ok(frame) = Frame::decode(&bytes) {
            prop_assert_eq!(frame.encode(), bytes);
        }
    }

    #[test]
    fn no_element_or_confirmation_makes_it_panic_or_pairs(element in any::<[u8; 32]>(), confirmation in any::<[u8; 32]>()) {
        if let Ok(receiver) = ReceiverPairing::start(&code(5), &H, &[1; 32]).0.finish(&element) {
            prop_assert_eq!(receiver.verify(&confirmation), Err(Refusal::WrongCode));
        }
        if let Ok((sender, _)) = SenderPairing::start(&code(5), &H, &[1; 32]).0.finish(&element) {
            prop_assert_eq!(sender.verify(&confirmation), Err(Refusal::WrongCode));
        }
    }

    #[test]
    fn two_codes_pair_only_if_they_are_one(a in any::<u64>(), b in any::<u64>(), seeds in any::<([u8; 32], [u8; 32])>()) {
        for (a, b) in [(a, b), (a, a)] {
            let (sender, from_sender) = SenderPairing::start(&code(a), &H, &seeds.0);
            let (receiver, from_receiver) = ReceiverPairing::start(&code(b), &H, &seeds.1);
            let (sender, confirmation) = sender.finish(&from_receiver).unwrap();
            let answer = receiver.finish(&from_sender).unwrap().verify(&confirmation);
            prop_assert_eq!(answer.is_ok(), code(a) == code(b));
            prop_assert_eq!(answer.is_ok_and(|answer| sender.verify(&answer).is_ok()), code(a) == code(b));
        }
    }
}
