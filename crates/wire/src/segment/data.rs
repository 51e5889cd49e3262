//! Data: one encoding symbol of one block.

use super::Fields;
use crate::{BlockInfo, DecodeError, Flags};

/// Carries an encoding symbol, which is the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// The symbol's block.
    pub block_id: u32,
    /// Encoding symbol id: 0 to K−1 are the source symbols in order, higher ones repair symbols.
    pub esi: u32,
    /// The block's shape, the same in all of its segments. Encoding clamps it as [`BlockInfo::to_s2`] does.
    pub block: BlockInfo,
}

impl Data {
    pub(super) fn fields(self) -> Fields {
        Fields { flags: Flags::NONE, block_id: self.block_id, s1: self.esi, s2: self.block.to_s2() }
    }

    #[inline]
    pub(super) fn read(fields: Fields) -> Result<Self, DecodeError> {
        Ok(Self { block_id: fields.block_id, esi: fields.s1, block: BlockInfo::from_s2(fields.s2)? })
    }
}
