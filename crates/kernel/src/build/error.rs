//! Errors of a build.

use std::io;
use std::path::{Path, PathBuf};

use crate::kernel::KernelError;
use crate::limits::BUILD_BYTES_MIN;

/// No kernel was built. Nothing half-made is left that could be taken for one.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It is not `6.12` or the like.
    #[error("{version:?} is no version of a kernel; write one like 6.12")]
    Version {
        /// The text given as a version.
        version: String,
    },
    /// User-mode Linux exists for this architecture alone.
    #[error(
        "a kernel that runs as a program can be built on x86-64 only, and this is {architecture}; use --platform sim"
    )]
    Architecture {
        /// This machine's architecture.
        architecture: &'static str,
    },
    /// There is no package manager of Debian's kind.
    #[error(
        "{missing} is not on PATH: a kernel's source comes from Debian's packages; build on Debian, or in a container of it"
    )]
    NotDebian {
        /// The program looked for.
        missing: &'static str,
    },
    /// The package lists do not have this version.
    #[error("the package linux-source-{version} is not known; run apt-get update as root{}", others(known))]
    UnknownPackage {
        /// The version.
        version: String,
        /// Versions which the lists have.
        known: Vec<String>,
    },
    /// A compiler or its C library is not installed.
    #[error("cannot compile C here ({why}); run as root: apt-get install gcc libc6-dev make")]
    NoCompiler {
        /// The missing programs, or the failure of a first compilation.
        why: String,
    },
    /// Packages cannot be had.
    #[error("cannot download {package}; check the network, and run apt-get update as root; the log is {}{}", log.display(), shown(output))]
    Download {
        /// The package.
        package: String,
        /// The log's path.
        log: PathBuf,
        /// The last that was said.
        output: String,
    },
    /// Too little room, before or while building.
    #[error("the disk of {} is full: building takes {} GB; free some, or set XDG_CACHE_HOME to another", path.display(), BUILD_BYTES_MIN / 1_000_000_000)]
    DiskFull {
        /// A directory of it.
        path: PathBuf,
    },
    /// `make` cannot work in such a directory.
    #[error("a kernel cannot be built in {}: the path has a space or colon in it; set XDG_CACHE_HOME to another", path.display())]
    Path {
        /// The cache.
        path: PathBuf,
    },
    /// The kernel does not have some of the options.
    #[error("this source does not grant {}; build another version, or report this", options.join(", "))]
    Refused {
        /// As `CONFIG_NET=y`.
        options: Vec<String>,
    },
    /// A tool failed.
    #[error("{what} failed ({status}); the whole log is {}{}", log.display(), shown(output))]
    Failed {
        /// The tool's task.
        what: String,
        /// Its end, in words.
        status: String,
        /// The log's path.
        log: PathBuf,
        /// The last that it said.
        output: String,
    },
    /// The package has no source in it.
    #[error(
        "the package {package} has no archive of a kernel's source in /usr/src; build another version, or report this"
    )]
    NoSource {
        /// The package.
        package: String,
    },
    /// The file system.
    #[error("cannot {what} {} ({error}); check its permissions, or set XDG_CACHE_HOME", path.display())]
    Io {
        /// The operation, as `write`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The result is no usable kernel, or the cache cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The caller stopped it.
    #[error("the build was broken off, and what was half-made removed; start it again when ready")]
    Stopped,
}

impl BuildError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path: path.to_owned() },
            _ => Self::Io { what, path: path.to_owned(), error },
        }
    }
}

fn others(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(", or build one of: {}", known.join(", ")) }
}

/// The last lines, on lines of their own.
fn shown(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it ends:\n{output}") }
}
