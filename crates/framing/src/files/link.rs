//! A link. Links are created after all files are stored.

use super::{put_text, take_text};
use crate::frame::Fields;
use crate::limits::LINK_TARGET_BYTES_MAX;

const IS_HARD: u8 = 1;
const ASKS_ONLY: u8 = 2;

/// Kind of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// A symbolic link, with a target and a modification time.
    Symbolic,
    /// A hard link: a further name of a file of this session.
    Hard,
}

/// A link as received: name and target are unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Ordinal, above the ordinals of all entries that are no links.
    pub index: u32,
    /// Hard or symbolic.
    pub kind: LinkKind,
    /// True for a dry run: the receiver only reports the effect, and creates no link.
    pub asks_only: bool,
    /// Modification time of a symbolic link, whole seconds since 1970 (negative before).
    pub mtime_s: i64,
    /// Modification time, nanoseconds within the second, below 10⁹.
    pub mtime_ns: u32,
    /// Target of a symbolic link; for a hard link, the name of the linked entry.
    pub target: Vec<u8>,
    /// Name of the link.
    pub name: Vec<u8>,
}

impl Link {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let hard = if self.kind == LinkKind::Hard { IS_HARD } else { 0 };
        out.push(hard | if self.asks_only { ASKS_ONLY } else { 0 });
        out.extend_from_slice(&self.index.to_be_bytes());
        out.extend_from_slice(&self.mtime_s.to_be_bytes());
        out.extend_from_slice(&self.mtime_ns.to_be_bytes());
        put_text(&self.target, out);
        out.extend_from_slice(&self.name);
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [flags] = fields.array()?;
        if flags & !(IS_HARD | ASKS_ONLY) != 0 {
            return None;
        }
        let link = Self {
            kind: if flags & IS_HARD == 0 { LinkKind::Symbolic } else { LinkKind::Hard },
            asks_only: flags & ASKS_ONLY != 0,
            index: u32::from_be_bytes(fields.array()?),
            mtime_s: i64::from_be_bytes(fields.array()?),
            mtime_ns: u32::from_be_bytes(fields.array()?),
            target: take_text(fields, LINK_TARGET_BYTES_MAX)?,
            name: std::mem::take(&mut fields.0).to_vec(),
        };
        (link.mtime_ns < 1_000_000_000).then_some(link)
    }
}
