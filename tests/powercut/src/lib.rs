//! Tests whether a program's files survive a power cut at any of its operations.
//!
//! [`PowerCut`] is a file system in memory, mounted with FUSE, that models the durable state of a disk. The content of a file becomes
//! durable with `fsync` or `fdatasync` of that file, a name only with `fsync` of its directory, as POSIX permits. The file system counts
//! modifying operations, and can cut the power at any of them: this one and all later ones fail with EIO.
//!
//! The state afterwards is a [`Disk`], which can be read directly or mounted again. After `kill -9` it is the state seen by programs. After
//! a power cut it is the durable part and a random part of the rest, drawn from a seed ([`Loss`]): any blocks of a file, and the first few
//! changes of each directory.
//!
//! [`Sweep`] runs a [`Program`] repeatedly, cuts the power at one operation after the other, and checks each state.
//!
//! [`Disk::folding`] makes a file system that treats names as equal if they differ only in case.
//!
//! Not supported: unnamed files (`O_TMPFILE`), `fallocate`, exchanging renames. `syncfs` flushes nothing. Mounting requires Linux,
//! `/dev/fuse` and root or a user namespace; [`missing`] reports what is missing.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod content;
mod disk;
mod filesystem;
mod mount;
mod node;
mod record;
mod sweep;

pub use content::Fate;
pub use disk::{Disk, Loss};
pub use mount::{PowerCut, missing};
pub use record::Operation;
pub use sweep::{Case, Ending, Failed, Program, Report, Sweep};
