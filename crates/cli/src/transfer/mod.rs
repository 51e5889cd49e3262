//! File transfer over any [`crate::transport::Transport`], as specified in `spec/file-transfer.md`. Its frames are those of
//! [`dfcp_framing`].
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
pub mod basis;
pub mod beneath;
pub mod descriptors;
pub mod error;
pub mod exclude;
pub mod groups;
pub mod hash_tree;
mod known_directories;
pub mod owner;
pub mod reading;
pub mod receive;
pub mod scope;
pub mod send;
pub mod silence;
pub mod source;
pub mod store;
pub mod target;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfcp_framing::frame::Service;
use serde::Serialize;
use tokio::time::Instant;

use self::exclude::Exclude;
use crate::limits::FAILURES_KEPT_MAX;
use crate::transport::PathSample;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A file.
    #[default]
    File,
    /// A directory.
    Directory,
    /// A symbolic link, or a further name of a file.
    Link,
}

/// Outcome of one file, directory or link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryOutcome {
    /// Its name, fit for a terminal.
    pub name: String,
    /// Its kind.
    pub kind: EntryKind,
    /// True if a file with the same content was there already, so that nothing was written.
    pub is_unchanged: bool,
    /// True if it was deleted, because the sender does not have it; or would have been.
    pub is_deleted: bool,
    /// True if it would have been sent, if the sender had not only asked.
    pub is_wanted: bool,
    /// Bytes of content, 0 if it failed.
    pub bytes: u64,
    /// Bytes of these that the receiver had already.
    pub resumed_bytes: u64,
    /// Bytes of these that were taken from the version that it replaces.
    pub copied_bytes: u64,
    /// BLAKE3 of the content of a file, unless it failed.
    pub hash: Option<blake3::Hash>,
    /// The reason why it was not stored.
    pub failure: Option<String>,
}

/// Options of sending files.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Resumes a file of which the receiver has the beginning.
    pub resume: bool,
    /// Tells by their hashes which files the receiver has already, not by size and time.
    pub checksum: bool,
    /// Sends of files that have changed only what has.
    pub delta: bool,
    /// Sends nothing, and only asks what would be sent.
    pub dry_run: bool,
    /// Has the receiver delete what is not in the directories that are sent.
    pub delete: bool,
    /// Keeps symbolic links that lead inside of what is sent, and hard links between files of it.
    pub links: bool,
    /// Counts anything that is left out as a failure.
    pub strict: bool,
    /// Patterns of the files that are left out.
    pub exclude: Arc<Exclude>,
    /// Their direction: [`Service::Files`] if this side has called, else [`Service::FilesToCaller`].
    pub service: Service,
}

impl Default for SendOptions {
    fn default() -> Self {
        let exclude = Arc::default();
        Self {
            resume: true,
            checksum: false,
            delta: false,
            dry_run: false,
            delete: false,
            links: false,
            strict: false,
            exclude,
            service: Service::Files,
        }
    }
}

/// Something that a sender leaves out on purpose, or sends as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A symbolic link inside a directory.
    Link,
    /// A symbolic link that does not stay inside of what is sent.
    LinkOutside,
    /// A link behind more others than a sender holds.
    LinkBeyond,
    /// Another name of a file that is sent, by itself.
    Copy,
    /// Another name of a file, behind more of them than a sender remembers.
    CopyBeyond,
    /// A socket, pipe or device.
    Special,
    /// A receiver's unfinished file.
    Unfinished,
    /// A file that the user excludes.
    Excluded,
    /// Content written behind the end that a file had when it was opened.
    Growth,
    /// Another file system that is mounted where something would be deleted.
    Mounted,
    /// A transfer that is under way where something would be deleted.
    UnderWay,
    /// A directory which would be deleted, and in which something stays.
    NotEmpty,
}

