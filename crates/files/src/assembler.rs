//! Receiver's state machine: processes each frame, keeps the state between frames, and produces the answers. It does
//! blocking file work and no network I/O.

mod allowance;
mod bases;
mod current;
mod links;
mod listings;
mod offers;
mod prefix;
mod storing;
mod tree;
mod unstored;

use std::fmt;
use std::sync::Arc;

use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::files::{Confirmed, Entry, HASH_BYTES, ToReceiver, ToSender};
use dfcp_framing::names::RelativeName;
use dfcp_framing::{printable, printable_bytes};

use self::allowance::Allowance;
use self::bases::{Bases, Offer, Older};
use self::current::{Current, Receiving, Storing};
use self::links::Links;
use self::listings::Deletions;
pub(super) use self::listings::staying;
pub(crate) use self::prefix::{Poke, Ready};
use self::storing::Checkpoints;
use self::tree::{OpenDirectory, Tree};
use super::basis::Alive;
use super::error::TransferError;
use super::owner::Owner;
use super::scope::{NO_REPLACING, Scope};
use super::store::{Beginning, Changed, Over, Readings, Unpublished};
use super::target::Target;
use super::{EntryKind, EntryOutcome, Skipped};
use crate::limits::{BATCH_BYTES_MAX, BATCH_ENTRIES_MAX, FILE_STREAMS_MAX};

/// State machine that turns frames into files and verdicts.
pub(crate) struct Assembler {
    target: Target,
    /// Owner of this session's files; `None` if the sender has no key by which it could be recognised again.
    owner: Option<Owner>,
    /// Names that this sender may store.
    scope: Arc<Scope>,
    /// Called when a worker thread has a result for [`Assembler::ready`].
    poke: Poke,
    checkpoints: Checkpoints,
    stored: u32,
    failed: u32,
    allowance: Allowance,
    /// State of each stream, by stream number.
    streams: Vec<Current>,
    tree: Tree,
    /// Number of directory frames so far.
    directories: u32,
    /// Deletion state; `None` unless the sender has requested deletion.
    deletions: Option<Deletions>,
    links: Links,
    /// True once every stream has ended and the final summary has been sent.
    is_finished: bool,
    bases: Bases,
    /// Counts and limits the reads of existing files that the sender causes.
    readings: Readings,
    /// Directories closed since the last call of [`Assembler::take_closed_directories`].
    closed_directories: usize,
    /// Number of entries, once announced by the sender.
    entries: Option<u32>,
    /// Complete entries that wait for a common flush, in the order of their verdicts.
    batch: Vec<(Receipt, Unpublished)>,
    batch_bytes: u64,
    /// Directories to be flushed before any entry in them is confirmed.
    changed: Changed,
    answers: Vec<ToSender>,
    outcomes: Vec<EntryOutcome>,
    /// Names kept on purpose instead of being deleted, with the reason.
    skips: Vec<(String, Skipped)>,
}

/// Data for the verdict on an entry that is about to be stored.
#[derive(Debug)]
struct Receipt {
    index: u32,
    name: RelativeName,
    kind: EntryKind,
    /// Content of a file; `None` for a directory or link.
    content: Option<Content>,
    confirmed: Confirmed,
}

/// Content of a stored file.
#[derive(Debug, Clone, Copy)]
struct Content {
    bytes: u64,
    /// BLAKE3 hash of the content; `None` if the content was not read.
    hash: Option<blake3::Hash>,
    /// Bytes that were already stored by an earlier session.
    resumed_bytes: u64,
    /// Bytes copied from the older version that the file replaces.
    copied_bytes: u64,
}

impl Content {
    fn new(bytes: u64, hash: &[u8; HASH_BYTES]) -> Self {
        Self { bytes, hash: Some(blake3::Hash::from_bytes(*hash)), resumed_bytes: 0, copied_bytes: 0 }
    }
}

