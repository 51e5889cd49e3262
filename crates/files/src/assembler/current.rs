//! State of each stream between two frames.

use std::sync::Arc;

use dfcp_framing::files::{Confirmed, Entry};
use dfcp_framing::names::RelativeName;

use super::allowance::Reserved;
use super::bases::Older;
use super::prefix::Prefix;
use super::{Content, EntryKind, Receipt};
use crate::store::{Existing, Slot};
use crate::target::Writing;

/// State of a stream between two frames.
#[derive(Debug, Default)]
pub(super) enum Current {
    /// No file is in progress.
    #[default]
    Nothing,
    /// A file in progress is being stored.
    Storing(Box<Storing>),
    /// A file in progress is passed on to an output stream instead of being stored.
    Writing { file: Receiving, writing: Box<Writing>, reserved: Reserved },
    /// A file in progress already exists here. Its data is counted, not stored; its final hash is compared with the
    /// existing file.
    Comparing { file: Receiving, existing: Box<Existing>, received: u64 },
    /// A file in progress, with this ordinal, already has its verdict: the remaining data is dropped.
    Draining(u32),
    /// The end frame has arrived.
    Ended,
}

/// File in progress.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) index: u32,
    pub(super) name: RelativeName,
}

/// File in progress that is being stored.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) file: Receiving,
    pub(super) entry: Entry,
    /// Slot of the file, from which another session of the same sender may take it over.
    pub(super) slot: Arc<Slot>,
    pub(super) reserved: Reserved,
    /// Verification of the beginning, if the file is resumed.
    pub(super) prefix: Option<Box<Prefix>>,
    /// Older version whose chunks the sender knows; copies are read from it.
    pub(super) basis: Option<Older>,
    /// Bytes copied from the older version.
    pub(super) copied_bytes: u64,
}

impl Current {
    /// Returns the ordinal of the file in progress, if it has no verdict yet.
    pub(super) fn index(&self) -> Option<u32> {
        match self {
            Self::Storing(storing) => Some(storing.file.index),
            Self::Writing { file, .. } | Self::Comparing { file, .. } => Some(file.index),
            Self::Nothing | Self::Draining(_) | Self::Ended => None,
        }
    }

    /// Returns true if this file is in progress on the stream; a new file frame then restarts it.
    pub(super) fn is_inside_of(&self, entry: &Entry) -> bool {
        match self {
            Self::Storing(storing) => storing.file.is(entry),
            Self::Writing { file, .. } | Self::Comparing { file, .. } => file.is(entry),
            Self::Draining(index) => *index == entry.index,
            Self::Nothing | Self::Ended => false,
        }
    }
}

impl Receiving {
    pub(super) fn is(&self, entry: &Entry) -> bool {
        self.index == entry.index && self.name.as_bytes() == entry.name
    }

    pub(super) fn receipt(self, content: Content, confirmed: Confirmed) -> Receipt {
        Receipt { index: self.index, name: self.name, kind: EntryKind::File, content: Some(content), confirmed }
    }
}
