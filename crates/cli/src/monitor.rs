//! Peer events of a server: counted for `--metrics`, and logged for `--log-json`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfcp::{AddressPrefix, Endpoint};
use dfcp_files::{EntryKind, EntryOutcome};
use dfcp_framing::frame::Service;
use dfcp_framing::printable;
use dfcp_secure::PublicKey;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::admission::{By, NotAdmitted};
use crate::args::{AuditArgs, MetricsArgs};
use crate::audit::AuditLog;
use crate::metrics::text::{Kind, Text};
use crate::metrics::{Exporter, OfEndpoint, Source};
use crate::silence::Silence;

/// Reason to refuse a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The peer left or stayed silent.
    Silent,
    /// The connection is plaintext.
    Unsealed,
    /// The peer's key is not authorized, and it gave no code.
    UnknownKey,
    /// The peer's code was wrong, or no code is valid.
    Code,
    /// The connection was displaced by one from another address before admission.
    Displaced,
    /// The server is at its limit of sessions.
    Busy,
    /// The audit log cannot be written.
    AuditLog,
}

impl Cause {
    /// All causes, in the order of their indices.
    const ALL: [Self; 7] =
        [Self::Silent, Self::Unsealed, Self::UnknownKey, Self::Code, Self::Displaced, Self::Busy, Self::AuditLog];

    /// Identifier for JSON and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Unsealed => "not_encrypted",
            Self::UnknownKey => "unknown_key",
            Self::Code => "code",
            Self::Displaced => "displaced",
            Self::Busy => "busy",
            Self::AuditLog => "audit_log",
        }
    }
}

impl From<&NotAdmitted> for Cause {
    fn from(why: &NotAdmitted) -> Self {
        match why {
            NotAdmitted::Silent => Self::Silent,
            NotAdmitted::Unsealed => Self::Unsealed,
            NotAdmitted::Unknown(_) => Self::UnknownKey,
            NotAdmitted::Pairing(_) => Self::Code,
        }
    }
}

/// Outcome of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything requested was done.
    Complete,
    /// The session ended in order, but not everything requested was done.
    Incomplete,
    /// The session broke.
    Failed,
    /// This program ended before the session.
    Interrupted,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Complete, Self::Incomplete, Self::Failed, Self::Interrupted];

    const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Labels of the reasons for admission; the last one means a plaintext connection.
const WAYS: [&str; 6] = ["pre_shared_key", "authorized_key", "code", "any", "transfer_begun_by_code", "not_encrypted"];

const fn way(by: Option<By>) -> usize {
    match by {
        Some(By::PreShared) => 0,
        Some(By::Key) => 1,
        Some(By::Code) => 2,
        Some(By::Any) => 3,
        Some(By::Pair) => 4,
        None => 5,
    }
}

/// Labels of the outcomes of files, directories and links, by index.
const ENTRIES: [(&str, &str); 9] = [
    ("file", "stored"),
    ("file", "unchanged"),
    ("file", "failed"),
    ("directory", "stored"),
    ("directory", "failed"),
    // Deletions of any kind count as files.
    ("file", "deleted"),
    ("link", "stored"),
    ("link", "unchanged"),
    ("link", "failed"),
];

