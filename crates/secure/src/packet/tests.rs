use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const EPOCH: u64 = 1 << EPOCH_SHIFT;
const HEADER: [u8; 24] = [0x5A; 24];

fn pair(cipher: Cipher) -> (SealKeys, OpenKeys) {
    let traffic = Secret([9; 32]);
    let direction = Direction::FromInitiator;
    (SealKeys::new(cipher, direction, &traffic), OpenKeys::new(cipher, direction, &traffic))
}

/// Returns a sealed datagram without its header.
fn sealed(keys: &mut SealKeys, number: u64, plaintext: &[u8]) -> Vec<u8> {
    let mut buffer = plaintext.to_vec();
    let mut tag = [0; TAG_BYTES];
    keys.seal(number, &HEADER, &mut buffer, &mut tag).unwrap();
    buffer.extend(tag);
    buffer
}

fn open(keys: &mut OpenKeys, number: u64, datagram: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut buffer = datagram.to_vec();
    let length = keys.open(number, &HEADER, &mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

#[test]
fn every_length_comes_back() {
    for cipher in Cipher::ALL {
        let (mut seal, mut opens) = pair(cipher);
        for length in 0..=1500_usize {
            let plaintext: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
            let datagram = sealed(&mut seal, length as u64, &plaintext);
            assert_eq!(datagram.len(), length + TAG_BYTES);
            assert!(length < 16 || datagram[..length] != plaintext);
            assert_eq!(open(&mut opens, length as u64, &datagram), Ok(plaintext), "{cipher:?} {length}");
        }
    }
}

#[test]
fn any_bit_flip_and_any_truncation_is_refused_and_changes_nothing() {
    for cipher in Cipher::ALL {
        let (mut seal, mut opens) = pair(cipher);
        let datagram = sealed(&mut seal, 77, b"forty symbols and five");
        let mut forged = 0;
        for bit in 0..datagram.len() * 8 {
            let mut other = datagram.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&mut opens, 77, &other), Err(OpenError::Forged), "{cipher:?} bit {bit}");
            forged += 1;
        }
        for bit in 0..HEADER.len() * 8 {
            let (mut header, mut other) = (HEADER, datagram.clone());
            header[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opens.open(77, &header, &mut other), Err(OpenError::Forged), "{cipher:?} header bit {bit}");
            forged += 1;
        }
        for bit in 0..EPOCH_SHIFT + 1 {
            assert_eq!(open(&mut opens, 77 ^ (1 << bit), &datagram), Err(OpenError::Forged), "number bit {bit}");
            forged += 1;
        }
        for length in 0..datagram.len() {
            let expected = if length < TAG_BYTES { OpenError::TooShort(length) } else { OpenError::Forged };
            assert_eq!(open(&mut opens, 77, &datagram[..length]), Err(expected));
            forged += u64::from(length >= TAG_BYTES);
        }
        assert_eq!(opens.forged(), forged);
        assert_eq!(opens.epoch_and_previous(), (0, false));
        assert_eq!(open(&mut opens, 77, &datagram).unwrap(), b"forty symbols and five");
    }
}

#[test]
fn directions_ciphers_and_secrets_have_keys_of_their_own() {
    let make = |cipher, direction, traffic| SealKeys::new(cipher, direction, &Secret([traffic; 32]));
    let mut outputs = BTreeSet::new();
    let mut count = 0;
    for cipher in Cipher::ALL {
        for direction in [Direction::FromInitiator, Direction::FromResponder] {
            for traffic in [1, 2] {
                let mut keys = make(cipher, direction, traffic);
                for number in [0, EPOCH, 2 * EPOCH] {
                    outputs.insert(sealed(&mut keys, number, &[0; 64]));
                    count += 1;
                }
            }
        }
    }
    assert_eq!(outputs.len(), count);
}

#[test]
fn a_number_going_back_is_refused_by_the_sealing_side() {
    let (mut seal, _) = pair(Cipher::Aes128Gcm);
    let mut tag = [0; TAG_BYTES];
    let mut buffer = *b"plain";
    for number in [0, 1, 5, EPOCH - 1, EPOCH] {
        seal.seal(number, &HEADER, &mut buffer, &mut tag).unwrap();
        for used in [number, number.saturating_sub(1), 0] {
            let (mut untouched, mut no_tag) = (*b"plain", [0; TAG_BYTES]);
            let refused = seal.seal(used, &HEADER, &mut untouched, &mut no_tag);
            assert_eq!(refused, Err(SealError::NumberUsed { number: used, least: number + 1 }));
            assert_eq!((&untouched, no_tag), (b"plain", [0; TAG_BYTES]));
        }
    }
    let refused = seal.seal(3 * EPOCH, &HEADER, &mut buffer, &mut tag);
    assert_eq!(refused, Err(SealError::EpochSkipped(3 * EPOCH)));
    let refused = seal.seal(EPOCH + 1, &HEADER, &mut [0; SEALED_BYTES_MAX], &mut tag);
    assert_eq!(refused, Err(SealError::TooLong(SEALED_BYTES_MAX + HEADER.len() + TAG_BYTES)));
    seal.seal(EPOCH + 1, &HEADER, &mut buffer, &mut tag).unwrap();
}

/// Tests the last number of all. The epoch is set directly, since no real sender gets there.
#[test]
fn numbers_end_without_overflow() {
    let (mut seal, mut opens) = pair(Cipher::ChaCha20Poly1305);
    seal.set_epoch(epoch_of(u64::MAX));
    let mut tag = [0; TAG_BYTES];
    seal.seal(u64::MAX, &HEADER, &mut [], &mut tag).unwrap();
    assert_eq!(seal.seal(u64::MAX, &HEADER, &mut [], &mut tag), Err(SealError::Exhausted));
    assert_eq!(open(&mut opens, u64::MAX, &tag), Err(OpenError::EpochOutOfReach(u64::MAX)));
}