impl Assembler {
    /// Starts a session of `owner`; `None` for an anonymous sender. Worker threads call `poke` when they have a result
    /// for [`Assembler::ready`].
    pub(crate) fn new(target: impl Into<Target>, owner: Option<Owner>, poke: Poke) -> Self {
        let target = target.into();
        Self {
            owner,
            scope: Arc::new(Scope::everything()),
            poke,
            checkpoints: Checkpoints::new(),
            stored: 0,
            failed: 0,
            allowance: Allowance::new(target.session_bytes_max()),
            streams: (0..=FILE_STREAMS_MAX).map(|_| Current::Nothing).collect(),
            tree: Tree::default(),
            directories: 0,
            deletions: None,
            links: Links::default(),
            is_finished: false,
            bases: Bases::default(),
            readings: Readings::default(),
            closed_directories: 0,
            entries: None,
            batch: Vec::new(),
            batch_bytes: 0,
            changed: Changed::default(),
            answers: Vec::new(),
            outcomes: Vec::new(),
            skips: Vec::new(),
            target,
        }
    }

    /// Restricts the session to the names in `scope`.
    #[must_use]
    pub(crate) fn within(mut self, scope: Arc<Scope>) -> Self {
        self.scope = scope;
        self
    }

    /// Processes the next frame of a stream: 0 is the first stream, additional ones have numbers up to
    /// [`FILE_STREAMS_MAX`]. If a file fails, the failure is sent as an answer and no error is returned. Complete
    /// entries may wait for others until [`Assembler::publish`].
    ///
    /// # Errors
    /// Fails if the sender violates the protocol or the stored names cannot be flushed. The session then ends.
    pub(crate) fn handle(&mut self, stream: usize, frame: &ToReceiver) -> Result<(), TransferError> {
        let current = self.streams.get_mut(stream).map(std::mem::take).ok_or(ProtocolError::TooManyStreams)?;
        let is_first = stream == 0;
        let next = match (frame, current) {
            (ToReceiver::Directory(entry), Current::Nothing) if is_first => self.directory(entry)?,
            (ToReceiver::End { entries, .. }, Current::Nothing) if is_first => {
                self.entries = Some(*entries);
                Current::Ended
            }
            (ToReceiver::File(entry), Current::Nothing) => self.file(stream, entry, Beginning::New)?,
            (ToReceiver::File(entry), current) if current.is_inside_of(entry) => self.anew(stream, entry, current)?,
            (ToReceiver::Resume { offset, entry }, Current::Nothing) => {
                self.file(stream, entry, Beginning::At(*offset))?
            }
            (ToReceiver::Offer { hash, asks_only, takes_basis, entry }, Current::Nothing) if is_first => {
                if self.bases.has(entry.index) {
                    return Err(ProtocolError::Ordinal { index: entry.index }.into());
                }
                let (entry, hash) = (entry.clone(), *hash);
                self.offer(&Offer { entry, hash, asks_only: *asks_only, takes_basis: *takes_basis })?;
                Current::Nothing
            }
            (ToReceiver::Delete(delete), Current::Nothing) if is_first => {
                self.delete(delete)?;
                Current::Nothing
            }
            (ToReceiver::Links { count }, Current::Nothing) if is_first => {
                self.announce_links(*count)?;
                Current::Nothing
            }
            (ToReceiver::Link(link), Current::Ended) if is_first => {
                self.link(link)?;
                Current::Ended
            }
            (ToReceiver::Listing(listing), Current::Ended) if is_first => {
                self.listing(listing)?;
                Current::Ended
            }
            (frame, Current::Storing(storing)) => self.storing(frame, storing)?,
            (frame, Current::Writing { file, writing, reserved }) => self.writing(frame, file, writing, reserved)?,
            (frame, Current::Comparing { file, existing, received }) => {
                self.comparing(frame, file, existing, received)?
            }
            (
                ToReceiver::Data(_) | ToReceiver::Copy { .. } | ToReceiver::Tree(_) | ToReceiver::Again { .. },
                Current::Draining(index),
            ) => Current::Draining(index),
            (ToReceiver::FileEnd { .. } | ToReceiver::FileAbort(_), Current::Draining(_)) => Current::Nothing,
            (frame, _) => return Err(out_of_place(frame)),
        };
        self.streams[stream] = next;
        self.publish_if_enough()
    }

