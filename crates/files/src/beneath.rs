//! Files below a directory, reached from an open descriptor of it: no symbolic link is followed, and nothing outside of it
//! is reached, whatever other users rename or replace meanwhile.
//!
//! A path is looked up anew by the system at every call, so a check of it is worth nothing at the next call. A descriptor
//! stays with the directory that was opened. On Linux one call of `openat2` resolves a relative path and refuses every link
//! on the way; elsewhere, and on kernels before 5.6, each component is opened by itself with `O_NOFOLLOW`. Systems without
//! descriptors of directories have paths only (`portable.rs`), and none of these promises.

#[cfg(any(not(unix), test))]
#[cfg_attr(unix, expect(dead_code, reason = "what other systems use; tests compare it with this one"))]
pub(crate) mod portable;
#[cfg(unix)]
mod unix;

use std::time::SystemTime;

#[cfg(not(unix))]
pub(crate) use self::portable::{
    Directory, flush_file_system, is_link, is_mount, is_sender, lacks_links, open_named, set_metadata, set_mode,
    set_sender, status_of, status_of_named,
};
#[cfg(unix)]
pub(crate) use self::unix::{
    Directory, flush_file_system, is_link, is_mount, is_sender, lacks_links, open_named, set_metadata, set_mode,
    set_sender, status_of, status_of_named,
};

/// Way in which relative paths are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// By the kernel, in one call (`openat2`).
    OneCall,
    /// Component by component.
    Stepwise,
}

/// Numbers that identify a file, whatever its name. All are equal on systems without such numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, pipe or device.
    Other,
}

/// Metadata of a file or directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    /// Its kind.
    pub kind: Kind,
    /// The numbers that identify it.
    pub identity: Identity,
    /// Its permission bits, `0o7777` at the most.
    pub mode: u32,
    /// Number of its names; 1 on systems that do not tell.
    pub names: u64,
    /// Length of its content, bytes.
    pub len: u64,
    /// Space on the disk, bytes: less than `len` if it has holes.
    pub allocated_bytes: u64,
    /// Time of the last change of its content, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
    /// Time of the last change of anything about it, by the system's clock. No program can set it.
    pub changed: SystemTime,
}

impl Identity {
    /// The file system that it is on.
    pub(crate) fn device(self) -> u64 {
        self.device
    }

    /// Of a file that does not exist.
    #[cfg(test)]
    pub(crate) fn numbered(inode: u64) -> Self {
        Self { device: 0, inode }
    }

    /// All of it, to be hashed.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.device) << 64 | u128::from(self.inode)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests;
