//! Sealing, opening and the replay window (`spec/security.md` §3 and §4), compared with a model.
//!
//! The scenario seals datagrams with numbers from the input, and delivers them in any order, repeatedly, and changed. A
//! datagram must open exactly if it is genuine, unseen, in the window and of an epoch within reach.

use std::collections::BTreeSet;

use dfcp_secure::{
    Answered, Cipher, EPOCH_SHIFT, Initiator, InitiatorKeys, MESSAGE_BYTES_MAX, OpenError, OpenKeys,
    PREVIOUS_EPOCH_DATAGRAMS, Pattern, PreSharedKey, REPLAY_WINDOW_DATAGRAMS, ReplayWindow, Responder, ResponderKeys,
    SEALED_BYTES_MAX, SealError, SealKeys, TAG_BYTES, epoch_of,
};

use crate::input::{Input, filler, mutate};

const EPOCH: u64 = 1 << EPOCH_SHIFT;
const OPERATIONS_MAX: usize = 400;
const HEADER: [u8; 24] = [0xA5; 24];

/// Runs the operations in the input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (seal, open) = keys(input.pick(&Cipher::ALL));
    let mut scenario =
        Scenario { seal, open, window: ReplayWindow::new(), model: Model::default(), next: 0, sent: Vec::new() };
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            return;
        }
        match input.below(8) {
            0..=2 => scenario.seal(&mut input),
            3..=5 => scenario.deliver_any(&mut input),
            _ => scenario.deliver_changed(&mut input),
        }
    }
}

/// Returns the initiator's sealing keys and the responder's opening keys, from a handshake with a pre-shared key.
fn keys(cipher: Cipher) -> (SealKeys, OpenKeys) {
    let key = PreSharedKey::from_bytes(&[1; 32]);
    let mut out = [0; MESSAGE_BYTES_MAX];
    let mut initiator =
        Initiator::new(InitiatorKeys::PreShared(key.clone()), b"", [2; 32]).expect("the key is the pattern's");
    let length = initiator.write_first(b"", &mut out).expect("room for the message");
    let keys = ResponderKeys { own: None, pre_shared: Some(key) };
    let first = out[..length].to_vec();
    let (responder, _) = Responder::read_first(&keys, Pattern::PreShared, b"", [3; 32], &first, &mut out)
        .expect("the first message is genuine");
    let (length, answered) = responder.write_second(b"", &mut out).expect("room for the message");
    let second = out[..length].to_vec();
    initiator.read_second(&second, &mut out).expect("the second message is genuine");
    let Answered::Established(responder) = answered else { panic!("the pattern has two messages") };
    let initiator = initiator.finish().expect("all messages were exchanged");
    (initiator.into_keys(cipher).0, responder.into_keys(cipher).1)
}

/// A sealed datagram, with its plaintext.
#[derive(Clone)]
struct Sealed {
    number: u64,
    plaintext: Vec<u8>,
    bytes: Vec<u8>,
}

/// The receiver's expected state.
#[derive(Default)]
struct Model {
    opened: BTreeSet<u64>,
    epoch: u64,
    has_previous: bool,
    forged: u64,
}

impl Model {
    fn is_unseen(&self, number: u64) -> bool {
        let in_window =
            self.opened.last().is_none_or(|&highest| number.saturating_add(REPLAY_WINDOW_DATAGRAMS) > highest);
        in_window && !self.opened.contains(&number)
    }

    fn has_key(&self, number: u64) -> bool {
        let epoch = epoch_of(number);
        epoch == self.epoch || epoch == self.epoch + 1 || (epoch + 1 == self.epoch && self.has_previous)
    }

    fn open(&mut self, number: u64) {
        if epoch_of(number) > self.epoch {
            self.epoch += 1;
            self.has_previous = true;
        }
        if epoch_of(number) == self.epoch && number % EPOCH >= PREVIOUS_EPOCH_DATAGRAMS {
            self.has_previous = false;
        }
        self.opened.insert(number);
    }
}

struct Scenario {
    seal: SealKeys,
    open: OpenKeys,
    window: ReplayWindow,
    model: Model,
    /// Lowest number that the sealing side must accept.
    next: u64,
    sent: Vec<Sealed>,
}

