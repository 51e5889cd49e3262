//! Network namespace of a thread's new sockets.

/// A network namespace. On Linux, threads of one process may be in several ones; a socket stays in the namespace of the
/// thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkNamespace(
    /// Device and inode of the namespace file. `None` if the system has no namespaces, or hides them.
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

    /// Returns a namespace that no thread is in.
    #[cfg(test)]
    pub(super) fn elsewhere() -> Self {
        Self(Some((0, 0)))
    }
}
