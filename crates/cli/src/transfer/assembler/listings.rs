//! Deletes what the sender does not have.

use dfcp_framing::error::{Failure, ProtocolError};
use dfcp_framing::files::{Listing, ToSender};
use dfcp_framing::names::RelativeName;
use dfcp_framing::printable_bytes;

use super::Assembler;
use crate::transfer::EntryOutcome;
use crate::transfer::error::TransferError;
use crate::transfer::store::Surplus;

/// Which directory is being listed.
#[derive(Debug, Default)]
pub(super) enum Listed {
    /// None.
    #[default]
    Nothing,
    /// One which this session has just made or found: what is in it may be listed next.
    Made(RelativeName),
    /// More of its names are to come.
    Partly(Option<Surplus>),
}

impl Assembler {
    /// Takes some names of a directory. They follow it at once, so that nothing is deleted outside of what is sent.
    pub(super) fn listing(&mut self, listing: &Listing) -> Result<(), TransferError> {
        let out_of_place = ProtocolError::OutOfPlace { frame: "listing" };
        if !self.target.deletes() {
            return Err(out_of_place.into());
        }
        let name = RelativeName::parse(&listing.directory).map_err(|_| out_of_place)?;
        let mut surplus = match std::mem::take(&mut self.listed) {
            Listed::Partly(surplus) => surplus,
            Listed::Made(made) if made == name => self.begin_listing(&name),
            Listed::Nothing if listing.asks_only => self.begin_listing(&name),
            _ => return Err(out_of_place.into()),
        };
        if surplus.as_ref().is_some_and(|surplus| *surplus.name() != name) {
            return Err(out_of_place.into());
        }
        let deletions = surplus
            .as_mut()
            .map(|surplus| surplus.compare(&listing.names, listing.is_last, listing.asks_only))
            .unwrap_or_default();
        for (name, result) in deletions {
            self.deleted(name, result, listing.asks_only);
        }
        if !listing.is_last {
            self.listed = Listed::Partly(surplus);
        }
        Ok(())
    }

    fn begin_listing(&mut self, name: &RelativeName) -> Option<Surplus> {
        match self.target.surplus(name, &mut self.changed) {
            Ok(surplus) => surplus,
            Err(failure) => {
                self.deleted(name.as_bytes().to_vec(), Err(failure), false);
                None
            }
        }
    }

    fn deleted(&mut self, name: Vec<u8>, result: Result<(), Failure>, asks_only: bool) {
        let shown = printable_bytes(&name);
        let failure = result.as_ref().err().map(|failure| failure.code);
        self.answers.push(ToSender::Deleted { failure, name });
        if asks_only && result.is_ok() {
            // Nothing has happened here.
            return;
        }
        let failure = result.err().map(|failure| format!("it is not deleted: {failure}"));
        let is_deleted = failure.is_none();
        self.outcomes.push(EntryOutcome { name: shown, is_deleted, failure, ..EntryOutcome::default() });
    }
}
