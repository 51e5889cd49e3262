//! `--log-json`: the audit log of a server, one JSON object per line for every action of its peers.
//!
//! No entry is lost silently. A line that cannot be written goes to standard error; until writing works again, no peer is admitted, and a
//! running session ends before it confirms unlogged files ([`crate::monitor`]). Each line is written to the file before its session
//! continues; it is not flushed to the disk.

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

/// Open audit log.
pub struct AuditLog {
    /// File name, escaped for a terminal.
    name: String,
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    /// True if the file ends in the middle of a line, for example because the disk was full.
    is_torn: bool,
    /// Number of lines that went to standard error and are not yet reported in the file.
    lost: u64,
    /// True if the last write failed.
    is_failing: bool,
    strangers: Strangers,
}

/// Budget of lines about rejected peers. Strangers could otherwise fill the disk.
struct Strangers {
    since: Instant,
    lines: u32,
    /// Lines by address prefix; the line budget bounds the number of entries.
    by_address: BTreeMap<AddressPrefix, u32>,
    /// Lines omitted since the last line that reported omissions.
    omitted: u64,
}

impl Strangers {
    /// Starts the next time span with a fresh budget.
    fn begin(&mut self) {
        (self.since, self.lines) = (Instant::now(), 0);
        self.by_address.clear();
    }

    /// Takes one line of the budget for this address; returns false if the budget is used up.
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
    /// Opens the file, created with mode 0600 if missing, and writes the `first` line.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or written, is neither a file nor a device, or is accessible to other users.
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
        // Poisoning is harmless: the next line can be written even after a panic under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an event that must not happen unlogged; returns false if the line was not written.
    #[must_use]
    pub fn permits(&self, event: Value) -> bool {
        self.put(&mut self.lock(), &line(event))
    }

    /// Logs a past event, on standard error if the file fails. Returns true if the file has the line.
    pub fn record(&self, event: Value) -> bool {
        self.record_line(&mut self.lock(), event)
    }

    /// Logs a rejected peer, like [`record`](Self::record), within a budget: at most [`STRANGERS_LOGGED_MAX`] lines per
    /// [`STRANGERS_LOGGED_SPAN`], and at most [`STRANGER_LOGGED_MAX`] of one address. One line then reports the number
    /// of omitted lines. An attacker at one address therefore cannot hide attempts from another address.
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

    /// Returns true unless the last write failed.
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

    /// Appends a line, preceded by the number of missing lines if there are any. Returns true if the line was written.
    /// Reports on standard error when writing starts to fail, and when it works again.
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
    /// Writes the number of missing lines.
    fn catch_up(&mut self) -> io::Result<()> {
        if self.lost > 0 {
            self.append(&line(json!({ "event": "lines_lost", "count": self.lost })))?;
            self.lost = 0;
        }
        Ok(())
    }

    /// Appends a whole line. If the previous write failed halfway, a newline first ends the torn line.
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

/// Formats the event with its time as one line; JSON escapes embedded newlines.
fn line(mut event: Value) -> String {
    event["time"] = utc::rfc3339(SystemTime::now()).into();
    event.to_string()
}
