//! What a receiver does with each frame: the state between frames, and the answers. Blocking file work, no network.

use super::EntryOutcome;
use super::error::{EXISTS, Failure, FailureCode, ProtocolError, TransferError};
use super::frame::{Confirmed, Entry, HASH_BYTES, Progress, ToReceiver, ToSender};
use super::names::RelativeName;
use super::store::{Changed, Existing, Made, Staged, Unpublished};
use super::target::{Target, Writing};
use crate::limits::{BATCH_BYTES_MAX, BATCH_ENTRIES_MAX};
use crate::units::human_bytes;

/// Turns frames into files and verdicts.
#[derive(Debug)]
pub struct Assembler {
    target: Target,
    entries: u32,
    stored: u32,
    failed: u32,
    /// Content that was stored or is being stored.
    taken_bytes: u64,
    current: Current,
    /// Directories which may still get content, each below the one before it, so at most `DEPTH_MAX`.
    open_directories: Vec<OpenDirectory>,
    /// What is complete and waits to become durable together with what follows, in the order of the verdicts.
    batch: Vec<(Receipt, Unpublished)>,
    batch_bytes: u64,
    /// Directories that have to be durable before anything in them is confirmed.
    changed: Changed,
    answers: Vec<ToSender>,
    outcomes: Vec<EntryOutcome>,
}

#[derive(Debug)]
enum Current {
    /// Between files.
    Nothing,
    /// Inside a file that is being stored.
    Storing { index: u32, name: RelativeName, entry: Entry, staged: Box<Staged> },
    /// Inside a file that goes to a stream.
    Writing { index: u32, name: RelativeName, file: Box<Writing> },
    /// Inside a file of which one exists already: its data are counted, and its hash decides.
    Comparing { index: u32, name: RelativeName, existing: Box<Existing>, received: u64 },
    /// Inside a file whose verdict was already sent: its data are dropped.
    Draining,
    /// After the end frame.
    Ended,
}

#[derive(Debug)]
struct OpenDirectory {
    index: u32,
    name: RelativeName,
    entry: Entry,
    made: Made,
}

/// What an entry's outcome is made of, once it is stored.
#[derive(Debug)]
struct Receipt {
    index: u32,
    name: RelativeName,
    /// Length and hash of a file.
    content: Option<(u64, blake3::Hash)>,
    confirmed: Confirmed,
}

impl Assembler {
    /// For one session.
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            entries: 0,
            stored: 0,
            failed: 0,
            taken_bytes: 0,
            current: Current::Nothing,
            open_directories: Vec::new(),
            batch: Vec::new(),
            batch_bytes: 0,
            changed: Changed::default(),
            answers: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Takes the next frame. A failed file is an answer, not an error. What is complete may wait for more to become durable
    /// with, until [`Assembler::publish`].
    ///
    /// # Errors
    /// The sender broke the protocol, or the stored names cannot be flushed; the session is over then.
    pub fn handle(&mut self, frame: &ToReceiver) -> Result<(), TransferError> {
        match (frame, std::mem::replace(&mut self.current, Current::Nothing)) {
            (ToReceiver::Directory(entry), Current::Nothing) => self.directory(entry),
            (ToReceiver::File(entry), Current::Nothing) => self.file(entry),
            (ToReceiver::Data(data), Current::Storing { index, name, entry, mut staged }) => {
                match self.take(data.len() as u64).and_then(|()| staged.write(data)) {
                    Ok(()) => self.current = Current::Storing { index, name, entry, staged },
                    Err(failure) => {
                        self.current = Current::Draining;
                        drop(staged);
                        self.file_failed(index, &name.to_string(), failure);
                    }
                }
                Ok(())
            }
            (ToReceiver::FileEnd { len, hash }, Current::Storing { index, name, entry, staged }) => {
                self.file_end(index, &name, &entry, *staged, (*len, hash))
            }
            (ToReceiver::Data(data), Current::Comparing { index, name, existing, received }) => {
                let received = received.saturating_add(data.len() as u64);
                if received > existing.len() {
                    self.current = Current::Draining;
                    self.file_failed(index, &name.to_string(), Failure::new(FailureCode::Exists, EXISTS));
                } else {
                    self.current = Current::Comparing { index, name, existing, received };
                }
                Ok(())
            }
            (ToReceiver::FileEnd { len, hash }, Current::Comparing { index, name, existing, received }) => {
                self.compare(index, name, existing, received, (*len, hash))
            }
            (
                ToReceiver::FileAbort(sentence),
                Current::Storing { index, name, .. } | Current::Comparing { index, name, .. },
            ) => {
                self.given_up(index, &name, sentence);
                Ok(())
            }
            (frame, Current::Writing { index, name, file }) => self.writing(frame, index, name, file),
            (ToReceiver::Data(_), Current::Draining) => {
                self.current = Current::Draining;
                Ok(())
            }
            (ToReceiver::FileEnd { .. } | ToReceiver::FileAbort(_), Current::Draining) => Ok(()),
            (ToReceiver::End { entries }, Current::Nothing) if *entries == self.entries => self.end(),
            (ToReceiver::End { .. }, Current::Nothing) => Err(ProtocolError::Summary.into()),
            (frame, _) => Err(ProtocolError::OutOfPlace { frame: frame.name() }.into()),
        }
    }

