//! Full reads of files that a sender can cause with a few bytes. They are limited per session, and stopped when the
//! session ends.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use dfcp_framing::limits::DATA_BYTES_MAX;
use dfcp_framing::names::RelativeName;

use crate::beneath::{Identity, Status, status_of};
use crate::limits::{FILES_READ_REMEMBERED_MAX, READINGS_PER_FILE_MAX};

/// Coarsest resolution of file times. If a file changed less than this time before it was read, a second change may
/// leave its times unchanged, so the hash is not cached.
const TIMES_RESOLUTION: Duration = Duration::from_secs(2);

/// Flag that is set when a session ends, to stop its reads. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Over(Arc<AtomicBool>);

/// Guard that sets an [`Over`] flag when dropped.
#[derive(Debug)]
pub(crate) struct OverOnDrop(Over);

/// Reads of existing files in a session, with their cached hashes.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    over: Over,
    files: BTreeMap<FileKey, Reading>,
    /// Files in the order of their first read.
    order: VecDeque<FileKey>,
}

/// Key that identifies a file. It includes the name only on systems without inode numbers.
pub(crate) type FileKey = (Identity, Option<RelativeName>);

#[derive(Debug, Default)]
struct Reading {
    times: u32,
    known: Option<(State, blake3::Hash)>,
}

/// Metadata that changes whenever a file's content changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    len: u64,
    mtime: (i64, u32),
    changed: SystemTime,
}

impl Over {
    /// Sets the flag: the session's reads stop.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true once the session has ended.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a guard that sets the flag when dropped, for every way of ending the session.
    pub(crate) fn on_drop(&self) -> OverOnDrop {
        OverOnDrop(self.clone())
    }
}

impl Drop for OverOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl State {
    fn of(status: &Status) -> Self {
        Self { len: status.len, mtime: (status.mtime_s, status.mtime_ns), changed: status.changed }
    }
}

impl Readings {
    /// Returns the flag that is set when the session ends.
    pub(crate) fn over(&self) -> &Over {
        &self.over
    }

    /// Returns the BLAKE3 hash of a file, cached while the file is unchanged. `None` if the file was read too often.
    ///
    /// # Errors
    /// Passes on errors of the file system. Also fails if the file changes during the read, or if the session has
    /// ended.
    pub(super) fn hash(&mut self, file: &File, key: &FileKey) -> io::Result<Option<blake3::Hash>> {
        self.hash_at(file, key, SystemTime::now())
    }

    fn hash_at(&mut self, file: &File, key: &FileKey, now: SystemTime) -> io::Result<Option<blake3::Hash>> {
        let before = status_of(file)?;
        let known = self.files.get(key).and_then(|reading| reading.known);
        if let Some((_, hash)) = known.filter(|(state, _)| *state == State::of(&before)) {
            return Ok(Some(hash));
        }
        if !self.may_read(key) {
            return Ok(None);
        }
        let hash = hash(file, before.len, &self.over)?;
        let after = status_of(file)?;
        let hash = hash.filter(|_| State::of(&before) == State::of(&after));
        let hash = hash.ok_or_else(|| io::Error::other("it changes while it is read"))?;
        let age = now.duration_since(before.changed).unwrap_or_default();
        if let Some(reading) = self.files.get_mut(key) {
            reading.known = Some((State::of(&before), hash)).filter(|_| age >= TIMES_RESOLUTION);
        }
        Ok(Some(hash))
    }

    /// Returns true, and counts the read, if a sender may cause one more read of the file.
    pub(crate) fn may_read(&mut self, key: &FileKey) -> bool {
        if !self.files.contains_key(key) {
            if self.order.len() >= FILES_READ_REMEMBERED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.files.remove(&oldest);
            }
            self.order.push_back(key.clone());
        }
        let reading = self.files.entry(key.clone()).or_default();
        let may = reading.times < READINGS_PER_FILE_MAX;
        reading.times += u32::from(may);
        may
    }

    /// Keeps the cached hash valid after this receiver itself has set the time or mode of a file.
    pub(super) fn renew(&mut self, file: &File, key: &FileKey) -> io::Result<()> {
        if let Some((state, _)) = self.files.get_mut(key).and_then(|reading| reading.known.as_mut()) {
            *state = State::of(&status_of(file)?);
        }
        Ok(())
    }
}

/// Returns the key that identifies a file in [`Readings`].
pub(super) fn key(status: &Status, name: &RelativeName) -> FileKey {
    (status.identity, Some(name.clone()).filter(|_| !cfg!(unix)))
}

