//! A modern data segment which is to be sent, and why.

use dfcp_wire::{BlockInfo, Fragment, StreamId};

/// A block cannot be coded, or has no such symbol: a fault of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block cannot be coded")]
pub(crate) struct CodeError;

/// Why a symbol is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Round,
    Proactive,
    Probe,
}

/// A data segment which is to be sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) stream: StreamId,
    pub(crate) block_id: u32,
    pub(crate) esi: u32,
    pub(crate) info: BlockInfo,
    pub(crate) reason: Reason,
    /// Part of the encoding symbol that it is.
    pub(crate) fragment: Fragment,
    /// Bytes of the part, secret included.
    pub(crate) symbol_size: usize,
}

impl Symbol {
    /// True if it counts as a source symbol: the first time that it is sent.
    pub(crate) fn counts_as_source(&self) -> bool {
        self.reason == Reason::Round && self.esi < u32::from(self.info.k)
    }
}
