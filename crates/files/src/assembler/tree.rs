//! Record of the settled entries of a session, and of directories that may still receive content.
//!
//! Ordinals follow the sender's traversal: a directory, then its content. Entries arrive over several streams, and so
//! in another order. A directory is complete once two conditions hold. First, the sender has left it, which shows when
//! its next directory lies elsewhere. Second, every entry in it is settled: stored, waiting for a flush, or failed.

use std::collections::BTreeMap;

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::Entry;
use dfcp_framing::names::RelativeName;

use crate::limits::UNANSWERED_MAX;
use crate::store::Made;

/// Directory that may still receive content.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    pub(super) name: RelativeName,
    pub(super) entry: Entry,
    pub(super) made: Made,
}

#[derive(Debug)]
struct Open {
    directory: OpenDirectory,
    /// First ordinal after the directory's content; `None` until the sender has left it.
    end: Option<u32>,
}

/// Settled and open entries of a session.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Disjoint ranges of settled ordinals: the first ordinal is the key, one past the last ordinal is the value. At
    /// most [`UNANSWERED_MAX`] entries are in flight, which bounds the number of ranges.
    settled: BTreeMap<u32, u32>,
    open: BTreeMap<u32, Open>,
    /// Ordinals of open directories that the sender has not left; each lies within the previous one.
    path: Vec<u32>,
    /// One past the ordinal of the last directory.
    next_directory: u32,
}

impl Tree {
    /// Returns true if this ordinal is neither settled nor that of an open directory.
    pub(super) fn is_new(&self, index: u32) -> bool {
        let before = self.settled.range(..=index).next_back();
        before.is_none_or(|(_, end)| *end <= index) && !self.open.contains_key(&index)
    }

    /// Prepares for a new directory with this ordinal. The sender has left all directories that do not contain it, or
    /// all directories if its name is invalid. Returns the directories completed by that, innermost first.
    ///
    /// # Errors
    /// Fails if a later directory has already arrived.
    pub(super) fn leave(
        &mut self,
        index: u32,
        name: Option<&RelativeName>,
    ) -> Result<Vec<(u32, OpenDirectory)>, ProtocolError> {
        if index < self.next_directory || !self.is_new(index) {
            return Err(ProtocolError::Ordinal { index });
        }
        self.next_directory = index.checked_add(1).ok_or(ProtocolError::Ordinal { index })?;
        let mut complete = Vec::new();
        while let Some(last) = self.path.last().copied() {
            let is_around = |open: &Open| name.is_some_and(|name| name.is_below(&open.directory.name));
            if self.open.get(&last).is_some_and(is_around) {
                break;
            }
            self.path.pop();
            self.end(last, index, &mut complete)?;
        }
        Ok(complete)
    }

    /// Adds a created directory; call [`Tree::leave`] before.
    pub(super) fn enter(&mut self, index: u32, directory: OpenDirectory) {
        self.open.insert(index, Open { directory, end: None });
        self.path.push(index);
    }

    /// Settles an entry. Returns the directories completed by that, innermost first.
    ///
    /// # Errors
    /// Fails if more earlier entries are missing than can be in flight.
    pub(super) fn settle(&mut self, index: u32) -> Result<Vec<(u32, OpenDirectory)>, ProtocolError> {
        let mut complete = Vec::new();
        self.settle_all(index, &mut complete)?;
        Ok(complete)
    }

    /// Called after the last entry. Returns the remaining directories, innermost first.
    ///
    /// # Errors
    /// Fails if `entries`, the sender's count, differs from the number received.
    pub(super) fn finish(&mut self, entries: u32) -> Result<Vec<(u32, OpenDirectory)>, ProtocolError> {
        let mut complete = Vec::new();
        while let Some(last) = self.path.pop() {
            self.end(last, entries, &mut complete)?;
        }
        let is_all = match self.settled.first_key_value() {
            None => entries == 0,
            Some((first, end)) => *first == 0 && *end == entries && self.settled.len() == 1,
        };
        if is_all && self.open.is_empty() { Ok(complete) } else { Err(ProtocolError::Summary) }
    }

    fn end(&mut self, index: u32, end: u32, complete: &mut Vec<(u32, OpenDirectory)>) -> Result<(), ProtocolError> {
        let content = index.saturating_add(1);
        let known_to = self.settled.get(&content).copied().unwrap_or(content);
        if let Some(open) = self.open.get_mut(&index) {
            open.end = Some(end);
        }
        if known_to >= end { self.close(index, complete) } else { Ok(()) }
    }

    fn close(&mut self, index: u32, complete: &mut Vec<(u32, OpenDirectory)>) -> Result<(), ProtocolError> {
        let Some(open) = self.open.remove(&index) else { return Ok(()) };
        complete.push((index, open.directory));
        self.settle_all(index, complete)
    }

    /// Settles an entry, then each directory completed by that.
    fn settle_all(&mut self, index: u32, complete: &mut Vec<(u32, OpenDirectory)>) -> Result<(), ProtocolError> {
        let mut next = Some(index);
        while let Some(index) = next {
            let (first, end) = self.insert(index)?;
            // Every ordinal in a range is settled and an open directory is not, so only the ordinal just before the
            // range can be that of the open directory.
            let before = first.checked_sub(1);
            let is_complete = |open: &Open| open.end.is_some_and(|its| its <= end);
            next = before.filter(|before| self.open.get(before).is_some_and(is_complete));
            if let Some((index, open)) = next.and_then(|index| Some((index, self.open.remove(&index)?))) {
                complete.push((index, open.directory));
            }
        }
        Ok(())
    }

    /// Marks an ordinal as settled; returns the range that now contains it.
    fn insert(&mut self, index: u32) -> Result<(u32, u32), ProtocolError> {
        let behind = index.checked_add(1).ok_or(ProtocolError::Ordinal { index })?;
        let first = match self.settled.range(..=index).next_back() {
            Some((first, end)) if *end == index => *first,
            Some((_, end)) if *end > index => return Err(ProtocolError::Ordinal { index }),
            _ => index,
        };
        let end = self.settled.remove(&behind).unwrap_or(behind);
        self.settled.insert(first, end);
        if self.settled.len() > UNANSWERED_MAX { Err(ProtocolError::TooManyGaps) } else { Ok((first, end)) }
    }
}

#[cfg(test)]
mod tests;
