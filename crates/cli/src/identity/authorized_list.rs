//! Authorized keys of a listener, reread when the file changes.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use dfcp_framing::error::truncate;
use dfcp_framing::printable;
use dfcp_secure::PublicKey;

use super::authorized_keys::AuthorizedKeys;
use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::guard::{Guard, check_directories};
use super::known_hosts::Added;
use super::read::{content, open, read};
use super::replace::{append_line, lock, replace};
use crate::limits::{AUTHORIZED_KEYS_BYTES_MAX, COMMENT_BYTES_MAX};
use crate::output;

/// Age from which an unchanged time stamp proves an unchanged file. A file that changed more recently may change again
/// without a new time stamp, so it is reread each time.
const SETTLED: Duration = Duration::from_secs(2);

/// Set of authorized keys that follows its file. Each query opens the file, checks owner and mode, and rereads it if the file or its time
/// stamp changed. An unusable file admits nobody: an earlier set may include keys that were just revoked.
#[derive(Debug, Default)]
pub struct AuthorizedList {
    /// Path of the file; `None` for a source that can be read only once, such as a pipe.
    path: Option<PathBuf>,
    must_exist: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: AuthorizedKeys,
    /// Stamp of the file when it was read; `None` forces a reread.
    stamp: Option<Stamp>,
    /// Last reported error of an unusable file, to report each error once.
    trouble: Option<String>,
}

/// Metadata that change with the file's content.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns true if the stamp is old enough that every further change alters it. Programs such as `cp -p` can set
    /// the modification time, but not the inode's change time.
    fn is_settled(&self, now: SystemTime) -> bool {
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age >= SETTLED);
        self.modified.is_some_and(is_old) && self.inode_changed().is_none_or(is_old)
    }

    #[cfg(unix)]
    fn inode_changed(&self) -> Option<SystemTime> {
        let (_, _, seconds, nanoseconds) = self.inode;
        // A time before 1970 counts as old enough.
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }

    #[cfg(not(unix))]
    fn inode_changed(&self) -> Option<SystemTime> {
        None
    }
}

impl AuthorizedList {
    /// Opens the list at `path`. With `must_exist` false, a missing file admits nobody until it is created.
    ///
    /// # Errors
    /// Fails as [`AuthorizedKeys::load`] does.
    pub fn open(path: &Path, must_exist: bool) -> Result<Self, IdentityError> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return AuthorizedKeys::load(path).map(Self::fixed);
        }
        let list = Self { path: Some(path.to_owned()), must_exist, state: Mutex::default() };
        list.read_again(path, &mut list.state())?;
        Ok(list)
    }

    /// Creates a fixed set of keys, without a file.
    #[must_use]
    pub fn fixed(keys: AuthorizedKeys) -> Self {
        Self { state: Mutex::new(State { keys, ..State::default() }), ..Self::default() }
    }

    /// Returns true if the owner of `key` may connect now.
    pub fn permits(&self, key: &PublicKey) -> bool {
        self.current().keys.permits(key)
    }

    /// Returns true if the list admits nobody now.
    pub fn is_empty(&self) -> bool {
        self.current().keys.is_empty()
    }

    /// Adds `key` to the file, unless it is authorized already. `comment` is for readers of the file. Concurrent
    /// additions by several programs are all kept.
    ///
    /// # Errors
    /// Fails if the file cannot be used or written, has become too large, or is not a regular file.
    pub fn add(&self, key: &PublicKey, comment: &str) -> Result<Added, IdentityError> {
        let Some(path) = &self.path else { return Err(IdentityError::NoList) };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            ConfigDir::at(directory)?.create()?;
        }
        check_directories(path)?;
        let _lock = lock(path)?;
        let content = read(path, AUTHORIZED_KEYS_BYTES_MAX, Guard::Trusted)?;
        let mut content = content.map_or_else(Vec::new, |content| content.to_vec());
        if AuthorizedKeys::parse(path, &content)?.permits(key) {
            return Ok(Added::Already);
        }
        let mut comment = printable(comment);
        truncate(&mut comment, COMMENT_BYTES_MAX);
        append_line(&mut content, &format!("{key} {comment}"));
        if content.len() as u64 > AUTHORIZED_KEYS_BYTES_MAX {
            return Err(IdentityError::TooLarge { path: path.clone(), bytes_max: AUTHORIZED_KEYS_BYTES_MAX });
        }
        replace(path, &content)?;
        Ok(Added::New)
    }

    /// Returns the path of the list's file, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the current state, after a check of the file.
    fn current(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if let Some(path) = &self.path {
            match self.read_again(path, &mut state) {
                Ok(()) => state.trouble = None,
                Err(error) => {
                    *state = State { trouble: state.trouble.take(), ..State::default() };
                    let sentence = format!("nobody is admitted by key: {error}");
                    if state.trouble.as_ref() != Some(&sentence) {
                        output::always(&sentence);
                        state.trouble = Some(sentence);
                    }
                }
            }
        }
        state
    }

    /// Rereads the file if it may have changed.
    fn read_again(&self, path: &Path, state: &mut State) -> Result<(), IdentityError> {
        let gone = || IdentityError::io("read", path, std::io::ErrorKind::NotFound.into());
        // Opening a pipe or device could block for ever.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(IdentityError::io("read", path, std::io::ErrorKind::InvalidInput.into()));
        }
        let Some((file, metadata)) = open(path, Guard::Trusted)? else {
            // A list that never existed may be created later; a list that disappeared is reported.
            if self.must_exist || !state.keys.is_empty() {
                return Err(gone());
            }
            return Ok(());
        };
        let stamp = Stamp::of(&metadata);
        if state.stamp.as_ref() == Some(&stamp) {
            return Ok(());
        }
        state.keys = AuthorizedKeys::parse(path, &content(path, file, AUTHORIZED_KEYS_BYTES_MAX)?)?;
        state.stamp = Some(stamp).filter(|stamp| stamp.is_settled(SystemTime::now()));
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Poisoning is harmless: every change is complete before the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_put_in_place_with_an_old_time_may_change_again_within_a_tick() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let put = SystemTime::now();
        let hour = Duration::from_secs(3600);
        file.as_file().set_modified(put - hour).unwrap();
        let stamp = Stamp::of(&file.as_file().metadata().unwrap());
        assert!(!stamp.is_settled(put), "its inode has just changed");
        assert!(stamp.is_settled(put + hour));
        file.as_file().set_modified(put + hour).unwrap();
        let stamp = Stamp::of(&file.as_file().metadata().unwrap());
        assert!(!stamp.is_settled(put + hour) && stamp.is_settled(put + 2 * hour));
    }
}
