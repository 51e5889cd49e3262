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
    /// Inside a file that is being stored.
    Storing(Box<Storing>),
    /// Inside a file that is passed on.
    Writing { file: Receiving, writing: Box<Writing>, reserved: Reserved },
    /// Inside a file of which one exists already: its data are counted, and its hash decides.
    Comparing { file: Receiving, existing: Box<Existing>, received: u64 },
    /// Inside the file with this ordinal, whose verdict was already sent: its data are dropped.
    Draining(u32),
    /// After the end frame.
    Ended,
}

/// A file of which more is to come.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) index: u32,
    pub(super) name: RelativeName,
}

/// A file that is being stored.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) file: Receiving,
    pub(super) entry: Entry,
    /// Slot from which another session of the sender may take it.
    pub(super) slot: Arc<Slot>,
    pub(super) reserved: Reserved,
    /// Of one that is resumed: its beginning.
    pub(super) prefix: Option<Box<Prefix>>,
    /// Of one whose sender knows the older version that is here.
    pub(super) basis: Option<Older>,
    /// Bytes copied from that.
    pub(super) copied_bytes: u64,
}

impl Current {
    /// The file without a verdict that it is inside of.
    pub(super) fn index(&self) -> Option<u32> {
        match self {
            Self::Storing(storing) => Some(storing.file.index),
            Self::Writing { file, .. } | Self::Comparing { file, .. } => Some(file.index),
            Self::Nothing | Self::Draining(_) | Self::Ended => None,
        }
    }

    /// True if it is inside of this file, which begins anew by that.
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
