//! Data segment: one encoding symbol of one block.

use super::Fields;
use crate::{BlockInfo, DecodeError, Features, Flags, Fragment, StreamId};

/// Carries an encoding symbol, or a part of one, as the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Stream of the symbol.
    pub stream: StreamId,
    /// Block of the symbol.
    pub block_id: u32,
    /// Encoding symbol id: 0 to K−1 are the source symbols in order, higher ones repair symbols.
    pub esi: u32,
    /// Shape of the block, equal in all of its segments. Encoding clamps it, see [`BlockInfo::to_s2`].
    pub block: BlockInfo,
    /// Part of the symbol in the payload: the whole symbol unless the session uses the feature.
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
