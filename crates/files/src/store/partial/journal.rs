//! Journal in which a receiver records the progress of a partial file.
//!
//! A journal consists of a header, and a record each time content has reached the disk. A record holds the length of
//! the stored part, and the chaining values of the parts completed since the previous record. Header and records each
//! end in a check over themselves and the previous check, so reading stops at a truncated or foreign record. A record
//! is written only after the described content was flushed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};

use dfcp_framing::limits::NAME_BYTES_MAX;

use crate::beneath::Directory;
use crate::hash_tree::{ChainingValue, Shape};
use crate::limits::JOURNAL_BYTES_MAX;
use crate::owner::Owner;

const MAGIC: &[u8; 8] = b"DFCPJRN1";
/// Length of the BLAKE3 check after the header and each record.
const CHECK_BYTES: usize = 16;
/// Longest fingerprint of an owner, bytes. Present fingerprints have 50.
const OWNER_BYTES_MAX: usize = 128;

type Check = [u8; CHECK_BYTES];

/// Identity of a partial file: sender, name, length and modification time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedFile {
    /// Sender of the file.
    pub owner: Owner,
    /// Name below the output directory, as received.
    pub name: Vec<u8>,
    /// Length of the whole file, bytes.
    pub len: u64,
    /// Modification time at the sender, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
}

/// Progress of a partial file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Length of the content on the disk, bytes.
    pub(super) offset: u64,
    /// Chaining values of the largest parts before `offset`, by number; `None` if unknown.
    pub(super) spans: Vec<Option<ChainingValue>>,
}

/// Journal that is open for writing.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    check: Check,
    bytes: u64,
}

impl Journal {
    /// Creates the journal `name` in `directory` with the file's current state, replacing an existing journal.
    ///
    /// # Errors
    /// Passes on errors of the file system. An existing journal stays in place after an error.
    pub(super) fn create(
        directory: &Directory,
        name: &OsStr,
        identity: &UnfinishedFile,
        state: &State,
        sync: bool,
    ) -> io::Result<Self> {
        let mut beside = name.to_owned();
        beside.push(".new");
        match directory.remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = directory.create_file(&beside, 0o600)?;
        let made = Self::fill(file, identity, state, sync).and_then(|journal| {
            directory.rename(&beside, name, true)?;
            if let Some(names) = directory.flushable()?.filter(|_| sync) {
                names.sync_all()?;
            }
            Ok(journal)
        });
        if made.is_err() {
            // A leftover is harmless: the next creation of this journal removes it.
            let _ = directory.remove_file(&beside);
        }
        made
    }

    fn fill(file: File, identity: &UnfinishedFile, state: &State, sync: bool) -> io::Result<Self> {
        let mut header = MAGIC.to_vec();
        let owner = identity.owner.as_str().as_bytes();
        for text in [owner, &identity.name] {
            let len = u16::try_from(text.len()).map_err(io::Error::other)?;
            header.extend_from_slice(&len.to_be_bytes());
            header.extend_from_slice(text);
        }
        header.extend_from_slice(&identity.len.to_be_bytes());
        header.extend_from_slice(&identity.mtime_s.to_be_bytes());
        header.extend_from_slice(&identity.mtime_ns.to_be_bytes());
        let check = check(&[0; CHECK_BYTES], &header);
        header.extend_from_slice(&check);
        let mut journal = Self { file, check, bytes: 0 };
        journal.write(&header)?;
        let spans: Vec<_> =
            state.spans.iter().enumerate().filter_map(|(number, value)| Some((number, (*value)?))).collect();
        journal.append(state.offset, &spans, sync)?;
        Ok(journal)
    }

    /// Appends a record: `offset` bytes are on the disk, and `spans` gives chaining values of parts by number.
    ///
    /// # Errors
    /// Passes on errors of the file system. Also fails if the journal would become too long. After an error, the
    /// journal is unchanged or ends in an invalid record.
    pub(super) fn append(&mut self, offset: u64, spans: &[(usize, ChainingValue)], sync: bool) -> io::Result<()> {
        let mut record = offset.to_be_bytes().to_vec();
        let number = |number: usize| u32::try_from(number).map_err(io::Error::other);
        record.extend_from_slice(&number(spans.len())?.to_be_bytes());
        for (span, value) in spans {
            record.extend_from_slice(&number(*span)?.to_be_bytes());
            record.extend_from_slice(value);
        }
        let check = check(&self.check, &record);
        record.extend_from_slice(&check);
        self.write(&record)?;
        if sync {
            self.file.sync_data()?;
        }
        self.check = check;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let after = self.bytes + bytes.len() as u64;
        if after > JOURNAL_BYTES_MAX {
            return Err(io::Error::other("its journal would become too long"));
        }
        self.file.write_all(bytes)?;
        self.bytes = after;
        Ok(())
    }
}

/// Reads a journal up to the first invalid record. Returns `None` unless the header and the first record are valid.
///
/// # Errors
/// Passes on errors of the file system.
pub(super) fn read(file: &File) -> io::Result<Option<(UnfinishedFile, State)>> {
    let mut bytes = Vec::new();
    file.take(JOURNAL_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > JOURNAL_BYTES_MAX { None } else { parse(&bytes) })
}

