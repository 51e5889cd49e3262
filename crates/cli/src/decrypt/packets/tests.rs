use dfcp_secure::{
    Answered, Cipher, Established, Initiator, InitiatorKeys, Pattern, PreSharedKey, Responder, ResponderKeys, SealKeys,
};
use proptest::prelude::*;

use super::*;
use crate::capture::packet::{LinkType, carried};
use crate::key_log::line::Line;

const TO_INITIATOR: u32 = 0x0102_0304;
const TO_RESPONDER: u32 = 0xA1A2_A3A4;

/// Both ends of a connection.
fn established() -> (Established, Established) {
    let key = PreSharedKey::from_bytes(&[5; 32]);
    let (mut message, mut payload) = ([0; 1500], [0; 1500]);
    let mut initiator = Initiator::new(InitiatorKeys::PreShared(key.clone()), b"", [1; 32]).unwrap();
    let keys = ResponderKeys { own: None, pre_shared: Some(key) };
    let length = initiator.write_first(b"", &mut message).unwrap();
    let first = &message[..length];
    let (responder, _) = Responder::read_first(&keys, Pattern::PreShared, b"", [2; 32], first, &mut payload).unwrap();
    let (length, answered) = responder.write_second(b"", &mut message).unwrap();
    initiator.read_second(&message[..length], &mut payload).unwrap();
    let Answered::Established(responder) = answered else { panic!("the pattern has two messages") };
    (initiator.finish().unwrap(), responder)
}

/// Key ring that decrypts, and the initiator's keys that encrypt.
fn ring_and_sealer() -> (KeyRing, SealKeys) {
    let (initiator, _) = established();
    let [from_initiator, from_responder] = initiator.danger_traffic_secrets().map(|secret| *secret);
    let mut ring = KeyRing::default();
    let line = Line {
        cipher: Cipher::Aes128Gcm,
        handshake_hash: initiator.handshake_hash(),
        initiator_id: TO_INITIATOR,
        responder_id: TO_RESPONDER,
        from_initiator,
        from_responder,
    };
    ring.add(&line).unwrap();
    (ring, initiator.into_keys(Cipher::Aes128Gcm).0)
}

/// Datagram of the initiator with this payload (a keep-alive if empty): as sent, and as decrypted.
fn datagram(keys: &mut SealKeys, number: u32, payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut header = Vec::new();
    for word in [TO_RESPONDER, 7, 3, 0x6820_0000, 0x0100_0000, number] {
        header.extend(word.to_be_bytes());
    }
    let (mut sealed, mut tag) = (payload.to_vec(), [0; TAG_BYTES]);
    keys.seal(number.into(), &header, &mut sealed, &mut tag).unwrap();
    ([&header[..], &sealed, &tag].concat(), [&header[..], payload, &OPENED_MARK].concat())
}

/// IPv4 packet with its UDP checksum.
fn packet(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() + 8) as u16;
    let mut udp = [&[0x9C, 0x40, 0x11, 0x51][..], &length.to_be_bytes(), &[0, 0], payload].concat();
    let addresses = [192, 0, 2, 1, 192, 0, 2, 2];
    let checksum = !checked(&addresses, &udp);
    udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    let total = (udp.len() + 20) as u16;
    [&[0x45, 0][..], &total.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0], &addresses, &udp].concat()
}

/// Sum over the datagram; 0xFFFF if the checksum is correct.
fn checked(addresses: &[u8], udp: &[u8]) -> u16 {
    let words = [sum(addresses), 17, udp.len() as u16, sum(udp)];
    fold(words.iter().map(|&word| u64::from(word)).sum())
}

fn opened(ring: &mut KeyRing, packet: &[u8], wire_bytes: usize) -> (Vec<u8>, Counts) {
    let (mut copy, mut counts) = (packet.to_vec(), Counts::default());
    let carried = carried(LinkType::RawIp, packet, wire_bytes as u32).unwrap();
    open(ring, &mut copy, &carried, &mut counts);
    (copy, counts)
}

#[test]
fn a_datagram_keeps_its_length_and_its_checksum_stays_right() {
    let (mut ring, mut keys) = ring_and_sealer();
    for (number, length) in [0, 1, 2, 3, 700, 1400].into_iter().enumerate() {
        let payload: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
        let (sealed, plain) = datagram(&mut keys, number as u32, &payload);
        let before = packet(&sealed);
        let (after, counts) = opened(&mut ring, &before, before.len());
        assert_eq!(after[28..], plain);
        assert_eq!((after.len(), counts), (before.len(), Counts { opened: 1, ..Counts::default() }));
        assert_eq!(checked(&after[12..20], &after[20..]), 0xFFFF, "{length}");
        assert_eq!(after[..26], before[..26]);
        let (again, counts) = opened(&mut ring, &after, after.len());
        assert_eq!((again, counts), (after, Counts { opened_before: 1, ..Counts::default() }));
    }
}

