//! Processing of the receiver's answers, which yields the outcomes of the sender's entries.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::files::{Basis, Confirmed};
use dfcp_framing::{printable, printable_bytes};
use tokio::sync::mpsc;

use crate::assembler::staying;
use crate::basis::{self, Cut};
use crate::error::TransferError;
use crate::limits::{BASES_MAX, FILE_STREAMS_MAX};
use crate::skipped::SKIPPED_AFTER_FAILURE;
use crate::source::{Event, Shared};
use crate::{EntryKind, EntryOutcome, Observer, SendOptions, Skipped};

/// Assigns the receiver's verdicts to the entries that this side has sent.
pub(super) struct Answers<'a> {
    events: mpsc::Receiver<Event>,
    pending: BTreeMap<u32, Pending>,
    shared: &'a Shared,
    observer: &'a dyn Observer,
    /// True in a dry run, in which an entry that the receiver wants gets no verdict.
    is_dry: bool,
    /// True if deletion was requested.
    deletes: bool,
    /// True if links are to be sent as links.
    keeps_links: bool,
    /// True if deltas are enabled.
    has_delta: bool,
    /// Chunks of older versions, by ordinal of the offered file. They are moved on when the receiver requests the new
    /// version.
    bases: BTreeMap<u32, basis::Known>,
    alive: basis::Alive,
    /// Number of deletions that the receiver has reported, successful or not.
    told: u32,
    /// True once all entries have been started.
    is_all_begun: bool,
}

struct Pending {
    name: String,
    kind: EntryKind,
    /// Length of the sent content, bytes, and its hash if the content was read; `None` until the file has been sent.
    sent: Option<(u64, Option<blake3::Hash>)>,
    copied_bytes: u64,
    resumed_bytes: u64,
    has_grown: bool,
    gave_up: Option<String>,
}

impl Drop for Answers<'_> {
    /// Releases threads that wait for answers, and reports sent files without a verdict.
    fn drop(&mut self) {
        self.shared.close();
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        for pending in self.pending.values().filter(|pending| pending.sent.is_some()) {
            self.observer.unanswered(&pending.name);
        }
    }
}

impl<'a> Answers<'a> {
    /// Creates the state for a session with these options. The reading threads send `events`.
    pub(super) fn new(
        events: mpsc::Receiver<Event>,
        shared: &'a Shared,
        observer: &'a dyn Observer,
        options: &SendOptions,
    ) -> Self {
        Self {
            events,
            pending: BTreeMap::new(),
            shared,
            observer,
            is_dry: options.dry_run,
            deletes: options.delete,
            keeps_links: options.links,
            has_delta: options.delta,
            bases: BTreeMap::new(),
            alive: basis::Alive::default(),
            told: 0,
            is_all_begun: false,
        }
    }

    /// Returns true if the observer has recorded everything as required.
    pub(super) fn is_recorded(&self) -> bool {
        self.observer.is_recorded()
    }

    /// Returns true if deletion was requested.
    pub(super) fn wants_deletion(&self) -> bool {
        self.deletes
    }

    /// Returns true if links are to be sent as links.
    pub(super) fn wants_links(&self) -> bool {
        self.keeps_links
    }

