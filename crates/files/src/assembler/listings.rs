//! Deletion of files that the sender does not have, after all files have been stored.

use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::files::{Confirmed, Delete, Entry, Listing, ToSender};
use dfcp_framing::limits::CONTROL_BYTES_MAX;
use dfcp_framing::names::RelativeName;
use dfcp_framing::printable_bytes;

use super::{Assembler, Current};
use crate::error::TransferError;
use crate::exclude::Exclude;
use crate::known_directories::KnownDirectories;
use crate::limits::DELETIONS_TOGETHER_MAX;
use crate::owner::Owner;
use crate::store::{Fate, Over, Sweep, SweepRules, Swept};
use crate::{EntryKind, EntryOutcome, Skipped};

/// Deletion state of a session in which the sender lists its directories.
#[derive(Debug)]
pub(super) struct Deletions {
    pub(super) asks_only: bool,
    exclude: Exclude,
    /// Directories sent in this session; only these may be listed.
    directories: KnownDirectories,
    /// Directory whose listing is being received.
    listed: Option<Listed>,
    /// Number of names reported to the sender.
    told: u32,
    unnamed: u32,
}

#[derive(Debug)]
struct Listed {
    name: RelativeName,
    /// Last name received so far; further names must be greater.
    last: Option<Vec<u8>>,
    /// Deletion in the directory; `None` if nothing in it is deleted.
    sweep: Option<Sweep>,
}

impl Deletions {
    /// Records that the sender has sent this directory.
    pub(super) fn add(&mut self, name: &RelativeName) {
        self.directories.add(&[name.as_bytes()]);
    }

    /// Returns the rules for deletion. In a dry run, only files that `owner` stored are named; `None` permits naming
    /// all files.
    fn rules<'a>(&'a self, owner: Option<&'a Owner>, over: &'a Over) -> SweepRules<'a> {
        SweepRules { asks_only: self.asks_only, exclude: &self.exclude, owner, over }
    }
}

impl Assembler {
    /// Handles the sender's request for deletion.
    pub(super) fn delete(&mut self, delete: &Delete) -> Result<(), TransferError> {
        let out_of_place = ProtocolError::OutOfPlace { frame: "delete" };
        // HELLO has told the sender that deletion is unavailable, also for senders without a key. Such senders own no
        // files here.
        if !self.deletes() || self.owner.is_none() {
            return Err(out_of_place.into());
        }
        if self.deletions.is_none() {
            let directories = KnownDirectories::new().map_err(TransferError::Random)?;
            self.deletions = Some(Deletions {
                asks_only: delete.asks_only,
                exclude: Exclude::default(),
                directories,
                listed: None,
                told: 0,
                unnamed: 0,
            });
        }
        let deletions = self.deletions.as_mut().filter(|known| known.asks_only == delete.asks_only);
        let deletions = deletions.ok_or(out_of_place)?;
        for pattern in &delete.patterns {
            deletions.exclude.add(pattern).map_err(|_| ProtocolError::Malformed { frame: "delete" })?;
        }
        Ok(())
    }

    /// Handles a directory frame in a dry run: nothing is created.
    pub(super) fn directory_asked(
        &mut self,
        entry: &Entry,
        name: Result<RelativeName, Failure>,
    ) -> Result<Current, TransferError> {
        let index = entry.index;
        self.closed_directories += 1;
        match name.and_then(|name| self.target.store()?.would_store(&name, true).map(|()| name)) {
            Ok(name) => {
                if let Some(deletions) = &mut self.deletions {
                    deletions.add(&name);
                }
                // The directory counts as stored, although nothing was created.
                self.stored += 1;
                self.answers.push(ToSender::Verdict { index, outcome: Ok(Confirmed::Unchanged) });
            }
            Err(failure) => self.answer(index, &super::shown(entry), EntryKind::Directory, None, Err(failure)),
        }
        self.settle(index)?;
        Ok(Current::Nothing)
    }

    /// Processes part of a directory's listing. All files have been stored by now. After any failure nothing is
    /// deleted: the failed file may be the new name of a file that would be deleted.
    pub(super) fn listing(&mut self, listing: &Listing) -> Result<(), TransferError> {
        let out_of_place = ProtocolError::OutOfPlace { frame: "listing" };
        let is_allowed = self.is_finished && self.failed == 0;
        let name = RelativeName::parse(&listing.directory).map_err(|_| out_of_place)?;
        let deletions = self.deletions.as_mut().filter(|_| is_allowed).ok_or(out_of_place)?;
        let mut listed = match deletions.listed.take() {
            Some(listed) if listed.name == name => listed,
            Some(_) => return Err(out_of_place.into()),
            None if !deletions.directories.list(&[name.as_bytes()]) => return Err(out_of_place.into()),
            None => {
                let sweep = self.target.store().map(|store| store.sweep(&name)).unwrap_or(Ok(None));
                let sweep = sweep.unwrap_or_else(|swept| {
                    self.swept(swept);
                    None
                });
                Listed { name, last: None, sweep }
            }
        };
        let is_behind = listing.names.first().is_none_or(|first| listed.last.as_ref().is_none_or(|last| last < first));
        if !is_behind {
            return Err(ProtocolError::Malformed { frame: "listing" }.into());
        }
        listed.last = listing.names.last().cloned().or(listed.last);
        if let (Some(sweep), Ok(store)) = (&mut listed.sweep, self.target.store())
            && let Err(swept) = sweep.list(store, &listing.names, listing.is_last)
        {
            // The failure ends the deletion in this directory.
            listed.sweep = None;
            self.swept(swept);
        }
        let is_over = listing.is_last && listed.sweep.is_none();
        if let Some(deletions) = self.deletions.as_mut().filter(|_| !is_over) {
            deletions.listed = Some(listed);
        }
        Ok(())
    }

