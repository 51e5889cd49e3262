//! Errors of a build.

use std::io;
use std::path::{Path, PathBuf};

use crate::kernel::KernelError;
use crate::limits::BUILD_BYTES_MIN;

/// Reason for which no kernel was built. A failed build leaves no kernel in the cache.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The version is not of the form `6.12`.
    #[error("{version:?} is no version of a kernel; write one like 6.12")]
    Version {
        /// The text given as a version.
        version: String,
    },
    /// The architecture is unsupported: user-mode Linux exists for x86-64 only.
    #[error(
        "a kernel that runs as a program can be built on x86-64 only, and this is {architecture}; use --platform sim"
    )]
    Architecture {
        /// This machine's architecture.
        architecture: &'static str,
    },
    /// The system has no Debian package manager.
    #[error(
        "{missing} is not on PATH: a kernel's source comes from Debian's packages; build on Debian, or in a container of it"
    )]
    NotDebian {
        /// Name of the missing program.
        missing: &'static str,
    },
    /// The package lists do not contain this version.
    #[error("the package linux-source-{version} is not known; run apt-get update as root{}", others(known))]
    UnknownPackage {
        /// Requested version.
        version: String,
        /// Versions in the lists.
        known: Vec<String>,
    },
    /// No compiler or C library is installed.
    #[error("cannot compile C here ({why}); run as root: apt-get install gcc libc6-dev make")]
    NoCompiler {
        /// The missing programs, or the failure of a first compilation.
        why: String,
    },
    /// A package cannot be downloaded.
    #[error("cannot download {package}; check the network, and run apt-get update as root; the log is {}{}", log.display(), shown(output))]
    Download {
        /// Name of the package.
        package: String,
        /// Path of the log.
        log: PathBuf,
        /// Last output of the download.
        output: String,
    },
    /// The disk is full, before or during the build.
    #[error("the disk of {} is full: building takes {} GB; free some, or set XDG_CACHE_HOME to another", path.display(), BUILD_BYTES_MIN / 1_000_000_000)]
    DiskFull {
        /// A directory on that disk.
        path: PathBuf,
    },
    /// `make` cannot work in a directory with this path.
    #[error("a kernel cannot be built in {}: the path has a space or colon in it; set XDG_CACHE_HOME to another", path.display())]
    Path {
        /// Path of the cache.
        path: PathBuf,
    },
    /// The kernel does not support some of the options.
    #[error("this source does not grant {}; build another version, or report this", options.join(", "))]
    Refused {
        /// Refused options, such as `CONFIG_NET=y`.
        options: Vec<String>,
    },
    /// A tool failed.
    #[error("{what} failed ({status}); the whole log is {}{}", log.display(), shown(output))]
    Failed {
        /// The tool's task.
        what: String,
        /// Exit status of the tool, as text.
        status: String,
        /// Path of the log.
        log: PathBuf,
        /// Last output of the tool.
        output: String,
    },
    /// The package contains no source archive.
    #[error(
        "the package {package} has no archive of a kernel's source in /usr/src; build another version, or report this"
    )]
    NoSource {
        /// Name of the package.
        package: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {} ({error}); check its permissions, or set XDG_CACHE_HOME", path.display())]
    Io {
        /// Failed operation, such as `write`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The result is not a usable kernel, or the cache cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The build was stopped by the caller.
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

/// Formats the last lines of an output for an error message, on separate lines.
fn shown(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it ends:\n{output}") }
}
