//! File transfer over any [`transport::Transport`], as specified in `spec/file-transfer.md`. Its frames are those of
//! [`dfcp_framing`].
//!
//! ```text
//! sender    walk ─► read, hash, encode ─► connection       verdicts ◄─ connection
//!           (thread)     (thread)          (async)           (async)
//! receiver  connection ─► decode ─► assemble, hash, write ─► verdicts ─► connection
//!            (async)      (async)         (thread)            (async)
//! ```
//!
//! Files follow each other without waiting for verdicts, so many small ones cost no round trip each.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod assembler;
pub mod basis;
pub mod beneath;
pub mod descriptors;
mod entry;
pub mod error;
pub mod exclude;
pub mod hash_tree;
pub mod hashed;
mod known_directories;
mod last_heard;
pub mod limits;
mod observer;
mod options;
pub mod owner;
pub mod reading;
pub mod receive;
mod report;
pub mod scope;
pub mod seal;
pub mod send;
mod skipped;
mod snapshot;
pub mod source;
pub mod store;
pub mod target;
pub mod transport;

pub use entry::{EntryKind, EntryOutcome};
use last_heard::LastHeard;
pub use observer::Observer;
pub use options::SendOptions;
pub use report::Report;
pub use skipped::{SKIPPED_AFTER_FAILURE, SKIPPED_BEYOND, Skipped};
pub use snapshot::{Bottleneck, Snapshot};

#[cfg(test)]
mod tests;
