//! `--key-log`: writes secrets of connections to a file, so that users can decrypt captures of their own traffic
//! (`spec/security.md` §6).
//!
//! Writing requires both the flag and an environment variable. A forgotten variable alone reveals no keys, and neither
//! does the flag alone in a script that another user runs.

pub mod line;
#[cfg(test)]
mod tests;

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use dfcp::KeyLog;
use dfcp_framing::printable_path;

use crate::limits::KEY_LOG_CONNECTIONS_MAX;
use crate::output;
use crate::private_file::{self, Permits};

/// Environment variable with the file's path.
pub const VARIABLE: &str = "DFCP_KEYLOG";

/// Returns the path of the key log if the flag was given (`asked`) and the variable is set.
#[must_use]
pub fn path(asked: bool) -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|path| asked && !path.is_empty()).map(PathBuf::from)
}

/// Opens the key log that the environment variable names, and prints a warning; `None` if the flag was not given.
///
/// # Errors
/// Fails if the variable is unset, the file cannot be written, or other users could read it or created it (\[keylog-1\]).
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
    output::always(&format!(
        "warning: the keys of every connection are written to {}: with them, what was sent can be read and forged; remove the file \
         when you are done",
        writer.name
    ));
    Ok(Some(KeyLog::new(move |secrets| writer.append(&line::format(secrets)))))
}

/// Open key log.
#[derive(Debug)]
struct Writer {
    /// File name, escaped for a terminal.
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// True if the file ends in the middle of a line, for example because the disk was full.
    is_torn: bool,
    lines: usize,
    /// True after the user was warned that lines are missing.
    is_told: bool,
}

impl Writer {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let name = printable_path(path);
        let (file, is_torn) = private_file::append(path, Permits::Files)
            .with_context(|| format!("cannot write keys to {name}, let {VARIABLE} name another file"))?;
        Ok(Self { name, state: Mutex::new(State { file, is_torn, lines: 0, is_told: false }) })
    }

    /// Appends a line by one system call, so that concurrent programs do not mix their lines.
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
            output::always(&format!("error: keys are missing in {name} ({why}); connections go on without: {advice}"));
        }
    }
}