    /// The answers since the last call, in order; the summary's progress is for the caller to fill in.
    pub fn take_answers(&mut self) -> Vec<ToSender> {
        std::mem::take(&mut self.answers)
    }

    /// What became of the entries answered since the last call.
    pub fn take_outcomes(&mut self) -> Vec<EntryOutcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Whether something is complete and not confirmed.
    pub fn is_waiting(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Makes durable, and confirms, what is complete.
    ///
    /// # Errors
    /// The stored names cannot be flushed; the session is over then.
    pub fn publish(&mut self) -> Result<(), TransferError> {
        self.batch_bytes = 0;
        let (receipts, batch): (Vec<_>, Vec<_>) = std::mem::take(&mut self.batch).into_iter().unzip();
        let results = self.target.publish(batch, &mut self.changed).map_err(TransferError::Flush)?;
        for (Receipt { index, name, content, confirmed }, result) in receipts.into_iter().zip(results) {
            let stored = content.filter(|_| result.is_ok());
            let outcome = result.map(|()| confirmed);
            self.answer(index, &name.to_string(), content.is_none(), stored, outcome);
        }
        Ok(())
    }

    /// Whether the end frame came and everything was answered.
    pub fn is_finished(&self) -> bool {
        matches!(self.current, Current::Ended)
    }

    /// Entries stored and not stored so far.
    pub fn totals(&self) -> (u32, u32) {
        (self.stored, self.failed)
    }

    fn directory(&mut self, entry: &Entry) -> Result<(), TransferError> {
        let index = self.next_index()?;
        let made =
            self.enter(entry).and_then(|name| Ok((self.target.make_directory(&name, entry, &mut self.changed)?, name)));
        match made {
            Ok((made, name)) => {
                self.open_directories.push(OpenDirectory { index, name, entry: entry.clone(), made });
            }
            Err(failure) => {
                self.answer(index, &shown(entry), true, None, Err(failure));
            }
        }
        self.publish_if_enough()
    }

    fn file(&mut self, entry: &Entry) -> Result<(), TransferError> {
        let index = self.next_index()?;
        self.current = self.begin(index, entry).unwrap_or_else(|failure| {
            self.file_failed(index, &shown(entry), failure);
            Current::Draining
        });
        self.publish_if_enough()
    }

    fn begin(&mut self, index: u32, entry: &Entry) -> Result<Current, Failure> {
        let name = self.enter(entry)?;
        if let Target::Stream(one) = &self.target {
            self.check_allowance(entry.size_hint_bytes)?;
            return Ok(Current::Writing { index, file: Box::new(one.begin(&name)?), name });
        }
        match self.target.begin(&name, entry.size_hint_bytes, &mut self.changed) {
            // Only now: a file that is compared takes nothing of the allowance.
            Ok(staged) => {
                self.check_allowance(entry.size_hint_bytes)?;
                Ok(Current::Storing { index, name, entry: entry.clone(), staged: Box::new(staged) })
            }
            Err(failure) if failure.code == FailureCode::Exists => {
                let existing = self.target.existing(&name, entry.size_hint_bytes, &mut self.changed);
                let existing = Box::new(existing.ok_or(failure)?);
                Ok(Current::Comparing { index, name, existing, received: 0 })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Takes the next frame of a file that goes to a stream.
    fn writing(
        &mut self,
        frame: &ToReceiver,
        index: u32,
        name: RelativeName,
        mut file: Box<Writing>,
    ) -> Result<(), TransferError> {
        match frame {
            ToReceiver::Data(data) => match self.take(data.len() as u64).and_then(|()| file.write(data)) {
                Ok(()) => self.current = Current::Writing { index, name, file },
                Err(failure) => {
                    self.current = Current::Draining;
                    self.file_failed(index, &name.to_string(), failure);
                }
            },
            ToReceiver::FileEnd { len, hash } => match file.finish(*len, hash) {
                Ok(()) => {
                    let content = Some((*len, blake3::Hash::from_bytes(*hash)));
                    self.answer(index, &name.to_string(), false, content, Ok(Confirmed::Stored));
                }
                Err(failure) => self.file_failed(index, &name.to_string(), failure),
            },
            ToReceiver::FileAbort(sentence) => self.given_up(index, &name, sentence),
            frame => return Err(ProtocolError::OutOfPlace { frame: frame.name() }.into()),
        }
        Ok(())
    }

    fn given_up(&mut self, index: u32, name: &RelativeName, sentence: &str) {
        let shown = crate::output::printable(sentence);
        let failure = Failure::new(FailureCode::GivenUp, format!("the sender gave it up: {shown}"));
        self.file_failed(index, &name.to_string(), failure);
    }

    /// Confirms a file that exists already, if it is the same, as soon as it is on the disk.
    fn compare(
        &mut self,
        index: u32,
        name: RelativeName,
        existing: Box<Existing>,
        received: u64,
        (len, hash): (u64, &[u8; HASH_BYTES]),
    ) -> Result<(), TransferError> {
        let failure = match existing.is_identical(received, len, hash) {
            Ok(true) => {
                let content = Some((len, blake3::Hash::from_bytes(*hash)));
                let receipt = Receipt { index, name, content, confirmed: Confirmed::Unchanged };
                return self.await_disk(receipt, Unpublished::Unchanged(existing));
            }
            Ok(false) => Failure::new(FailureCode::Exists, EXISTS),
            Err(error) => Failure::from_io("read the file that exists", &error),
        };
        self.file_failed(index, &name.to_string(), failure);
        self.publish_if_enough()
    }

    /// Counts content that is to be written.
    fn take(&mut self, bytes: u64) -> Result<(), Failure> {
        self.check_allowance(bytes)?;
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Whether the sender may store `bytes` more.
    fn check_allowance(&self, bytes: u64) -> Result<(), Failure> {
        match self.target.session_bytes_max() {
            Some(max) if self.taken_bytes.saturating_add(bytes) > max => {
                let sentence = format!(
                    "the receiver takes {} from one sender and this would be more: send less, or ask for a larger \
                     --max-bytes there",
                    human_bytes(max)
                );
                Err(Failure::new(FailureCode::DiskFull, sentence))
            }
            _ => Ok(()),
        }
    }

    /// Checks the name and finishes the directories which it is not in.
    fn enter(&mut self, entry: &Entry) -> Result<RelativeName, Failure> {
        let name = RelativeName::parse(&entry.name)
            .map_err(|error| Failure::new(FailureCode::Name, format!("the receiver refuses the name: {error}")))?;
        while self.open_directories.last().is_some_and(|directory| !name.is_below(&directory.name)) {
            self.leave_directory();
        }
        Ok(name)
    }

    fn leave_directory(&mut self) {
        let Some(OpenDirectory { index, name, entry, made }) = self.open_directories.pop() else { return };
        let receipt = Receipt { index, name: name.clone(), content: None, confirmed: Confirmed::Stored };
        self.batch.push((receipt, Unpublished::Directory { name, made, entry }));
    }

    fn file_end(
        &mut self,
        index: u32,
        name: &RelativeName,
        entry: &Entry,
        staged: Staged,
        (len, hash): (u64, &[u8; HASH_BYTES]),
    ) -> Result<(), TransferError> {
        match self.target.finish(staged, entry, len, hash) {
            Ok(finished) => {
                let content = Some((len, blake3::Hash::from_bytes(*hash)));
                let receipt = Receipt { index, name: name.clone(), content, confirmed: Confirmed::Stored };
                self.await_disk(receipt, Unpublished::File(Box::new(finished)))
            }
            Err(failure) => {
                self.file_failed(index, &name.to_string(), failure);
                self.publish_if_enough()
            }
        }
    }

    /// Confirms a file together with others.
    fn await_disk(&mut self, receipt: Receipt, file: Unpublished) -> Result<(), TransferError> {
        self.batch_bytes = self.batch_bytes.saturating_add(file.bytes());
        self.batch.push((receipt, file));
        self.publish_if_enough()
    }

    fn end(&mut self) -> Result<(), TransferError> {
        while !self.open_directories.is_empty() {
            self.leave_directory();
        }
        self.publish()?;
        self.current = Current::Ended;
        let (stored, failed) = self.totals();
        self.answers.push(ToSender::Summary { stored, failed, progress: Progress::default() });
        Ok(())
    }

    fn publish_if_enough(&mut self) -> Result<(), TransferError> {
        let is_enough = self.batch.len() >= BATCH_ENTRIES_MAX
            || self.batch_bytes >= BATCH_BYTES_MAX
            || ((self.is_waiting() || self.changed.is_waiting()) && self.target.is_crowded());
        if is_enough { self.publish() } else { Ok(()) }
    }

    fn next_index(&mut self) -> Result<u32, ProtocolError> {
        let index = self.entries;
        self.entries = index.checked_add(1).ok_or(ProtocolError::OutOfPlace { frame: "file" })?;
        Ok(index)
    }

    fn file_failed(&mut self, index: u32, shown: &str, failure: Failure) {
        self.answer(index, shown, false, None, Err(failure));
    }

    fn answer(
        &mut self,
        index: u32,
        shown: &str,
        is_directory: bool,
        content: Option<(u64, blake3::Hash)>,
        outcome: Result<Confirmed, Failure>,
    ) {
        *(if outcome.is_ok() { &mut self.stored } else { &mut self.failed }) += 1;
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let (bytes, hash) = content.map_or((0, None), |(bytes, hash)| (bytes, Some(hash)));
        let is_unchanged = matches!(outcome, Ok(Confirmed::Unchanged));
        self.outcomes.push(EntryOutcome { name: shown.to_owned(), is_directory, is_unchanged, bytes, hash, failure });
        self.answers.push(ToSender::Verdict { index, outcome });
    }
}

/// A name that may be anything, for a message.
fn shown(entry: &Entry) -> String {
    crate::output::printable_bytes(&entry.name)
}

#[cfg(test)]
mod tests;
