//! Reading a disk without mounting it.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::{Disk, ROOT};
use crate::node::{Ino, Node};

/// State to read: as seen by programs, or as left by a power cut.
#[derive(Clone, Copy)]
enum View {
    Volatile,
    Durable,
}

impl Disk {
    /// Content of a file as seen by programs.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        Some(self.find(path.as_ref(), View::Volatile)?.file()?.content.read(0, u64::MAX))
    }

    /// The durable content of a file, if its name is durable.
    pub fn read_durable(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        Some(self.find(path.as_ref(), View::Durable)?.file()?.durable.read(0, u64::MAX))
    }

    /// Permission bits of a file or directory as seen by programs.
    pub fn mode(&self, path: impl AsRef<Path>) -> Option<u32> {
        Some(self.find(path.as_ref(), View::Volatile)?.attributes.mode)
    }

    /// Paths of all files, links and directories as seen by programs, sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.collect(ROOT, Path::new(""), &mut found);
        found.sort();
        found
    }

    /// Makes everything durable.
    pub fn flush_all(&mut self) {
        self.nodes.values_mut().for_each(|node| node.flush(true));
    }

    /// Writes a file, creates missing directories, and makes everything durable: for the initial state of a test.
    ///
    /// # Panics
    /// Panics if `path` has a component that is a file or not a plain name, or the disk is full.
    pub fn put(&mut self, path: impl AsRef<Path>, content: &[u8]) {
        let names: Vec<OsString> = path
            .as_ref()
            .components()
            .map(|component| match component {
                Component::Normal(name) => name.to_owned(),
                other => panic!("{other:?} in {}", path.as_ref().display()),
            })
            .collect();
        let (last, parents) = names.split_last().expect("a path has a last component");
        let owner = (self.nodes[&ROOT].attributes.uid, self.nodes[&ROOT].attributes.gid);
        let parent = parents.iter().fold(ROOT, |at, name| {
            let found = self.lookup(at, name).or_else(|_| self.make_directory(at, name, 0o755, owner));
            found.expect("only directories are in the way")
        });
        let ino = self.lookup(parent, last).or_else(|_| self.make_file(parent, last, 0o644, owner));
        let ino = ino.expect("only directories are in the way");
        self.truncate(ino, 0).and_then(|()| self.write(ino, 0, content)).expect("the disk has room for it");
        self.flush_all();
    }

    fn find(&self, path: &Path, view: View) -> Option<&Node> {
        let mut at = ROOT;
        for component in path.components() {
            let Component::Normal(name) = component else { return None };
            let directory = self.nodes.get(&at)?.directory()?;
            at = *match view {
                View::Volatile => &directory.entries,
                View::Durable => &directory.durable,
            }
            .get(name)?;
        }
        self.nodes.get(&at)
    }

    fn collect(&self, directory: Ino, path: &Path, found: &mut Vec<PathBuf>) {
        for (name, ino) in self.list(directory).into_iter().flatten() {
            let path = path.join(name);
            if self.nodes.get(&ino).is_some_and(|node| node.directory().is_some()) {
                self.collect(ino, &path, found);
            }
            found.push(path);
        }
    }
}
