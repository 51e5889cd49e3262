//! Name and metadata of what is sent.

use crate::frame::{Fields, with_header};

/// Stands for a length which is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Beside the permission bits of a file: further names of it may follow as hard links.
pub const HAS_MORE_NAMES: u32 = 1 << 31;

/// Name and metadata of a file or directory, as received: the name is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its ordinal, by which it is answered: entries are numbered from 0 in the order in which they were found.
    pub index: u32,
    /// Directories among the entries of lower ordinals. A receiver which takes it later than these finds its directory made.
    pub directories: u32,
    /// Permission bits, of which only the lowest nine are used, and [`HAS_MORE_NAMES`].
    pub mode: u32,
    /// Modification time, whole seconds since 1970 (negative before).
    pub mtime_s: i64,
    /// Modification time, nanoseconds beyond, below 10⁹.
    pub mtime_ns: u32,
    /// Room that it will take on a disk, as far as the sender knows, bytes; 0 for directories.
    pub size_hint_bytes: u64,
    /// Length of the content when the sender looked, bytes; none where nobody knows it before its end, and for directories.
    pub len: Option<u64>,
    /// The name as it came.
    pub name: Vec<u8>,
}

impl Entry {
    /// Appends the whole frame, of type `DIRECTORY` or `FILE`.
    pub fn encode(&self, frame_kind: u8, out: &mut Vec<u8>) {
        with_header(frame_kind, out, |out| self.put(out));
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_be_bytes());
        out.extend_from_slice(&self.directories.to_be_bytes());
        out.extend_from_slice(&self.mode.to_be_bytes());
        out.extend_from_slice(&self.mtime_s.to_be_bytes());
        out.extend_from_slice(&self.mtime_ns.to_be_bytes());
        out.extend_from_slice(&self.size_hint_bytes.to_be_bytes());
        out.extend_from_slice(&self.len.unwrap_or(UNKNOWN).to_be_bytes());
        out.extend_from_slice(&self.name);
    }

    /// True if further names of the file may follow as hard links.
    pub fn has_more_names(&self) -> bool {
        self.mode & HAS_MORE_NAMES != 0
    }

    /// Takes all that is left of a body.
    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let entry = Self {
            index: u32::from_be_bytes(fields.array()?),
            directories: u32::from_be_bytes(fields.array()?),
            mode: u32::from_be_bytes(fields.array()?),
            mtime_s: i64::from_be_bytes(fields.array()?),
            mtime_ns: u32::from_be_bytes(fields.array()?),
            size_hint_bytes: u64::from_be_bytes(fields.array()?),
            len: Some(u64::from_be_bytes(fields.array()?)).filter(|len| *len != UNKNOWN),
            name: std::mem::take(&mut fields.0).to_vec(),
        };
        (entry.mtime_ns < 1_000_000_000).then_some(entry)
    }
}
