//! ECN field of an IP packet (RFC 3168, sections 5 and 23): in IPv4's second byte, and in IPv6's traffic class.

use dfcp_netem::Ecn;

use super::checksum::Sum;

/// Offset of the checksum in the IPv4 header.
const CHECKSUM_AT: usize = 10;

/// Left shift of the field's two bits in the second byte; `None` without an IP header.
fn shift(packet: &[u8]) -> Option<u32> {
    match packet.first()? >> 4 {
        4 => Some(0),
        6 => Some(4),
        _ => None,
    }
}

/// Codepoint of a packet.
pub(super) fn of(packet: &[u8]) -> Ecn {
    let bits = shift(packet).zip(packet.get(1)).map(|(shift, byte)| byte >> shift);
    bits.map_or(Ecn::NotEct, Ecn::from_bits)
}

/// Sets the codepoint to CE. IPv4's checksum is updated by the difference (RFC 1624, equation 3), so that a wrong
/// checksum stays wrong; no other checksum covers the field.
pub(super) fn mark_ce(packet: &mut [u8]) {
    let Some((shift, &[first, second])) = shift(packet).zip(packet.first_chunk()) else { return };
    let marked = second | Ecn::Ce.bits() << shift;
    packet[1] = marked;
    if shift > 0 {
        return;
    }
    if let Some(field) = packet.get_mut(CHECKSUM_AT..).and_then(<[u8]>::first_chunk_mut) {
        let (old, new) = (u16::from_be_bytes([first, second]), u16::from_be_bytes([first, marked]));
        let sum = Sum::default().plus_word(!u16::from_be_bytes(*field)).plus_word(!old).plus_word(new);
        *field = sum.checksum().to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// IPv4 header with a correct checksum.
    fn ipv4(mut header: Vec<u8>) -> Vec<u8> {
        header[0] = 0x40 | (header.len() / 4) as u8;
        header[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
        let sum = Sum::of(&header).checksum();
        header[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        header
    }

    fn headers() -> impl Strategy<Value = Vec<u8>> {
        (5..=15_usize).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4)).prop_map(ipv4)
    }

    proptest! {
        #[test]
        fn a_mark_leaves_the_checksum_of_ipv4_as_right_as_it_was(header in headers(), wrong in any::<u16>()) {
            let mut marked = header.clone();
            mark_ce(&mut marked);
            prop_assert_eq!(of(&marked), Ecn::Ce);
            prop_assert_eq!(Sum::of(&marked).folded(), 0xffff);
            // Equal to a newly computed checksum.
            let mut anew = header.clone();
            anew[1] |= 3;
            prop_assert_eq!(&marked, &ipv4(anew));
            // A wrong checksum is off by the same amount as before.
            let mut broken = header;
            let sum = u16::from_be_bytes([broken[10], broken[11]]) ^ wrong;
            broken[10..12].copy_from_slice(&sum.to_be_bytes());
            let was_right = Sum::of(&broken).folded() == 0xffff;
            mark_ce(&mut broken);
            prop_assert_eq!(Sum::of(&broken).folded() == 0xffff, was_right);
        }

        #[test]
        fn a_mark_of_ipv6_changes_two_bits(mut packet in prop::collection::vec(any::<u8>(), 40..60)) {
            packet[0] = 0x60 | packet[0] & 0x0f;
            let mut marked = packet.clone();
            mark_ce(&mut marked);
            prop_assert_eq!((of(&marked), marked[1]), (Ecn::Ce, packet[1] | 0x30));
            marked[1] = packet[1];
            prop_assert_eq!(marked, packet);
        }

        #[test]
        fn what_is_no_ip_packet_stays_as_it_is(packet in prop::collection::vec(any::<u8>(), 0..12)) {
            let is_ip = matches!(packet.first().map(|first| first >> 4), Some(4 | 6));
            let mut marked = packet.clone();
            mark_ce(&mut marked);
            prop_assert!(is_ip || (marked == packet && of(&packet) == Ecn::NotEct));
        }
    }

    #[test]
    fn codepoints_are_read_where_each_version_has_them() {
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let bits = ecn.bits();
            assert_eq!((of(&[0x45, 0xb8 | bits]), of(&[0x6b, 0x8f | bits << 4])), (ecn, ecn));
        }
    }
}
