//! `--log-json`: a file to which a server appends one JSON object a line for everything that its peers do.
//!
//! Nothing is lost silently. A line that cannot be written goes to standard error; from then on nobody is let in, and a session
//! under way ends before it confirms what is not in the log, until lines can be written again ([`crate::monitor`]). A line is
//! handed to the system before its session goes on; it is not flushed to the disk.

pub(crate) mod utc;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anyhow::Context;
use dfcp::AddressPrefix;
use dfcp_framing::printable_path;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::limits::{STRANGER_LOGGED_MAX, STRANGERS_LOGGED_MAX, STRANGERS_LOGGED_SPAN};
use crate::output;
use crate::private_file::{self, Permits};

/// The file.
pub struct AuditLog {
    /// Fit for a terminal.
    name: String,
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    /// The file ends within a line, which a full disk has cut off.
    is_torn: bool,
    /// Lines which went to standard error, of which the file does not know yet.
    lost: u64,
    /// The last line could not be written.
    is_failing: bool,
    strangers: Strangers,
}

/// Budget of lines about peers that are not admitted. A stranger could otherwise fill the disk.
struct Strangers {
    since: Instant,
    lines: u32,
    /// Lines by address; there are no more addresses than lines.
    by_address: BTreeMap<AddressPrefix, u32>,
    /// Left out since the last line about that.
    omitted: u64,
}

impl Strangers {
    /// Another span begins.
    fn begin(&mut self) {
        (self.since, self.lines) = (Instant::now(), 0);
        self.by_address.clear();
    }

    /// Takes a line for somebody at this address, if one is left.
    fn permit(&mut self, address: Option<AddressPrefix>) -> bool {
        if self.lines >= STRANGERS_LOGGED_MAX {
            return false;
        }
        if let Some(address) = address {
            let lines = self.by_address.entry(address).or_default();
            if *lines >= STRANGER_LOGGED_MAX {
                return false;
            }
            *lines += 1;
        }
        self.lines += 1;
        true
    }
}

impl AuditLog {
    /// Opens the file, makes it if it is missing, for its owner alone, and writes the `first` line.
    ///
    /// # Errors
    /// It cannot be opened or written, it is neither a file nor a device, or it is a file that others can use.
    pub fn open(path: &Path, first: Value) -> anyhow::Result<Self> {
        let name = printable_path(path);
        let advice = || format!("cannot write the audit log {name}, choose another --log-json or make room");
        let (out, is_torn) = private_file::append(path, Permits::FilesAndDevices).with_context(advice)?;
        let log = Self::over(Box::new(out), name.clone(), is_torn);
        let mut state = log.lock();
        state.append(&line(first)).with_context(advice)?;
        drop(state);
        Ok(log)
    }

    fn over(out: Box<dyn Write + Send>, name: String, is_torn: bool) -> Self {
        let strangers = Strangers { since: Instant::now(), lines: 0, by_address: BTreeMap::new(), omitted: 0 };
        Self { name, state: Mutex::new(State { out, is_torn, lost: 0, is_failing: false, strangers }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock does not matter, only that the next line can be written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line about something that is not to happen without it; whether it is written.
    #[must_use]
    pub fn permits(&self, event: Value) -> bool {
        self.put(&mut self.lock(), &line(event))
    }

    /// Writes a line about something that has happened, to standard error where it cannot be written; whether it is written.
    pub fn record(&self, event: Value) -> bool {
        self.record_line(&mut self.lock(), event)
    }

    /// As [`record`](Self::record), about a peer that is not admitted: at most [`STRANGERS_LOGGED_MAX`] lines in each
    /// [`STRANGERS_LOGGED_SPAN`], of one address [`STRANGER_LOGGED_MAX`], and then one with the number of others. So nobody can hide
    /// what another one tries, or he himself from elsewhere, behind attempts from one address.
    pub fn record_stranger(&self, event: Value, address: Option<AddressPrefix>) {
        let mut state = self.lock();
        if state.strangers.since.elapsed() >= STRANGERS_LOGGED_SPAN {
            self.tell_omitted(&mut state);
            state.strangers.begin();
        }
        if !state.strangers.permit(address) {
            state.strangers.omitted += 1;
            return;
        }
        self.record_line(&mut state, event);
    }

    /// True unless the last attempt to write it failed.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        !self.lock().is_failing
    }

    fn record_line(&self, state: &mut State, event: Value) -> bool {
        let line = line(event);
        let is_written = self.put(state, &line);
        if !is_written {
            state.lost += 1;
            output::always(&line);
        }
        is_written
    }

    /// Appends a line, behind one that says how many are missing; whether it is written. Says it when that changes.
    fn put(&self, state: &mut State, line: &str) -> bool {
        match state.catch_up().and_then(|()| state.append(line)) {
            Ok(()) if state.is_failing => {
                state.is_failing = false;
                output::always(&format!("the audit log {} can be written again", self.name));
                true
            }
            Ok(()) => true,
            Err(error) => {
                if !state.is_failing {
                    state.is_failing = true;
                    output::always(&format!(
                        "error: the audit log {} cannot be written ({error}): until it can, nobody is let in and its lines go \
                         here; make room",
                        self.name
                    ));
                }
                false
            }
        }
    }

    fn tell_omitted(&self, state: &mut State) {
        let omitted = std::mem::take(&mut state.strangers.omitted);
        if omitted > 0 {
            self.record_line(state, json!({ "event": "turned_away_unlogged", "count": omitted }));
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let mut state = self.lock();
        self.tell_omitted(&mut state);
        self.record_line(&mut state, json!({ "event": "stopped" }));
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("name", &self.name).finish_non_exhaustive()
    }
}

impl State {
    /// Says how many lines are missing here.
    fn catch_up(&mut self) -> io::Result<()> {
        if self.lost > 0 {
            self.append(&line(json!({ "event": "lines_lost", "count": self.lost })))?;
            self.lost = 0;
        }
        Ok(())
    }

    /// Appends a line, which is whole in the file or, after an error, followed by an end of line before the next one.
    fn append(&mut self, line: &str) -> io::Result<()> {
        let text = format!("{}{line}\n", if self.is_torn { "\n" } else { "" });
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.is_torn = true;
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.is_torn = false;
        Ok(())
    }
}

/// The event with the time, as one line: JSON escapes what would end it.
fn line(mut event: Value) -> String {
    event["time"] = utc::rfc3339(SystemTime::now()).into();
    event.to_string()
}
