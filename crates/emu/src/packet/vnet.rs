//! `struct virtio_net_hdr`, in front of every packet of a TUN device with `IFF_VNET_HDR` (virtio 1.2, §5.1.6).

/// Length of the header: by default a TUN device uses the variant without `num_buffers`.
pub(crate) const VNET_BYTES: usize = 10;

/// Flag: the checksum field holds only the pseudo-header sum, and must be completed.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

/// GSO type of a plain packet.
pub(crate) const GSO_NONE: u8 = 0;
/// GSO type of TCP over IPv4.
pub(crate) const GSO_TCPV4: u8 = 1;
/// GSO type of TCP over IPv6.
pub(crate) const GSO_TCPV6: u8 = 4;
/// GSO type of UDP over IPv4 or IPv6. A superpacket of this type has datagrams of equal length, except the last.
pub(crate) const GSO_UDP_L4: u8 = 5;
/// Flag for TCP types if the first segment has CWR set (RFC 3168).
pub(crate) const GSO_ECN: u8 = 0x80;

/// Header, in native byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub(crate) flags: u8,
    pub(crate) gso_kind: u8,
    /// Length of a superpacket's headers, bytes. Only a hint: the receiver must not rely on it.
    pub(crate) headers_bytes: u16,
    /// Payload bytes of each segment except the last.
    pub(crate) segment_bytes: u16,
    /// Offset at which summing starts.
    pub(crate) checksum_start: u16,
    /// Offset of the checksum, from `checksum_start`.
    pub(crate) checksum_offset: u16,
}

impl VnetHeader {
    pub(crate) fn decode(bytes: &[u8; VNET_BYTES]) -> Self {
        let [flags, gso_kind, h0, h1, s0, s1, c0, c1, o0, o1] = *bytes;
        Self {
            flags,
            gso_kind,
            headers_bytes: u16::from_ne_bytes([h0, h1]),
            segment_bytes: u16::from_ne_bytes([s0, s1]),
            checksum_start: u16::from_ne_bytes([c0, c1]),
            checksum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    pub(crate) fn encode(self) -> [u8; VNET_BYTES] {
        let [h0, h1] = self.headers_bytes.to_ne_bytes();
        let [s0, s1] = self.segment_bytes.to_ne_bytes();
        let [c0, c1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_kind, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    pub(crate) fn needs_checksum(self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        // include/uapi/linux/virtio_net.h: two bytes, then four 16-bit numbers.
        let words = [54_u16, 1448, 20, 16].into_iter().flat_map(u16::to_ne_bytes);
        let bytes: Vec<u8> = [1, 0x81].into_iter().chain(words).collect();
        let bytes: [u8; VNET_BYTES] = bytes.try_into().unwrap();
        let header = VnetHeader::decode(&bytes);
        let expected = VnetHeader {
            flags: NEEDS_CHECKSUM,
            gso_kind: GSO_TCPV4 | GSO_ECN,
            headers_bytes: 54,
            segment_bytes: 1448,
            checksum_start: 20,
            checksum_offset: 16,
        };
        assert_eq!(header, expected);
        assert_eq!(header.encode(), bytes);
    }
}
