//! Listings of the sent directories. They are sent after all files were stored, so that the receiver can delete other
//! entries.
//!
//! The trees are read again for this. Entries created meanwhile are listed too, so the receiver does not delete them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dfcp_framing::files::{Listing, ToReceiver};
use dfcp_framing::names::{RelativeName, is_temporary};

use super::encoder::Encoder;
use super::{Root, Shared, Stopped, fail};
use crate::beneath::{Directory, Identity, Kind};
use crate::known_directories::KnownDirectories;
use crate::{Observer, SendOptions};

/// Returns the bytes that identify a sent directory. They include the inode, so another directory that now has the same
/// name does not match.
pub(super) fn which(name: &RelativeName, identity: Identity) -> [Vec<u8>; 2] {
    [name.as_bytes().to_vec(), identity.to_bytes().to_vec()]
}

/// Writes listings to the first stream.
pub(super) struct Lister<'a> {
    pub(super) options: &'a SendOptions,
    pub(super) known: &'a mut KnownDirectories,
    pub(super) first: &'a mut Encoder,
    pub(super) shared: Arc<Shared>,
    pub(super) observer: Arc<dyn Observer>,
}

/// Directory that is being listed.
struct Level {
    directory: Directory,
    /// Path below the root.
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

/// Reason why the remaining directories are not listed.
enum Ended {
    /// The session has ended.
    Stopped,
    /// A directory could not be read, which was reported. Its content is unknown.
    Unreadable,
}

impl From<Stopped> for Ended {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl Lister<'_> {
    /// Lists the sent directories of these roots. Stops at the first directory that cannot be read.
    pub(super) fn run(&mut self, roots: &[Root]) -> Result<(), Stopped> {
        for root in roots.iter().filter(|root| !root.is_standard_input) {
            match self.tree(root) {
                Ok(()) => {}
                Err(Ended::Stopped) => return Err(Stopped),
                Err(Ended::Unreadable) => break,
            }
        }
        self.first.flush()
    }

    fn tree(&mut self, root: &Root) -> Result<(), Ended> {
        let Ok(name) = RelativeName::from_components(root.name.iter()) else { return Ok(()) };
        // The root is no directory, so there is nothing to list.
        let Ok(directory) = Directory::open(&root.path, root.resolution) else { return Ok(()) };
        let mut levels: Vec<Level> = self.level(root, directory, PathBuf::new(), &name)?.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            let path = level.path.join(&name);
            let is_directory = level.directory.status(&name).is_ok_and(|status| status.kind == Kind::Directory);
            if !is_directory || is_temporary(&name) {
                continue;
            }
            let Ok(travelling) = RelativeName::from_components(root.name.iter().chain(path.iter())) else { continue };
            if self.options.exclude.matches(travelling.path(), true) {
                continue;
            }
            // A directory that has disappeared needs no listing.
            let Ok(child) = level.directory.directory(Path::new(&name)) else { continue };
            let inside = self.level(root, child, path, &travelling)?;
            levels.extend(inside);
        }
        Ok(())
    }

    /// Lists a directory if it was sent. Returns its names, to be searched for further directories.
    fn level(
        &mut self,
        root: &Root,
        directory: Directory,
        path: PathBuf,
        name: &RelativeName,
    ) -> Result<Option<Level>, Ended> {
        let read = || -> io::Result<(Identity, Vec<OsString>)> {
            Ok((directory.own_status()?.identity, directory.names()?.collect::<io::Result<_>>()?))
        };
        let (identity, mut names) = match read() {
            Ok(read) => read,
            Err(error) => {
                fail(&self.shared, &*self.observer, &root.path.join(path), format!("it cannot be read: {error}"));
                return Err(Ended::Unreadable);
            }
        };
        let [whole, which] = which(name, identity);
        if !self.known.list(&[&whole, &which]) {
            return Ok(None);
        }
        names.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
        for listing in Listing::split(name.as_bytes(), names.iter().map(|name| name.as_encoded_bytes())) {
            ToReceiver::Listing(listing).encode(&mut self.first.chunk.bytes);
            self.first.flush_if_full()?;
        }
        Ok(Some(Level { directory, path, names: names.into_iter() }))
    }
}
