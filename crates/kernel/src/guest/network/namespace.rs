//! Network namespaces, and how the thread gets into them.

use std::fs::File;
use std::io;

use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::netlink::Netlink;

/// The thread's own: `/proc/self` is the main thread's.
const THIS_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A network namespace, alive as long as its file is open, and a netlink socket in it.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) file: File,
    pub(super) netlink: Netlink,
}

impl Namespace {
    /// A new one; the thread ends where it was.
    pub(super) fn new(home: &File) -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let _back = Back(home);
        Ok(Self { file: current()?, netlink: Netlink::open(NETLINK_ROUTE)? })
    }

    /// Runs `f` with the thread in the namespace; the thread ends in `home`, even when `f` panics.
    pub(super) fn enter<T>(&self, home: &File, f: impl FnOnce() -> T) -> io::Result<T> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        let _back = Back(home);
        Ok(f())
    }
}

/// The namespace which the thread is in.
pub(super) fn current() -> io::Result<File> {
    File::open(THIS_NAMESPACE)
}

struct Back<'a>(&'a File);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // It was in this namespace before, so it may go there: the only refusals of setns(2) are about rights.
        let _ = setns(self.0, CloneFlags::CLONE_NEWNET);
    }
}