    /// Deletes a limited number of entries. Returns true if more must be deleted before the next frame is processed.
    ///
    /// # Errors
    /// Fails if the session has ended or the remaining names cannot be flushed.
    pub(crate) fn sweep_some(&mut self) -> Result<bool, TransferError> {
        let Some(mut listed) = self.deletions.as_mut().and_then(|deletions| deletions.listed.take()) else {
            return Ok(false);
        };
        let Some(mut sweep) = listed.sweep.take_if(|sweep| sweep.is_under_way()) else {
            self.put_back(listed);
            return Ok(false);
        };
        for _ in 0..DELETIONS_TOGETHER_MAX {
            let swept = self.step(&mut sweep);
            if let Some(swept) = swept {
                self.swept(swept);
            }
            if self.readings.over().is_set() {
                // The session has ended, so the entries of this sweep that are not deleted yet stay.
                self.end_sweep(&sweep)?;
                return Err(TransferError::PeerClosed);
            }
            if !sweep.is_under_way() {
                break;
            }
        }
        let is_over = !sweep.is_under_way() && sweep.is_last();
        if is_over {
            self.end_sweep(&sweep)?;
            return Ok(false);
        }
        let has_more = sweep.is_under_way();
        listed.sweep = Some(sweep);
        self.put_back(listed);
        Ok(has_more)
    }

    fn put_back(&mut self, listed: Listed) {
        if let Some(deletions) = &mut self.deletions {
            deletions.listed = Some(listed);
        }
    }

    fn step(&self, sweep: &mut Sweep) -> Option<Swept> {
        let (deletions, store) = (self.deletions.as_ref()?, self.target.store().ok()?);
        let owner = self.owner.as_ref().filter(|_| !store.tells_of_all());
        sweep.step(store, &deletions.rules(owner, self.readings.over()))
    }

    fn end_sweep(&mut self, sweep: &Sweep) -> Result<(), TransferError> {
        let Ok(store) = self.target.store() else { return Ok(()) };
        let ended = store.end_sweep(sweep, &mut self.changed);
        if self.changed.is_many() {
            store.flush_names(&mut self.changed).map_err(TransferError::Flush)?;
        }
        if let Err(swept) = ended {
            self.swept(swept);
        }
        Ok(())
    }

    /// Returns true if deletion was requested but skipped because an entry failed.
    pub(crate) fn skips_deletion(&self) -> bool {
        self.failed > 0 && self.deletions.is_some()
    }

    /// Called when the first stream has ended, after any listings.
    ///
    /// # Errors
    /// Fails if the stream ended within a listing, or if deletions cannot be flushed.
    pub(super) fn finish_listings(&mut self) -> Result<(), TransferError> {
        let Some(deletions) = &self.deletions else { return Ok(()) };
        if deletions.listed.is_some() {
            return Err(TransferError::PeerClosed);
        }
        let swept = ToSender::Swept { told: deletions.told, unnamed: deletions.unnamed };
        self.target.flush_names(&mut self.changed).map_err(TransferError::Flush)?;
        self.answers.push(swept);
        Ok(())
    }

    fn swept(&mut self, Swept { mut name, fate }: Swept) {
        let Some(deletions) = &mut self.deletions else { return };
        let failure = match fate {
            Fate::Deleted => None,
            Fate::Stays(failure) => Some(failure),
            Fate::Unnamed => {
                deletions.unnamed = deletions.unnamed.saturating_add(1);
                return;
            }
        };
        deletions.told = deletions.told.saturating_add(1);
        let asks_only = deletions.asks_only;
        let shown = printable_bytes(&name);
        // A frame can hold a name of this length. No entry's name is longer, so nothing real is cut off.
        name.truncate(CONTROL_BYTES_MAX - 1);
        self.answers.push(ToSender::Deleted { failure: failure.as_ref().map(|failure| failure.code), name });
        if let Some(what) = failure.as_ref().and_then(|failure| staying(failure.code)) {
            self.skips.push((shown, what));
        } else if failure.is_some() || !asks_only {
            let is_deleted = failure.is_none();
            let failure = failure.map(|failure| format!("it is not deleted: {failure}"));
            self.outcomes.push(EntryOutcome { name: shown, is_deleted, failure, ..EntryOutcome::default() });
        }
    }
}

/// Returns the reason for keeping a file on purpose, or `None` if the code is an ordinary failure.
pub(crate) fn staying(code: FailureCode) -> Option<Skipped> {
    match code {
        FailureCode::Mounted => Some(Skipped::Mounted),
        FailureCode::Busy => Some(Skipped::UnderWay),
        FailureCode::NotEmpty => Some(Skipped::NotEmpty),
        _ => None,
    }
}
