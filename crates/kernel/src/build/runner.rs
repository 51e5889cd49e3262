//! Execution of tools one after the other, with a common log.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use crate::console::{last_lines, readable};
use crate::process::{Ending, Supervised};

/// Settings common to the tools of one build.
pub(super) struct Runner<'build> {
    /// Working directory of the build, removed if this program is killed.
    pub scratch: Option<&'build Path>,
    /// Path of the log of the tools' output.
    pub log: PathBuf,
    /// Path of the log after a failure.
    pub kept_log: PathBuf,
    /// `PATH` of the tools.
    pub path: OsString,
    /// Further environment variables of the tools.
    pub variables: Vec<(&'static str, OsString)>,
    /// Stop flag set by the caller.
    pub stop: &'build AtomicBool,
}

/// Result of a tool that has ended.
pub(super) struct Outcome {
    /// True if the tool succeeded.
    pub is_success: bool,
    /// Exit status, as text.
    pub status: String,
    /// Last 64 KiB of output.
    pub output: String,
}

impl Runner<'_> {
    /// Runs a tool until it ends, successfully or not; `tell` receives its output as well.
    pub(super) fn attempt(
        &self,
        program: &str,
        set: impl FnOnce(&mut Command),
        mut tell: impl FnMut(&[u8]) + Send + 'static,
    ) -> Result<Outcome, BuildError> {
        // For a missing tool the launching shell prints a message and ends with 127.
        let file = find(program, &self.path).unwrap_or_else(|| PathBuf::from(program));
        let mut log = self.open_log()?;
        let mut shown = String::new();
        let add = move |bytes: &[u8]| {
            // A failed write to the log is ignored: on a full disk the tool fails as well.
            let _ = log.write_all(bytes);
            tell(bytes);
        };
        let set = |command: &mut Command| {
            self.clear(command);
            set(command);
            shown = command.get_args().skip(2).map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        };
        let failed = |error| BuildError::io("run", &file)(error);
        let mut process = Supervised::start(&file, set, self.scratch, add).map_err(failed)?;
        let ending = process.wait(None, self.stop).map_err(failed)?;
        let output = readable(&process.output());
        let status = match ending {
            Ending::Exited(status) => status,
            Ending::TimedOut | Ending::Stopped => return Err(BuildError::Stopped),
        };
        // The header names the tool for readers of the log.
        let _ = self.open_log().map(|mut log| writeln!(log, "= {status}: {shown}"));
        Ok(Outcome { is_success: status.success(), status: status.to_string(), output })
    }

    /// Runs a tool that must succeed; `what` names its task in errors. Returns the last 64 KiB of output.
    pub(super) fn run(&self, what: &str, program: &str, set: impl FnOnce(&mut Command)) -> Result<String, BuildError> {
        let outcome = self.attempt(program, set, |_| ())?;
        self.successful(what, outcome)
    }

    /// Output of a success, or the error for any other outcome.
    pub(super) fn successful(&self, what: &str, outcome: Outcome) -> Result<String, BuildError> {
        let Outcome { is_success, status, output } = outcome;
        if is_success {
            return Ok(output);
        }
        if ["No space left on device", "Disk quota exceeded"].iter().any(|full| output.contains(full)) {
            return Err(BuildError::DiskFull { path: self.kept_log.clone() });
        }
        Err(BuildError::Failed {
            what: what.to_owned(),
            status,
            log: self.kept_log.clone(),
            output: last_lines(&output),
        })
    }

    fn open_log(&self) -> Result<File, BuildError> {
        OpenOptions::new().append(true).create(true).open(&self.log).map_err(BuildError::io("write", &self.log))
    }

    /// Removes variables that `make` would obey (`O`, `V`, `CROSS_COMPILE`, `KCFLAGS`, …).
    fn clear(&self, command: &mut Command) {
        let kept = ["HOME", "TMPDIR", "http_proxy", "https_proxy", "no_proxy", "APT_CONFIG"];
        let kept = kept.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
        command.env_clear().envs(kept).env("PATH", &self.path).env("LC_ALL", "C");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

/// Finds the program with this name on this path.
pub(super) fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let files = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    files.map(|directory| directory.join(name)).find(|file| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}
