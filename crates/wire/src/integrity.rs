//! Integrity protection of a segment: RFC 1071's checksum, CRC-32C, or the AEAD tag.

use crate::DecodeError;
use crate::header::RawHeader;
use crate::sizes::CRC_BYTES;

impl RawHeader {
    pub(crate) fn verify_checksum(&self, datagram: &[u8]) -> Result<(), DecodeError> {
        let computed = checksum(datagram, self.checksum);
        if self.checksum == computed { Ok(()) } else { Err(DecodeError::Checksum { found: self.checksum, computed }) }
    }

    /// Verifies the CRC at the datagram's end, and returns its offset, which is the end of the payload.
    #[inline]
    pub(crate) fn verify_crc(&self, datagram: &[u8]) -> Result<usize, DecodeError> {
        self.check_no_checksum()?;
        let Some((covered, crc)) = datagram.split_last_chunk::<CRC_BYTES>() else {
            return Err(DecodeError::TooShort { bytes: datagram.len() });
        };
        let found = u32::from_be_bytes(*crc);
        let computed = crc_fast::crc32_iscsi(covered);
        if found == computed { Ok(covered.len()) } else { Err(DecodeError::Crc { found, computed }) }
    }

    /// Checks that the checksum field of a modern segment is zero.
    pub(crate) const fn check_no_checksum(&self) -> Result<(), DecodeError> {
        if self.checksum == 0 { Ok(()) } else { Err(DecodeError::ChecksumNotZero { found: self.checksum }) }
    }
}

/// Adds to `sum` the 16-bit big-endian words of `bytes`, as a one's complement sum before folding. An odd last byte is
/// padded with zero (RFC 1071 §1).
fn ones_complement_sum(bytes: &[u8], mut sum: u64) -> u64 {
    // Wider words give the same sum once folded (RFC 1071 §2.C). The length of a datagram is too small to overflow 64
    // bits.
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_be_bytes(*word));
    }
    let mut last = [0; 4];
    for (place, byte) in last.iter_mut().zip(rest) {
        *place = *byte;
    }
    sum + u64::from(u32::from_be_bytes(last))
}

/// Computes the classic checksum of a segment whose checksum field holds `held` (0 for a field not yet filled in).
///
/// The result is never zero: of the two one's complement zeros, 0xFFFF is sent (like in UDP, RFC 768). So the field is
/// zero in modern segments only, and a flipped profile bit is always detected.
pub(crate) fn checksum(segment: &[u8], held: u16) -> u16 {
    // Adding the complement of a word removes the word from a one's complement sum (RFC 1624).
    let mut sum = ones_complement_sum(segment, u64::from(!held));
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xFFFF,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::{checksum, ones_complement_sum};

    #[test]
    fn rfc_1071_example() {
        // RFC 1071 §3: the sum of these words is 0xDDF2.
        let bytes = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
        assert_eq!(checksum(&bytes, 0), !0xDDF2);
        assert_eq!(ones_complement_sum(&[0x12], 0), 0x1200_0000);
    }

    #[test]
    fn a_held_checksum_is_taken_out() {
        let mut bytes = [0x60, 0x02, 0x00, 0x00, 0xFF, 0xFE, 0x01];
        let value = checksum(&bytes, 0);
        bytes[2..4].copy_from_slice(&value.to_be_bytes());
        assert_eq!(checksum(&bytes, value), value);
    }

    #[test]
    fn zero_is_never_sent() {
        assert_eq!(checksum(&[0xFF, 0xFF], 0), 0xFFFF);
        assert_eq!(checksum(&[0xFF, 0xFE, 0x00, 0x01], 0), 0xFFFF);
    }

    #[test]
    fn crc_32c_check_value() {
        // Check value of CRC-32C in RFC 3720 §B.4 and the CRC catalogue.
        assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xE306_9283);
        assert_eq!(crc_fast::crc32_iscsi(&[0; 32]), 0x8A91_36AA);
    }
}