fn parse(bytes: &[u8]) -> Option<(UnfinishedFile, State)> {
    let mut left = Left { all: bytes, at: 0 };
    if left.array::<8>()? != *MAGIC {
        return None;
    }
    let owner = left.text(OWNER_BYTES_MAX)?;
    let owner = Owner::from_fingerprint(std::str::from_utf8(owner).ok()?);
    let name = left.text(NAME_BYTES_MAX)?.to_vec();
    let len = u64::from_be_bytes(left.array()?);
    let mtime_s = i64::from_be_bytes(left.array()?);
    let mtime_ns = u32::from_be_bytes(left.array()?);
    let mut last = left.checked(0, &[0; CHECK_BYTES])?;
    let shape = Shape::of(len)?;
    let mut state = State { offset: 0, spans: vec![None; shape.spans()] };
    let mut is_empty = true;
    while let Some((check, record)) = left.record(&last) {
        if record.offset > len || record.spans.iter().any(|(number, _)| *number >= state.spans.len()) {
            break;
        }
        state.offset = record.offset;
        for (number, value) in record.spans {
            state.spans[number] = Some(value);
        }
        (last, is_empty) = (check, false);
    }
    (!is_empty).then_some((UnfinishedFile { owner, name, len, mtime_s, mtime_ns }, state))
}

struct Record {
    offset: u64,
    spans: Vec<(usize, ChainingValue)>,
}

/// Unread remainder of a journal.
struct Left<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Left<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.all.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn text(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = usize::from(u16::from_be_bytes(self.array()?));
        if len > max { None } else { self.bytes(len) }
    }

    /// Reads the check of the data from `start` up to here; returns it if it is correct.
    fn checked(&mut self, start: usize, before: &Check) -> Option<Check> {
        let expected = check(before, &self.all[start..self.at]);
        (self.array::<CHECK_BYTES>()? == expected).then_some(expected)
    }

    fn record(&mut self, before: &Check) -> Option<(Check, Record)> {
        let start = self.at;
        let offset = u64::from_be_bytes(self.array()?);
        let count = usize::try_from(u32::from_be_bytes(self.array()?)).ok()?;
        let mut values = Left { all: self.bytes(count.checked_mul(4 + 32)?)?, at: 0 };
        let check = self.checked(start, before)?;
        let mut spans = Vec::with_capacity(count);
        while let Some(number) = values.array() {
            spans.push((usize::try_from(u32::from_be_bytes(number)).ok()?, values.array()?));
        }
        Some((check, Record { offset, spans }))
    }
}

fn check(before: &Check, bytes: &[u8]) -> Check {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(bytes);
    let mut check = [0; CHECK_BYTES];
    hasher.finalize_xof().fill(&mut check);
    check
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::beneath::Resolution;
    use crate::hash_tree::LEAF_BYTES;

    const LEN: u64 = 5 << 20;

    fn identity() -> UnfinishedFile {
        let owner = Owner::from_fingerprint("SHA256:abc");
        UnfinishedFile { owner, name: b"a/\xe9".to_vec(), len: LEN, mtime_s: -1, mtime_ns: 7 }
    }

    fn states() -> Vec<State> {
        let mut spans = vec![None; Shape::of(LEN).unwrap().spans()];
        let mut states = vec![State { offset: 0, spans: spans.clone() }];
        for number in 0..4 {
            spans[number] = Some([number as u8; 32]);
            states.push(State { offset: (number as u64 + 1) * LEAF_BYTES * 16, spans: spans.clone() });
        }
        states
    }

    /// Returns a journal of several records, and the offset at which each record ends.
    fn written() -> (Vec<u8>, Vec<usize>) {
        let here = tempfile::tempdir().unwrap();
        let directory = Directory::open(here.path(), Resolution::of_system()).unwrap();
        let path = here.path().join("journal");
        let states = states();
        let mut journal = Journal::create(&directory, OsStr::new("journal"), &identity(), &states[0], true).unwrap();
        let mut ends = vec![path.metadata().unwrap().len() as usize];
        for (number, state) in states.iter().skip(1).enumerate() {
            journal.append(state.offset, &[(number, [number as u8; 32])], true).unwrap();
            ends.push(path.metadata().unwrap().len() as usize);
        }
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 1, "nothing else is left");
        (std::fs::read(path).unwrap(), ends)
    }

    /// A record truncated by a crash is ignored; the records before it stay valid.
    #[test]
    fn a_journal_cut_anywhere_says_what_was_whole() {
        let (bytes, ends) = written();
        let states = states();
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let expected = whole.checked_sub(1).map(|last| (identity(), states[last].clone()));
            assert_eq!(parse(&bytes[..cut]), expected, "cut at {cut}");
            let mut zeroed = bytes[..cut].to_vec();
            zeroed.resize(bytes.len(), 0);
            assert_eq!(parse(&zeroed), expected, "zeros from {cut} on");
        }
    }

    #[test]
    fn what_is_in_its_place_says_nothing() {
        let here = tempfile::tempdir().unwrap();
        let open = |path: &Path| File::open(path).unwrap();
        let path = here.path().join("journal");
        std::fs::write(&path, "something else").unwrap();
        assert_eq!(read(&open(&path)).unwrap(), None);
        File::create(&path).unwrap().set_len(JOURNAL_BYTES_MAX + 1).unwrap();
        assert_eq!(read(&open(&path)).unwrap(), None);
        // A file too short for parts has no valid journal.
        let directory = Directory::open(here.path(), Resolution::of_system()).unwrap();
        let state = State { offset: 0, spans: Vec::new() };
        let short = UnfinishedFile { len: LEAF_BYTES, ..identity() };
        Journal::create(&directory, OsStr::new("journal"), &short, &state, false).unwrap();
        assert_eq!(read(&open(&path)).unwrap(), None);
    }

    proptest! {
        #[test]
        fn a_journal_with_a_wrong_bit_says_what_came_before_it(place in any::<prop::sample::Index>(), bit in 0u8..8) {
            let (mut bytes, ends) = written();
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            let whole = ends.iter().filter(|end| **end <= place).count();
            let expected = whole.checked_sub(1).map(|last| (identity(), states()[last].clone()));
            prop_assert_eq!(parse(&bytes), expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
            let _ = parse(&[&MAGIC[..], &bytes].concat());
        }
    }
}
