//! Transfers begun after pairing by code: the paired key may resume them, and do nothing else.
//!
//! A code works once, but an interrupted transfer should not need a second code. So a listener remembers the paired key
//! and its transfers until they are complete, for a day at most, or until `dfcp receive --forget`. A receiver keeps
//! this list in a file and rereads it before every decision (`spec/pairing.md` \[pair-6\], \[pair-8\], \[pair-9\]): a
//! restart keeps the list, and a deletion takes effect immediately in a running receiver.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use dfcp_files::{Hashed, Scope};
use dfcp_secure::PublicKey;

use super::By;
use crate::identity::{ConfigDir, IdentityError, PairedTransfer, PairedTransfers};
use crate::limits::{PAIRED_KEYS_MAX, PAIRED_TRANSFERS_MAX};
use crate::output;

/// Resumable transfers of one listener.
#[derive(Debug)]
pub struct Pairs {
    place: Place,
    /// Keys that have paired since this listener started.
    keys: Mutex<BTreeSet<String>>,
    /// Last reported error about the file.
    trouble: Mutex<Option<String>>,
}

#[derive(Debug)]
enum Place {
    /// A receiver's list, limited to one output directory.
    File { list: PairedTransfers, output: Hashed },
    /// A sender's list, kept in memory: nothing can be resumed after the sender ends.
    Memory(Mutex<Vec<PairedTransfer>>),
}

impl Pairs {
    /// Opens a receiver's list in the configuration directory, for transfers into `output`.
    ///
    /// # Errors
    /// Fails if `output` cannot be inspected.
    pub fn of_receiver(directory: &ConfigDir, output: &Path) -> io::Result<Arc<Self>> {
        let place = Place::File { list: PairedTransfers::of(directory), output: which(output)? };
        Ok(Arc::new(Self { place, keys: Mutex::default(), trouble: Mutex::default() }))
    }

    /// Creates a sender's list. Every receiver gets the same files, so no names are recorded.
    #[must_use]
    pub fn of_sender() -> Arc<Self> {
        let place = Place::Memory(Mutex::default());
        Arc::new(Self { place, keys: Mutex::default(), trouble: Mutex::default() })
    }

    /// Records that a peer has paired by code.
    pub fn paired(&self, key: &PublicKey, peer: &str) {
        let key = key.fingerprint().to_string();
        let mut keys = self.keys();
        if keys.len() < PAIRED_KEYS_MAX {
            keys.insert(key.clone());
        }
        drop(keys);
        // The file stores this time in whole seconds.
        let now = SystemTime::now();
        let output = match &self.place {
            Place::File { output, .. } => output.clone(),
            Place::Memory(_) => Hashed::of(b""),
        };
        let transfer = PairedTransfer { key, began: now, output, names: BTreeSet::new() };
        if let Err(error) = self.change(now, |all| all.push(transfer)) {
            output::note(&format!(
                "{peer}: after an interruption it will need a new code, because that cannot be kept: {error}"
            ));
        }
    }

    /// Returns true if this key has paired with this listener before, even if its transfer is complete or forgotten.
    #[must_use]
    pub fn has_paired(&self, key: &PublicKey) -> bool {
        self.keys().contains(&key.fingerprint().to_string()) || self.permits(key)
    }

    /// Returns true if this key began a transfer after pairing by code, and the transfer is incomplete.
    #[must_use]
    pub fn permits(&self, key: &PublicKey) -> bool {
        match &self.place {
            Place::File { .. } => !self.names(key).is_empty(),
            Place::Memory(_) => !self.own(key).is_empty(),
        }
    }

    /// Returns true if no peer can resume a transfer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Returns the file names that a peer admitted for reason `by` may store.
    #[must_use]
    pub fn scope(self: &Arc<Self>, key: Option<PublicKey>, by: Option<By>) -> Arc<Scope> {
        Arc::new(match (key, by) {
            (Some(key), Some(By::Pair)) => Scope::only(self.names(&key)),
            (Some(key), Some(By::Code)) => {
                let this = Arc::clone(self);
                Scope::noted(Box::new(move |begun| this.begun(&key, begun)))
            }
            _ => Scope::everything(),
        })
    }

