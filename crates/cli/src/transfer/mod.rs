//! File transfer over any [`crate::transport::Transport`], as specified in `spec/file-transfer.md`.
//!
//! ```text
//! sender    walk ─► read, hash, encode ─► connection       verdicts ◄─ connection
//!           (thread)     (thread)          (async)           (async)
//! receiver  connection ─► decode ─► assemble, hash, write ─► verdicts ─► connection
//!            (async)      (async)         (thread)            (async)
//! ```
//!
//! Files follow each other without waiting for verdicts, so many small ones cost no round trip each.

pub mod assembler;
pub mod error;
pub mod frame;
pub mod names;
pub mod receive;
pub mod send;
pub mod source;
pub mod store;

use std::time::Duration;

use serde::Serialize;

use crate::limits::FAILURES_KEPT_MAX;
use crate::transport::PathSample;

/// What became of one file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryOutcome {
    /// Its name, fit for a terminal.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Bytes of content, 0 unless it was stored.
    pub bytes: u64,
    /// BLAKE3 of the content of a file that was stored.
    pub hash: Option<blake3::Hash>,
    /// Why it was not stored.
    pub failure: Option<String>,
}

/// What seems to hold a transfer back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Reading and hashing at the sender.
    SenderDisk,
    /// Writing and hashing at the receiver.
    ReceiverDisk,
    /// The path, or the rate it is used at.
    Path,
}

impl Bottleneck {
    /// A side whose disk thread is busy for this share of the time is what the other parts wait for.
    const BUSY: f64 = 0.8;

    /// From the time each disk thread was busy during `elapsed`.
    pub fn of(elapsed: Duration, sender_disk: Duration, receiver_disk: Duration) -> Self {
        let busy = elapsed.mul_f64(Self::BUSY);
        if receiver_disk >= busy && receiver_disk >= sender_disk {
            Self::ReceiverDisk
        } else if sender_disk >= busy {
            Self::SenderDisk
        } else {
            Self::Path
        }
    }

    /// For people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::SenderDisk => "the sender's disk",
            Self::ReceiverDisk => "the receiver's disk",
            Self::Path => "the path or the rate",
        }
    }
}

/// How far a transfer has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// Bytes of content that reached the receiver.
    pub done_bytes: u64,
    /// Bytes found so far to be sent; `None` at the receiver, which is not told.
    pub total_bytes: Option<u64>,
    /// Whether the file trees were searched to their ends, so that the total is final.
    pub total_is_final: bool,
    /// Since the connection was handed over.
    pub elapsed: Duration,
    /// What the transport knows of the path.
    pub path: Option<PathSample>,
    /// What holds the transfer back.
    pub bottleneck: Option<Bottleneck>,
}

/// Hears what happens. Called from several threads, briefly.
pub trait Observer: Send + Sync {
    /// One entry was answered.
    fn entry(&self, outcome: &EntryOutcome);
    /// Something was left out on purpose.
    fn skipped(&self, name: &str, reason: &str);
    /// Called every [`crate::limits::REPORT_INTERVAL`].
    fn progress(&self, snapshot: &Snapshot);
}

/// The end of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries stored and verified by the receiver, directories included.
    pub stored: u64,
    /// Entries that were to be sent and were not stored.
    pub failed: u64,
    /// Entries left out on purpose (symbolic links, sockets and the like).
    pub skipped: u64,
    /// Content stored, bytes.
    pub bytes: u64,
    /// The first failures by name, at most [`FAILURES_KEPT_MAX`].
    pub failures: Vec<(String, String)>,
    /// The last figures.
    pub last: Snapshot,
}

impl Report {
    fn add(&mut self, outcome: &EntryOutcome) {
        match &outcome.failure {
            None => {
                self.stored += 1;
                self.bytes += outcome.bytes;
            }
            Some(sentence) => {
                self.failed += 1;
                if self.failures.len() < FAILURES_KEPT_MAX {
                    self.failures.push((outcome.name.clone(), sentence.clone()));
                }
            }
        }
    }

    /// Whether everything asked for was stored and verified.
    pub fn is_complete(&self) -> bool {
        self.failed == 0
    }
}

#[cfg(test)]
mod tests;
