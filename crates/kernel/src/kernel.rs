//! Kernels that run as programs.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::limits::{KERNEL_BYTES_MAX, VERSION_LIMIT};
use crate::process::{Ending, Supervised};

/// Bytes contained in every user-mode Linux program.
pub(crate) const MARK: &[u8] = b"User Mode Linux v";

/// Name of a timer, contained in programs that support virtual time.
pub(crate) const TIME_TRAVEL_MARK: &[u8] = b"time-travel-timer-infcpu";

/// Hex digits of a hash in a kernel's id.
const ID_DIGITS: usize = 8;

/// A Linux kernel that runs as a program (user-mode Linux) and supports virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    path: PathBuf,
    release: String,
    hash: blake3::Hash,
}

/// Reason for which no usable kernel was found.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The cache contains no kernel, or none of this series.
    #[error("no {}kernel is built; run: dfcp lab kernel build{}", shown(series.as_deref(), ""), shown(series.as_deref(), " "))]
    NoneBuilt {
        /// Requested series, such as `6.12`.
        series: Option<String>,
    },
    /// There is no home directory.
    #[error("cannot find the home directory for the cache of kernels; set HOME or XDG_CACHE_HOME")]
    NoCache,
    /// A file cannot be read.
    #[error("cannot read {} ({error}); remove it and run: dfcp lab kernel build", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The path is not a regular file (a directory, or a link in the cache).
    #[error("{} is no regular file; remove it and run: dfcp lab kernel build", path.display())]
    NotAFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is not executable.
    #[error("{} is not executable; run chmod +x, or remove it and run: dfcp lab kernel build", path.display())]
    NotExecutable {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is another program.
    #[error("{} is no Linux kernel that runs as a program (user-mode Linux); run: dfcp lab kernel build", path.display())]
    NotUserMode {
        /// Path of the file.
        path: PathBuf,
    },
    /// The kernel lacks `CONFIG_UML_TIME_TRAVEL_SUPPORT`, like that of Debian's package `user-mode-linux`.
    #[error("the kernel {} has no virtual time (CONFIG_UML_TIME_TRAVEL_SUPPORT); run: dfcp lab kernel build", path.display())]
    NoTimeTravel {
        /// Path of the file.
        path: PathBuf,
    },
    /// The kernel does not run on this machine, or reports no release.
    #[error("the kernel {} does not say its release with --version ({why}); build it anew: dfcp lab kernel build", path.display())]
    NoRelease {
        /// Path of the file.
        path: PathBuf,
        /// The reason, as part of a sentence.
        why: String,
    },
}

/// Formats the series for a sentence: after `before`, or followed by a space; empty without a series.
fn shown(series: Option<&str>, before: &str) -> String {
    let after = if before.is_empty() { " " } else { "" };
    series.map(|series| format!("{before}{series}{after}")).unwrap_or_default()
}

impl Kernel {
    /// Opens the kernel at `path`. The file is executed only if it contains the marks of a user-mode Linux with virtual
    /// time.
    ///
    /// # Errors
    /// Fails if the file is missing, or is not a user-mode Linux with virtual time that runs here.
    pub fn at(path: &Path) -> Result<Self, KernelError> {
        let unreadable = |error| KernelError::Io { path: path.to_owned(), error };
        let path = std::path::absolute(path).map_err(unreadable)?;
        let metadata = path.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(KernelError::NotAFile { path });
        }
        let mut program = Vec::new();
        let file = File::open(&path).map_err(unreadable)?;
        file.take(KERNEL_BYTES_MAX).read_to_end(&mut program).map_err(unreadable)?;
        if !program.starts_with(b"\x7fELF") || !contains(&program, MARK) {
            return Err(KernelError::NotUserMode { path });
        }
        if !contains(&program, TIME_TRAVEL_MARK) {
            return Err(KernelError::NoTimeTravel { path });
        }
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(KernelError::NotExecutable { path });
        }
        let release = ask_release(&path).map_err(|why| KernelError::NoRelease { path: path.clone(), why })?;
        Ok(Self { path, release, hash: blake3::hash(&program) })
    }

    /// Path of the program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Release reported by `--version`, such as `6.12.117`.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// First two numbers of the release, such as `6.12`.
    #[must_use]
    pub fn series(&self) -> &str {
        self.release.match_indices(['.', '-']).nth(1).map_or(&self.release, |(end, _)| &self.release[..end])
    }

    /// Unique id: the release and the first digits of the program's BLAKE3, such as `6.12.117-0123abcd`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}-{}", self.release, &self.hash.to_hex()[..ID_DIGITS])
    }

    /// Makes a kernel without a file, for tests.
    #[cfg(test)]
    pub(crate) fn of_test(release: &str) -> Self {
        Self { path: PathBuf::from("/nonexistent/linux"), release: release.to_owned(), hash: blake3::hash(b"") }
    }

    /// Numbers of the release, for comparison.
    pub(crate) fn version(&self) -> Vec<u32> {
        self.release.split(['.', '-', '+']).map_while(|number| number.parse().ok()).collect()
    }
}

