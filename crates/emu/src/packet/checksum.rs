//! Internet checksum (RFC 1071).

/// Sum of 16-bit words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Sum of `bytes`; an odd last one is the upper half of a word.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(2);
        let odd = words.remainder().first().map_or(0, |&last| u64::from(last) << 8);
        Self(words.fold(odd, |sum, word| sum + u64::from(u16::from_be_bytes([word[0], word[1]]))))
    }

    pub(crate) fn plus_word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Sum folded to 16 bits, not inverted: the field's content before the checksum is completed.
    pub(crate) fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Checksum: the inverted sum.
    pub(crate) fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Completes the checksum at `start + offset` over everything from `start` on; `false`, without effect, if it would lie outside `packet`.
/// Zero is written as all ones, an equal number that does not mean "no checksum" in UDP.
pub(crate) fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(summed) = packet.get_mut(start..) else { return false };
    let sum = Sum::of(summed).checksum();
    let sum = if sum == 0 { 0xffff } else { sum };
    let Some(field) = summed.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) else { return false };
    *field = sum.to_be_bytes();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((sum.folded(), sum.checksum()), (0xddf2, !0xddf2));
        assert_eq!(Sum::of(&[0x12]).folded(), 0x1200);
        assert_eq!(Sum::of(&[0xff; 6]).plus_word(1).folded(), 1);
    }

    #[test]
    fn a_completed_packet_sums_to_all_ones() {
        let mut packet = vec![9, 9, 0x12, 0x34, 0, 0, 0x56];
        assert!(complete(&mut packet, 2, 2));
        assert_eq!(Sum::of(&packet[2..]).folded(), 0xffff);
        let before = packet.clone();
        for (start, offset) in [(2, 4), (7, 0), (8, 0), (usize::MAX, usize::MAX)] {
            assert!(!complete(&mut packet, start, offset), "{start} {offset}");
        }
        assert_eq!(packet, before);
    }
}
