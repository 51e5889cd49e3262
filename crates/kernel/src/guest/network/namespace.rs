//! Network namespaces, and entering them with a thread.

use std::fs::File;
use std::io;

use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::netlink::Netlink;

/// Namespace of the calling thread; `/proc/self` would be that of the main thread.
const THIS_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace, kept alive by its open file, with a netlink socket in it.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) file: File,
    pub(super) netlink: Netlink,
}

impl Namespace {
    /// Creates a namespace; the thread returns to `home`.
    pub(super) fn new(home: &File) -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let _back = Back(home);
        Ok(Self { file: current()?, netlink: Netlink::open(NETLINK_ROUTE)? })
    }

    /// Runs `f` with the thread in the namespace; the thread returns to `home`, even if `f` panics.
    pub(super) fn enter<T>(&self, home: &File, f: impl FnOnce() -> T) -> io::Result<T> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        let _back = Back(home);
        Ok(f())
    }
}

/// Namespace of the calling thread.
pub(super) fn current() -> io::Result<File> {
    File::open(THIS_NAMESPACE)
}

struct Back<'a>(&'a File);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // The thread was in this namespace before and may return: setns(2) fails only for lack of rights.
        let _ = setns(self.0, CloneFlags::CLONE_NEWNET);
    }
}