const fn entry(outcome: &EntryOutcome) -> usize {
    if outcome.is_deleted && outcome.failure.is_none() {
        return 5;
    }
    match (outcome.kind, outcome.failure.is_some(), outcome.is_unchanged) {
        (EntryKind::File, true, _) => 2,
        (EntryKind::File, false, true) => 1,
        (EntryKind::File, false, false) => 0,
        (EntryKind::Directory, false, _) => 3,
        (EntryKind::Directory, true, _) => 4,
        (EntryKind::Link, true, _) => 8,
        (EntryKind::Link, false, true) => 7,
        (EntryKind::Link, false, false) => 6,
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    sessions: u64,
    open: u64,
    admitted: [u64; WAYS.len()],
    refused: [u64; Cause::ALL.len()],
    ended: [u64; Outcome::ALL.len()],
    entries: [u64; ENTRIES.len()],
    stored_bytes: u64,
}

/// Peer events of one server.
#[derive(Debug)]
pub struct Monitor {
    service: Service,
    audit: Option<AuditLog>,
    counts: Mutex<Counts>,
}

impl Monitor {
    /// Creates the monitor; events go to `audit` if given.
    #[must_use]
    pub fn new(service: Service, audit: Option<AuditLog>) -> Arc<Self> {
        Arc::new(Self { service, audit, counts: Mutex::default() })
    }

    /// Creates the monitor from the command line, for a server at `address`.
    ///
    /// # Errors
    /// Fails if the audit log cannot be written.
    pub fn open(of: Service, args: &AuditArgs, address: SocketAddr) -> anyhow::Result<Arc<Self>> {
        let version = env!("CARGO_PKG_VERSION");
        let first = json!({ "event": "listening", "service": service(of), "address": address, "version": version });
        let audit = args.log_json.as_ref().map(|path| AuditLog::open(path, first)).transpose()?;
        Ok(Self::new(of, audit))
    }

    /// Serves the counts of this monitor and of `endpoint` until the returned exporter is dropped; `None` without
    /// `--metrics`.
    ///
    /// # Errors
    /// Fails if the address cannot be used.
    pub async fn serve_metrics(
        self: &Arc<Self>,
        args: &MetricsArgs,
        endpoint: Endpoint,
        json: bool,
    ) -> anyhow::Result<Option<Exporter>> {
        let sources: Vec<Arc<dyn Source>> = vec![Arc::clone(self) as _, Arc::new(OfEndpoint::new(endpoint))];
        Exporter::start(args, sources, json).await
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Every change is complete before the lock is released.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a rejected peer. Silent peers are counted, but not logged.
    pub fn turned_away(&self, peer: &str, key: Option<PublicKey>, cause: Cause, message: &str) {
        self.counts().refused[cause as usize] += 1;
        if let Some(audit) = self.audit.as_ref().filter(|_| cause != Cause::Silent) {
            let event = json!({
                "event": "turned_away", "peer": printable(peer), "peer_key": fingerprint(key), "cause": cause.word(),
                "message": printable(message),
            });
            // A peer name that is no address has no address prefix.
            let address = peer.parse::<SocketAddr>().ok().map(AddressPrefix::from);
            audit.record_stranger(event, address);
        }
    }

    /// Starts the session of a peer admitted for reason `by`; `None` if the audit log cannot be written, in which case the session must not
    /// start.
    #[must_use]
    pub fn begin(self: &Arc<Self>, peer: String, key: Option<PublicKey>, by: Option<By>) -> Option<Session> {
        let number = {
            let mut counts = self.counts();
            counts.sessions += 1;
            counts.sessions
        };
        let shown = printable(&peer);
        let who = json!({
            "session": number, "peer": shown, "peer_key": fingerprint(key),
            "by": by.map_or("not encrypted", By::describe),
        });
        let mut event = who.clone();
        event["event"] = "session_start".into();
        event["service"] = service(self.service).into();
        if self.audit.as_ref().is_some_and(|audit| !audit.permits(event)) {
            self.turned_away(&peer, key, Cause::AuditLog, "the audit log cannot be written");
            return None;
        }
        let mut counts = self.counts();
        counts.open += 1;
        counts.admitted[way(by)] += 1;
        drop(counts);
        let [has_ended, is_line_lost] = [(); 2].map(|()| AtomicBool::new(false));
        let handle = Handle::default();
        Some(Session {
            monitor: Arc::clone(self),
            peer,
            who,
            by,
            began: Instant::now(),
            has_ended,
            is_line_lost,
            handle,
        })
    }
}

/// Session of one peer. Dropped without a recorded outcome, it counts as interrupted.
#[derive(Debug)]
pub struct Session {
    monitor: Arc<Monitor>,
    peer: String,
    /// Fields common to all log lines of the session.
    who: Value,
    began: Instant,
    has_ended: AtomicBool,
    /// True if a line of this session is missing from the audit log.
    is_line_lost: AtomicBool,
    by: Option<By>,
    handle: Handle,
}

/// Handle of a running session, for its server. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    silence: Silence,
    is_displaced: Notify,
}

impl Handle {
    /// Returns the time since the peer's last datagram, computed from the last report of the session.
    #[must_use]
    pub fn unheard(&self) -> Duration {
        self.0.silence.unheard()
    }

    /// Asks the session to end, because its peer has started another session.
    pub fn displace(&self) {
        self.0.is_displaced.notify_one();
    }
}

impl Session {
    /// Peer address at acceptance.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Reason for admission; `None` on a plaintext connection.
    #[must_use]
    pub fn by(&self) -> Option<By> {
        self.by
    }

    /// Handle for the server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Records the time for which the peer has been silent.
    pub fn note_silence(&self, unheard: Duration) {
        self.handle.0.silence.note(unheard);
    }

    /// Completes when the session must end because its peer has started another session.
    pub async fn displaced(&self) {
        self.handle.0.is_displaced.notified().await;
    }

    /// True if every event of the session is in the audit log, or no log is kept.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        !self.is_line_lost.load(Ordering::Relaxed)
    }

    /// Records the outcome of an entry, just before or after it is confirmed to the peer.
    pub fn entry(&self, outcome: &EntryOutcome) {
        let number = entry(outcome);
        let mut counts = self.monitor.counts();
        counts.entries[number] += 1;
        if number == 0 {
            counts.stored_bytes += outcome.bytes;
        }
        drop(counts);
        let (what, became) = ENTRIES[number];
        self.record(what, || {
            json!({
                "name": printable(&outcome.name), "outcome": became, "bytes": outcome.bytes,
                "blake3": outcome.hash.map(|hash| hash.to_hex().to_string()),
                "message": outcome.failure.as_deref().map(printable),
            })
        });
    }

    /// Records the end of the session; `details` is an object with counts, or null.
    pub fn end(&self, outcome: Outcome, details: Value) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut counts = self.monitor.counts();
        counts.open = counts.open.saturating_sub(1);
        counts.ended[outcome as usize] += 1;
        drop(counts);
        let seconds = self.began.elapsed().as_secs_f64();
        self.record("session_end", || {
            let mut event = if details.is_object() { details } else { json!({}) };
            event["outcome"] = outcome.word().into();
            event["seconds"] = seconds.into();
            event
        });
    }

    /// Records that the session failed with this error.
    pub fn fail(&self, error: &dyn std::fmt::Display) {
        self.end(Outcome::Failed, json!({ "message": printable(&error.to_string()) }));
    }

    fn record(&self, event: &str, details: impl FnOnce() -> Value) {
        let Some(audit) = &self.monitor.audit else { return };
        let mut line = details();
        line["event"] = event.into();
        if let Some(who) = self.who.as_object() {
            who.iter().for_each(|(field, value)| line[field.as_str()] = value.clone());
        }
        if !audit.record(line) {
            self.is_line_lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end(Outcome::Interrupted, Value::Null);
    }
}

