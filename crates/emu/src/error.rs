//! Errors that prevent or end an emulation.

use std::ffi::OsString;
use std::io;

use dfcp_netem::ConfigError;

use crate::limits::PAIRS_MAX;

/// Error of an emulation; its text names the next step, if there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration of a link is invalid.
    #[error(transparent)]
    Link(#[from] ConfigError),
    /// Links and routes contradict each other.
    #[error("the routes of an emulated network do not fit its links; report this")]
    Route,
    /// There are no pairs of hosts, or too many.
    #[error("an emulated network has 1 to {PAIRS_MAX} pairs of hosts, not {0}")]
    Pairs(usize),
    /// The user has neither administrator rights nor user namespaces.
    #[error(
        "this user may not make namespaces ({0}): run it as root, or allow user namespaces (sysctl user.max_user_namespaces; \
         Debian: kernel.unprivileged_userns_clone=1; Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    UserNamespaces(io::Error),
    /// The system refused a privileged operation.
    #[error("cannot {what}: {source}")]
    System {
        /// Operation, as a verb phrase.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The machine's own network requires root.
    #[error(
        "only root may lead an emulated path to this machine's own network; run it as root, or give a server instead"
    )]
    OutsideForbidden,
    /// Another emulation uses the machine's own network.
    #[error("another emulation leads to this machine's own network already (device `{0}`); wait until it has ended")]
    OutsideInUse(&'static str),
    /// The TUN driver is missing.
    #[error("there is no /dev/net/tun: load its module (modprobe tun), or give this container the device")]
    NoTun,
    /// The TUN driver must not be used.
    #[error("/dev/net/tun may not be opened by this user: allow it (chmod 666 /dev/net/tun), or run this as root")]
    TunForbidden,
    /// The device of one end cannot be configured.
    #[error("cannot configure the device `{device}`: {reason}")]
    Device {
        /// Device name.
        device: &'static str,
        /// The kernel's error.
        reason: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run `{}`: {source}{}", program.display(), if source.kind() == io::ErrorKind::NotFound {
        "; is it installed, and is its name spelt right?"
    } else {
        ""
    })]
    Program {
        /// Program name.
        program: OsString,
        /// The kernel's error.
        source: io::Error,
    },
    /// The namespace's first process did not start.
    #[error("the process that looks after the namespaces did not start: {0}")]
    Init(String),
    /// The emulation's threads ended without a reason.
    #[error("the emulation ended before the command; report this")]
    Ended,
    /// A device failed during the emulation.
    #[error("the device `{device}` failed ({source}): was it removed by the command?")]
    DeviceLost {
        /// Device name.
        device: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