impl Skipped {
    /// Why, for programs.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Link => "a symbolic link: --links keeps it if it leads inside of what is sent",
            Self::LinkOutside => {
                "a symbolic link whose target is absolute, leads out of what is sent, has .. behind a name, or is no name that can be sent"
            }
            Self::LinkBeyond => "there are more links than can be sent at once: send the tree in parts",
            Self::Copy => "another name of a file that is sent, sent as a file of its own: --links keeps it",
            Self::CopyBeyond => {
                "sent as a file of its own: more files have further names than can be told apart; send the tree in parts"
            }
            Self::Special => "not a regular file",
            Self::Unfinished => "a file that a receiver has not finished",
            Self::Excluded => "excluded",
            Self::Growth => "it grew while it was sent: stored is what it had when it was opened",
            Self::Mounted => "not deleted: another file system is mounted there",
            Self::UnderWay => "not deleted: a transfer is under way there",
            Self::NotEmpty => "not deleted: something in it stays",
        }
    }

    /// True if the receiver thereby lacks something that is here and that nobody has asked to leave out.
    pub const fn is_left_out(self) -> bool {
        !matches!(self, Self::Excluded | Self::Mounted | Self::UnderWay | Self::NotEmpty)
    }

    /// True if it is at the receiver all the same, in another form.
    const fn is_sent(self) -> bool {
        matches!(self, Self::Growth | Self::Copy | Self::CopyBeyond)
    }

    /// For people: what happened to this number of them.
    pub fn counted(self, count: u64) -> String {
        let (one, several) = match self {
            Self::Link => ("symbolic link was skipped without --links", "symbolic links were skipped without --links"),
            Self::LinkOutside => (
                "symbolic link was skipped, because its target is absolute, leads out of what is sent, has .. behind a name, or is no name that can be sent",
                "symbolic links were skipped, because their targets are absolute, lead out of what is sent, have .. behind a name, or are no names that can be sent",
            ),
            Self::LinkBeyond => (
                "link was skipped, because there are more than can be sent at once: send the tree in parts",
                "links were skipped, because there are more than can be sent at once: send the tree in parts",
            ),
            Self::Copy => (
                "further name of a file was sent as a file of its own without --links",
                "further names of files were sent as files of their own without --links",
            ),
            Self::CopyBeyond => (
                "file with further names was sent by itself, because there are too many of them: send the tree in parts",
                "files with further names were sent by themselves, because there are too many of them: send the tree in parts",
            ),
            Self::Special => ("socket, pipe or device was skipped", "sockets, pipes or devices were skipped"),
            Self::Unfinished => {
                ("unfinished file of a receiver was skipped", "unfinished files of a receiver were skipped")
            }
            Self::Excluded => ("excluded file or directory was skipped", "excluded files and directories were skipped"),
            Self::Growth => (
                "file grew while it was sent, and is stored as it was when it was opened",
                "files grew while they were sent, and are stored as they were when they were opened",
            ),
            Self::Mounted => (
                "is not deleted, because another file system is mounted there",
                "are not deleted, because other file systems are mounted there",
            ),
            Self::UnderWay => (
                "is not deleted, because a transfer is under way there",
                "are not deleted, because transfers are under way there",
            ),
            Self::NotEmpty => (
                "directory is not deleted, because something in it stays",
                "directories are not deleted, because something in them stays",
            ),
        };
        format!("{count} {}", if count == 1 { one } else { several })
    }
}

/// Why nothing is deleted after something has failed: it may be the only copy of what was to be sent.
pub const SKIPPED_AFTER_FAILURE: &str =
    "nothing was deleted, because something could not be read or stored: see the reasons above, and send again";

/// Why nothing is deleted of very large trees.
pub const SKIPPED_BEYOND: &str =
    "nothing was deleted, because more than a million directories were sent: send them in parts";

/// Likely bottleneck of a transfer.
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

/// Progress of a transfer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// Bytes of content that reached the receiver.
    pub done_bytes: u64,
    /// Bytes found so far to be sent; `None` at the receiver, which is not told.
    pub total_bytes: Option<u64>,
    /// True if the file trees were searched to their ends, so that the total is final.
    pub total_is_final: bool,
    /// Since the connection was handed over.
    pub elapsed: Duration,
    /// The transport's figures of the path.
    pub path: Option<PathSample>,
    /// The likely bottleneck.
    pub bottleneck: Option<Bottleneck>,
    /// Since the last frame of the peer.
    pub silence: Duration,
    /// Since the last datagram of the peer; 0 if the transport does not count them.
    pub unheard: Duration,
}

/// Times of the peer's last frame and last datagram.
#[derive(Debug)]
struct LastHeard {
    frame: Mutex<Instant>,
    datagrams: Mutex<DatagramsHeard>,
}

/// The number of datagrams when that was asked last, and the time at which there were more than before.
#[derive(Debug)]
struct DatagramsHeard {
    count: u64,
    at: Instant,
}

impl LastHeard {
    fn new(now: Instant) -> Self {
        Self { frame: Mutex::new(now), datagrams: Mutex::new(DatagramsHeard { count: 0, at: now }) }
    }

    fn now(&self) {
        *self.frame() = Instant::now();
    }

    fn silence(&self) -> Duration {
        self.frame().elapsed()
    }

