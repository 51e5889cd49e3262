//! Tests whether a program's files survive a power cut at any of its operations.
//!
//! [`PowerCut`] is a file system in memory, mounted by FUSE, that tracks what would be on a disk. The content of a file becomes durable by
//! `fsync` or `fdatasync` of that file, a name by `fsync` of its directory only, as POSIX permits. The file system counts modifying
//! operations, and can cut the power at any of them: this one and all that follow fail with EIO.
//!
//! The state afterwards is a [`Disk`], to be read directly or mounted again. After `kill -9` it is what programs saw. After a power cut it is
//! the durable part and a random part of the rest, which a seed determines ([`Loss`]): any blocks of a file, and of each directory the first
//! few changes.
//!
//! [`Sweep`] runs a [`Program`] repeatedly, cuts the power at one operation after the other, and checks each state.
//!
//! [`Disk::folding`] makes one that takes names which differ by case for the same.
//!
//! Not supported: unnamed files (`O_TMPFILE`), `fallocate`, exchanging renames. `syncfs` flushes nothing. Mounting needs Linux, `/dev/fuse` and
//! root or a user namespace; [`missing`] says what is lacking.
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
