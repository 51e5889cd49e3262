//! `--key-log`: the secrets of connections, to open captures of one's own (`spec/security.md` §6).
//!
//! Two things have to be said for anything to be written: the flag, and the file in the environment. A variable that is left over from an earlier
//! hour gives nothing away, nor does a flag in a script that somebody else runs.

pub mod line;
#[cfg(test)]
mod tests;

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use dfcp::KeyLog;
use dfcp_framing::printable_path;

use crate::limits::KEY_LOG_CONNECTIONS_MAX;
use crate::output;

/// Names the file.
pub const VARIABLE: &str = "DFCP_KEYLOG";

/// The file that the environment names, if it would be written.
#[must_use]
pub fn path(asked: bool) -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|path| asked && !path.is_empty()).map(PathBuf::from)
}

/// What writes the file that the environment names, with a warning, if the flag was given.
///
/// # Errors
/// No file is named, or it cannot be written, or others could read it or had made it (\[keylog-1\]).
pub fn begin(asked: bool) -> anyhow::Result<Option<KeyLog>> {
    if !asked {
        return Ok(None);
    }
    let Some(path) = path(asked) else {
        bail!(
            "--key-log writes to the file which {VARIABLE} names, and it names none: set it, as in {VARIABLE}=keys.txt dfcp .."
        );
    };
    let writer = Arc::new(Writer::open(&path)?);
    output::note(&format!(
        "warning: the keys of every connection are written to {}: with them, what was sent can be read and forged; remove the file \
         when you are done",
        writer.name
    ));
    Ok(Some(KeyLog::new(move |secrets| writer.append(&line::format(secrets)))))
}

/// The file.
#[derive(Debug)]
struct Writer {
    /// Fit for a terminal.
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// The file ends within a line, which a full disk has cut off.
    is_torn: bool,
    lines: usize,
    /// That lines are missing was said.
    is_told: bool,
}

impl Writer {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let name = printable_path(path);
        let (file, is_torn) =
            open(path).with_context(|| format!("cannot write keys to {name}, let {VARIABLE} name another file"))?;
        Ok(Self { name, state: Mutex::new(State { file, is_torn, lines: 0, is_told: false }) })
    }

    /// Appends a line, by one call, so that programs which write to one file do not mix theirs.
    fn append(&self, line: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.lines >= KEY_LOG_CONNECTIONS_MAX {
            let why =
                format!("it has the keys of {KEY_LOG_CONNECTIONS_MAX} connections, as many as one program writes");
            return state.tell(&self.name, &why, "start again");
        }
        state.lines += 1;
        if let Err(error) = state.write(line) {
            state.tell(&self.name, &error.to_string(), "make room");
        }
    }
}

impl State {
    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.is_torn = false;
        }
        let written = self.file.write_all(line.as_bytes());
        self.is_torn = written.is_err();
        written
    }

    fn tell(&mut self, name: &str, why: &str, advice: &str) {
        if !std::mem::replace(&mut self.is_told, true) {
            output::note(&format!("error: keys are missing in {name} ({why}); connections go on without: {advice}"));
        }
    }
}

/// The file for appending, made for its owner alone if it is missing, and whether it ends within a line. Everything is checked of the
/// opened file, so that nothing can be exchanged meanwhile.
fn open(path: &Path) -> anyhow::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A link leads where its maker wants; opening a pipe would wait for a reader.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let mut file = options.open(path).map_err(|error| explain(path, error))?;
    let there = file.metadata()?;
    ensure!(there.is_file(), "it is no file");
    check_private(&there)?;
    let mut last = [b'\n'];
    if there.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, last != *b"\n"))
}

/// What the system's word for a link that is not followed means.
fn explain(path: &Path, error: io::Error) -> anyhow::Error {
    let is_link = path.symlink_metadata().is_ok_and(|there| there.file_type().is_symlink());
    if is_link { anyhow::anyhow!("it is a symbolic link, which is not followed") } else { error.into() }
}

/// Neither group nor others may do anything with it, it is this user's, and it has no other name.
#[cfg(unix)]
fn check_private(there: &std::fs::Metadata) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let (user, mode) = (rustix::process::geteuid().as_raw(), there.mode() & 0o7777);
    ensure!(there.uid() == user, "it belongs to user {}, and you are {user}", there.uid());
    ensure!(mode & 0o077 == 0, "it has mode {mode:04o}, so others can use it: run chmod 600 on it");
    ensure!(there.nlink() == 1, "it has {} names (hard links)", there.nlink());
    Ok(())
}

/// There are no such owners and modes on this system.
#[cfg(not(unix))]
fn check_private(_: &std::fs::Metadata) -> anyhow::Result<()> {
    Ok(())
}
