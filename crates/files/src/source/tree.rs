//! Access to the files found by the search.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dfcp_framing::printable_path;

use super::root::Root;
use super::search::Place;
use crate::beneath::{Directory, Identity, Kind, Status, is_link, open_named, status_of};

/// Sentence for a path that was a file during the search and is a symbolic link now.
const BECAME_LINK: &str = "a symbolic link has its place, or that of one of its directories, and links are not followed: \
                           send it again";

/// Root directory whose files are being opened. Only one root is open at a time.
#[derive(Debug, Default)]
pub(super) struct Tree {
    origin: Option<Arc<Origin>>,
    directory: Option<Directory>,
}

/// Root that was searched, and the identity of its directory at that time.
#[derive(Debug)]
pub(super) struct Origin {
    root: Root,
    identity: Identity,
}

/// Location of a found file that is opened later.
#[derive(Debug)]
pub(super) struct Found {
    origin: Option<Arc<Origin>>,
    place: Place,
    identity: Identity,
}

impl Tree {
    /// Opens the directory that was searched. If its path now leads to another directory, no file below it can be
    /// opened.
    pub(super) fn open(root: Root, identity: Identity) -> Self {
        Self::of(Arc::new(Origin { root, identity }))
    }

    fn of(origin: Arc<Origin>) -> Self {
        let Origin { root, identity } = &*origin;
        let opened =
            Directory::open(&root.path, root.resolution).and_then(|directory| Ok((directory.own_status()?, directory)));
        let directory = opened.ok().and_then(|(status, directory)| (status.identity == *identity).then_some(directory));
        Self { origin: Some(origin), directory }
    }

    fn path(&self) -> &Path {
        self.origin.as_ref().map_or_else(|| Path::new(""), |origin| &origin.root.path)
    }

    /// Opens a found file. The error is a sentence why the file cannot be sent.
    pub(super) fn open_file(&self, place: &Place, identity: Identity) -> Result<(File, Status), String> {
        let opened = match place {
            Place::Named(path) => open_named(path),
            Place::Below(path) => {
                let Some(directory) = &self.directory else {
                    let root = printable_path(self.path());
                    return Err(format!("{root} is no longer the directory that was searched: send it again"));
                };
                directory.file(path)
            }
        };
        let (status, file) = opened.and_then(|file| Ok((status_of(&file)?, file))).map_err(|error| {
            if is_link(&error) { BECAME_LINK.to_owned() } else { format!("it cannot be opened: {error}") }
        })?;
        if status.kind != Kind::File {
            return Err("it is no regular file any more: send it again".to_owned());
        }
        if status.identity != identity {
            return Err("another file has its name now: send it again".to_owned());
        }
        Ok((file, status))
    }

    pub(super) fn path_of(&self, place: &Place) -> PathBuf {
        match place {
            Place::Named(path) => path.clone(),
            Place::Below(path) => self.path().join(path),
        }
    }

    /// Returns the location for opening a file later, when this tree may already be closed.
    pub(super) fn found(&self, place: Place, identity: Identity) -> Found {
        Found { origin: self.origin.clone(), place, identity }
    }
}

impl Found {
    /// Opens the file as [`Tree::open_file`] does.
    pub(super) fn open(&self) -> Result<(File, Status), String> {
        let tree = match (&self.place, &self.origin) {
            (Place::Below(_), Some(origin)) => Tree::of(Arc::clone(origin)),
            _ => Tree::default(),
        };
        tree.open_file(&self.place, self.identity)
    }
}
