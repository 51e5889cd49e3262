//! Detection of files that change while they are read. A mixture of two versions must not be sent as a file.
//!
//! Length, modification time and change time before and after the reading are compared; programs cannot set the change
//! time. If they differ, or are too recent to prove anything, the file is read again. Two equal readings prove that the
//! content was the same in between, unless a byte was changed and changed back. The second reading distinguishes a log
//! that has grown, or a new mode or name, from overwritten content. It is local and costs no datagrams.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dfcp_framing::limits::DATA_BYTES_MAX;

use crate::beneath::{Status, status_of};

/// Maximum number of times that a changing file is sent.
pub(super) const SENDINGS_MAX: usize = 2;

/// Sentence for a file that keeps changing.
pub(super) const CHANGED: &str = "it changed twice while it was sent, and no mixture of its versions is stored: send it again when nothing writes to it";

/// Upper bound for the resolution of times on most file systems. Times advance in kernel ticks of at most 10 ms
/// (`CONFIG_HZ` = 100), and two changes within one tick cannot be distinguished.
const TICK: Duration = Duration::from_millis(50);

/// Resolution of times on file systems that store whole or even seconds (FAT).
const COARSE_TICK: Duration = Duration::from_secs(2);

/// Metadata by which versions of a file are distinguished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    len: u64,
    mtime: (i64, u32),
    changed: SystemTime,
    /// True if the file had changed so recently that a further change may leave the times the same.
    is_young: bool,
}

/// Length and hash of the content that was read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) len: u64,
    pub(super) hash: blake3::Hash,
    /// Bytes that the receiver copies from its older version.
    pub(super) copied_bytes: u64,
    /// Bytes that the receiver already had from an earlier session.
    pub(super) resumed_bytes: u64,
}

/// Consistency of the content that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// The content is one version of the whole file.
    Whole,
    /// The content is one version of the file, which has grown since.
    Beginning,
    /// The content may be a mixture of versions.
    Mixture,
}

impl Stamp {
    /// Creates the stamp of a file with this status, whose reading starts at `now`.
    pub(super) fn new(status: &Status, now: SystemTime) -> Self {
        let Status { len, mtime_s, mtime_ns, changed, .. } = *status;
        let is_whole_second = changed.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() == 0);
        let tick = if is_whole_second { COARSE_TICK } else { TICK };
        // A change time in the future comes from another clock, and proves nothing.
        let is_young = now.duration_since(changed).map_or(true, |age| age < tick);
        Self { len, mtime: (mtime_s, mtime_ns), changed, is_young }
    }

    /// Returns true if the status `now` proves that the file has not changed since the stamp.
    fn holds(&self, now: &Status) -> bool {
        let is_same = self.len == now.len && self.mtime == (now.mtime_s, now.mtime_ns) && self.changed == now.changed;
        is_same && !self.is_young
    }

    /// Returns true if a reading that started with this stamp is proven to be consistent. If false, [`Reading::judge`]
    /// must decide.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn proves(&self, reading: &Reading, file: &File) -> io::Result<bool> {
        // Content that is generated at reading, as in `/proc`, has no versions.
        let is_made = self.len == 0 && reading.len > 0;
        Ok(is_made || self.holds(&status_of(file)?))
    }
}

