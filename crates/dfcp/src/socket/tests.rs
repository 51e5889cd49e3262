//! Tests with malformed packets that strangers can send to a raw socket.

use quinn_udp::EcnCodepoint;

use super::ipv4;

const PROTOCOL: u8 = 253;

fn payload(packet: &[u8], protocol: u8) -> Option<&[u8]> {
    ipv4::payload(packet, protocol).map(|range| &packet[range])
}

/// Returns a packet with `options` bytes of IP options and the payload 0, 1, 2, …
fn packet(options: usize, payload_bytes: usize) -> Vec<u8> {
    let header_bytes = 20 + options;
    let mut packet = vec![0; header_bytes];
    packet[0] = 0x40 | (header_bytes / 4) as u8;
    packet[2..4].copy_from_slice(&((header_bytes + payload_bytes) as u16).to_be_bytes());
    packet[9] = PROTOCOL;
    packet.extend((0..payload_bytes).map(|i| i as u8));
    packet
}

#[test]
fn the_payload_begins_after_header_and_options() {
    for (options, payload_bytes) in [(0, 0), (0, 24), (4, 100), (40, 1_500)] {
        let packet = packet(options, payload_bytes);
        let expected: Vec<u8> = (0..payload_bytes).map(|i| i as u8).collect();
        assert_eq!(payload(&packet, PROTOCOL), Some(&expected[..]));
    }
}

#[test]
fn padding_behind_the_packet_is_left_out() {
    let mut padded = packet(0, 6);
    padded.extend([0xEE; 20]);
    assert_eq!(payload(&padded, PROTOCOL), Some(&[0, 1, 2, 3, 4, 5][..]));
}

#[test]
fn a_truncated_packet_is_no_packet() {
    let whole = packet(8, 30);
    for length in 0..whole.len() {
        assert_eq!(payload(&whole[..length], PROTOCOL), None, "{length} bytes");
    }
}

#[test]
fn a_false_header_is_no_header() {
    let change = |at: usize, value: u8| {
        let mut packet = packet(0, 30);
        packet[at] = value;
        packet
    };
    let wrong = [
        ("version 6", change(0, 0x65)),
        ("header of 16 bytes", change(0, 0x44)),
        ("header longer than the packet", change(0, 0x4F)),
        ("total shorter than the header", change(3, 19)),
        ("total longer than the packet", change(3, 51)),
        ("total of 65 330", change(2, 0xFF)),
        ("another protocol", change(9, 17)),
    ];
    for (what, packet) in wrong {
        assert_eq!(payload(&packet, PROTOCOL), None, "{what}");
    }
}

/// For every first byte and every total length of a short packet, an accepted payload lies within the packet.
#[test]
fn no_length_leads_out_of_the_packet() {
    let mut bytes = packet(0, 60);
    for first in 0..=u8::MAX {
        for total in 0..=120_u16 {
            bytes[0] = first;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            if let Some(payload) = payload(&bytes, PROTOCOL) {
                assert_eq!(first >> 4, 4);
                assert_eq!(payload.len() + usize::from(first & 15) * 4, usize::from(total));
                assert!(usize::from(total) <= bytes.len());
            }
        }
    }
}

/// The system fills in further fields when sending; this test needs only the total length.
#[test]
fn a_header_which_is_sent_is_one_that_is_understood() {
    let (source, destination) = ([192, 0, 2, 1].into(), [198, 51, 100, 7].into());
    let header = ipv4::header(PROTOCOL, (61, 0xb8 | EcnCodepoint::Ect0 as u8), source, destination);
    assert_eq!(header, [0x45, 0xba, 0, 0, 0, 0, 0x40, 0, 61, 253, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    let mut sent = [&header[..], b"abc"].concat();
    sent[3] = 23;
    assert_eq!(payload(&sent, PROTOCOL), Some(&b"abc"[..]));
}