    /// Since the number of datagrams was another one, as far as it was asked for.
    fn unheard(&self, datagrams: Option<u64>) -> Duration {
        let Some(count) = datagrams else { return Duration::ZERO };
        let mut last = self.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
        if last.count != count {
            *last = DatagramsHeard { count, at: Instant::now() };
        }
        last.at.elapsed()
    }

    fn frame(&self) -> MutexGuard<'_, Instant> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears what happens. Called from several threads, briefly.
pub trait Observer: Send + Sync {
    /// One entry was answered.
    fn entry(&self, outcome: &EntryOutcome);
    /// True if the reported outcomes of entries are recorded wherever they must be. If not, the session ends, and a
    /// receiver confirms none of them.
    fn is_recorded(&self) -> bool {
        true
    }
    /// Something was left out on purpose.
    fn skipped(&self, name: &str, what: Skipped);
    /// The session has ended before it was heard what became of a file that was sent as a whole.
    fn unanswered(&self, _name: &str) {}
    /// Called every [`crate::limits::REPORT_INTERVAL`].
    fn progress(&self, snapshot: &Snapshot);
}

/// The end of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries stored and verified by the receiver, directories included.
    pub stored: u64,
    /// Directories among these.
    pub directories: u64,
    /// Links among these.
    pub links: u64,
    /// Files which the receiver had already, with the same content.
    pub unchanged: u64,
    /// Names that were deleted, or would have been.
    pub deleted: u64,
    /// Further names that would have been deleted, and are not told: files which this key has not stored.
    pub unnamed: u64,
    /// Why nothing was deleted although that was asked for.
    pub deletion_skipped: Option<&'static str>,
    /// Entries that would have been sent.
    pub wanted: u64,
    /// Links among these.
    pub wanted_links: u64,
    /// Content of these, bytes.
    pub wanted_bytes: u64,
    /// Entries that were to be sent and were not stored.
    pub failed: u64,
    /// Entries left out on purpose (symbolic links, sockets and the like).
    pub skipped: u64,
    /// Of these, and of what was sent in another form, those which nobody has asked to leave out.
    pub left_out: u64,
    /// True if anything left out is a failure.
    pub is_strict: bool,
    /// Content stored, bytes.
    pub bytes: u64,
    /// Stored files of which the receiver had the beginning.
    pub resumed: u64,
    /// Bytes that it had of them.
    pub resumed_bytes: u64,
    /// Stored files of which parts are those of the versions that they replace.
    pub copied: u64,
    /// These parts, bytes.
    pub copied_bytes: u64,
    /// The first failures by name, at most [`FAILURES_KEPT_MAX`].
    pub failures: Vec<(String, String)>,
    /// The last figures.
    pub last: Snapshot,
    /// Sessions that it took; 0 where only one is counted.
    pub sessions: u32,
    /// Content that came in the sessions before the last one, bytes: what that one went on with, most of it.
    pub earlier_bytes: u64,
}

impl Report {
    pub(crate) fn add(&mut self, outcome: &EntryOutcome) {
        match &outcome.failure {
            None if outcome.is_unchanged => self.unchanged += 1,
            None if outcome.is_deleted => self.deleted += 1,
            None if outcome.is_wanted => {
                self.wanted += 1;
                self.wanted_links += u64::from(outcome.kind == EntryKind::Link);
                self.wanted_bytes += outcome.bytes;
            }
            None => {
                self.stored += 1;
                self.directories += u64::from(outcome.kind == EntryKind::Directory);
                self.links += u64::from(outcome.kind == EntryKind::Link);
                self.bytes += outcome.bytes;
                self.resumed += u64::from(outcome.resumed_bytes > 0);
                self.resumed_bytes += outcome.resumed_bytes;
                self.copied += u64::from(outcome.copied_bytes > 0);
                self.copied_bytes += outcome.copied_bytes;
            }
            Some(sentence) => {
                self.failed += 1;
                if self.failures.len() < FAILURES_KEPT_MAX {
                    self.failures.push((outcome.name.clone(), sentence.clone()));
                }
            }
        }
    }

    /// Something was left out, or sent in another form.
    fn skip(&mut self, what: Skipped) {
        self.skipped += u64::from(!what.is_sent());
        self.left_out += u64::from(what.is_left_out());
    }

    /// True if everything asked for is at the receiver and verified.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.left_out == 0 && self.deletion_skipped.is_none();
        self.failed == 0 && (is_whole || !self.is_strict)
    }
}

#[cfg(test)]
mod tests;
