//! Limit on the number of open files of this process.

/// Raises the limit to the maximum permitted. The usual low soft limit is meant for programs that use `select`.
#[cfg(unix)]
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Does nothing: this system has no such limit.
#[cfg(not(unix))]
pub fn raise_limit() {}

/// Returns the current limit.
#[cfg(unix)]
pub(crate) fn allowed() -> usize {
    let current = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    current.and_then(|current| usize::try_from(current).ok()).unwrap_or(usize::MAX)
}

/// Returns the maximum: this system has no such limit.
#[cfg(not(unix))]
pub(crate) fn allowed() -> usize {
    usize::MAX
}