impl Reading {
    /// Reads the first `len` bytes of `file`. Reads fewer if the file ends before or `is_over` returns true.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn of(mut file: &File, len: u64, is_over: impl Fn() -> bool) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; usize::try_from(len).map_or(DATA_BYTES_MAX, |len| len.min(DATA_BYTES_MAX))];
        while hasher.count() < len && !is_over() {
            let left = usize::try_from(len - hasher.count()).map_or(buffer.len(), |left| left.min(buffer.len()));
            match file.read(&mut buffer[..left]) {
                Ok(0) => break,
                Ok(read) => {
                    hasher.update(&buffer[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { len: hasher.count(), hash: hasher.finalize(), copied_bytes: 0, resumed_bytes: 0 })
    }

    /// Reads the file again to determine whether this reading is consistent. If `is_over` returns true, the result is
    /// [`Worth::Mixture`].
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn judge(&self, file: &File, is_over: impl Fn() -> bool) -> io::Result<Worth> {
        let again = Self::of(file, self.len, is_over)?;
        if (again.len, again.hash) != (self.len, self.hash) {
            return Ok(Worth::Mixture);
        }
        Ok(if status_of(file)?.len > self.len { Worth::Beginning } else { Worth::Whole })
    }
}

/// Reader that stops at the length which the file had when it was opened. A file that keeps growing would never end.
#[derive(Debug)]
pub(super) struct Bounded<'a> {
    file: &'a File,
    left: u64,
    /// True if the reported length is 0: the file is empty, or its content is generated at reading.
    has_no_length: bool,
}

impl<'a> Bounded<'a> {
    pub(super) fn new(file: &'a File, opened: &Status) -> Self {
        Self { file, left: opened.len, has_no_length: opened.len == 0 }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.has_no_length {
            let read = self.file.read(out)?;
            // If the length is no longer 0, the empty file was written to after opening, and those bytes are not sent.
            return Ok(if read > 0 && status_of(self.file)?.len > 0 { 0 } else { read });
        }
        let most = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        if most == 0 {
            return Ok(0);
        }
        let read = self.file.read(&mut out[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn made(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn reading(content: &[u8]) -> Reading {
        Reading { len: content.len() as u64, hash: blake3::hash(content), copied_bytes: 0, resumed_bytes: 0 }
    }

    /// Returns the stamp of a file whose last change was `age` ago.
    fn stamp(file: &File, age: Duration) -> Stamp {
        let status = status_of(file).unwrap();
        Stamp::new(&status, status.changed + age)
    }

    #[test]
    fn what_is_as_old_as_a_tick_proves_itself_and_nothing_younger_does() {
        let file = made(b"one");
        for (age, proves) in [(COARSE_TICK, true), (Duration::ZERO, false)] {
            assert_eq!(stamp(&file, age).holds(&status_of(&file).unwrap()), proves, "{age:?}");
        }
        let status = Status { changed: UNIX_EPOCH + Duration::from_secs(100), ..status_of(&file).unwrap() };
        let at = |age| Stamp::new(&status, status.changed + age).is_young;
        assert_eq!((at(TICK), at(COARSE_TICK)), (true, false), "the clock has whole seconds");
        let status = Status { changed: status.changed + Duration::from_nanos(1), ..status };
        assert!(!Stamp::new(&status, status.changed + TICK).is_young);
        assert!(Stamp::new(&status, status.changed - TICK).is_young, "another clock");
    }

    /// Both changes lie within one tick: length and times are equal, and only the content differs.
    #[test]
    fn a_change_within_the_tick_in_which_the_file_was_opened_is_found() {
        let file = made(b"new");
        assert!(!stamp(&file, Duration::ZERO).proves(&reading(b"old"), &file).unwrap());
        assert_eq!(reading(b"old").judge(&file, || false).unwrap(), Worth::Mixture);
        assert_eq!(reading(b"new").judge(&file, || false).unwrap(), Worth::Whole);
    }

    #[test]
    fn a_reading_is_worth_what_the_file_was() {
        let mut file = made(b"one");
        let before = stamp(&file, COARSE_TICK);
        assert!(before.proves(&reading(b"one"), &file).unwrap());
        file.write_all(b"two").unwrap();
        assert!(!before.proves(&reading(b"one"), &file).unwrap());
        let worth = |content: &[u8], is_over| reading(content).judge(&file, || is_over).unwrap();
        assert_eq!(worth(b"one", false), Worth::Beginning);
        assert_eq!(worth(b"onx", false), Worth::Mixture);
        assert_eq!(worth(b"one", true), Worth::Mixture, "nobody wants to know");
        file.set_len(2).unwrap();
        assert_eq!(worth(b"one", false), Worth::Mixture);
        assert_eq!(worth(b"on", false), Worth::Whole);
    }
}