#[test]
fn without_a_checksum_there_is_none_afterwards() {
    let (mut ring, mut keys) = ring_and_sealer();
    let (sealed, plain) = datagram(&mut keys, 0, b"abc");
    let mut before = packet(&sealed);
    before[26..28].fill(0);
    let (after, _) = opened(&mut ring, &before, before.len());
    assert_eq!((&after[26..28], &after[28..]), (&[0, 0][..], &plain[..]));
}

#[test]
fn several_datagrams_in_one_packet_are_opened_each() {
    let (mut ring, mut keys) = ring_and_sealer();
    // One packet number is skipped, and 30 are lost.
    let numbers = (0..10).chain(11..20).chain(50..61);
    let all: Vec<_> = numbers.map(|number| datagram(&mut keys, number, &[9; 1200])).collect();
    let last = datagram(&mut keys, 61, b"short");
    let (sealed, plain): (Vec<_>, Vec<_>) = all.into_iter().chain([last]).unzip();
    let before = packet(&sealed.concat());
    let (after, counts) = opened(&mut ring, &before, before.len());
    assert_eq!(after[28..], plain.concat());
    assert_eq!(counts, Counts { opened: 31, ..Counts::default() });
    assert_eq!(checked(&after[12..20], &after[20..]), 0xFFFF);
    // With a short snap length, only the first datagrams are complete.
    let (after, counts) = opened(&mut ring, &before[..28 + 3 * 1240 + 100], before.len());
    assert_eq!(counts, Counts { opened: 3, truncated: 1, ..Counts::default() });
    assert_eq!(after[28 + 3 * 1240..], before[28 + 3 * 1240..28 + 3 * 1240 + 100]);
}

#[test]
fn what_stays_closed_is_unchanged_and_counted_by_cause() {
    let (mut ring, mut keys) = ring_and_sealer();
    let (sealed, _) = datagram(&mut keys, 0, b"payload");
    let mut forged = sealed.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut of_others = sealed.clone();
    of_others[0] ^= 1;
    let mut not_ours = sealed.clone();
    not_ours[15] = 1;
    let none = Counts::default();
    for (payload, cut, expected) in [
        (&forged, 0, Counts { forged: 1, ..none }),
        (&of_others, 0, Counts { no_key: 1, ..none }),
        (&sealed, 1, Counts { truncated: 1, ..none }),
        (&sealed, 20, Counts { truncated: 1, ..none }),
        (&sealed, 30, Counts { others: 1, ..none }),
        (&not_ours, 0, Counts { others: 1, ..none }),
        (&b"GET / HTTP/1.1".to_vec(), 0, Counts { others: 1, ..none }),
        (&vec![], 0, Counts { others: 1, ..none }),
    ] {
        let before = packet(payload);
        let kept = &before[..before.len() - cut];
        let (after, counts) = opened(&mut ring, kept, before.len());
        assert_eq!((&after[..], counts), (kept, expected));
    }
    // The genuine datagram still decrypts.
    let before = packet(&sealed);
    assert_eq!(opened(&mut ring, &before, before.len()).1.opened, 1);
}

proptest! {
    #[test]
    fn no_packet_is_too_strange(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), copies in 1..5_usize,
        cut in 0..80_usize, noise in prop::collection::vec(any::<u8>(), 0..60), more: u16,
    ) {
        let (mut ring, mut keys) = ring_and_sealer();
        let mut payload: Vec<u8> = (0..copies as u32).flat_map(|number| datagram(&mut keys, number, b"0123456789").0).collect();
        payload.extend(noise);
        for (at, byte) in edits {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        let mut bytes = packet(&payload);
        let wire_bytes = bytes.len() + usize::from(more);
        bytes.truncate(bytes.len().saturating_sub(cut).max(28));
        let (after, counts) = opened(&mut ring, &bytes, wire_bytes);
        prop_assert_eq!(after.len(), bytes.len());
        prop_assert!(counts.opened <= copies as u64);
        prop_assert_eq!(counts.opened > 0, after != bytes);
    }
}