impl Source for Monitor {
    fn write(&self, text: &mut Text) {
        let counts = *self.counts();
        text.gauge("dfcp_sessions", "Peers that are served.", counts.open);
        let help = "Peers let in, by what admitted them.";
        let mut admitted = text.family(Kind::Counter, "dfcp_peers_admitted_total", help);
        for (way, count) in WAYS.into_iter().zip(counts.admitted) {
            admitted.labelled(&[("by", way)], count);
        }
        let help = "Peers with a connection that were not let in, by cause.";
        let mut refused = text.family(Kind::Counter, "dfcp_peers_refused_total", help);
        for (cause, count) in Cause::ALL.into_iter().zip(counts.refused) {
            refused.labelled(&[("cause", cause.word())], count);
        }
        let help = "Sessions that have ended, by outcome.";
        let mut ended = text.family(Kind::Counter, "dfcp_sessions_ended_total", help);
        for (outcome, count) in Outcome::ALL.into_iter().zip(counts.ended) {
            ended.labelled(&[("outcome", outcome.word())], count);
        }
        if let Some(audit) = &self.audit {
            let help = "Whether the audit log could be written when that was last tried: 1 or 0.";
            text.gauge("dfcp_audit_log_writable", help, u8::from(audit.is_writable()));
        }
        if self.service.is_files() {
            let help = "Files and directories received, or sent, by what became of them.";
            let mut entries = text.family(Kind::Counter, "dfcp_entries_total", help);
            for ((kind, outcome), count) in ENTRIES.into_iter().zip(counts.entries) {
                entries.labelled(&[("kind", kind), ("outcome", outcome)], count);
            }
            text.counter(
                "dfcp_stored_bytes_total",
                "Content of files stored, here or by the receiver.",
                counts.stored_bytes,
            );
        }
    }
}

fn fingerprint(key: Option<PublicKey>) -> Option<String> {
    key.map(|key| key.fingerprint().to_string())
}

const fn service(service: Service) -> &'static str {
    match service {
        Service::Files => "receive",
        Service::FilesToCaller => "send",
        Service::Perf => "perf",
        Service::Pipe => "pipe",
    }
}

#[cfg(test)]
mod tests;
