//! A file to be sent, and the source of its content.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use dfcp_framing::files::Entry;

use super::tree::Found;
use super::{Shared, entry_of};
use crate::basis::Known;
use crate::beneath::{Status, status_of};
use crate::hash_tree::Shape;

/// A file to be sent. Its [`Event::Entry`](super::Event::Entry) has gone ahead.
#[derive(Debug)]
pub(crate) struct Job {
    pub(super) entry: Entry,
    pub(super) content: Content,
    /// BLAKE3 of its content, if it was read before.
    pub(super) hash: Option<blake3::Hash>,
    /// Of what an older version at the receiver consists.
    pub(super) older: Option<Known>,
}

/// Source of a file's content.
#[derive(Debug)]
pub(super) enum Content {
    /// An open file, as it was when it was opened.
    File(File, Status),
    /// A file that was offered, to be opened now.
    Offered(Found),
    /// An open file of which the receiver has the beginning.
    Resumed(Box<Resumed>),
    /// Standard input, to its end. Its length is not known before, so what is read counts as found.
    StandardInput,
}

/// A file to be sent as a whole.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) entry: Entry,
    pub(super) file: File,
    /// Metadata from which those of the entry were taken.
    pub(super) status: Status,
    /// Its part of the total that is to be sent, bytes.
    pub(super) announced: u64,
}

/// A file of which the receiver has the beginning.
#[derive(Debug)]
pub(super) struct Resumed {
    /// To read the beginning.
    pub(super) beginning: File,
    /// To read the rest.
    pub(super) rest: File,
    /// Metadata from which those of the entry were taken.
    pub(super) status: Status,
    pub(super) shape: Shape,
    /// Position at which the rest begins, bytes.
    pub(super) offset: u64,
}

impl Opened {
    /// The file with what has become of it, from its start.
    pub(super) fn again(&mut self, shared: &Shared) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.status = status_of(&self.file)?;
        self.entry = entry_of(&self.entry, &self.status);
        self.announced = self.entry.size_hint_bytes;
        shared.found(self.status.len);
        Ok(())
    }
}
