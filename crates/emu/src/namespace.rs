//! Namespaces: rights, networks, and processes.

use std::fs::{self, File};
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::error::Error;

/// Capabilities that the emulator needs.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::NET_ADMIN);

/// Capabilities of programs inside over their networks: show and change them, use raw sockets and ports below 1024.
pub(crate) const INSIDE: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::NET_BIND_SERVICE);

/// True if this process may change this machine's networks.
pub(crate) fn has_rights() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(NEEDED))
}

/// Gains the right to create namespaces: unchanged if the process has it, otherwise by a user namespace with all rights. Outside it, the
/// user stays the same.
pub(crate) fn gain_rights() -> Result<(), Error> {
    if has_rights() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| Error::UserNamespaces(error.into()))?;
    // Without this, only root may map groups (user_namespaces(7)).
    let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    write("setgroups", "deny".to_owned())
        .and_then(|()| write("uid_map", format!("{user} {user} 1")))
        .and_then(|()| write("gid_map", format!("{group} {group} 1")))
        .map_err(Error::UserNamespaces)
}

/// Network namespace, alive while this value or a process in it exists.
#[derive(Debug)]
pub(crate) struct Network(File);

impl Network {
    /// Creates a network namespace, which the thread enters.
    pub(crate) fn enter_new() -> Result<Self, Error> {
        // Ubuntu permits user namespaces for everybody, but without rights.
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| Error::UserNamespaces(error.into()))?;
        Self::own()
    }

    /// The thread's namespace.
    pub(crate) fn own() -> Result<Self, Error> {
        File::open("/proc/thread-self/ns/net").map(Self).map_err(Error::system("open a network namespace"))
    }

    /// Moves the thread, and processes it starts, into the namespace.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        setns(&self.0, CloneFlags::CLONE_NEWNET)
            .map_err(|error| Error::system("enter a network namespace")(error.into()))
    }
}

/// Makes the next child process the first of a process namespace: when it ends, the kernel ends all others there. From now on this thread
/// cannot start threads.
pub(crate) fn next_child_is_init() -> Result<(), Error> {
    let failed = |what| move |error: nix::Error| Error::system(what)(error.into());
    unshare(CloneFlags::CLONE_NEWNS).map_err(failed("make a mount namespace"))?;
    // Otherwise mounts here would be visible everywhere.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(failed("separate the mount namespace"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(failed("make a process namespace"))
}

/// Mounts `/proc` of this process namespace over the outer one.
pub(crate) fn mount_proc() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)?)
}

/// Permits unprivileged programs in the thread's network namespace to send echo requests.
pub(crate) fn allow_ping() {
    let group = rustix::process::getegid().as_raw();
    // `ping` may have the capability itself, so a failure is not an error.
    if let Err(error) = fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{group} {group}")) {
        tracing::debug!(%error, "ping needs a right of its own");
    }
}

/// Runs `start` so that the process it starts keeps these capabilities of the thread; programs of users other than root would otherwise
/// lose them.
pub(crate) fn keeping<T>(rights: CapabilitySet, start: impl FnOnce() -> T) -> Result<T, Error> {
    let failed = |error: rustix::io::Errno| Error::system("pass on rights")(error.into());
    let own = capabilities(None).map_err(failed)?;
    // A process cannot pass on capabilities that it lacks, and even root may lack some.
    let rights = rights.intersection(own.permitted);
    set_capabilities(None, CapabilitySets { inheritable: rights, ..own }).map_err(failed)?;
    for right in rights.iter() {
        rustix::thread::configure_capability_in_ambient_set(right, true).map_err(failed)?;
    }
    let started = start();
    // Dropping inheritable capabilities drops ambient ones.
    set_capabilities(None, own).map_err(failed)?;
    Ok(started)
}
