//! What a receiver does with each frame: the state between frames, and the answers. Blocking file work, no network.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::EntryOutcome;
use super::error::{Failure, FailureCode, ProtocolError, TransferError};
use super::frame::{Entry, HASH_BYTES, Progress, ToReceiver, ToSender};
use super::names::RelativeName;
use super::store::{Staged, Store};
use crate::limits::UNSYNCED_DIRECTORIES_MAX;

/// Turns frames into files and verdicts.
#[derive(Debug)]
pub struct Assembler {
    store: Arc<Store>,
    entries: u32,
    stored: u32,
    failed: u32,
    current: Current,
    /// Directories which may still get content, each below the one before it, so at most `DEPTH_MAX`.
    open_directories: Vec<OpenDirectory>,
    unsynced: BTreeSet<PathBuf>,
    answers: Vec<ToSender>,
    outcomes: Vec<EntryOutcome>,
}

#[derive(Debug)]
enum Current {
    /// Between files.
    Nothing,
    /// Inside a file that is being stored.
    Storing { index: u32, name: RelativeName, entry: Entry, staged: Box<Staged> },
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
    set_metadata: bool,
}

impl Assembler {
    /// For one session.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            entries: 0,
            stored: 0,
            failed: 0,
            current: Current::Nothing,
            open_directories: Vec::new(),
            unsynced: BTreeSet::new(),
            answers: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// Takes the next frame. A failed file is an answer, not an error.
    ///
    /// # Errors
    /// The sender broke the protocol, or the stored names cannot be flushed; the session is over then.
    pub fn handle(&mut self, frame: &ToReceiver) -> Result<(), TransferError> {
        match (frame, std::mem::replace(&mut self.current, Current::Nothing)) {
            (ToReceiver::Directory(entry), Current::Nothing) => self.directory(entry),
            (ToReceiver::File(entry), Current::Nothing) => self.file(entry),
            (ToReceiver::Data(data), Current::Storing { index, name, entry, mut staged }) => {
                match staged.write(data) {
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
            (ToReceiver::FileAbort(sentence), Current::Storing { index, name, staged, .. }) => {
                drop(staged);
                let shown = crate::output::printable(sentence);
                let failure = Failure::new(FailureCode::GivenUp, format!("the sender gave it up: {shown}"));
                self.file_failed(index, &name.to_string(), failure);
                Ok(())
            }
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
        let made = self.enter(entry).and_then(|name| Ok((self.store.make_directory(&name)?, name)));
        match made {
            Ok((set_metadata, name)) => {
                if let Some(parent) = self.store.root().join(name.as_str()).parent() {
                    self.names_changed_in(parent.to_path_buf())?;
                }
                self.open_directories.push(OpenDirectory { index, name, entry: entry.clone(), set_metadata });
            }
            Err(failure) => {
                self.answer(index, &shown(entry), true, 0, Err(failure));
            }
        }
        Ok(())
    }

    fn file(&mut self, entry: &Entry) -> Result<(), TransferError> {
        let index = self.next_index()?;
        match self.enter(entry).and_then(|name| Ok((self.store.begin(&name)?, name))) {
            Ok((staged, name)) => {
                self.current = Current::Storing { index, name, entry: entry.clone(), staged: Box::new(staged) };
            }
            Err(failure) => {
                self.current = Current::Draining;
                self.file_failed(index, &shown(entry), failure);
            }
        }
        Ok(())
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
        let Some(OpenDirectory { index, name, entry, set_metadata }) = self.open_directories.pop() else { return };
        let outcome = if set_metadata { self.store.finish_directory(&name, &entry) } else { Ok(()) };
        self.answer(index, &name.to_string(), true, 0, outcome);
    }

    fn file_end(
        &mut self,
        index: u32,
        name: &RelativeName,
        entry: &Entry,
        staged: Staged,
        (len, hash): (u64, &[u8; HASH_BYTES]),
    ) -> Result<(), TransferError> {
        match self.store.commit(staged, entry, len, hash) {
            Ok(directory) => {
                self.names_changed_in(directory)?;
                self.answer(index, &name.to_string(), false, len, Ok(()));
                if let Some(outcome) = self.outcomes.last_mut() {
                    outcome.hash = Some(blake3::Hash::from_bytes(*hash));
                }
            }
            Err(failure) => self.file_failed(index, &name.to_string(), failure),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), TransferError> {
        while !self.open_directories.is_empty() {
            self.leave_directory();
        }
        self.sync()?;
        self.current = Current::Ended;
        let (stored, failed) = self.totals();
        self.answers.push(ToSender::Summary { stored, failed, progress: Progress::default() });
        Ok(())
    }

    fn names_changed_in(&mut self, directory: PathBuf) -> Result<(), TransferError> {
        self.unsynced.insert(directory);
        if self.unsynced.len() >= UNSYNCED_DIRECTORIES_MAX { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), TransferError> {
        for directory in std::mem::take(&mut self.unsynced) {
            self.store.sync_directory(&directory).map_err(TransferError::Flush)?;
        }
        Ok(())
    }

    fn next_index(&mut self) -> Result<u32, ProtocolError> {
        let index = self.entries;
        self.entries = index.checked_add(1).ok_or(ProtocolError::OutOfPlace { frame: "file" })?;
        Ok(index)
    }

    fn file_failed(&mut self, index: u32, shown: &str, failure: Failure) {
        self.answer(index, shown, false, 0, Err(failure));
    }

    fn answer(&mut self, index: u32, shown: &str, is_directory: bool, bytes: u64, outcome: Result<(), Failure>) {
        *(if outcome.is_ok() { &mut self.stored } else { &mut self.failed }) += 1;
        let sentence = outcome.as_ref().err().map(ToString::to_string);
        self.outcomes.push(EntryOutcome { name: shown.to_owned(), is_directory, bytes, hash: None, failure: sentence });
        self.answers.push(ToSender::Verdict { index, outcome });
    }
}

/// A name that may be anything, for a message.
fn shown(entry: &Entry) -> String {
    crate::output::printable(&String::from_utf8_lossy(&entry.name))
}

#[cfg(test)]
mod tests;
