//! Removal of partial files that no receiver will finish, for example after a kill or a power failure.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dfcp_framing::limits::DEPTH_MAX;
use dfcp_framing::names::is_own_temporary;

use super::Store;
use crate::beneath::{Directory, Kind, Status, status_of};
use crate::limits::{ABANDONED_AGE, ABANDONED_SEARCH_MAX};

impl Store {
    /// Removes partial files below the output directory that no receiver holds locked and that have not changed for
    /// [`ABANDONED_AGE`] before `now`. Returns the number of removed files. Examines at most [`ABANDONED_SEARCH_MAX`]
    /// names.
    pub fn remove_abandoned(&self, now: SystemTime) -> usize {
        self.remove_abandoned_among(now, ABANDONED_SEARCH_MAX)
    }

    pub(super) fn remove_abandoned_among(&self, now: SystemTime, names_max: usize) -> usize {
        let (mut looked_at, mut removed) = (0, 0);
        let mut waiting = vec![(PathBuf::new(), 0)];
        while let Some((path, depth)) = waiting.pop() {
            // The directory belongs to another user or has disappeared.
            let Ok(directory) = self.root.directory(&path) else { continue };
            let Ok(names) = directory.names() else { continue };
            for name in names.map_while(Result::ok) {
                looked_at += 1;
                if looked_at > names_max {
                    tracing::debug!("the search for abandoned files ends before the end of the tree");
                    return removed;
                }
                let Ok(status) = directory.status(&name) else { continue };
                match status.kind {
                    Kind::Directory if depth < DEPTH_MAX => waiting.push((path.join(&name), depth + 1)),
                    Kind::File if is_own_temporary(&name) && is_old(&status, now) => {
                        match remove_if_abandoned(&directory, &name, &status) {
                            Ok(()) => removed += 1,
                            Err(error) => tracing::debug!(%error, "an unfinished file is left alone"),
                        }
                    }
                    // A link under a temporary name: its receiver was killed while replacing another link.
                    Kind::Link if is_own_temporary(&name) && is_old(&status, now) => {
                        removed += usize::from(directory.remove_file(&name).is_ok());
                    }
                    _ => {}
                }
            }
        }
        removed
    }
}

/// Returns true if the inode's change time is old. Programs cannot set that time, whereas the modification time may
/// already come from the sender.
fn is_old(status: &Status, now: SystemTime) -> bool {
    now.duration_since(status.changed).is_ok_and(|age| age >= ABANDONED_AGE)
}

/// Removes a file if it can be locked; a running receiver would hold the lock.
fn remove_if_abandoned(directory: &Directory, name: &OsStr, found: &Status) -> io::Result<()> {
    let file = directory.file(Path::new(name))?;
    let status = status_of(&file)?;
    if status.kind != Kind::File || status.identity != found.identity {
        return Err(io::Error::other("another file has its name now"));
    }
    file.try_lock()?;
    directory.remove_file(name)
}
