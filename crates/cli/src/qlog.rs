//! `--qlog`: trace of a command's connections for qlog tools (draft-ietf-quic-qlog-main-schema). `docs/qlog.md` lists the events.
//!
//! Connections pass events to a writer thread and never wait for the thread. Events that exceed the queue are dropped
//! and counted, and the trace states their number. A trace that cannot be written ends with one line on standard error,
//! and connections continue.

mod event;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use dfcp::{Beginning, ConnectionObserver, Observed, Observer, Profile};
use dfcp_framing::printable_path;

use self::event::Event;
use self::writer::{RECORD_SEPARATOR, Writer};
use crate::limits::{QLOG_CONNECTIONS_MAX, QLOG_FINISH_MAX, QLOG_QUEUE_MAX};
use crate::output;
use crate::private_file::{self, Permits};

/// Role of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The command opens connections.
    Client,
    /// The command accepts connections.
    Server,
}

/// Trace being written. Dropping it ends the trace after the queued events.
#[derive(Debug)]
pub struct Trace {
    /// File name, escaped for a terminal.
    name: String,
    shared: Arc<Shared>,
    sender: SyncSender<Message>,
    /// Signals that the file is complete.
    done: Mutex<Receiver<()>>,
}

/// State that connections and the writer share.
#[derive(Debug)]
struct Shared {
    began: Instant,
    /// True if no more events are accepted: the command has ended, or the file cannot be written.
    is_closed: AtomicBool,
    /// Number of dropped events that the file does not mention yet.
    lost: AtomicU64,
    connections: AtomicU64,
}

/// Event queued for the writer.
#[derive(Debug)]
struct Message {
    /// Name of the connection, the same at both ends.
    group: Arc<str>,
    /// Time since the trace began.
    at: Duration,
    event: Event,
}

impl Trace {
    /// Starts a trace in the file at `path`, for connections of this `side`. An existing trace is replaced.
    ///
    /// # Errors
    /// Fails if the file cannot be written, is no trace, or is accessible to other users.
    pub fn begin(path: &Path, side: Side) -> anyhow::Result<Self> {
        let name = printable_path(path);
        let advice = || format!("cannot write the trace {name}, choose another --qlog");
        let file = open(path).with_context(advice)?;
        let writer = Writer::begin(file, side, SystemTime::now()).with_context(advice)?;
        Self::over(writer, name)
    }

    fn over<W: std::io::Write + Send + 'static>(writer: Writer<W>, name: String) -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(QLOG_QUEUE_MAX);
        let (when_done, done) = mpsc::channel();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            is_closed: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let (to_thread, shown) = (Arc::clone(&shared), name.clone());
        let write = move || {
            if let Err(error) = writer.run(&receiver, &to_thread) {
                output::always(&format!(
                    "error: the trace {shown} cannot be written ({error}): it ends here, and connections go on; make room"
                ));
            }
            to_thread.is_closed.store(true, Ordering::Relaxed);
            // The receiver may have been dropped.
            let _ = when_done.send(());
        };
        thread::Builder::new().name("qlog".to_owned()).spawn(write).context("cannot start a thread for the trace")?;
        Ok(Self { name, shared, sender, done: Mutex::new(done) })
    }

    /// Returns an observer for configurations whose connections belong in the trace.
    pub fn observer(&self) -> Observer {
        let (shared, sender) = (Arc::clone(&self.shared), self.sender.clone());
        Observer::new(move |beginning| {
            let number = shared.connections.fetch_add(1, Ordering::Relaxed);
            if number >= QLOG_CONNECTIONS_MAX || shared.is_closed.load(Ordering::Relaxed) {
                return None;
            }
            let mut connection = Connection {
                group: group(beginning),
                profile: beginning.profile,
                began: shared.began.elapsed(),
                sender: sender.clone(),
                shared: Arc::clone(&shared),
            };
            connection.send(Duration::ZERO, Event::Started(*beginning));
            if number + 1 == QLOG_CONNECTIONS_MAX {
                connection.send(Duration::ZERO, Event::Last);
            }
            Some(Box::new(connection))
        })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        // Wake the writer; a full queue means that it is awake.
        let _ = self.sender.try_send(Message { group: "".into(), at: Duration::ZERO, event: Event::End });
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if done.recv_timeout(QLOG_FINISH_MAX).is_err_and(|error| error == mpsc::RecvTimeoutError::Timeout) {
            output::always(&format!("the trace {} is not complete: its disk is too slow", self.name));
        }
    }
}

/// Returns the name that both ends of a connection use in traces.
fn group(beginning: &Beginning) -> Arc<str> {
    match beginning.initiator_id {
        Some(id) => format!("{id:08x}").into(),
        None => format!("classic {}", beginning.remote).into(),
    }
}

/// Observer of one connection.
#[derive(Debug)]
struct Connection {
    group: Arc<str>,
    profile: Profile,
    /// Start of the connection, relative to the start of the trace.
    began: Duration,
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
}

impl Connection {
    fn send(&mut self, at: Duration, event: Event) {
        let message = Message { group: Arc::clone(&self.group), at: self.began + at, event };
        if let Err(TrySendError::Full(_)) = self.sender.try_send(message) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ConnectionObserver for Connection {
    fn on_event(&mut self, at: Duration, event: &Observed<'_>) {
        if self.shared.is_closed.load(Ordering::Relaxed) {
            return;
        }
        if let Some(event) = Event::of(self.profile, event) {
            self.send(at, event);
        }
    }
}

/// Opens the file: created with mode 0600 if missing, truncated if it is a trace.
fn open(path: &Path) -> anyhow::Result<File> {
    let (mut file, there) = private_file::open(path, OpenOptions::new().write(true))?;
    let is_old = there.is_file() && there.len() > 0;
    if is_old {
        let mut first = [0];
        file.read_exact(&mut first)?;
        // Check the content first: for a film named by mistake, the advice must not be to change its mode.
        ensure!(first == [RECORD_SEPARATOR], "it is there, and no trace");
    }
    private_file::check(&there, Permits::FilesAndDevices)?;
    if is_old {
        file.seek(SeekFrom::Start(0))?;
        file.set_len(0)?;
    }
    Ok(file)
}
