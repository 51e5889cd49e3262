//! Settled entries of a session, and directories that may still get content.
//!
//! Ordinals follow the sender's traversal: a directory, then its content. Entries arrive over several streams and so in another order. A
//! directory is complete once the sender has left it (as its next directory elsewhere shows) and every entry within is settled: stored,
//! waiting for a flush, or failed.

use std::collections::BTreeMap;

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::Entry;
use dfcp_framing::names::RelativeName;

use crate::limits::UNANSWERED_MAX;
use crate::store::Made;

/// Directory that may still get content.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    pub(super) name: RelativeName,
    pub(super) entry: Entry,
    pub(super) made: Made,
}

#[derive(Debug)]
struct Open {
    directory: OpenDirectory,
    /// First ordinal behind the directory's content, once known.
    end: Option<u32>,
}

/// Entries of a session.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Disjoint ranges of settled ordinals: first, and one past the last. At most [`UNANSWERED_MAX`] entries are in flight, which bounds
    /// the gaps.
    settled: BTreeMap<u32, u32>,
    open: BTreeMap<u32, Open>,
    /// Open directories that the sender has not left, each within the previous one.
    path: Vec<u32>,
    /// One past the last directory's ordinal.
    next_directory: u32,
}

impl Tree {
    /// True if no entry of this ordinal is settled or an open directory.
    pub(super) fn is_new(&self, index: u32) -> bool {
        let before = self.settled.range(..=index).next_back();
        before.is_none_or(|(_, end)| *end <= index) && !self.open.contains_key(&index)
    }

    /// Prepares a directory with this ordinal: the sender has left those that do not contain it, or all if its name is invalid. Returns the
    /// completed directories, innermost first.
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

    /// Adds a created directory, after [`Tree::leave`].
    pub(super) fn enter(&mut self, index: u32, directory: OpenDirectory) {
        self.open.insert(index, Open { directory, end: None });
        self.path.push(index);
    }

    /// Settles an entry. Returns the directories completed by it, innermost first.
    ///
    /// # Errors
    /// Fails if more entries are missing than can be in flight.
    pub(super) fn settle(&mut self, index: u32) -> Result<Vec<(u32, OpenDirectory)>, ProtocolError> {
        let mut complete = Vec::new();
        self.settle_all(index, &mut complete)?;
        Ok(complete)
    }

    /// Ends the entries; returns the remaining directories, innermost first.
    ///
    /// # Errors
    /// Fails if the number of entries differs from the received one.
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

    /// Settles an entry, then each directory that it completes.
    fn settle_all(&mut self, index: u32, complete: &mut Vec<(u32, OpenDirectory)>) -> Result<(), ProtocolError> {
        let mut next = Some(index);
        while let Some(index) = next {
            let (first, end) = self.insert(index)?;
            // An open directory is unsettled, so it can only be the ordinal before the range.
            let before = first.checked_sub(1);
            let is_complete = |open: &Open| open.end.is_some_and(|its| its <= end);
            next = before.filter(|before| self.open.get(before).is_some_and(is_complete));
            if let Some((index, open)) = next.and_then(|index| Some((index, self.open.remove(&index)?))) {
                complete.push((index, open.directory));
            }
        }
        Ok(())
    }

    /// Adds an ordinal; returns its range.
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
