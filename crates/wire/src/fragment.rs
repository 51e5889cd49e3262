//! Lowest bits of S2 in a data segment: the part of an encoding symbol that the payload carries.

use core::ops::Range;

use crate::DecodeError;
use crate::sizes::FRAGMENTS_MAX;

/// Part `index` of `count` of an encoding symbol. [`WHOLE`](Self::WHOLE), the default, is the only part of an undivided
/// symbol. Other values belong to the feature [`FRAGMENTS`](crate::Features::FRAGMENTS). `spec/wire-format.md` §5
/// defines the lengths of parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Fragment(u8); // Same bits as in S2, so that a whole symbol, encoded as 0, costs neither branch nor shift.

const COUNT_SHIFT: u32 = 2;
const INDEX_BITS: u8 = 0b11;
/// Bits of S2 outside of [`BlockInfo`](crate::BlockInfo).
pub(crate) const S2_BITS: u32 = 0xF;

impl Fragment {
    /// The whole symbol.
    pub const WHOLE: Self = Self(0);

    /// Makes part `index` of `count`; `None` unless `count` is 1 to [`FRAGMENTS_MAX`] and `index` is below it.
    #[must_use]
    pub const fn new(index: u8, count: u8) -> Option<Self> {
        if index < count && count <= FRAGMENTS_MAX { Some(Self((count - 1) << COUNT_SHIFT | index)) } else { None }
    }

    /// Returns the index of the part; the first part has 0.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0 & INDEX_BITS
    }

    /// Returns the number of parts of the symbol, 1 to [`FRAGMENTS_MAX`].
    #[must_use]
    pub const fn count(self) -> u8 {
        (self.0 >> COUNT_SHIFT) + 1
    }

    /// Returns true if the payload is the whole symbol.
    #[must_use]
    #[inline]
    pub const fn is_whole(self) -> bool {
        self.0 == 0
    }

    /// Returns the range of the part in a symbol of `symbol_bytes` bytes. All parts have the same length, except the
    /// last part, which has the rest.
    #[must_use]
    #[inline]
    pub fn range(self, symbol_bytes: usize) -> Range<usize> {
        let part_bytes = symbol_bytes.div_ceil(self.count() as usize);
        let (start, end) = (part_bytes * self.index() as usize, part_bytes * (self.index() as usize + 1));
        start.min(symbol_bytes)..end.min(symbol_bytes)
    }

    /// Returns the lowest bits of S2.
    pub(crate) const fn to_s2(self) -> u32 {
        self.0 as u32
    }

    /// Decodes the lowest bits of S2; the other bits belong to [`BlockInfo`](crate::BlockInfo).
    ///
    /// # Errors
    /// Fails with [`DecodeError::FragmentIndex`] for an index that is not below the count.
    #[inline]
    pub const fn from_s2(s2: u32) -> Result<Self, DecodeError> {
        let fragment = Self((s2 & S2_BITS) as u8);
        if !fragment.is_whole() && fragment.index() >= fragment.count() {
            return Err(DecodeError::FragmentIndex { index: fragment.index(), count: fragment.count() });
        }
        Ok(fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::Fragment;
    use crate::DecodeError;

    #[test]
    fn every_part_has_its_bits_and_all_others_are_refused() {
        let mut read = 0;
        for bits in 0..16 {
            let (index, count) = (bits as u8 & 3, (bits as u8 >> 2) + 1);
            let expected = Fragment::new(index, count).ok_or(DecodeError::FragmentIndex { index, count });
            assert_eq!(Fragment::from_s2(0xFFFF_FFF0 | bits), expected);
            if let Ok(fragment) = expected {
                assert_eq!((fragment.index(), fragment.count(), fragment.to_s2()), (index, count, bits));
                read += 1;
            }
        }
        assert_eq!(read, 1 + 2 + 3 + 4);
        let parts = |bytes| [0, 1, 2].map(|index| Fragment::new(index, 3).unwrap().range(bytes));
        assert_eq!(parts(1_424), [0..475, 475..950, 950..1_424]);
        assert_eq!((parts(4), Fragment::WHOLE.range(9)), ([0..2, 2..4, 4..4], 0..9));
        assert_eq!(Fragment::new(0, 1), Some(Fragment::WHOLE));
        assert_eq!([Fragment::new(0, 0), Fragment::new(4, 5), Fragment::new(0, 5)], [None; 3]);
    }
}
