//! State of each stream between frames.

use std::sync::Arc;

use dfcp_framing::files::{Confirmed, Entry};
use dfcp_framing::names::RelativeName;

use super::allowance::Reserved;
use super::bases::Older;
use super::prefix::Prefix;
use super::{Content, EntryKind, Receipt};
use crate::store::{Existing, Slot};
use crate::target::Writing;

/// State of a stream between frames.
#[derive(Debug, Default)]
pub(super) enum Current {
    /// Between files.
    #[default]
    Nothing,
    /// Within a file being stored.
    Storing(Box<Storing>),
    /// Within a file being passed to a stream.
    Writing { file: Receiving, writing: Box<Writing>, reserved: Reserved },
    /// Within a file that already exists: its data is counted, and its hash decides.
    Comparing { file: Receiving, existing: Box<Existing>, received: u64 },
    /// Within the file of this ordinal, whose verdict was sent: its data is dropped.
    Draining(u32),
    /// After the end frame.
    Ended,
}

/// File in progress.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) index: u32,
    pub(super) name: RelativeName,
}

/// File being stored.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) file: Receiving,
    pub(super) entry: Entry,
    /// Slot from which another session of the sender may take the file over.
    pub(super) slot: Arc<Slot>,
    pub(super) reserved: Reserved,
    /// Beginning of a resumed file, under comparison.
    pub(super) prefix: Option<Box<Prefix>>,
    /// Older version that the sender knows, as the source of copies.
    pub(super) basis: Option<Older>,
    /// Bytes copied from the older version.
    pub(super) copied_bytes: u64,
}

impl Current {
    /// Ordinal of the file in progress without a verdict.
    pub(super) fn index(&self) -> Option<u32> {
        match self {
            Self::Storing(storing) => Some(storing.file.index),
            Self::Writing { file, .. } | Self::Comparing { file, .. } => Some(file.index),
            Self::Nothing | Self::Draining(_) | Self::Ended => None,
        }
    }

    /// True if the stream is within this file, which would then restart.
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
