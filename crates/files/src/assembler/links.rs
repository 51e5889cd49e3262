//! Symbolic and hard links of a session, which arrive after all other entries.

use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::files::{Confirmed, Link, LinkKind, Progress, ToSender};
use dfcp_framing::names::RelativeName;
use dfcp_framing::printable_bytes;

use super::{Assembler, Receipt};
use crate::EntryKind;
use crate::error::TransferError;
use crate::scope::NO_REPLACING;
use crate::store::{LinkDirectory, Unpublished};

/// State of the links of a session.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Number of announced links that have not arrived yet.
    left: u32,
    /// Ordinal of the next link; `None` until all streams have ended.
    next: Option<u32>,
    /// Directory of the most recent link.
    within: Option<LinkDirectory>,
}

impl Assembler {
    /// Handles the sender's announcement of the number of links.
    pub(super) fn announce_links(&mut self, count: u32) -> Result<(), TransferError> {
        // HELLO tells the sender whether links are supported, so this frame violates the protocol if they are not.
        if self.links.left > 0 || !self.target.keeps_links() {
            return Err(ProtocolError::OutOfPlace { frame: "links" }.into());
        }
        self.links.left = count;
        Ok(())
    }

    /// Called when all streams have ended. If links were announced, the summary is sent after them.
    pub(super) fn begin_links(&mut self, entries: u32) {
        self.links.next = Some(entries);
    }

    /// Creates the next link immediately. No files are stored after links, so no file can be written through one.
    pub(super) fn link(&mut self, link: &Link) -> Result<(), TransferError> {
        let index = link.index;
        let next = self.links.next.filter(|_| self.links.left > 0);
        let next = next.ok_or(ProtocolError::OutOfPlace { frame: "link" })?;
        let behind = index.checked_add(1).filter(|_| next == index).ok_or(ProtocolError::Ordinal { index })?;
        self.links.next = Some(behind);
        self.links.left -= 1;
        match self.take_link(link) {
            Ok(None) => self.answers.push(ToSender::Want { index }),
            Ok(Some((name, confirmed))) => {
                let receipt = Receipt { index, name, kind: EntryKind::Link, content: None, confirmed };
                self.batch.push((receipt, Unpublished::Link));
            }
            Err(failure) => self.answer(index, &printable_bytes(&link.name), EntryKind::Link, None, Err(failure)),
        }
        if self.links.left == 0 { self.close_account() } else { Ok(()) }
    }

    /// Returns true if announced links have not arrived yet.
    pub(super) fn awaits_links(&self) -> bool {
        self.links.left > 0
    }

    /// Creates a link unless it exists. Returns `None` in a dry run if the link would be created.
    fn take_link(&mut self, link: &Link) -> Result<Option<(RelativeName, Confirmed)>, Failure> {
        let parse = |bytes: &[u8]| {
            RelativeName::parse(bytes)
                .map_err(|error| Failure::new(FailureCode::Name, format!("the receiver refuses the name: {error}")))
        };
        let name = self.scope.admit(parse(&link.name)?)?;
        let first = if link.kind == LinkKind::Hard { Some(parse(&link.target)?) } else { None };
        let may_replace = !self.scope.is_limited() || !self.target.would_replace(&name);
        if link.asks_only || !may_replace {
            let owner = self.owner.as_ref();
            let is_there = self.target.store()?.would_link((&name, link), first.as_ref(), owner, &mut self.changed)?;
            if !is_there && !may_replace {
                return Err(Failure::new(FailureCode::Exists, NO_REPLACING));
            }
            return Ok(is_there.then_some((name, Confirmed::Unchanged)));
        }
        if first.is_none() {
            // The text of a symbolic link's target takes disk space, so it counts as content.
            let mut reserved = self.allowance.reserve(link.target.len() as u64)?;
            let taken = self.allowance.take(&mut reserved, link.target.len() as u64);
            self.allowance.release(reserved);
            taken?;
        }
        let (store, within, changed) = (self.target.store()?, &mut self.links.within, &mut self.changed);
        let confirmed = match &first {
            Some(first) => store.make_hard_link((&name, first), within, changed)?,
            None => store.make_symbolic_link((&name, link), within, changed)?,
        };
        Ok(Some((name, confirmed)))
    }

    /// Restores time and mode of the most recent link's directory, before its names are flushed.
    pub(super) fn leave_link_directory(&mut self) {
        self.links.within = None;
    }

    /// Confirms waiting entries and sends the summary.
    pub(super) fn close_account(&mut self) -> Result<(), TransferError> {
        self.publish()?;
        let (stored, failed) = self.totals();
        self.answers.push(ToSender::Summary { stored, failed, progress: Progress::default() });
        self.is_finished = true;
        Ok(())
    }
}
