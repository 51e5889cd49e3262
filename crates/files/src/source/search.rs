//! Search of the file trees, in a thread that runs ahead of the readers.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use dfcp_framing::files::LinkKind;
use dfcp_framing::link_target::check_link_target;
use dfcp_framing::names::{NameError, RelativeName, is_temporary};

use super::links::{FirstNames, FoundLink, Named};
use super::{Root, Shared, Stopped, fail, skip};
use crate::beneath::{Directory, Identity, Kind, Status, status_of_named};
use crate::{Observer, SendOptions, Skipped};

/// Result of the search.
#[derive(Debug)]
pub(super) enum Found {
    /// Directory to be sent. The following results lie below it.
    Root { root: Root, identity: Identity },
    /// Directory found, or a root itself.
    Directory { name: RelativeName, status: Status },
    /// Standard input.
    StandardInput { name: RelativeName },
    /// A regular file.
    File {
        place: Place,
        identity: Identity,
        name: RelativeName,
        /// True if further hard links of the same file may be found and sent as links.
        has_more_names: bool,
    },
    /// Link to be sent as a link.
    Link(FoundLink),
}

/// Location of a found file.
#[derive(Debug)]
pub(super) enum Place {
    /// Path by which the file can be opened directly, following links.
    Named(PathBuf),
    /// Path below the most recent [`Found::Root`].
    Below(PathBuf),
}

/// State of the search thread.
pub(super) struct Finder {
    pub(super) found: SyncSender<Found>,
    pub(super) shared: Arc<Shared>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) options: SendOptions,
    /// First names of files with several hard links.
    pub(super) first_names: FirstNames,
}

/// Directory whose names are being visited. It stays open, so that a rename cannot redirect lookups. The depth of the
/// stack is at most [`dfcp_framing::limits::DEPTH_MAX`], as deeper names cannot be sent.
struct Level {
    directory: Directory,
    identity: Identity,
    /// True if the directory was reached through a followed link, so that it may lie outside the root.
    is_followed: bool,
    /// Path below the root.
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

impl Finder {
    /// Searches until everything is found or the session ends.
    pub(super) fn run(mut self, roots: &[Root]) {
        let mut around = BTreeSet::new();
        for root in roots {
            if self.around(root, &mut around).and_then(|()| self.root(root)).is_err() {
                return;
            }
        }
        // The length of standard input becomes known only at its end.
        if !roots.iter().any(|root| root.is_standard_input) {
            self.shared.total_is_final.store(true, Ordering::Relaxed);
        }
    }

    /// Reports those parent directories of `root`'s name that were not reported before.
    fn around(&self, root: &Root, told: &mut BTreeSet<PathBuf>) -> Result<(), Stopped> {
        let above: Vec<_> = root.name.ancestors().zip(root.path.ancestors()).skip(1).collect();
        for (name, path) in above.into_iter().rev() {
            if name.as_os_str().is_empty() || !told.insert(name.to_owned()) {
                continue;
            }
            match (RelativeName::from_components(name.iter()), status_of_named(path)) {
                (Ok(name), Ok(status)) => self.send(Found::Directory { name, status })?,
                (Ok(_), Err(error)) => self.cannot_be_read(path, &error)?,
                // An invalid name is reported when the root itself is processed.
                (Err(_), _) => {}
            }
        }
        Ok(())
    }

    fn root(&mut self, root: &Root) -> Result<(), Stopped> {
        let name = match RelativeName::from_components(root.name.iter()) {
            Ok(name) => name,
            Err(error) => return self.cannot_be_sent(&root.path, error),
        };
        if root.is_standard_input {
            return self.send(Found::StandardInput { name });
        }
        // A symbolic link given as an argument is followed, as `cp` does. A link inside a directory is not.
        let status = match status_of_named(&root.path) {
            Ok(status) => status,
            Err(error) => return self.cannot_be_read(&root.path, &error),
        };
        if self.options.exclude.matches(name.path(), status.kind == Kind::Directory) {
            self.skip(&root.path, Skipped::Excluded);
            return Ok(());
        }
        match status.kind {
            Kind::Directory => self.tree(root, name),
            Kind::File => self.file(&root.path, Place::Named(root.path.clone()), name, &status),
            Kind::Link | Kind::Other => {
                self.skip(&root.path, Skipped::Special);
                Ok(())
            }
        }
    }

