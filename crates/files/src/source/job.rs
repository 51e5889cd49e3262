//! A file to be sent, and the source of its content.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use dfcp_framing::files::Entry;

use super::tree::Found;
use super::{Shared, entry_of};
use crate::basis::Known;
use crate::beneath::{Status, status_of};
use crate::hash_tree::Shape;

/// File to be sent. Its [`Event::Entry`](super::Event::Entry) has been emitted.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) entry: Entry,
    pub(super) content: Content,
    /// BLAKE3 of the content, if it was read before.
    pub(super) hash: Option<blake3::Hash>,
    /// Chunks of the receiver's older version.
    pub(super) older: Option<Known>,
}

/// Source of a file's content.
#[derive(Debug)]
pub(super) enum Content {
    /// Open file, with its status when opened.
    File(File, Status),
    /// Offered file, to be opened now.
    Offered(Found),
    /// Open file of which the receiver has a part.
    Resumed(Box<Resumed>),
    /// Standard input, to its end. Its length is unknown, so the total grows with each read.
    StandardInput,
}

/// File to be sent as a whole.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) entry: Entry,
    pub(super) file: File,
    /// Metadata that the entry states.
    pub(super) status: Status,
    /// Bytes counted for it in the total.
    pub(super) announced: u64,
}

/// File of which the receiver has a part.
#[derive(Debug)]
pub(super) struct Resumed {
    /// Handle for the beginning.
    pub(super) beginning: File,
    /// Handle for the rest.
    pub(super) rest: File,
    /// Metadata that the entry states.
    pub(super) status: Status,
    pub(super) shape: Shape,
    /// Offset of the rest, bytes.
    pub(super) offset: u64,
}

impl Opened {
    /// Prepares the file to be sent from its start, with its current status.
    pub(super) fn again(&mut self, shared: &Shared) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.status = status_of(&self.file)?;
        self.entry = entry_of(&self.entry, &self.status);
        self.announced = self.entry.size_hint_bytes;
        shared.found(self.status.len);
        Ok(())
    }
}