/// Returns the BLAKE3 hash of the first `len` bytes of a file. `None` if the file is shorter.
///
/// # Errors
/// Passes on errors of the file system, and fails if the session has ended.
pub(super) fn hash(mut file: &File, len: u64, over: &Over) -> io::Result<Option<blake3::Hash>> {
    let mut hasher = blake3::Hasher::new();
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; usize::try_from(len).map_or(DATA_BYTES_MAX, |len| len.min(DATA_BYTES_MAX))];
    while hasher.count() < len {
        if over.is_set() {
            return Err(io::Error::other("the session is over"));
        }
        let left = usize::try_from(len - hasher.count()).map_or(buffer.len(), |left| left.min(buffer.len()));
        match file.read(&mut buffer[..left]) {
            Ok(0) => return Ok(None),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                #[cfg(test)]
                READ_BYTES.set(READ_BYTES.get() + read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Changed, Existing, Store, StoreOptions};

    fn existing(output: &tempfile::TempDir, name: &str) -> Existing {
        let store = Store::open(output.path(), StoreOptions::default()).unwrap();
        store.regular(&RelativeName::parse(name.as_bytes()).unwrap(), &mut Changed::default()).unwrap()
    }

    #[test]
    fn a_file_is_read_again_only_when_it_has_changed_and_not_for_ever() {
        let output = tempfile::tempdir().unwrap();
        let path = output.path().join("f");
        std::fs::write(&path, "content").unwrap();
        let existing = existing(&output, "f");
        let mut readings = Readings::default();
        let later = SystemTime::now() + TIMES_RESOLUTION * 2;
        READ_BYTES.set(0);
        for _ in 0..10 {
            assert_eq!(
                readings.hash_at(existing.file(), existing.key(), later).unwrap(),
                Some(blake3::hash(b"content"))
            );
        }
        assert_eq!(READ_BYTES.get(), 7);
        // The receiver sets the time; later, another program changes the content.
        filetime::set_file_mtime(&path, filetime::FileTime::from_unix_time(9, 9)).unwrap();
        readings.renew(existing.file(), existing.key()).unwrap();
        assert_eq!(readings.hash_at(existing.file(), existing.key(), later).unwrap(), Some(blake3::hash(b"content")));
        assert_eq!(READ_BYTES.get(), 7);
        for round in 2..=READINGS_PER_FILE_MAX {
            let content = "x".repeat(100 + round as usize);
            std::fs::write(&path, &content).unwrap();
            assert_eq!(
                readings.hash_at(existing.file(), existing.key(), later).unwrap(),
                Some(blake3::hash(content.as_bytes()))
            );
        }
        std::fs::write(&path, "and again").unwrap();
        assert_eq!(readings.hash_at(existing.file(), existing.key(), later).unwrap(), None);
    }

    /// A change within the same clock tick of the file system does not alter the file's times.
    #[test]
    fn a_file_that_has_only_just_changed_is_not_taken_for_known() {
        let output = tempfile::tempdir().unwrap();
        std::fs::write(output.path().join("f"), "content").unwrap();
        let existing = existing(&output, "f");
        let mut readings = Readings::default();
        READ_BYTES.set(0);
        for _ in 0..10 {
            let changed = status_of(existing.file()).unwrap().changed;
            readings.hash_at(existing.file(), existing.key(), changed).unwrap();
        }
        assert_eq!(READ_BYTES.get(), 7 * u64::from(READINGS_PER_FILE_MAX));
    }

    #[test]
    fn no_reading_outlives_its_session() {
        let output = tempfile::tempdir().unwrap();
        File::create(output.path().join("f")).unwrap().set_len(1 << 40).unwrap();
        let existing = existing(&output, "f");
        let mut readings = Readings::default();
        READ_BYTES.set(0);
        drop(readings.over().on_drop());
        assert!(readings.hash(existing.file(), existing.key()).is_err());
        assert_eq!(READ_BYTES.get(), 0);
    }

    #[test]
    fn only_so_many_files_are_remembered() {
        let mut readings = Readings::default();
        let output = tempfile::tempdir().unwrap();
        std::fs::write(output.path().join("f"), "").unwrap();
        let (identity, _) = existing(&output, "f").key;
        for number in 0..FILES_READ_REMEMBERED_MAX * 2 {
            let name = RelativeName::parse(number.to_string().as_bytes()).unwrap();
            assert!(readings.may_read(&(identity, Some(name))));
        }
        assert_eq!(
            (readings.files.len(), readings.order.len()),
            (FILES_READ_REMEMBERED_MAX, FILES_READ_REMEMBERED_MAX)
        );
    }
}

#[cfg(test)]
thread_local! {
    /// Bytes hashed by this thread, for tests.
    pub(crate) static READ_BYTES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
