//! List of transfers that were paired by a one-time code, until they are complete or expired. Each entry has the paired
//! key, the output directory, and the names that the sender has begun.
//!
//! Each line has the key's fingerprint, the time of pairing in seconds since 1970, the hash of the directory, and the hashes of the names.
//! Several programs may read and change the file at the same time.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dfcp_files::Hashed;
use dfcp_files::limits::PAIRED_NAMES_MAX;

use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::guard::Guard;
use super::read::{lines, read, wrong_line};
use super::replace::{lock, replace};
use crate::limits::{PAIRED_TRANSFER_AGE_MAX, PAIRED_TRANSFERS_BYTES_MAX, PAIRED_TRANSFERS_MAX};

/// Transfer that a paired key may resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedTransfer {
    /// Fingerprint of the paired key.
    pub key: String,
    /// Time of the pairing.
    pub began: SystemTime,
    /// Hash of the output directory.
    pub output: Hashed,
    /// Hashes of the names that the sender has begun to transfer into that directory: of a path, of its first component.
    pub names: BTreeSet<Hashed>,
}

impl PairedTransfer {
    /// Returns true while the transfer may be resumed. An entry from the future is invalid: the clock was set back, and
    /// the age of the entry is unknown.
    #[must_use]
    pub fn is_valid(&self, now: SystemTime) -> bool {
        now.duration_since(self.began).is_ok_and(|age| age < PAIRED_TRANSFER_AGE_MAX)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(' ');
        let (key, began_s, output, names) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let began = UNIX_EPOCH.checked_add(Duration::from_secs(began_s.parse().ok()?))?;
        let names = names.split(',').filter(|name| !name.is_empty() && *name != NOTHING);
        let names: BTreeSet<_> = names.map(Hashed::parse).collect::<Option<_>>()?;
        let is_complete = parts.next().is_none() && names.len() <= PAIRED_NAMES_MAX;
        let output = Hashed::parse(output)?;
        is_complete.then(|| Self { key: key.to_owned(), began, output, names })
    }

    fn line(&self) -> String {
        let began_s = self.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let names: Vec<_> = self.names.iter().map(Hashed::as_str).collect();
        let names = if names.is_empty() { NOTHING.to_owned() } else { names.join(",") };
        format!("{} {began_s} {} {names}\n", self.key, self.output.as_str())
    }
}

/// Placeholder for an empty list of names.
const NOTHING: &str = "-";

const HEAD: &str =
    "# Transfers that a code has begun, until they are complete or a day old. dfcp receive --forget removes all.\n";

/// File of the resumable transfers.
#[derive(Debug, Clone)]
pub struct PairedTransfers {
    path: PathBuf,
}

impl PairedTransfers {
    /// Returns the file in this configuration directory.
    #[must_use]
    pub fn of(directory: &ConfigDir) -> Self {
        Self { path: directory.paired_transfers() }
    }

    /// Returns the transfers valid at `now`; none if the file is missing.
    ///
    /// # Errors
    /// Fails if the file cannot be used, other users can read or change it, or it is a link.
    pub fn read(&self, now: SystemTime) -> Result<Vec<PairedTransfer>, IdentityError> {
        self.check_link()?;
        let Some(content) = read(&self.path, PAIRED_TRANSFERS_BYTES_MAX, Guard::Private)? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for line in lines(&self.path, &content) {
            let (number, line) = line?;
            let wrong =
                || wrong_line(&self.path, number, "it is no paired transfer; dfcp receive --forget removes the file");
            all.push(PairedTransfer::parse(line).ok_or_else(wrong)?);
        }
        all.retain(|transfer| transfer.is_valid(now));
        Ok(all)
    }

    /// Changes the list under a lock. The oldest entries are dropped above the limit.
    ///
    /// # Errors
    /// Fails as [`PairedTransfers::read`] does, or if the file cannot be written; the file is then unchanged.
    pub fn change(&self, now: SystemTime, change: impl FnOnce(&mut Vec<PairedTransfer>)) -> Result<(), IdentityError> {
        if let Some(directory) = self.path.parent() {
            ConfigDir::at(directory)?.create()?;
        }
        let _lock = lock(&self.path)?;
        let mut all = self.read(now)?;
        change(&mut all);
        if all.is_empty() {
            return self.remove();
        }
        all.sort_by_key(|transfer| transfer.began);
        let excess = all.len().saturating_sub(PAIRED_TRANSFERS_MAX);
        let text: String = all.iter().skip(excess).map(PairedTransfer::line).collect();
        replace(&self.path, format!("{HEAD}{text}").as_bytes())
    }