    /// Removes a peer's right to resume after all files of its session are complete.
    pub fn complete(&self, key: Option<PublicKey>, begun: &BTreeSet<Hashed>) {
        let Some(key) = key.map(|key| key.fingerprint().to_string()).filter(|_| !self.is_empty()) else { return };
        let is_over = |it: &PairedTransfer| {
            it.key == key && self.is_here(it) && (it.names.is_empty() || !it.names.is_disjoint(begun))
        };
        self.told(self.change(SystemTime::now(), |all| all.retain(|transfer| !is_over(transfer))));
    }

    /// Records the files begun under this key's newest code, unless that entry was forgotten meanwhile.
    fn begun(&self, key: &PublicKey, begun: &BTreeSet<Hashed>) {
        let key = key.fingerprint().to_string();
        let note = |all: &mut Vec<PairedTransfer>| {
            let own = all.iter_mut().filter(|it| it.key == key && self.is_here(it));
            if let Some(newest) = own.max_by_key(|transfer| transfer.began) {
                newest.names.clone_from(begun);
            }
        };
        self.told(self.change(SystemTime::now(), note));
    }

    fn names(&self, key: &PublicKey) -> BTreeSet<Hashed> {
        self.own(key).into_iter().flat_map(|transfer| transfer.names).collect()
    }

    fn own(&self, key: &PublicKey) -> Vec<PairedTransfer> {
        let key = key.fingerprint().to_string();
        let mut all = self.all();
        all.retain(|transfer| transfer.key == key);
        all
    }

    /// Returns the valid entries of this listener.
    fn all(&self) -> Vec<PairedTransfer> {
        let now = SystemTime::now();
        let mut all = match &self.place {
            Place::File { list, .. } => self.told(list.read(now)).unwrap_or_default(),
            Place::Memory(all) => lock(all).clone(),
        };
        all.retain(|transfer| transfer.is_valid(now) && self.is_here(transfer));
        all
    }

    fn is_here(&self, transfer: &PairedTransfer) -> bool {
        match &self.place {
            Place::File { output, .. } => transfer.output == *output,
            Place::Memory(_) => true,
        }
    }

    fn change(&self, now: SystemTime, change: impl FnOnce(&mut Vec<PairedTransfer>)) -> Result<(), IdentityError> {
        match &self.place {
            Place::File { list, .. } => list.change(now, change),
            Place::Memory(all) => {
                let mut all = lock(all);
                all.retain(|transfer| transfer.is_valid(now));
                change(&mut all);
                let excess = all.len().saturating_sub(PAIRED_TRANSFERS_MAX);
                all.drain(..excess);
                Ok(())
            }
        }
    }