fn contains(program: &[u8], mark: &[u8]) -> bool {
    program.windows(mark.len()).any(|window| window == mark)
}

/// Runs the program with `--version` and returns the release.
fn ask_release(path: &Path) -> Result<String, String> {
    let set = |command: &mut std::process::Command| {
        command.arg("--version");
    };
    let mut process = Supervised::start(path, set, None, |_| ()).map_err(|error| error.to_string())?;
    let ending = process.wait(Some(VERSION_LIMIT), &AtomicBool::new(false)).map_err(|error| error.to_string())?;
    let output = process.output();
    match ending {
        Ending::Exited(status) if status.success() => release_in(&output),
        Ending::Exited(status) => Err(status.to_string()),
        Ending::TimedOut | Ending::Stopped => Err(format!("no answer in {} s", VERSION_LIMIT.as_secs())),
    }
}

/// Checks that a release is one word that starts with two numbers.
fn release_in(output: &str) -> Result<String, String> {
    let release = output.trim();
    let is_word = release.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_~".contains(&byte));
    let mut numbers = release.split(['.', '-']);
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    if is_word && release.len() <= 64 && is_number(numbers.next()) && is_number(numbers.next()) {
        Ok(release.to_owned())
    } else {
        Err("its answer is no release".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, fake};

    fn refused(path: &Path) -> String {
        Kernel::at(path).unwrap_err().to_string()
    }

    #[test]
    fn other_files_are_refused_and_not_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linux");
        assert!(refused(&path).contains("cannot read"));
        assert!(refused(directory.path()).contains("no regular file"));
        let proof = directory.path().join("was run");
        let marks = format!("{}{}", String::from_utf8_lossy(MARK), String::from_utf8_lossy(TIME_TRAVEL_MARK));
        testing::script(&path, &format!("touch '{}'; echo 6.12.1 # {marks}", proof.display()));
        assert!(refused(&path).contains("no Linux kernel that runs as a program"));
        assert!(!proof.exists());
        assert!(refused(Path::new("/bin/sh")).contains("no Linux kernel that runs as a program"));
        fake(&path, &[MARK], 0o755);
        assert!(refused(&path).contains("no virtual time (CONFIG_UML_TIME_TRAVEL_SUPPORT)"));
        fake(&path, &[MARK, TIME_TRAVEL_MARK], 0o644);
        assert!(refused(&path).contains("is not executable"));
        fake(&path, &[MARK, TIME_TRAVEL_MARK], 0o755);
        assert!(refused(&path).contains("does not say its release"), "{}", refused(&path));
    }

    #[test]
    fn a_release_is_one_word_of_numbers() {
        for right in ["6.12.117", "6.1.192\n", "6.12-rc1", "6.8.0-40-generic"] {
            assert_eq!(release_in(right), Ok(right.trim().to_owned()));
        }
        for wrong in ["", "linux", "6", "6.x", "6.12 and more", "6.12\u{1b}[31m", "../6.12", &"6.12".repeat(20)] {
            assert!(release_in(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_kernels_names_and_their_order() {
        let kernel = Kernel::of_test("6.12.117");
        assert_eq!((kernel.series(), kernel.release()), ("6.12", "6.12.117"));
        assert_eq!(kernel.id(), "6.12.117-af1349b9");
        assert_eq!(Kernel::of_test("6.12").series(), "6.12");
        assert_eq!(Kernel::of_test("6.12-rc1").series(), "6.12");
        assert!(Kernel::of_test("6.9.3").version() < kernel.version());
    }
}