    /// Removes the file, even if it is damaged. Returns the number of entries that could be read.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn forget(&self, now: SystemTime) -> Result<usize, IdentityError> {
        if matches!(self.path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound) {
            return Ok(0);
        }
        let _lock = lock(&self.path)?;
        let count = self.read(now).map_or(0, |all| all.len());
        self.remove()?;
        Ok(count)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) -> Result<(), IdentityError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(IdentityError::io("remove", &self.path, error)),
            _ => Ok(()),
        }
    }

    /// Refuses a link: its target would be replaced, and may belong to another user.
    fn check_link(&self) -> Result<(), IdentityError> {
        if self.path.symlink_metadata().is_ok_and(|there| there.file_type().is_symlink()) {
            let error = io::Error::other("it is a symbolic link, which is not followed: remove it");
            return Err(IdentityError::io("use", &self.path, error));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> (tempfile::TempDir, PairedTransfers) {
        let folder = tempfile::tempdir().unwrap();
        let directory = ConfigDir::at(&folder.path().join("dfcp")).unwrap();
        directory.create().unwrap();
        (folder, PairedTransfers::of(&directory))
    }

    fn transfer(key: &str, began: SystemTime) -> PairedTransfer {
        let names = [b"a", b"b"].map(|name| Hashed::of(name)).into();
        PairedTransfer { key: key.to_owned(), began, output: Hashed::of(b"output"), names }
    }

    /// Fixed time of the tests, in whole seconds as stored in the file.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn add(list: &PairedTransfers, transfer: &PairedTransfer, now: SystemTime) -> Result<(), IdentityError> {
        list.change(now, |all| all.push(transfer.clone()))
    }

    #[test]
    fn a_transfer_is_known_for_a_day_whatever_the_clock_does() {
        let (_folder, list) = list();
        assert_eq!(list.read(now()).unwrap(), []);
        let one = transfer("SHA256:one", now());
        add(&list, &one, now()).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(list.read(now() + PAIRED_TRANSFER_AGE_MAX - second).unwrap(), [one]);
        assert_eq!(list.read(now() + PAIRED_TRANSFER_AGE_MAX).unwrap(), []);
        assert_eq!(list.read(now() - second).unwrap(), [], "the clock was set back, nobody knows by how much");
        list.change(now() + PAIRED_TRANSFER_AGE_MAX, |_| {}).unwrap();
        assert!(!list.path().exists(), "what is over leaves nothing");
    }

    #[test]
    fn two_receivers_at_once_lose_nothing_of_each_other() {
        let (_folder, list) = list();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let list = list.clone();
                scope.spawn(move || add(&list, &transfer(&format!("SHA256:{number}"), now()), now()).unwrap());
            }
        });
        assert_eq!(list.read(now()).unwrap().len(), 8);
        assert_eq!(list.forget(now()).unwrap(), 8);
        assert_eq!(list.forget(now()).unwrap(), 0);
    }

    #[test]
    fn it_never_has_more_than_so_many_and_the_oldest_go() {
        let (_folder, list) = list();
        for number in 0..PAIRED_TRANSFERS_MAX as u64 + 3 {
            add(
                &list,
                &transfer(&number.to_string(), now() + Duration::from_secs(number)),
                now() + Duration::from_secs(500),
            )
            .unwrap();
        }
        let left = list.read(now() + Duration::from_secs(500)).unwrap();
        assert_eq!((left.len(), left[0].key.as_str()), (PAIRED_TRANSFERS_MAX, "3"));
    }

    #[cfg(unix)]
    #[test]
    fn it_is_its_owners_alone_and_no_link_is_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (folder, list) = list();
        let one = transfer("SHA256:one", now());
        add(&list, &one, now()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(list.path()), 0o600);
        fs::set_permissions(list.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(list.read(now()).is_err() && add(&list, &one, now()).is_err());
        // The target of a link is neither read nor written; forgetting removes only the link.
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(list.path(), &elsewhere).unwrap();
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&elsewhere, list.path()).unwrap();
        let before = fs::read(&elsewhere).unwrap();
        assert!(list.read(now()).is_err() && add(&list, &one, now()).is_err());
        assert_eq!(list.forget(now()).unwrap(), 0);
        assert!(!list.path().exists() && fs::read(&elsewhere).unwrap() == before);
    }

    #[test]
    fn what_is_none_is_refused_with_what_to_do() {
        let (_folder, list) = list();
        for text in ["x", "SHA256:a now 0 -", "SHA256:a 1 00 -", "SHA256:a 99999999999999999999 - -"] {
            fs::write(list.path(), text).unwrap();
            #[cfg(unix)]
            fs::set_permissions(list.path(), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let error = list.read(now()).unwrap_err().to_string();
            assert!(error.contains("--forget"), "{text}: {error}");
        }
        list.forget(now()).unwrap();
        assert!(!list.path().exists());
    }
}
