//! Existing directories that their owner (this process's user) may not write to: they are made writable while something
//! is stored in them.
//!
//! A tree may contain directories of mode 0555, such as Go's module cache. Without this, nothing could be stored in
//! them a second time. `rsync` does the same.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use dfcp_framing::error::Failure;
use dfcp_framing::names::RelativeName;

use super::Store;
use crate::beneath::{Directory, Identity, Status};

/// Directory that is writable while this value exists. Dropping it restores the mode, even if the session breaks off.
/// If the process is killed, the directory stays writable.
#[derive(Debug)]
pub(super) struct OpenedUp {
    /// Output directory. The descriptor is shared by all values, because there may be many of them.
    root: std::sync::Arc<Directory>,
    path: PathBuf,
    identity: Identity,
    /// Mode to restore.
    mode: u32,
    is_settled: bool,
}

impl Store {
    /// Makes the directory `last` in `parent` writable, if this process's user owns it and lacks write permission.
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
    /// Discards the saved mode, because a new mode has been set.
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
