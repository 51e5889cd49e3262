//! A modern data segment to be sent, and its reason.

use dfcp_wire::{BlockInfo, Fragment, StreamId};

/// Error: a block cannot be coded, or has no such symbol. This is a fault of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block cannot be coded")]
pub(crate) struct CodeError;

/// Reason for which a symbol is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Round,
    Proactive,
    Probe,
}

/// A data segment to be sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) stream: StreamId,
    pub(crate) block_id: u32,
    pub(crate) esi: u32,
    pub(crate) info: BlockInfo,
    pub(crate) reason: Reason,
    /// Part of the encoding symbol in this segment.
    pub(crate) fragment: Fragment,
    /// Size of the part, bytes, secret included.
    pub(crate) symbol_size: usize,
}

impl Symbol {
    /// Returns true if this is the first transmission of a source symbol.
    pub(crate) fn counts_as_source(&self) -> bool {
        self.reason == Reason::Round && self.esi < u32::from(self.info.k)
    }
}
