//! Name and metadata of an entry.

use crate::frame::{Fields, with_header};

/// Encoding of a length that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Flag beside a file's permission bits: further names of the same file may follow as hard links.
pub const HAS_MORE_NAMES: u32 = 1 << 31;

/// Name and metadata of a file or directory, as received: the name is unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Ordinal, which verdicts refer to: the sender numbers entries from 0 in the order in which it finds them.
    pub index: u32,
    /// Number of directories among the entries with lower ordinals. A receiver that has created that many directories
    /// has also created the directory of this entry.
    pub directories: u32,
    /// Permission bits (only the lowest nine are used), and [`HAS_MORE_NAMES`].
    pub mode: u32,
    /// Modification time, whole seconds since 1970 (negative before).
    pub mtime_s: i64,
    /// Modification time, nanoseconds within the second, below 10⁹.
    pub mtime_ns: u32,
    /// Disk space that the entry needs according to the sender, bytes; 0 for directories.
    pub size_hint_bytes: u64,
    /// Length of the content when the sender looked it up, bytes; `None` for directories, and for content of unknown
    /// length.
    pub len: Option<u64>,
    /// Name, unchecked.
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

    /// Returns true if further names of the file may follow as hard links.
    pub fn has_more_names(&self) -> bool {
        self.mode & HAS_MORE_NAMES != 0
    }

    /// Decodes an entry, which takes the rest of the body.
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