#[test]
fn datagrams_around_a_rekey_may_be_reordered() {
    let (mut seal, mut opens) = pair(Cipher::Aes128Gcm);
    let numbers = [EPOCH - 2, EPOCH - 1, EPOCH, EPOCH + 1, EPOCH + PREVIOUS_EPOCH_DATAGRAMS, 2 * EPOCH];
    let datagrams: Vec<Vec<u8>> = numbers.iter().map(|number| sealed(&mut seal, *number, b"x")).collect();
    let mut opened = |at: usize| open(&mut opens, numbers[at], &datagrams[at]);
    assert!(opened(3).is_ok());
    assert!(opened(1).is_ok());
    assert!(opened(2).is_ok());
    assert!(opened(4).is_ok());
    assert_eq!(opened(0), Err(OpenError::EpochOutOfReach(EPOCH - 2)), "its key is wiped by now");
    assert!(opened(5).is_ok());
    assert!(opened(4).is_ok());
    assert_eq!(opens.epoch_and_previous(), (2, true));
}

#[test]
fn a_forger_can_make_us_derive_the_next_key_once_and_no_other() {
    let (mut seal, mut opens) = pair(Cipher::ChaCha20Poly1305);
    let real = sealed(&mut seal, 3, b"x");
    for number in [2 * EPOCH, 3 * EPOCH, 1 << 40, u64::MAX] {
        let mut buffer = real.clone();
        assert_eq!(opens.open(number, &HEADER, &mut buffer), Err(OpenError::EpochOutOfReach(number)));
        assert_eq!(buffer, real);
    }
    assert!(!opens.has_next());
    for number in [EPOCH, EPOCH + 9, 2 * EPOCH - 1] {
        let before = opens.secret();
        assert_eq!(open(&mut opens, number, &real), Err(OpenError::Forged));
        assert!(opens.has_next());
        assert_eq!(opens.secret() == before, number != EPOCH, "a secret is used up where a key is derived");
    }
    assert_eq!(opens.epoch_and_previous(), (0, false));
    assert_eq!(open(&mut opens, 3, &real).unwrap(), b"x");
    let next = sealed(&mut seal, EPOCH, b"y");
    assert_eq!(open(&mut opens, EPOCH, &next).unwrap(), b"y");
    assert_eq!((opens.epoch_and_previous(), opens.has_next()), ((1, true), false));
}

#[test]
fn the_limit_of_forgeries_ends_the_connection() {
    for (cipher, limit) in
        [(Cipher::Aes128Gcm, 1 << 52), (Cipher::Aes256Gcm, 1 << 52), (Cipher::ChaCha20Poly1305, 1 << 36)]
    {
        let (mut seal, mut opens) = pair(cipher);
        let real = sealed(&mut seal, 0, b"x");
        opens.set_forged(limit - 1);
        assert!(open(&mut opens, 0, &real).is_ok());
        assert_eq!(open(&mut opens, 0, &[0; 40]), Err(OpenError::Forged));
        assert_eq!(open(&mut opens, 0, &real), Err(OpenError::ForgeryLimit));
    }
}

#[test]
fn ids_are_read_as_they_were_written() {
    for cipher in Cipher::ALL {
        assert_eq!(Cipher::from_id(cipher.id()), Some(cipher));
    }
    assert_eq!((Cipher::from_id(0), Cipher::from_id(4)), (None, None));
}

proptest! {
    /// Model: the set of pairs of key (identified by its output for a fixed block) and nonce of all sealed datagrams.
    #[test]
    fn no_pair_of_key_and_nonce_repeats(steps in prop::collection::vec(prop_oneof![0..4_u64, EPOCH / 3..EPOCH], 1..60)) {
        let (mut seal, _) = pair(Cipher::Aes256Gcm);
        let (mut pairs, mut number) = (BTreeSet::new(), 0_u64);
        for step in steps {
            number += step;
            let mut tag = [0; TAG_BYTES];
            let result = seal.seal(number, &HEADER, &mut [], &mut tag);
            let keys = (seal.key_bytes(), seal.nonce_bytes(number));
            match result {
                Ok(()) => prop_assert!(pairs.insert(keys), "number {number}"),
                Err(SealError::NumberUsed { .. }) => prop_assert!(pairs.contains(&keys), "number {number}"),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    #[test]
    fn random_bytes_are_refused(number: u64, header in prop::collection::vec(any::<u8>(), 0..70), mut buffer in prop::collection::vec(any::<u8>(), 0..1600)) {
        for cipher in Cipher::ALL {
            let (_, mut opens) = pair(cipher);
            prop_assert!(opens.open(number, &header, &mut buffer).is_err());
            prop_assert_eq!(opens.epoch_and_previous(), (0, false));
        }
    }

    /// Any order of arrival around a change of keys, with forgeries in between.
    #[test]
    fn reordering_and_forgery_around_rekeys(order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(), forge in prop::collection::vec(any::<bool>(), 40)) {
        let (mut seal, mut opens) = pair(Cipher::Aes128Gcm);
        let number = |at: usize| EPOCH - 20 + at as u64;
        let datagrams: Vec<Vec<u8>> = (0..40).map(|at| sealed(&mut seal, number(at), &[at as u8])).collect();
        for at in order {
            if forge[at] {
                let mut other = datagrams[at].clone();
                other[0] ^= 1;
                prop_assert_eq!(open(&mut opens, number(at), &other), Err(OpenError::Forged));
            }
            prop_assert_eq!(open(&mut opens, number(at), &datagrams[at]), Ok(vec![at as u8]));
        }
    }
}
