//! Limit of open files and directories of this program.

/// Asks for as many as the system grants: the usual limit is for programs which count descriptors in a fixed table.
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

/// Nothing: there is no such limit here.
#[cfg(not(unix))]
pub fn raise_limit() {}

/// The limit now.
#[cfg(unix)]
pub(crate) fn allowed() -> usize {
    let current = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    current.and_then(|current| usize::try_from(current).ok()).unwrap_or(usize::MAX)
}

/// None that matters.
#[cfg(not(unix))]
pub(crate) fn allowed() -> usize {
    usize::MAX
}
