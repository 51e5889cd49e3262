//! Announcement of directory listings, by which the receiver deletes entries that the sender lacks.

use super::{put_text, take_text};
use crate::frame::Fields;
use crate::limits::{CONTROL_BYTES_MAX, PATTERN_BYTES_MAX};

const ASKS_ONLY: u8 = 1;

/// Announces listings of the sender's directories after all entries are stored, and the patterns of excluded names,
/// which are protected from deletion. Several frames are sent if the patterns do not fit into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// True for a dry run: the receiver only reports the effects, and neither stores nor deletes.
    pub asks_only: bool,
    /// Patterns of names that are not deleted.
    pub patterns: Vec<Vec<u8>>,
}

impl Delete {
    /// Returns the frames for all `patterns`, at least one.
    pub fn split(asks_only: bool, patterns: &[Vec<u8>]) -> Vec<Self> {
        let room = CONTROL_BYTES_MAX - 1;
        let (mut frames, mut left) = (vec![Self { asks_only, patterns: Vec::new() }], room);
        for pattern in patterns {
            if pattern.len() + 2 > left {
                frames.push(Self { asks_only, patterns: Vec::new() });
                left = room;
            }
            left -= pattern.len() + 2;
            if let Some(last) = frames.last_mut() {
                last.patterns.push(pattern.clone());
            }
        }
        frames
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(if self.asks_only { ASKS_ONLY } else { 0 });
        for pattern in &self.patterns {
            put_text(pattern, out);
        }
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [flags] = fields.array()?;
        if flags & !ASKS_ONLY != 0 {
            return None;
        }
        let mut patterns = Vec::new();
        while !fields.0.is_empty() {
            patterns.push(take_text(fields, PATTERN_BYTES_MAX)?);
        }
        Some(Self { asks_only: flags & ASKS_ONLY != 0, patterns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_divided_and_none_is_lost() {
        let patterns: Vec<Vec<u8>> = (0..100_u32).map(|number| format!("{number:01000}").into_bytes()).collect();
        for (patterns, expected) in [(&patterns[..], 13), (&patterns[..1], 1), (&[], 1)] {
            let frames = Delete::split(true, patterns);
            assert_eq!(frames.len(), expected);
            assert_eq!(frames.iter().flat_map(|frame| frame.patterns.clone()).collect::<Vec<_>>(), patterns);
            for frame in frames {
                let mut bytes = Vec::new();
                frame.put(&mut bytes);
                assert!(bytes.len() <= CONTROL_BYTES_MAX);
                assert_eq!(Delete::take(&mut Fields(&bytes)), Some(frame));
            }
        }
    }
}
