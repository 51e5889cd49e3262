//! Receiver's answers to questions about files that it already has.

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::{Confirmed, Hello, ToSender};
use dfcp_framing::names::RelativeName;

use super::bases::Offer;
use super::{Assembler, Content, Receipt, shown};
use crate::EntryKind;
use crate::error::TransferError;
use crate::limits::BASIS_BYTES_MIN;
use crate::store::{Existing, Offered, Unpublished};

impl Assembler {
    /// Starts or queues chunking of the older version. Returns false if that version is too short or unreadable; the
    /// file is then sent as a whole.
    fn begin_basis(&mut self, offer: &Offer, older: &Existing) -> bool {
        offer.takes_basis
            && !offer.asks_only
            && older.len().min(offer.entry.len.unwrap_or_default()) >= BASIS_BYTES_MIN
            && self.bases.begin(offer, older, &mut self.readings, &self.poke)
    }

    /// Returns true if this sender may delete files.
    pub(super) fn deletes(&self) -> bool {
        self.target.deletes() && !self.scope.is_limited()
    }

    /// Sends the first answers: the receiver's abilities, and the sender's partial files that can be resumed.
    pub(crate) fn greet(&mut self) {
        let Some(owner) = &self.owner else {
            let keeps_links = self.target.keeps_links();
            self.answers.push(ToSender::Hello(Hello { keeps_links, ..Hello::default() }));
            return;
        };
        let unfinished = self.target.unfinished(owner);
        for found in &unfinished {
            self.allowance.hold(&found.file.name, found.bytes);
        }
        let is_permitted = |name: &[u8]| RelativeName::parse(name).is_ok_and(|name| self.scope.permits(&name));
        let unfinished = unfinished.into_iter().filter(|found| is_permitted(&found.file.name)).collect();
        let partials = self.target.resumable(unfinished);
        let hello = Hello {
            takes_offers: self.target.takes_offers(),
            deletes: self.deletes(),
            keeps_links: self.target.keeps_links(),
            partials: u32::try_from(partials.len()).unwrap_or(u32::MAX),
        };
        self.answers.push(ToSender::Hello(hello));
        self.answers.extend(partials.into_iter().map(ToSender::Partial));
    }

    /// Answers an offer: the receiver wants the file, already has it, or refuses it.
    pub(super) fn offer(&mut self, offer: &Offer) -> Result<(), TransferError> {
        let Offer { entry, hash, asks_only, .. } = offer;
        let (index, hash, asks_only) = (entry.index, hash.as_ref(), *asks_only);
        self.check_place(entry)?;
        if self.readings.over().is_set() {
            // The session has ended, so the offer needs no answer.
            return Ok(());
        }
        let owner = self.owner.clone().ok_or(ProtocolError::OutOfPlace { frame: "offer" })?;
        let named = self.name(entry).and_then(|name| {
            let how = (hash, asks_only);
            let offered = self.target.offered(&owner, &name, entry, how, &mut self.readings, &mut self.changed)?;
            if asks_only && !matches!(offered, Offered::Unchanged(_)) {
                self.target.store()?.would_store(&name, false)?;
            }
            Ok((offered, name))
        });
        if named.is_err() && self.readings.over().is_set() {
            return Ok(());
        }
        match named {
            Ok((Offered::Replaces(older), _)) if self.begin_basis(offer, &older) => {}
            Ok((Offered::Wanted | Offered::Replaces(_), _)) => {
                self.answers.push(ToSender::Want { index });
                if asks_only {
                    self.settle(index)?;
                }
            }
            Ok((Offered::Unchanged(existing), name)) => {
                let hash = hash.copied().map(blake3::Hash::from_bytes);
                let content = Some(Content { bytes: existing.len(), hash, resumed_bytes: 0, copied_bytes: 0 });
                let receipt = Receipt { index, name, kind: EntryKind::File, content, confirmed: Confirmed::Unchanged };
                self.await_disk(receipt, Unpublished::Unchanged(existing))?;
            }
            Err(failure) => self.file_failed(index, &shown(entry), failure)?,
        }
        Ok(())
    }
}
