//! Names in a directory of the sender.

use super::{put_text, take_text};
use crate::frame::Fields;
use crate::limits::{COMPONENT_BYTES_MAX, CONTROL_BYTES_MAX, NAME_BYTES_MAX};

const IS_LAST: u8 = 1;

/// Some of the names in a directory, in byte order. A directory takes as many frames as its names need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// True for the last frame of the directory.
    pub is_last: bool,
    /// Name of the directory's entry.
    pub directory: Vec<u8>,
    /// Names of entries in the directory.
    pub names: Vec<Vec<u8>>,
}

impl Listing {
    /// Returns the frames for all `names` of a directory, which must be sorted. Frames are made one at a time, because
    /// the names of a large directory should not be held in memory twice.
    pub fn split<'a>(directory: &'a [u8], names: impl IntoIterator<Item = &'a [u8]>) -> impl Iterator<Item = Self> {
        let room = CONTROL_BYTES_MAX - 3 - directory.len();
        let mut names = names.into_iter().peekable();
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let (mut some, mut left) = (Vec::new(), room);
            while let Some(name) = names.next_if(|name| name.len() + 2 <= left) {
                left -= name.len() + 2;
                some.push(name.to_vec());
            }
            is_over = names.peek().is_none();
            Some(Self { is_last: is_over, directory: directory.to_vec(), names: some })
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(if self.is_last { IS_LAST } else { 0 });
        for text in std::iter::once(&self.directory).chain(&self.names) {
            put_text(text, out);
        }
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [flags] = fields.array()?;
        if flags & !IS_LAST != 0 {
            return None;
        }
        let directory = take_text(fields, NAME_BYTES_MAX)?;
        let mut names: Vec<Vec<u8>> = Vec::new();
        while !fields.0.is_empty() {
            let name = take_text(fields, COMPONENT_BYTES_MAX)?;
            // No directory contains such a name. A receiver must not take it for a protection of another name.
            let is_component = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
            if !is_component || name.contains(&0) || names.last().is_some_and(|last| *last >= name) {
                return None;
            }
            names.push(name);
        }
        Some(Self { is_last: flags & IS_LAST != 0, directory, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_directory_are_divided_and_none_is_lost() {
        let names: Vec<Vec<u8>> = (0..5000_u32).map(|number| format!("{number:0100}").into_bytes()).collect();
        for (names, expected) in [(&names[..], 63), (&names[..1], 1), (&[], 1)] {
            let frames = Listing::split(b"a/b", names.iter().map(|name| &name[..])).collect::<Vec<_>>();
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

    /// A receiver walks its own names in order. It would miss, and so delete, names that come out of order.
    #[test]
    fn names_out_of_order_and_what_is_no_name_are_refused() {
        let out_of_order = [["b", "a"], ["a", "a"]].map(|names| names.map(|name| name.as_bytes().to_vec()).to_vec());
        let no_names = ["", ".", "..", "a/b", "/", "a\0"].map(|name| vec![name.as_bytes().to_vec()]);
        for names in out_of_order.into_iter().chain(no_names) {
            let listing = Listing { is_last: true, directory: b"d".to_vec(), names };
            let mut bytes = Vec::new();
            listing.put(&mut bytes);
            assert_eq!(Listing::take(&mut Fields(&bytes)), None);
        }
    }
}
