//! Shape of a modern block in S2 of data segments.

use crate::DecodeError;

/// Shape of a modern block, in S2 of each of its data segments: K−1 (8 bits, most significant), length in bytes (19
/// bits), end-of-stream mark (1 bit). The other four bits of S2 belong to the [`Fragment`](crate::Fragment), and are 0
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockInfo {
    /// Number of source symbols of the block, 1 to 256.
    pub k: u16,
    /// Length of the block, bytes; 1 to [`Self::LENGTH_BYTES_MAX`].
    pub length_bytes: u32,
    /// True for the last block of the stream.
    pub end_of_stream: bool,
}

const LENGTH_SHIFT: u32 = 5;
const K_SHIFT: u32 = 24;
const END_OF_STREAM: u32 = 1 << 4;

impl BlockInfo {
    /// Maximum number of source symbols of a block.
    pub const K_MAX: u16 = 256;
    /// Maximum length of a block, bytes: the largest number of 19 bits.
    pub const LENGTH_BYTES_MAX: u32 = (1 << 19) - 1;

    /// Encodes into S2. A `k` or length out of range, an error of the caller, is clamped so that neighbouring bits stay
    /// correct.
    #[must_use]
    pub fn to_s2(self) -> u32 {
        let k_minus_1 = u32::from(self.k.clamp(1, Self::K_MAX)) - 1;
        let length = self.length_bytes.clamp(1, Self::LENGTH_BYTES_MAX);
        let mark = if self.end_of_stream { END_OF_STREAM } else { 0 };
        k_minus_1 << K_SHIFT | length << LENGTH_SHIFT | mark
    }

    /// Decodes the block's bits of S2. The caller must check that K symbols of the connection's symbol size can hold
    /// `length_bytes`.
    ///
    /// # Errors
    /// Fails with [`DecodeError::BlockInfoLength`] for length 0.
    #[inline]
    pub const fn from_s2(s2: u32) -> Result<Self, DecodeError> {
        let length_bytes = s2 >> LENGTH_SHIFT & Self::LENGTH_BYTES_MAX;
        if length_bytes == 0 {
            return Err(DecodeError::BlockInfoLength);
        }
        let k = (s2 >> K_SHIFT) as u16 + 1;
        Ok(Self { k, length_bytes, end_of_stream: s2 & END_OF_STREAM != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::BlockInfo;
    use crate::DecodeError;

    #[test]
    fn extremes_keep_to_their_bits() {
        let least = BlockInfo { k: 1, length_bytes: 1, end_of_stream: false };
        assert_eq!(least.to_s2(), 0x0000_0020);
        let most = BlockInfo { k: 256, length_bytes: (1 << 19) - 1, end_of_stream: true };
        assert_eq!(most.to_s2(), 0xFFFF_FFF0);
        for info in [least, most] {
            assert_eq!(BlockInfo::from_s2(info.to_s2()), Ok(info));
        }
    }

    #[test]
    fn values_out_of_range_are_clamped() {
        let beyond = BlockInfo { k: 257, length_bytes: 1 << 19, end_of_stream: false };
        assert_eq!(beyond.to_s2(), 0xFFFF_FFE0);
        assert_eq!(BlockInfo { k: 0, length_bytes: 0, end_of_stream: true }.to_s2(), 0x0000_0030);
    }

    #[test]
    fn empty_blocks_are_refused() {
        assert_eq!(BlockInfo::from_s2(0x2C00_0010), Err(DecodeError::BlockInfoLength));
    }
}
