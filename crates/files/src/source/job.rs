//! File to be sent, and the source of its content.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use dfcp_framing::files::Entry;

use super::tree::Found;
use super::{Shared, entry_of};
use crate::basis::Known;
use crate::beneath::{Status, status_of};
use crate::hash_tree::Shape;

/// File to be sent. Its [`Event::Entry`](super::Event::Entry) has already been sent.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) entry: Entry,
    pub(super) content: Content,
    /// BLAKE3 hash of the content, if it was read for an offer.
    pub(super) hash: Option<blake3::Hash>,
    /// Chunks of the receiver's older version, for a delta.
    pub(super) older: Option<Known>,
}

/// Source of a file's content.
#[derive(Debug)]
pub(super) enum Content {
    /// Open file, and its metadata at that time.
    File(File, Status),
    /// Offered file that the receiver wants, still to be opened.
    Offered(Found),
    /// Open file of which the receiver has the beginning.
    Resumed(Box<Resumed>),
    /// Standard input up to its end. The length is unknown, so the total grows with each read.
    StandardInput,
}

/// Open file to be sent as a whole.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) entry: Entry,
    pub(super) file: File,
    /// Metadata from which the entry was made.
    pub(super) status: Status,
    /// Bytes of this file counted in the total.
    pub(super) announced: u64,
}

/// Open file of which the receiver has the beginning.
#[derive(Debug)]
pub(super) struct Resumed {
    /// Handle for reading the beginning.
    pub(super) beginning: File,
    /// Handle for reading the rest.
    pub(super) rest: File,
    /// Metadata from which the entry was made.
    pub(super) status: Status,
    pub(super) shape: Shape,
    /// Offset at which the rest starts, bytes.
    pub(super) offset: u64,
}

impl Opened {
    /// Prepares the file to be sent again from its start, with its current metadata.
    pub(super) fn again(&mut self, shared: &Shared) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.status = status_of(&self.file)?;
        self.entry = entry_of(&self.entry, &self.status);
        self.announced = self.entry.size_hint_bytes;
        shared.found(self.status.len);
        Ok(())
    }
}
