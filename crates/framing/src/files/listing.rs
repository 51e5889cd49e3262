//! What is in a directory at the sender.

use crate::frame::Fields;
use crate::limits::{COMPONENT_BYTES_MAX, CONTROL_BYTES_MAX, NAME_BYTES_MAX};

const ASKS_ONLY: u8 = 1;
const IS_LAST: u8 = 2;

/// Some of the names in a directory, in the order of their bytes. Those of a directory come in as many frames as they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Nothing is to be deleted: the receiver says what it would delete.
    pub asks_only: bool,
    /// These are the last ones.
    pub is_last: bool,
    /// The directory, as the name of an entry.
    pub directory: Vec<u8>,
    /// The names.
    pub names: Vec<Vec<u8>>,
}

impl Listing {
    /// The frames for all `names` of a directory, which are sorted.
    pub fn split(asks_only: bool, directory: &[u8], names: &[Vec<u8>]) -> Vec<Self> {
        let empty = || Self { asks_only, is_last: false, directory: directory.to_vec(), names: Vec::new() };
        let room = CONTROL_BYTES_MAX - 3 - directory.len();
        let (mut frames, mut left) = (vec![empty()], room);
        for name in names {
            if name.len() + 2 > left {
                frames.push(empty());
                left = room;
            }
            left -= name.len() + 2;
            if let Some(last) = frames.last_mut() {
                last.names.push(name.clone());
            }
        }
        if let Some(last) = frames.last_mut() {
            last.is_last = true;
        }
        frames
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(if self.asks_only { ASKS_ONLY } else { 0 } | if self.is_last { IS_LAST } else { 0 });
        for text in std::iter::once(&self.directory).chain(&self.names) {
            // Both kinds of name are far shorter.
            out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
            out.extend_from_slice(text);
        }
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [flags] = fields.array()?;
        if flags & !(ASKS_ONLY | IS_LAST) != 0 {
            return None;
        }
        let directory = text(fields, NAME_BYTES_MAX)?;
        let mut names: Vec<Vec<u8>> = Vec::new();
        while !fields.0.is_empty() {
            let name = text(fields, COMPONENT_BYTES_MAX)?;
            if name.is_empty() || names.last().is_some_and(|last| *last >= name) {
                return None;
            }
            names.push(name);
        }
        Some(Self { asks_only: flags & ASKS_ONLY != 0, is_last: flags & IS_LAST != 0, directory, names })
    }
}

fn text(fields: &mut Fields<'_>, max: usize) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(fields.array()?));
    if len > max {
        return None;
    }
    let (text, rest) = fields.0.split_at_checked(len)?;
    fields.0 = rest;
    Some(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_directory_are_divided_and_none_is_lost() {
        let names: Vec<Vec<u8>> = (0..5000_u32).map(|number| format!("{number:0100}").into_bytes()).collect();
        for (names, expected) in [(&names[..], 63), (&names[..1], 1), (&[], 1)] {
            let frames = Listing::split(true, b"a/b", names);
            assert_eq!(frames.len(), expected);
            assert_eq!(frames.iter().flat_map(|frame| frame.names.clone()).collect::<Vec<_>>(), names);
            assert!(frames.iter().enumerate().all(|(number, frame)| frame.is_last == (number + 1 == expected)));
            for frame in frames {
                let mut bytes = Vec::new();
                frame.put(&mut bytes);
                assert!(bytes.len() <= CONTROL_BYTES_MAX);
                assert_eq!(Listing::take(&mut Fields(&bytes)), Some(frame));
            }
        }
    }

    /// Out of order, a name would be missed by a receiver that goes through its own in order, and deleted.
    #[test]
    fn names_out_of_order_or_empty_are_refused() {
        for names in [vec![b"b".to_vec(), b"a".to_vec()], vec![b"a".to_vec(), b"a".to_vec()], vec![Vec::new()]] {
            let listing = Listing { asks_only: false, is_last: true, directory: b"d".to_vec(), names };
            let mut bytes = Vec::new();
            listing.put(&mut bytes);
            assert_eq!(Listing::take(&mut Fields(&bytes)), None);
        }
    }
}
