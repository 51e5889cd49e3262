//! Runs tools one after the other, with one log.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use crate::console::{last_lines, readable};
use crate::process::{Ending, Supervised};

/// Settings that the tools of one build share.
pub(super) struct Runner<'build> {
    /// The working directory of the build. It is removed if this program is killed.
    pub scratch: Option<&'build Path>,
    /// The tools' outputs.
    pub log: PathBuf,
    /// The log's path after a failure.
    pub kept_log: PathBuf,
    /// The tools' `PATH`.
    pub path: OsString,
    /// Variables which they get besides.
    pub variables: Vec<(&'static str, OsString)>,
    /// The caller's wish to stop.
    pub stop: &'build AtomicBool,
}

/// A tool which has ended.
pub(super) struct Outcome {
    /// True if the tool did its work.
    pub is_success: bool,
    /// Its end, in words.
    pub status: String,
    /// The last 64 KiB of what it printed.
    pub output: String,
}

impl Runner<'_> {
    /// Runs a tool to its end, however that is; `tell` gets its output, too.
    pub(super) fn attempt(
        &self,
        program: &str,
        set: impl FnOnce(&mut Command),
        mut tell: impl FnMut(&[u8]) + Send + 'static,
    ) -> Result<Outcome, BuildError> {
        // A tool that is not there ends with 127 of the launching shell, which says so.
        let file = find(program, &self.path).unwrap_or_else(|| PathBuf::from(program));
        let mut log = self.open_log()?;
        let mut shown = String::new();
        let add = move |bytes: &[u8]| {
            // A full disk is the tool's error, too.
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
        // The log's reader wants to know what printed this.
        let _ = self.open_log().map(|mut log| writeln!(log, "= {status}: {shown}"));
        Ok(Outcome { is_success: status.success(), status: status.to_string(), output })
    }

    /// Runs a tool which must succeed: `what` says what it does. Returns the last 64 KiB of what it printed.
    pub(super) fn run(&self, what: &str, program: &str, set: impl FnOnce(&mut Command)) -> Result<String, BuildError> {
        let outcome = self.attempt(program, set, |_| ())?;
        self.successful(what, outcome)
    }

    /// The output of a success, and of anything else the error.
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

    /// `make` obeys dozens of variables (`O`, `V`, `CROSS_COMPILE`, `KCFLAGS`, ..), none of which belongs here.
    fn clear(&self, command: &mut Command) {
        let kept = ["HOME", "TMPDIR", "http_proxy", "https_proxy", "no_proxy", "APT_CONFIG"];
        let kept = kept.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
        command.env_clear().envs(kept).env("PATH", &self.path).env("LC_ALL", "C");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

/// The program of this name on this path.
pub(super) fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let files = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    files.map(|directory| directory.join(name)).find(|file| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}