    fn tree(&mut self, root: &Root, name: RelativeName) -> Result<(), Stopped> {
        let opened =
            Directory::open(&root.path, root.resolution).and_then(|directory| Ok((directory.own_status()?, directory)));
        let (status, directory) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.cannot_be_read(&root.path, &error),
        };
        let identity = status.identity;
        self.send(Found::Root { root: root.clone(), identity })?;
        self.send(Found::Directory { name, status })?;
        let found = (directory, identity, false);
        let mut levels: Vec<Level> = self.level(root, found, PathBuf::new()).into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            let inside = self.step(root, &levels, &name)?;
            levels.extend(inside);
        }
        Ok(())
    }

    /// Reports one entry. Returns its names if it is a directory.
    fn step(&mut self, root: &Root, levels: &[Level], name: &OsString) -> Result<Option<Level>, Stopped> {
        let Some(level) = levels.last() else { return Ok(None) };
        let path = level.path.join(name);
        let shown = || root.path.join(&path);
        let status = match level.directory.status(name) {
            Ok(status) => status,
            Err(error) => return self.cannot_be_read(&shown(), &error).map(|()| None),
        };
        let travelling = RelativeName::from_components(root.name.iter().chain(path.iter()));
        let is_excluded =
            |name: &RelativeName| self.options.exclude.matches(name.path(), status.kind == Kind::Directory);
        let skipped = match status.kind {
            Kind::File | Kind::Directory | Kind::Link if is_temporary(name) => Some(Skipped::Unfinished),
            _ if travelling.as_ref().is_ok_and(is_excluded) => Some(Skipped::Excluded),
            Kind::Link if self.options.follow.permits(&shown()) => return self.follow(root, levels, path, travelling),
            Kind::Link if !self.options.links => Some(Skipped::Link),
            Kind::Other => Some(Skipped::Special),
            Kind::File | Kind::Directory | Kind::Link => None,
        };
        if let Some(what) = skipped {
            self.skip(&shown(), what);
            return Ok(None);
        }
        let travelling = match travelling {
            Ok(name) => name,
            Err(error) => return self.cannot_be_sent(&shown(), error).map(|()| None),
        };
        if status.kind == Kind::Link {
            return self.link(root, level, (name, &path), travelling, &status).map(|()| None);
        }
        if status.kind == Kind::File {
            let place = if level.is_followed { Place::Named(shown()) } else { Place::Below(path.clone()) };
            return self.file(&shown(), place, travelling, &status).map(|()| None);
        }
        let opened = level.directory.directory(Path::new(name)).and_then(|child| Ok((child.own_status()?, child)));
        match opened {
            Ok((status, _)) if level.is_followed && is_around(levels, &status) => {
                self.skip(&shown(), Skipped::Loop);
                Ok(None)
            }
            Ok((status, child)) => {
                let found = (child, status.identity, level.is_followed);
                self.send(Found::Directory { name: travelling, status })?;
                Ok(self.level(root, found, path))
            }
            Err(error) => self.cannot_be_read(&shown(), &error).map(|()| None),
        }
    }

    /// Reports a link's target under the link's name. Returns the target's names if it is a directory.
    fn follow(
        &mut self,
        root: &Root,
        levels: &[Level],
        path: PathBuf,
        travelling: Result<RelativeName, NameError>,
    ) -> Result<Option<Level>, Stopped> {
        let link = root.path.join(&path);
        let name = match travelling {
            Ok(name) => name,
            Err(error) => return self.cannot_be_sent(&link, error).map(|()| None),
        };
        let status = match status_of_named(&link) {
            Ok(status) => status,
            Err(error) => return self.cannot_be_read(&link, &error).map(|()| None),
        };
        if status.kind == Kind::File {
            return self.file(&link, Place::Named(link.clone()), name, &status).map(|()| None);
        }
        if status.kind != Kind::Directory {
            self.skip(&link, Skipped::Special);
            return Ok(None);
        }
        let opened =
            Directory::open(&link, root.resolution).and_then(|directory| Ok((directory.own_status()?, directory)));
        let (status, directory) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.cannot_be_read(&link, &error).map(|()| None),
        };
        if is_around(levels, &status) {
            self.skip(&link, Skipped::Loop);
            return Ok(None);
        }
        let found = (directory, status.identity, true);
        self.send(Found::Directory { name, status })?;
        Ok(self.level(root, found, path))
    }

    /// Reads the names in a directory. They are sorted, so that two runs over the same tree send the same bytes.
    fn level(
        &self,
        root: &Root,
        (directory, identity, is_followed): (Directory, Identity, bool),
        path: PathBuf,
    ) -> Option<Level> {
        match directory.names().and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
            Ok(mut names) => {
                names.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
                Some(Level { directory, identity, is_followed, path, names: names.into_iter() })
            }
            Err(error) => {
                fail(&self.shared, &*self.observer, &root.path.join(path), format!("it cannot be read: {error}"));
                None
            }
        }
    }

    fn file(&mut self, path: &Path, place: Place, name: RelativeName, status: &Status) -> Result<(), Stopped> {
        let (links, identity) = (self.options.links, status.identity);
        let has_more_names = match self.first_names.add(&name, status) {
            Named::Only => false,
            Named::First => links,
            Named::Further(first) if links => {
                let (kind, target) = (LinkKind::Hard, first.as_bytes().to_vec());
                return self.send(Found::Link(FoundLink { path: path.to_owned(), name, kind, target, mtime: (0, 0) }));
            }
            Named::Further(_) => {
                self.skip(path, Skipped::Copy);
                false
            }
            Named::Unknown => {
                self.skip(path, Skipped::CopyBeyond);
                false
            }
        };
        self.shared.total_bytes.fetch_add(status.len, Ordering::Relaxed);
        self.send(Found::File { place, identity, name, has_more_names })
    }

    /// Reports a symbolic link below `root` as a link.
    fn link(
        &self,
        root: &Root,
        level: &Level,
        (last, path): (&OsString, &Path),
        name: RelativeName,
        status: &Status,
    ) -> Result<(), Stopped> {
        let path = root.path.join(path);
        let target = match level.directory.link_target(last) {
            Ok(target) => target.into_encoded_bytes(),
            Err(error) => return self.cannot_be_read(&path, &error),
        };
        if check_link_target(&name, &target, root.name.components().count()).is_err() {
            self.skip(&path, Skipped::LinkOutside);
            return Ok(());
        }
        let mtime = (status.mtime_s, status.mtime_ns);
        self.send(Found::Link(FoundLink { path, name, kind: LinkKind::Symbolic, target, mtime }))
    }

    fn send(&self, found: Found) -> Result<(), Stopped> {
        self.found.send(found).map_err(|_| Stopped)
    }

    fn skip(&self, path: &Path, what: Skipped) {
        skip(&self.shared, &*self.observer, path, what);
    }

    fn cannot_be_read(&self, path: &Path, error: &std::io::Error) -> Result<(), Stopped> {
        fail(&self.shared, &*self.observer, path, format!("it cannot be read: {error}"));
        Ok(())
    }

    /// Reports a name that cannot be sent. The content of such a directory cannot be sent either, as all names in it
    /// contain the invalid one.
    fn cannot_be_sent(&self, path: &Path, error: NameError) -> Result<(), Stopped> {
        fail(&self.shared, &*self.observer, path, format!("it cannot be sent, nor what is in it: {error}"));
        Ok(())
    }
}

/// Returns true if this directory is already being visited, so that entering it would never end.
fn is_around(levels: &[Level], status: &Status) -> bool {
    levels.iter().any(|level| level.identity == status.identity)
}
