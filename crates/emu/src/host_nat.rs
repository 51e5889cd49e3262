//! NAT for one host, for a network that the caller emulates.

use crate::nat::Nat;
use crate::packet::Frame;

/// The only route of the host.
const ROUTE: usize = 0;

/// NAT in front of one host. It translates UDP and TCP ports of IP packets with complete checksums; fragments and packets without ports
/// pass unchanged, as does everything before the first [`forget`](Self::forget).
#[derive(Debug, Default)]
pub struct HostNat(Nat);

impl HostNat {
    /// Gives the host new ports; packets to the old ones are lost from now on.
    pub fn forget(&self) {
        self.0.forget(ROUTE);
    }

    /// Translates an IP packet from the host.
    pub fn send(&self, packet: &mut [u8]) {
        let Ok(mut frame) = Frame::of_packet(packet) else { return };
        self.0.send(ROUTE, &mut frame);
        packet.copy_from_slice(frame.packet());
    }

    /// Translates an IP packet that arrived for the host. Returns false if it must be dropped.
    #[must_use]
    pub fn deliver(&self, packet: &mut [u8]) -> bool {
        let Ok(mut frame) = Frame::of_packet(packet) else { return true };
        self.0.answer(ROUTE, &mut frame);
        packet.copy_from_slice(frame.packet());
        self.0.admits(frame.binding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::testing::Spec;

    /// Packet with a complete checksum, without a device header.
    fn packet(is_udp: bool) -> Vec<u8> {
        let spec = Spec { is_udp, options_words: 0, ..Spec::tcp(100, 100) };
        spec.packets().remove(0)
    }

    /// Answer to the packet: source and destination are swapped, which preserves the checksum.
    fn answer(packet: &[u8]) -> Vec<u8> {
        let mut answer = packet.to_vec();
        answer[12..16].copy_from_slice(&packet[16..20]);
        answer[16..20].copy_from_slice(&packet[12..16]);
        answer[20..22].copy_from_slice(&packet[22..24]);
        answer[22..24].copy_from_slice(&packet[20..22]);
        answer
    }

    #[test]
    fn nothing_is_changed_before_the_nat_forgets() {
        let nat = HostNat::default();
        for is_udp in [false, true] {
            let (before, mut sent) = (packet(is_udp), packet(is_udp));
            nat.send(&mut sent);
            assert_eq!(sent, before);
            let mut back = answer(&before);
            assert!(nat.deliver(&mut back));
            assert_eq!(back, answer(&before));
        }
    }

    #[test]
    fn answers_to_the_new_port_arrive_and_those_to_old_ones_do_not() {
        for is_udp in [false, true] {
            let nat = HostNat::default();
            let original = packet(is_udp);
            let mut old = answer(&original);
            for _ in 0..3 {
                nat.forget();
                // Nothing was sent since: the NAT has no mapping.
                assert!(!nat.deliver(&mut old.clone()));
                let mut sent = original.clone();
                nat.send(&mut sent);
                assert_ne!(sent[20..22], original[20..22]);
                let checksum_at = if is_udp { 26 } else { 36 };
                let others =
                    |packet: &[u8]| [&packet[..20], &packet[22..checksum_at], &packet[checksum_at + 2..]].concat();
                assert_eq!(others(&sent), others(&original));
                let mut back = answer(&sent);
                assert!(nat.deliver(&mut back));
                // The checksum also equals that of the untranslated packet.
                assert_eq!(back, answer(&original));
                assert!(!nat.deliver(&mut old.clone()));
                old = answer(&sent);
            }
        }
    }

    #[test]
    fn fragments_and_what_is_no_packet_pass_as_they_are() {
        let nat = HostNat::default();
        nat.forget();
        let mut fragment = packet(true);
        fragment[6] |= 0x20;
        for bytes in [fragment, Vec::new(), vec![0; 60]] {
            let mut passed = bytes.clone();
            nat.send(&mut passed);
            assert!(nat.deliver(&mut passed));
            assert_eq!(passed, bytes);
        }
    }
}