    /// Called when every stream has ended. Sets the metadata of the remaining directories, confirms waiting entries,
    /// and sends the summary unless links follow.
    ///
    /// # Errors
    /// Fails if the sender's entry count is missing or wrong, or if the stored names cannot be flushed.
    pub(crate) fn finish(&mut self) -> Result<(), TransferError> {
        let entries = self.entries.ok_or(TransferError::PeerClosed)?;
        let left = self.tree.finish(entries)?;
        self.leave_directories(left);
        self.begin_links(entries);
        if self.awaits_links() { self.publish() } else { self.close_account() }
    }

    /// Returns true if links or listings may follow on the first stream.
    pub(crate) fn awaits_more(&self) -> bool {
        self.awaits_links() || self.deletions.is_some()
    }

    /// Called when the first stream has ended after links and listings.
    ///
    /// # Errors
    /// Fails if the stream ended early, or if deletions cannot be flushed.
    pub(crate) fn finish_first_stream(&mut self) -> Result<(), TransferError> {
        if self.awaits_links() { Err(TransferError::PeerClosed) } else { self.finish_listings() }
    }

    /// Returns the answers since the last call, in order. The caller fills in the progress of a summary.
    pub(crate) fn take_answers(&mut self) -> Vec<ToSender> {
        std::mem::take(&mut self.answers)
    }

    /// Returns the outcomes of entries answered since the last call.
    pub(crate) fn take_outcomes(&mut self) -> Vec<EntryOutcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Returns the names kept on purpose since the last call, with the reason.
    pub(crate) fn take_skips(&mut self) -> Vec<(String, Skipped)> {
        std::mem::take(&mut self.skips)
    }

    /// Returns true if complete entries wait for their flush and confirmation.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Flushes complete entries to the disk and confirms them.
    ///
    /// # Errors
    /// Fails if the stored names cannot be flushed. The session then ends.
    pub(crate) fn publish(&mut self) -> Result<(), TransferError> {
        self.batch_bytes = 0;
        self.leave_link_directory();
        let (receipts, batch): (Vec<_>, Vec<_>) = std::mem::take(&mut self.batch).into_iter().unzip();
        let results = self.target.publish(batch, &mut self.changed).map_err(TransferError::Flush)?;
        for (Receipt { index, name, kind, content, confirmed }, result) in receipts.into_iter().zip(results) {
            let stored = content.filter(|_| result.is_ok());
            let outcome = result.map(|()| confirmed);
            self.answer(index, &name.to_string(), kind, stored, outcome);
        }
        Ok(())
    }

    /// Returns the number of directories completed or refused since the last call.
    pub(crate) fn take_closed_directories(&mut self) -> usize {
        std::mem::take(&mut self.closed_directories)
    }

    /// Returns the numbers of entries stored and of entries failed so far.
    pub(crate) fn totals(&self) -> (u32, u32) {
        (self.stored, self.failed)
    }

    fn directory(&mut self, entry: &Entry) -> Result<Current, TransferError> {
        let index = entry.index;
        if entry.directories != self.directories || self.is_under_way(index) {
            return Err(ProtocolError::Ordinal { index }.into());
        }
        self.directories += 1;
        let name = self.name(entry);
        let complete = self.tree.leave(index, name.as_ref().ok())?;
        self.leave_directories(complete);
        if self.deletions.as_ref().is_some_and(|deletions| deletions.asks_only) {
            return self.directory_asked(entry, name);
        }
        let made = name.and_then(|name| Ok((self.target.make_directory(&name, entry, &mut self.changed)?, name)));
        match made {
            Ok((made, name)) => {
                if let Some(deletions) = &mut self.deletions {
                    deletions.add(&name);
                }
                self.tree.enter(index, OpenDirectory { name, entry: entry.clone(), made });
            }
            Err(failure) => {
                self.closed_directories += 1;
                self.answer(index, &shown(entry), EntryKind::Directory, None, Err(failure));
                self.settle(index)?;
            }
        }
        Ok(Current::Nothing)
    }