    /// Unwraps `result`. An error of the file yields `None` and is reported once: an unusable file admits nobody.
    fn told<T>(&self, result: Result<T, IdentityError>) -> Option<T> {
        let mut trouble = lock(&self.trouble);
        match result {
            Ok(value) => {
                *trouble = None;
                Some(value)
            }
            Err(error) => {
                let sentence = format!("interrupted transfers need new codes: {error}");
                if trouble.as_ref() != Some(&sentence) {
                    output::note(&sentence);
                    *trouble = Some(sentence);
                }
                None
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.keys)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the identity of the directory at `output`; a later directory of the same name has another identity.
fn which(output: &Path) -> io::Result<Hashed> {
    let real = output.canonicalize()?;
    let which = which_inode(&real.metadata()?);
    Ok(Hashed::of(&[real.as_os_str().as_encoded_bytes(), b"\0", &which].concat()))
}

#[cfg(unix)]
fn which_inode(there: &Metadata) -> Vec<u8> {
    use std::os::unix::fs::MetadataExt;
    [there.dev(), there.ino()].into_iter().flat_map(u64::to_be_bytes).collect()
}

/// Inode numbers do not exist on every system.
#[cfg(not(unix))]
fn which_inode(_: &Metadata) -> Vec<u8> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use dfcp_framing::names::RelativeName;

    use super::*;
    use crate::admission::tests::key;

    struct Site {
        folder: tempfile::TempDir,
        directory: ConfigDir,
    }

    fn site() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let directory = ConfigDir::at(&folder.path().join("dfcp")).unwrap();
        directory.create().unwrap();
        for output in ["one", "two"] {
            std::fs::create_dir(folder.path().join(output)).unwrap();
        }
        Site { folder, directory }
    }

    impl Site {
        fn pairs(&self, output: &str) -> Arc<Pairs> {
            Pairs::of_receiver(&self.directory, &self.folder.path().join(output)).unwrap()
        }
    }

    fn name(text: &str) -> RelativeName {
        RelativeName::parse(text.as_bytes()).unwrap()
    }

    /// Simulates a session of key 1, paired by code, into directory `one`: it begins `photos` and `film`, then breaks.
    fn broken(site: &Site) {
        let pairs = site.pairs("one");
        pairs.paired(&key(1), "it");
        let scope = pairs.scope(Some(key(1)), Some(By::Code));
        for begun in ["photos/a", "photos/b", "film"] {
            scope.admit(name(begun)).unwrap();
        }
        assert!(!scope.is_limited());
    }

    #[test]
    fn the_pair_goes_on_with_what_it_has_begun_there_and_nobody_with_anything_else() {
        let site = site();
        broken(&site);
        // A second receiver process reads the same file.
        let pairs = site.pairs("one");
        assert!(pairs.permits(&key(1)) && pairs.has_paired(&key(1)));
        assert!(!pairs.permits(&key(2)), "another key");
        assert!(!site.pairs("two").permits(&key(1)), "another directory");
        let scope = pairs.scope(Some(key(1)), Some(By::Pair));
        assert!(scope.is_limited());
        for own in ["film", "photos", "photos/c/d"] {
            scope.admit(name(own)).unwrap();
        }
        for other in ["films", "music", "other/film", "photo", "Photos/a"] {
            let refused = scope.admit(name(other)).unwrap_err();
            assert!(refused.sentence.contains("new code"), "{other}: {refused}");
        }
        // Resuming has added no names.
        assert_eq!(pairs.names(&key(1)).len(), 2);
    }

    #[test]
    fn a_directory_that_has_taken_the_place_of_the_first_one_is_another() {
        let site = site();
        broken(&site);
        let one = site.folder.path().join("one");
        std::fs::rename(&one, site.folder.path().join("three")).unwrap();
        std::fs::create_dir(&one).unwrap();
        assert!(!site.pairs("one").permits(&key(1)) && !site.pairs("three").permits(&key(1)));
    }

    #[test]
    fn it_ends_with_the_transfer_or_when_it_is_forgotten() {
        let site = site();
        broken(&site);
        let pairs = site.pairs("one");
        pairs.complete(Some(key(2)), &BTreeSet::from([Hashed::of(b"film")]));
        pairs.complete(Some(key(1)), &BTreeSet::from([Hashed::of(b"other")]));
        assert!(pairs.permits(&key(1)));
        pairs.complete(Some(key(1)), &BTreeSet::from([Hashed::of(b"film")]));
        assert!(!pairs.permits(&key(1)) && pairs.is_empty());
        assert!(!site.directory.paired_transfers().exists());
        broken(&site);
        assert!(pairs.permits(&key(1)));
        assert_eq!(PairedTransfers::of(&site.directory).forget(SystemTime::now()).unwrap(), 1);
        assert!(!pairs.permits(&key(1)), "at once, also where it runs");
    }

    /// A session continues while `--forget` runs: files begun later must not restore the entry.
    #[test]
    fn what_was_forgotten_does_not_come_back() {
        let site = site();
        let pairs = site.pairs("one");
        pairs.paired(&key(1), "it");
        let scope = pairs.scope(Some(key(1)), Some(By::Code));
        scope.admit(name("a")).unwrap();
        PairedTransfers::of(&site.directory).forget(SystemTime::now()).unwrap();
        scope.admit(name("b")).unwrap();
        assert!(!pairs.permits(&key(1)));
    }

    #[test]
    fn a_pair_that_has_begun_nothing_may_do_nothing() {
        let site = site();
        let pairs = site.pairs("one");
        pairs.paired(&key(1), "it");
        assert!(!pairs.permits(&key(1)) && pairs.has_paired(&key(1)));
    }

    /// With a full disk the transfer continues, and only needs a new code after an interruption.
    #[test]
    fn what_cannot_be_kept_admits_nobody() {
        let site = site();
        std::fs::create_dir(site.directory.paired_transfers()).unwrap();
        broken(&site);
        assert!(!site.pairs("one").permits(&key(1)));
    }

    #[test]
    fn a_sender_remembers_until_its_receiver_has_all() {
        let pairs = Pairs::of_sender();
        pairs.paired(&key(1), "it");
        assert!(pairs.permits(&key(1)) && !pairs.permits(&key(2)));
        pairs.complete(Some(key(1)), &BTreeSet::new());
        assert!(!pairs.permits(&key(1)));
    }
}
