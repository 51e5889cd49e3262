//! The network that a thread's new sockets belong to.

/// On Linux, threads of one program may be in several networks; a socket stays in that of the thread which made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkNamespace(
    /// Device and inode of its file; `None` where the system has no such thing, or does not show it.
    Option<(u64, u64)>,
);

impl NetworkNamespace {
    #[cfg(target_os = "linux")]
    pub(super) fn of_this_thread() -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(std::fs::metadata("/proc/thread-self/ns/net").ok().map(|file| (file.dev(), file.ino())))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of_this_thread() -> Self {
        Self(None)
    }

    /// One that no thread is in.
    #[cfg(test)]
    pub(super) fn elsewhere() -> Self {
        Self(Some((0, 0)))
    }
}