    fn file(&mut self, stream: usize, entry: &Entry, beginning: Beginning) -> Result<Current, TransferError> {
        self.check_place(entry)?;
        let basis = self.bases.take(entry).filter(|_| beginning == Beginning::New);
        self.take_up_waiting()?;
        self.begin_or_refuse(stream, entry, beginning, basis)
    }

    fn begin_or_refuse(
        &mut self,
        stream: usize,
        entry: &Entry,
        beginning: Beginning,
        basis: Option<Older>,
    ) -> Result<Current, TransferError> {
        self.begin(stream, entry, beginning, basis).or_else(|failure| {
            self.file_failed(entry.index, &shown(entry), failure)?;
            Ok(Current::Draining(entry.index))
        })
    }

    /// Returns the flag that ends the session's worker threads when set.
    pub(crate) fn over(&self) -> Over {
        self.readings.over().clone()
    }

    /// Returns the counter of threads that are reading older versions. The session must wait for them.
    pub(crate) fn cutting(&self) -> Alive {
        self.bases.cutting()
    }

    /// Returns the validated name of an entry, if the sender may store it.
    fn name(&self, entry: &Entry) -> Result<RelativeName, Failure> {
        self.scope.admit(parse(entry)?)
    }

    /// Checks that a file may start here: its ordinal is new, and the directory frames that precede it have arrived.
    fn check_place(&self, entry: &Entry) -> Result<(), ProtocolError> {
        let index = entry.index;
        if entry.directories > self.directories || !self.tree.is_new(index) || self.is_under_way(index) {
            return Err(ProtocolError::Ordinal { index });
        }
        Ok(())
    }

    fn begin(
        &mut self,
        stream: usize,
        entry: &Entry,
        beginning: Beginning,
        basis: Option<Older>,
    ) -> Result<Current, Failure> {
        let name = self.name(entry)?;
        // A resumed file was checked when it was first started.
        if beginning == Beginning::New && self.scope.is_limited() && self.target.would_replace(&name) {
            return Err(Failure::new(FailureCode::Exists, NO_REPLACING));
        }
        if let Target::Stream(one) = &self.target {
            let reserved = self.allowance.reserve(entry.size_hint_bytes)?;
            let writing = one.begin(&name).map(Box::new);
            let file = Receiving { index: entry.index, name };
            return match writing {
                Ok(writing) => Ok(Current::Writing { file, writing, reserved }),
                Err(failure) => {
                    self.allowance.release(reserved);
                    Err(failure)
                }
            };
        }
        match self.target.begin(self.owner.as_ref(), &name, entry, beginning, &mut self.changed) {
            // Reserve only after the file was started: a file that is only compared needs no reservation, and one that
            // fails to start would have to return it.
            Ok((slot, resumed)) => {
                let file = Receiving { index: entry.index, name };
                let begun = self.begin_storing(stream, (&file.name, entry), resumed);
                let (reserved, prefix) = begun.inspect_err(|_| {
                    // The partial file of an earlier session is kept for another attempt.
                    if beginning != Beginning::New
                        && let Some(staged) = slot.lock().take()
                    {
                        staged.leave();
                    }
                })?;
                let entry = entry.clone();
                Ok(Current::Storing(Box::new(Storing { file, entry, slot, reserved, prefix, basis, copied_bytes: 0 })))
            }
            // A resumed file cannot be compared, since its beginning is not sent.
            Err(failure) if failure.code == FailureCode::Exists && beginning == Beginning::New => {
                let existing = self.target.existing(self.owner.as_ref(), &name, entry, &mut self.changed);
                let existing = Box::new(existing.ok_or(failure)?);
                Ok(Current::Comparing { file: Receiving { index: entry.index, name }, existing, received: 0 })
            }
            Err(failure) => Err(failure),
        }
    }