    pub(super) fn verdict(&mut self, index: u32, verdict: Result<Confirmed, Failure>) -> Result<(), TransferError> {
        let stray = ProtocolError::StrayVerdict { index };
        let offered = self.shared.answer_offer(index);
        if let Some((bytes, _)) = offered {
            self.shared.spare(bytes);
            if verdict == Ok(Confirmed::Stored) {
                return Err(stray.into());
            }
        }
        let is_dry = self.is_dry;
        let is_answerable = |pending: &Pending| match &verdict {
            // In a dry run, the receiver answers for a link that it wants it or already has it.
            Ok(Confirmed::Stored) if pending.kind == EntryKind::Link => !is_dry,
            Ok(Confirmed::Stored) => pending.kind == EntryKind::Directory || pending.sent.is_some(),
            // In a dry run, a directory is answered in this way whether it exists or could be created.
            Ok(Confirmed::Unchanged) => match pending.kind {
                EntryKind::File => pending.sent.is_some() || offered.is_some(),
                EntryKind::Directory => is_dry,
                EntryKind::Link => true,
            },
            // A file may fail as given up only if this side has given it up. Other failures are possible at any time.
            Err(failure) if failure.code == FailureCode::GivenUp => pending.gave_up.is_some(),
            Err(_) => true,
        };
        while !self.pending.get(&index).is_some_and(is_answerable) {
            let event = self.events.try_recv().map_err(|_| stray)?;
            self.note(event);
        }
        let pending = self.pending.remove(&index).ok_or(stray)?;
        let Pending { name, kind, resumed_bytes, copied_bytes, has_grown, sent, gave_up } = pending;
        if is_dry && kind == EntryKind::Directory && verdict.is_ok() {
            self.shared.answered();
            return Ok(());
        }
        let outcome = match verdict {
            Ok(confirmed) => {
                let (bytes, hash) = sent.or(offered).unwrap_or_default();
                let is_unchanged = confirmed == Confirmed::Unchanged;
                if has_grown {
                    self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).skip(Skipped::Growth);
                    self.observer.skipped(&name, Skipped::Growth);
                }
                EntryOutcome {
                    name,
                    kind,
                    is_unchanged,
                    bytes,
                    resumed_bytes,
                    copied_bytes,
                    hash,
                    ..EntryOutcome::default()
                }
            }
            Err(failure) => {
                self.shared.refuse(index);
                let sentence = gave_up.unwrap_or_else(|| printable(&failure.sentence));
                EntryOutcome { name, kind, failure: Some(sentence), ..EntryOutcome::default() }
            }
        };
        self.settle(&outcome);
        Ok(())
    }

    /// Processes the receiver's request for an offered file. In a dry run, the request may also refer to a link.
    pub(super) fn want(&mut self, index: u32) -> Result<(), ProtocolError> {
        let stray = ProtocolError::StrayVerdict { index };
        if !self.is_dry {
            let known = self.bases.remove(&index);
            return if self.shared.want(index, known) { Ok(()) } else { Err(stray) };
        }
        let offered = self.shared.answer_offer(index);
        while !self.pending.contains_key(&index) {
            let event = self.events.try_recv().map_err(|_| stray)?;
            self.note(event);
        }
        let Pending { name, kind, .. } = self.pending.remove(&index).ok_or(stray)?;
        let (bytes, hash) = match kind {
            EntryKind::Link => (0, None),
            EntryKind::File | EntryKind::Directory => offered.ok_or(stray)?,
        };
        self.shared.spare(bytes);
        self.settle(&EntryOutcome { name, kind, is_wanted: true, bytes, hash, ..EntryOutcome::default() });
        Ok(())
    }

    /// Processes chunks of the receiver's older version of an offered file.
    pub(super) fn basis(&mut self, Basis { index, average_bytes, chunks }: Basis) -> Result<(), ProtocolError> {
        if !self.has_delta || !self.shared.is_offered(index) {
            return Err(ProtocolError::StrayVerdict { index });
        }
        let cut = Cut::from_peer(average_bytes)?;
        // The receiver frees the place of an older version when the new file begins, this side when that file ends.
        // Hence up to one version per stream exceeds the receiver's limit.
        let is_new = !self.bases.contains_key(&index);
        if is_new && self.alive.count() > BASES_MAX + usize::from(FILE_STREAMS_MAX) {
            return Err(ProtocolError::OutOfPlace { frame: "basis" });
        }
        let known = self.bases.entry(index).or_insert_with(|| basis::Known::new(cut, &self.alive));
        if known.cut() != cut {
            return Err(ProtocolError::Malformed { frame: "basis" });
        }
        known.add(&chunks)
    }

    /// Returns true if the receiver may delete; called after all verdicts. After any failure it may not: the receiver
    /// may have the failed file under an old name that is no longer listed.
    pub(super) fn allows_deletion(&self) -> bool {
        let mut report = self.shared.report.lock().unwrap_or_else(PoisonError::into_inner);
        if report.failed > 0 {
            report.deletion_skipped = Some(SKIPPED_AFTER_FAILURE);
        }
        report.failed == 0
    }

    /// Called after all listings; checks the number of reported deletions.
    pub(super) fn swept(&self, told: u32, unnamed: u32) -> Result<(), ProtocolError> {
        self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).unnamed += u64::from(unnamed);
        if told == self.told { Ok(()) } else { Err(ProtocolError::Summary) }
    }

    /// Processes the report of a deletion, successful or not.
    pub(super) fn deleted(&mut self, failure: Option<FailureCode>, name: &[u8]) {
        self.told = self.told.wrapping_add(1);
        if let Some(what) = failure.and_then(staying) {
            self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).skip(what);
            self.observer.skipped(&printable_bytes(name), what);
            return;
        }
        let failure = failure.map(|code| match code {
            FailureCode::Permission => "the receiver may not delete it".to_owned(),
            _ => "the receiver could not delete it; see its messages".to_owned(),
        });
        let is_deleted = failure.is_none();
        let outcome = EntryOutcome { name: printable_bytes(name), is_deleted, failure, ..EntryOutcome::default() };
        self.shared.count(&outcome);
        self.observer.entry(&outcome);
    }

    fn settle(&self, outcome: &EntryOutcome) {
        self.shared.answered();
        self.shared.count(outcome);
        self.observer.entry(outcome);
    }

    /// Processes the receiver's comparison of a partial file. The comparison may arrive after the file was sent or
    /// given up.
    pub(super) fn checked(&mut self, index: u32, end: u64, differ: &[u64]) -> Result<(), ProtocolError> {
        if self.shared.checked(index, end, differ)? {
            return Ok(());
        }
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        let is_over = |pending: &Pending| pending.sent.is_some() || pending.gave_up.is_some();
        let known = self.pending.get(&index).is_some_and(is_over);
        if known { Ok(()) } else { Err(ProtocolError::StrayVerdict { index }) }
    }

    /// Processes an event of the reading threads. [`UNANSWERED_MAX`](crate::limits::UNANSWERED_MAX) bounds the number
    /// of entries.
    fn note(&mut self, event: Event) {
        match event {
            Event::Entry { index, name, kind } => {
                let (copied_bytes, resumed_bytes, has_grown) = (0, 0, false);
                let (sent, gave_up) = (None, None);
                let pending = Pending { name, kind, sent, copied_bytes, resumed_bytes, has_grown, gave_up };
                self.pending.insert(index, pending);
            }
            // The entry is missing if the receiver refused it before it was sent completely.
            Event::Sent { index, bytes, copied_bytes, resumed_bytes, hash, has_grown } => {
                if let Some(pending) = self.pending.get_mut(&index) {
                    (pending.copied_bytes, pending.resumed_bytes) = (copied_bytes, resumed_bytes);
                    pending.has_grown = has_grown;
                    pending.sent = Some((bytes, Some(hash)));
                }
            }
            Event::GaveUp { index, sentence } => {
                if let Some(pending) = self.pending.get_mut(&index) {
                    pending.gave_up = Some(sentence);
                }
            }
            Event::AllBegun => self.is_all_begun = true,
        }
    }

    /// Returns true if all entries have been started and each has its verdict.
    pub(super) async fn is_complete(&mut self) -> bool {
        // The producer may still be busy after its last frame. It then sends an event or closes the channel.
        while !self.is_all_begun
            && let Some(event) = self.events.recv().await
        {
            if matches!(event, Event::Entry { .. }) {
                return false;
            }
            self.is_all_begun = matches!(event, Event::AllBegun);
        }
        self.pending.is_empty()
    }
}
