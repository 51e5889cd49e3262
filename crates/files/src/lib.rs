//! Transfer of files and directories over a [`dfcp`] session, verified by BLAKE3 hashes and resumable, as specified in
//! `spec/file-transfer.md`.
//!
//! A [`Sender`] sends [`Root`]s, and a [`Receiver`] stores them in a [`Store`]. Both return a [`Transfer`]: a
//! cancellable stream of [`Event`]s that ends with a [`Report`]. By default, nothing is overwritten or deleted, and no
//! links are followed. A [`Permission`] allows each of these, in general or by a callback. Any [`transport::Transport`]
//! can carry the session, for example a [`dfcp::Stream`].
//!
//! ```text
//! sender    walk ─► read, hash, encode ─► connection       verdicts ◄─ connection
//!           (thread)     (thread)          (async)           (async)
//! receiver  connection ─► decode ─► assemble, hash, write ─► verdicts ─► connection
//!            (async)      (async)         (thread)            (async)
//! ```
//!
//! The sender does not wait for the verdict on a file before it sends the next one, so small files cost no round trip
//! each. The frames are defined in [`dfcp_framing`].

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod assembler;
mod basis;
mod beneath;
mod descriptors;
mod entry;
mod error;
mod event;
mod exclude;
mod hash_tree;
mod known_directories;
mod last_heard;
pub mod limits;
mod observer;
mod options;
mod owner;
mod permission;
pub mod reading;
mod receive;
mod receiver;
mod report;
mod scope;
mod seal;
mod send;
mod sender;
mod skipped;
mod snapshot;
mod source;
mod store;
mod target;
mod transfer;
pub mod transport;

use dfcp::{Config, StreamLimits};

pub use descriptors::raise_limit;
pub use entry::{EntryKind, EntryOutcome};
pub use error::{TransferError, is_transient_connection};
pub use event::Event;
pub use exclude::Exclude;
pub use observer::Observer;
pub use options::SendOptions;
pub use owner::Owner;
pub use permission::Permission;
pub use receive::refuse;
pub use receiver::Receiver;
pub use report::Report;
pub use scope::{Hashed, Note, Scope};
pub use seal::{Seal, cipher_name, pattern_name};
pub use sender::Sender;
pub use skipped::Skipped;
pub use snapshot::{Bottleneck, Snapshot};
pub use source::{Root, RootError, STANDARD_STREAM};
pub use store::{Found, OTHERS_WRITE, Partials, Store, StoreOptions, UnfinishedFile};
pub use target::{OneFile, Target};
pub use transfer::{Canceller, Transfer};

/// Adapts `config` to a receiver: the peer may open additional streams for parallel files. Without this, all files use
/// the first stream.
#[must_use]
pub fn receiving(config: Config) -> Config {
    config.with_streams(StreamLimits { bidirectional: 0, one_way: limits::FILE_STREAMS_MAX.into() })
}

#[cfg(test)]
mod tests;