    fn given_up(&mut self, file: &Receiving, sentence: &str) -> Result<(), TransferError> {
        let shown = printable(sentence);
        let failure = Failure::new(FailureCode::GivenUp, format!("the sender gave it up: {shown}"));
        self.file_failed(file.index, &file.name.to_string(), failure)
    }

    /// Queues a complete file for a flush together with others.
    fn await_disk(&mut self, receipt: Receipt, file: Unpublished) -> Result<(), TransferError> {
        let index = receipt.index;
        self.batch_bytes = self.batch_bytes.saturating_add(file.bytes());
        self.batch.push((receipt, file));
        self.settle(index)
    }

    /// Settles an entry for which the sender need send nothing more. Then settles the directories that are complete by
    /// that.
    fn settle(&mut self, index: u32) -> Result<(), TransferError> {
        let complete = self.tree.settle(index)?;
        self.leave_directories(complete);
        Ok(())
    }

    fn leave_directories(&mut self, directories: Vec<(u32, OpenDirectory)>) {
        self.closed_directories += directories.len();
        for (index, OpenDirectory { name, entry, made }) in directories {
            let kind = EntryKind::Directory;
            let receipt = Receipt { index, name: name.clone(), kind, content: None, confirmed: Confirmed::Stored };
            self.batch.push((receipt, Unpublished::Directory { name, made, entry }));
        }
    }

    /// Returns true if a stream has begun this file and not yet ended it.
    fn is_under_way(&self, index: u32) -> bool {
        self.streams.iter().any(|current| current.index() == Some(index))
    }

    fn publish_if_enough(&mut self) -> Result<(), TransferError> {
        let is_enough = self.batch.len() >= BATCH_ENTRIES_MAX
            || self.batch_bytes >= BATCH_BYTES_MAX
            || ((self.is_waiting() || self.changed.is_waiting()) && self.target.is_crowded());
        if is_enough { self.publish() } else { Ok(()) }
    }

    fn file_failed(&mut self, index: u32, shown: &str, failure: Failure) -> Result<(), TransferError> {
        self.answer(index, shown, EntryKind::File, None, Err(failure));
        self.settle(index)
    }

    fn answer(
        &mut self,
        index: u32,
        shown: &str,
        kind: EntryKind,
        content: Option<Content>,
        outcome: Result<Confirmed, Failure>,
    ) {
        *(if outcome.is_ok() { &mut self.stored } else { &mut self.failed }) += 1;
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let is_unchanged = matches!(outcome, Ok(Confirmed::Unchanged));
        self.outcomes.push(EntryOutcome {
            name: shown.to_owned(),
            kind,
            is_unchanged,
            is_deleted: false,
            is_wanted: false,
            bytes: content.map_or(0, |content| content.bytes),
            resumed_bytes: content.map_or(0, |content| content.resumed_bytes),
            copied_bytes: content.map_or(0, |content| content.copied_bytes),
            hash: content.and_then(|content| content.hash),
            failure,
        });
        self.answers.push(ToSender::Verdict { index, outcome });
    }
}

fn out_of_place(frame: &ToReceiver) -> TransferError {
    ProtocolError::OutOfPlace { frame: frame.name() }.into()
}

fn parse(entry: &Entry) -> Result<RelativeName, Failure> {
    RelativeName::parse(&entry.name)
        .map_err(|error| Failure::new(FailureCode::Name, format!("the receiver refuses the name: {error}")))
}

/// Returns the unvalidated name of an entry, escaped for a message.
fn shown(entry: &Entry) -> String {
    printable_bytes(&entry.name)
}

impl fmt::Debug for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assembler").field("owner", &self.owner).field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl Drop for Assembler {
    fn drop(&mut self) {
        self.leave_unfinished();
    }
}

#[cfg(test)]
mod folding_tests;
#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod listing_tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod scope_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unfinished_tests;