impl Scenario {
    /// Seals a datagram with a number at an edge of the window or of an epoch, or anywhere.
    fn seal(&mut self, input: &mut Input<'_>) {
        let to_next_epoch = EPOCH - self.next % EPOCH;
        let step = match input.below(8) {
            0..=2 => 0,
            3 => input.u8().into(),
            4 => REPLAY_WINDOW_DATAGRAMS - 2 + u64::from(input.u8() % 4),
            5 => (to_next_epoch + u64::from(input.u8() % 4)).saturating_sub(2),
            6 => PREVIOUS_EPOCH_DATAGRAMS - 2 + u64::from(input.u8() % 4),
            _ => input.number(),
        };
        let number = if input.rarely(16) { self.next.wrapping_sub(step) } else { self.next.saturating_add(step) };
        let plaintext = filler(number, usize::from(input.u16()) % (SEALED_BYTES_MAX + 1 - HEADER.len()));
        let mut buffer = plaintext.clone();
        let mut tag = [0; TAG_BYTES];
        let result = self.seal.seal(number, &HEADER, &mut buffer, &mut tag);
        let newest_epoch = self.sent.last().map_or(0, |sealed| epoch_of(sealed.number));
        let expected = if number < self.next {
            Err(SealError::NumberUsed { number, least: self.next })
        } else if plaintext.len() + HEADER.len() + TAG_BYTES > SEALED_BYTES_MAX {
            Err(SealError::TooLong(plaintext.len() + HEADER.len() + TAG_BYTES))
        } else if epoch_of(number) > newest_epoch + 1 {
            Err(SealError::EpochSkipped(number))
        } else {
            Ok(())
        };
        assert_eq!(result, expected);
        if result.is_err() {
            assert_eq!((buffer, tag), (plaintext, [0; TAG_BYTES]), "a refused datagram was changed");
            return;
        }
        self.next = number + 1;
        buffer.extend_from_slice(&tag);
        self.sent.push(Sealed { number, plaintext, bytes: buffer });
    }

    /// Delivers a genuine datagram, for the first time or again.
    fn deliver_any(&mut self, input: &mut Input<'_>) {
        // Counted from the newest datagram: old ones are outside of the window.
        let index = (self.sent.len()).checked_sub(1 + input.below(self.sent.len()));
        let Some(sealed) = index.and_then(|index| self.sent.get(index)).cloned() else { return };
        let fresh = self.model.is_unseen(sealed.number);
        assert_eq!(self.window.check(sealed.number), fresh, "number {}", sealed.number);
        let mut buffer = sealed.bytes.clone();
        let opened = self.open.open(sealed.number, &HEADER, &mut buffer);
        if !self.model.has_key(sealed.number) {
            assert_eq!(opened, Err(OpenError::EpochOutOfReach(sealed.number)));
            assert_eq!(buffer, sealed.bytes, "a datagram out of reach was changed");
            return;
        }
        assert_eq!(opened, Ok(sealed.plaintext.len()), "number {}", sealed.number);
        assert_eq!(buffer[..sealed.plaintext.len()], sealed.plaintext);
        assert_eq!(self.window.commit(sealed.number), fresh);
        if fresh {
            self.model.open(sealed.number);
        } else if epoch_of(sealed.number) > self.model.epoch {
            panic!("number {} was seen in an epoch which has not come", sealed.number);
        }
        assert_eq!(self.window.highest(), self.model.opened.last().copied());
        assert!(!self.window.check(sealed.number));
    }

    /// Delivers a datagram with changed bytes, header or number. It must change nothing.
    fn deliver_changed(&mut self, input: &mut Input<'_>) {
        let index = input.below(self.sent.len());
        let Some(sealed) = self.sent.get(index).cloned() else { return };
        let (mut number, mut header, mut bytes) = (sealed.number, HEADER.to_vec(), sealed.bytes.clone());
        match input.below(4) {
            0 => mutate(input, &mut header),
            1 => number = input.number_near(number),
            2 => number ^= 1 << input.below(64),
            _ => mutate(input, &mut bytes),
        }
        if (number, &header[..], &bytes) == (sealed.number, &HEADER[..], &sealed.bytes) {
            return;
        }
        let expected = if bytes.len() < TAG_BYTES {
            OpenError::TooShort(bytes.len())
        } else if self.model.has_key(number) {
            self.model.forged += 1;
            OpenError::Forged
        } else {
            OpenError::EpochOutOfReach(number)
        };
        assert_eq!(self.open.open(number, &header, &mut bytes), Err(expected));
        assert_eq!(self.open.forged(), self.model.forged);
    }
}
