//! Errors that keep an emulation from starting or going on.

use std::ffi::OsString;
use std::io;

use dfcp_netem::ConfigError;

use crate::limits::PAIRS_MAX;

/// One sentence, with the next step where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The links cannot exist.
    #[error(transparent)]
    Link(#[from] ConfigError),
    /// Links and routes which do not fit together.
    #[error("the routes of an emulated network do not fit its links; report this")]
    Route,
    /// No pairs of hosts, or too many.
    #[error("an emulated network has 1 to {PAIRS_MAX} pairs of hosts, not {0}")]
    Pairs(usize),
    /// Neither administrator nor allowed to be one in a namespace.
    #[error(
        "this user may not make namespaces ({0}): run it as root, or allow user namespaces (sysctl user.max_user_namespaces; \
         Debian: kernel.unprivileged_userns_clone=1; Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    UserNamespaces(io::Error),
    /// Something that an administrator may do was refused.
    #[error("cannot {what}: {source}")]
    System {
        /// The attempt, as a verb phrase.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The outside is for administrators.
    #[error(
        "only root may lead an emulated path to this machine's own network; run it as root, or give a server instead"
    )]
    OutsideForbidden,
    /// Another emulation has it.
    #[error("another emulation leads to this machine's own network already (device `{0}`); wait until it has ended")]
    OutsideInUse(&'static str),
    /// No driver for TUN devices.
    #[error("there is no /dev/net/tun: load its module (modprobe tun), or give this container the device")]
    NoTun,
    /// The driver may not be used.
    #[error("/dev/net/tun may not be opened by this user: allow it (chmod 666 /dev/net/tun), or run this as root")]
    TunForbidden,
    /// The device of one end cannot be configured.
    #[error("cannot configure the device `{device}`: {reason}")]
    Device {
        /// Its name.
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
        /// Its name.
        program: OsString,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process which ends all others did not start.
    #[error("the process that looks after the namespaces did not start: {0}")]
    Init(String),
    /// The packets stopped without a reason.
    #[error("the emulation ended before the command; report this")]
    Ended,
    /// A device failed while packets went through it.
    #[error("the device `{device}` failed ({source}): was it removed by the command?")]
    DeviceLost {
        /// Its name.
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
