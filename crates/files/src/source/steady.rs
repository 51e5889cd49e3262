//! Detection of files that change while being read: a mixture of two versions must not be sent as a file.
//!
//! Length, modification time and change time are compared; programs cannot set the last. If they differ, or are too recent to prove
//! anything, the file is read again. Two equal readings in sequence prove the content between them, unless a byte was changed and changed
//! back. This distinguishes a grown log, or a new mode or name, from overwritten content, and costs no datagram.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dfcp_framing::limits::DATA_BYTES_MAX;

use crate::beneath::{Status, status_of};

/// Maximum number of times that a changing file is sent.
pub(super) const SENDINGS_MAX: usize = 2;

/// Reason for giving up a file that keeps changing.
pub(super) const CHANGED: &str = "it changed twice while it was sent, and no mixture of its versions is stored: send it again when nothing writes to it";

/// File system time stamps advance in kernel ticks of at most 10 ms (`CONFIG_HZ` = 100). Two changes within one tick are indistinguishable.
const TICK: Duration = Duration::from_millis(50);

/// Tick of file systems with time stamps of one or two seconds (FAT).
const COARSE_TICK: Duration = Duration::from_secs(2);

/// Metadata that distinguish versions of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    len: u64,
    mtime: (i64, u32),
    changed: SystemTime,
    /// True if the stamp was taken within the tick of the last change: another change may be invisible.
    is_young: bool,
}

/// Result of reading a file.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) len: u64,
    pub(super) hash: blake3::Hash,
    /// Bytes that the receiver copies from its older version.
    pub(super) copied_bytes: u64,
    /// Bytes that the receiver had from an earlier session.
    pub(super) resumed_bytes: u64,
}

/// Verdict on a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// The reading is a version of the whole file.
    Whole,
    /// The reading is a version of the file, which has grown since.
    Beginning,
    /// The reading may mix versions.
    Mixture,
}

impl Stamp {
    /// Stamp of a file with this status, read from `now` on.
    pub(super) fn new(status: &Status, now: SystemTime) -> Self {
        let Status { len, mtime_s, mtime_ns, changed, .. } = *status;
        let is_whole_second = changed.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() == 0);
        let tick = if is_whole_second { COARSE_TICK } else { TICK };
        // A time in the future comes from another clock.
        let is_young = now.duration_since(changed).map_or(true, |age| age < tick);
        Self { len, mtime: (mtime_s, mtime_ns), changed, is_young }
    }

    /// True if no change is visible at `now`.
    fn holds(&self, now: &Status) -> bool {
        let is_same = self.len == now.len && self.mtime == (now.mtime_s, now.mtime_ns) && self.changed == now.changed;
        is_same && !self.is_young
    }

    /// True if a reading that started with this stamp is consistent. Otherwise [`Reading::judge`] decides.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn proves(&self, reading: &Reading, file: &File) -> io::Result<bool> {
        // Generated content has no versions.
        let is_made = self.len == 0 && reading.len > 0;
        Ok(is_made || self.holds(&status_of(file)?))
    }
}

impl Reading {
    /// Reads the first `len` bytes, or fewer at the end of the file or if `is_over`.
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

    /// Reads the file again to judge this reading, unless `is_over`.
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

/// File limited to its length when opened: a growing file would never end.
#[derive(Debug)]
pub(super) struct Bounded<'a> {
    file: &'a File,
    left: u64,
    /// The reported length is 0: the file is empty, or generated by reading.
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
            // A length now means that the empty file was written to.
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

    /// Stamp whose last change was `age` ago.
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

    /// Both changes fall into one tick: length and times are equal, and only the content differs.
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
