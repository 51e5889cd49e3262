//! Directories that are there and to which their owner, this user, may not write: he gets that right while something is stored in them.
//!
//! A tree may have directories of mode 0555 (the module cache of Go has only these), and nothing could be stored in them a second time. `rsync`
//! does the same.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use dfcp_framing::error::Failure;
use dfcp_framing::names::RelativeName;

use super::Store;
use crate::beneath::{Directory, Identity, Status};

/// A directory to which its owner may write as long as this exists. Dropping it gives the directory its mode back, also when a session breaks.
/// (A receiver that is killed leaves it as it is.)
#[derive(Debug)]
pub(super) struct OpenedUp {
    /// The output directory. Its descriptor serves all, as there may be many.
    root: std::sync::Arc<Directory>,
    path: PathBuf,
    identity: Identity,
    /// Before.
    mode: u32,
    is_settled: bool,
}

impl Store {
    /// Lets its owner write to the directory `last` in `parent`, if that is this user, who may not yet.
    pub(super) fn open_up(
        &self,
        name: &RelativeName,
        parent: &Directory,
        last: &OsStr,
        status: &Status,
    ) -> Result<Option<OpenedUp>, Failure> {
        let mode = parent
            .open_up(last, status.identity)
            .map_err(|error| Failure::from_io("get the right to write to the directory", &error))?;
        Ok(mode.map(|mode| OpenedUp {
            root: std::sync::Arc::clone(&self.root),
            path: name.path().to_owned(),
            identity: status.identity,
            mode,
            is_settled: false,
        }))
    }
}

impl OpenedUp {
    /// It has another mode now.
    pub(super) fn forget(mut self) {
        self.is_settled = true;
    }

    fn restore(&self) -> io::Result<()> {
        let directory = self.root.directory(Path::new(&self.path))?;
        if directory.own_status()?.identity != self.identity {
            return Err(io::Error::other("another directory has its name now"));
        }
        directory.set_mode(self.mode)
    }
}

impl Drop for OpenedUp {
    fn drop(&mut self) {
        if !self.is_settled
            && let Err(error) = self.restore()
        {
            tracing::warn!(%error, path = %self.path.display(), "a directory stays writable for its owner");
        }
    }
}
