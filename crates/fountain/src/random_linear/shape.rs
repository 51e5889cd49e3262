//! Division of a block into source symbols.

use core::ops::Range;

use super::{K_MAX, SYMBOL_SIZE_MAX};

/// Number and size of a block's source symbols, on which both endpoints must agree.
///
/// The symbol size is the block's length divided by `k`, rounded up. If the symbols hold more bytes than the block, the last ones are
/// padded with zeros, which are part of the code but not of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockShape {
    k: u16,
    symbol_size: u16,
    length_bytes: u32,
}

/// Reason why a [`BlockShape`] is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The number of source symbols is out of range.
    #[error("a block has 1 to 256 source symbols, not {k}")]
    SymbolCount {
        /// Number given.
        k: usize,
    },
    /// The block has no bytes.
    #[error("a block has at least one byte")]
    Empty,
    /// The symbol size is out of range.
    #[error("a symbol has 1 to 1472 bytes, not {symbol_size}")]
    SymbolSize {
        /// Size given or required, bytes.
        symbol_size: usize,
    },
}

impl BlockShape {
    /// Makes the shape of a block of `length_bytes` in `k` source symbols.
    ///
    /// # Errors
    ///
    /// Fails with a [`ShapeError`] if `k` is not in 1..=[`K_MAX`], the block is empty, or the symbols would have more than
    /// [`SYMBOL_SIZE_MAX`] bytes.
    pub const fn new(k: usize, length_bytes: usize) -> Result<Self, ShapeError> {
        if k == 0 || k > K_MAX {
            return Err(ShapeError::SymbolCount { k });
        }
        if length_bytes == 0 {
            return Err(ShapeError::Empty);
        }
        let symbol_size = length_bytes.div_ceil(k);
        if symbol_size > SYMBOL_SIZE_MAX {
            return Err(ShapeError::SymbolSize { symbol_size });
        }
        // The limits above guarantee that all three values fit.
        Ok(Self { k: k as u16, symbol_size: symbol_size as u16, length_bytes: length_bytes as u32 })
    }

    /// Makes the shape of a block of `length_bytes` in as few source symbols of at most `symbol_size_max` bytes as possible.
    ///
    /// # Errors
    ///
    /// Fails with a [`ShapeError`] if `symbol_size_max` is not in 1..=[`SYMBOL_SIZE_MAX`], the block is empty, or it would need more than
    /// [`K_MAX`] symbols.
    pub const fn for_length(length_bytes: usize, symbol_size_max: usize) -> Result<Self, ShapeError> {
        if symbol_size_max == 0 || symbol_size_max > SYMBOL_SIZE_MAX {
            return Err(ShapeError::SymbolSize { symbol_size: symbol_size_max });
        }
        if length_bytes == 0 {
            return Err(ShapeError::Empty);
        }
        Self::new(length_bytes.div_ceil(symbol_size_max), length_bytes)
    }

    /// Returns the number of source symbols, K.
    #[must_use]
    pub const fn k(self) -> usize {
        self.k as usize
    }

    /// Returns the length of the block in bytes, without padding.
    #[must_use]
    pub const fn length_bytes(self) -> usize {
        self.length_bytes as usize
    }

    /// Returns the size of every encoding symbol in bytes.
    #[must_use]
    pub const fn symbol_size(self) -> usize {
        self.symbol_size as usize
    }

    /// Returns the range of source symbol `i` in the block, without padding. The range is empty if the symbol is all
    /// padding or does not exist.
    #[must_use]
    pub fn source_range(self, i: usize) -> Range<usize> {
        let at = |i: usize| i.saturating_mul(self.symbol_size()).min(self.length_bytes());
        at(i)..at(i.saturating_add(1))
    }

    /// Returns the number of bytes of all source symbols, including padding.
    pub const fn padded_bytes(self) -> usize {
        self.k() * self.symbol_size()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shapes_out_of_range_are_refused() {
        assert_eq!(BlockShape::new(0, 1), Err(ShapeError::SymbolCount { k: 0 }));
        assert_eq!(BlockShape::new(257, 1), Err(ShapeError::SymbolCount { k: 257 }));
        assert_eq!(BlockShape::new(1, 0), Err(ShapeError::Empty));
        assert_eq!(BlockShape::new(1, 1473), Err(ShapeError::SymbolSize { symbol_size: 1473 }));
        assert!(BlockShape::new(256, usize::MAX).is_err());
        assert_eq!(BlockShape::for_length(1, 0), Err(ShapeError::SymbolSize { symbol_size: 0 }));
        assert_eq!(BlockShape::for_length(1, 1473), Err(ShapeError::SymbolSize { symbol_size: 1473 }));
        assert_eq!(BlockShape::for_length(0, 1), Err(ShapeError::Empty));
        assert_eq!(BlockShape::for_length(257, 1), Err(ShapeError::SymbolCount { k: 257 }));
        assert!(BlockShape::for_length(usize::MAX, 1472).is_err());
    }

    #[test]
    fn a_block_of_one_byte_has_one_symbol_of_one_byte() {
        let shape = BlockShape::for_length(1, 1420).unwrap();
        assert_eq!((shape.k(), shape.length_bytes(), shape.symbol_size()), (1, 1, 1));
        assert_eq!(BlockShape::new(256, 256 * 1472).unwrap().symbol_size(), 1472);
    }

    proptest! {
        #[test]
        fn source_ranges_tile_the_block(k in 1..=K_MAX, length_bytes in 1..=K_MAX * SYMBOL_SIZE_MAX) {
            let Ok(shape) = BlockShape::new(k, length_bytes) else {
                prop_assert!(length_bytes > k * SYMBOL_SIZE_MAX);
                return Ok(());
            };
            prop_assert!(shape.padded_bytes() >= length_bytes && (shape.symbol_size() - 1) * k < length_bytes);
            let mut end = 0;
            for i in 0..k {
                let range = shape.source_range(i);
                prop_assert_eq!(range.start, end);
                prop_assert!(range.len() <= shape.symbol_size());
                end = range.end;
            }
            prop_assert_eq!(end, length_bytes);
            prop_assert!(shape.source_range(k).is_empty() && shape.source_range(usize::MAX).is_empty());
        }

        #[test]
        fn for_length_takes_the_fewest_symbols(length_bytes in 1..400_000_usize, size_max in 1..=SYMBOL_SIZE_MAX) {
            match BlockShape::for_length(length_bytes, size_max) {
                Ok(shape) => {
                    prop_assert!(shape.symbol_size() <= size_max);
                    prop_assert!((shape.k() - 1) * size_max < length_bytes);
                }
                Err(error) => {
                    prop_assert_eq!(error, ShapeError::SymbolCount { k: length_bytes.div_ceil(size_max) });
                    prop_assert!(length_bytes > K_MAX * size_max);
                }
            }
        }
    }
}
