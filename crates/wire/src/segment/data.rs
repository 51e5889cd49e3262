//! Data segment: one encoding symbol of a block, or a part of one.

use super::Fields;
use crate::{BlockInfo, DecodeError, Features, Flags, Fragment, StreamId};

/// Carries an encoding symbol, or a part of one, as its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Stream of the symbol.
    pub stream: StreamId,
    /// Block of the symbol.
    pub block_id: u32,
    /// Encoding symbol id: 0 to K−1 for the source symbols in order, from K on for repair symbols.
    pub esi: u32,
    /// Shape of the block, equal in all of its segments. Encoding clamps values out of range; see [`BlockInfo::to_s2`].
    pub block: BlockInfo,
    /// Part of the symbol in the payload. It is the whole symbol unless the session uses the feature
    /// [`FRAGMENTS`](Features::FRAGMENTS).
    pub fragment: Fragment,
}

impl Data {
    pub(super) fn fields(self) -> Fields {
        let Self { stream, block_id, esi, block, fragment } = self;
        Fields { flags: Flags::NONE, block_id, s1: esi, s2: block.to_s2() | fragment.to_s2(), stream }
    }

    #[inline]
    pub(super) const fn needs(self) -> Features {
        if self.fragment.is_whole() { Features::NONE } else { Features::FRAGMENTS }
    }

    #[inline]
    pub(super) fn read(fields: Fields) -> Result<Self, DecodeError> {
        let Fields { block_id, s1: esi, s2, stream, .. } = fields;
        Ok(Self { stream, block_id, esi, block: BlockInfo::from_s2(s2)?, fragment: Fragment::from_s2(s2)? })
    }
}
