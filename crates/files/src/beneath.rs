//! File access below an open directory: no symbolic link is followed and nothing outside is reached, even if other
//! users rename or replace files concurrently.
//!
//! The system resolves a path anew at every call, so an earlier check of the path proves nothing. A descriptor, in
//! contrast, always refers to the directory that was opened. On Linux, one call of `openat2` resolves a relative path
//! and refuses every link. On other systems, and before Linux 5.6, each component is opened with `O_NOFOLLOW`. Systems
//! without directory descriptors use paths (`portable.rs`), without these guarantees.

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

/// Method of resolving relative paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// By the kernel, in one call (`openat2`).
    OneCall,
    /// Component by component.
    Stepwise,
}

/// Device and inode number, which identify a file under any name. On systems without them, all files have the same
/// identity.
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
    /// Kind of the file.
    pub kind: Kind,
    /// Device and inode number.
    pub identity: Identity,
    /// Permission bits, at most `0o7777`.
    pub mode: u32,
    /// Number of hard links; 1 if unknown.
    pub names: u64,
    /// Length of the content, bytes.
    pub len: u64,
    /// Allocated disk space, bytes. Smaller than `len` if the file has holes.
    pub allocated_bytes: u64,
    /// Modification time, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
    /// Change time of the inode, by the system's clock; programs cannot set it.
    pub changed: SystemTime,
}

impl Identity {
    /// Returns the device number of the file system that holds the file.
    pub(crate) fn device(self) -> u64 {
        self.device
    }

    /// Returns an identity that no existing file has.
    #[cfg(test)]
    pub(crate) fn numbered(inode: u64) -> Self {
        Self { device: 0, inode }
    }

    /// Returns device and inode number as bytes, for hashing.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.device) << 64 | u128::from(self.inode)).to_be_bytes()
    }
}

#[cfg(test)]
mod tests;
