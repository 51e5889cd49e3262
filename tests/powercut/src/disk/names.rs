//! Changes of names in directories.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rustix::io::Errno;

use super::{Disk, NAME_BYTES_MAX, ROOT};
use crate::node::{Change, Directory, File, Ino, Kind, Node};

/// User and group of a new node.
pub(crate) type Owner = (u32, u32);

impl Disk {
    /// Makes an empty file.
    pub(crate) fn make_file(&mut self, parent: Ino, name: &OsStr, mode: u32, owner: Owner) -> Result<Ino, Errno> {
        self.make(parent, name, Node::new(Kind::File(File::default()), mode, owner, self.now))
    }

    /// Makes an empty directory.
    pub(crate) fn make_directory(&mut self, parent: Ino, name: &OsStr, mode: u32, owner: Owner) -> Result<Ino, Errno> {
        self.make(parent, name, Node::new(Kind::Directory(Directory::default()), mode, owner, self.now))
    }

    /// Makes a symbolic link.
    pub(crate) fn make_link(&mut self, parent: Ino, name: &OsStr, target: PathBuf, owner: Owner) -> Result<Ino, Errno> {
        self.make(parent, name, Node::new(Kind::Link(target), 0o777, owner, self.now))
    }

    fn make(&mut self, parent: Ino, name: &OsStr, node: Node) -> Result<Ino, Errno> {
        self.check_new(parent, name)?;
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        self.gain_name(ino, parent, name)?;
        self.change(parent, vec![(name.to_owned(), Some(ino))], None)?;
        Ok(ino)
    }

    /// Makes a hard link.
    pub(crate) fn link(&mut self, ino: Ino, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        self.check_new(parent, name)?;
        if self.node(ino)?.directory().is_some() {
            return Err(Errno::PERM);
        }
        self.gain_name(ino, parent, name)?;
        self.change(parent, vec![(name.to_owned(), Some(ino))], None)?;
        Ok(())
    }

    /// Removes the name of a file or link.
    pub(crate) fn unlink(&mut self, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let ino = self.lookup(parent, name)?;
        if self.node(ino)?.directory().is_some() {
            return Err(Errno::ISDIR);
        }
        self.remove(parent, &self.spelled(parent, name)?, ino)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&mut self, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let ino = self.lookup(parent, name)?;
        self.check_empty(ino)?;
        self.remove(parent, &self.spelled(parent, name)?, ino)
    }

    fn remove(&mut self, parent: Ino, name: &OsStr, ino: Ino) -> Result<(), Errno> {
        self.lose_name(ino)?;
        self.change(parent, vec![(name.to_owned(), None)], None)?;
        Ok(())
    }

    /// Renames atomically. An existing target is replaced, or is an error without `replace`.
    pub(crate) fn rename(
        &mut self,
        (parent, name): (Ino, &OsStr),
        (new_parent, new_name): (Ino, &OsStr),
        replace: bool,
    ) -> Result<(), Errno> {
        let ino = self.lookup(parent, name)?;
        let (name, new_name) = (&*self.spelled(parent, name)?, &*self.spelled(new_parent, new_name)?);
        match self.lookup(new_parent, new_name) {
            Ok(_) if !replace => return Err(Errno::EXIST),
            Ok(replaced) if replaced == ino => return Ok(()),
            Ok(replaced) => {
                match (self.node(ino)?.directory().is_some(), self.node(replaced)?.directory().is_some()) {
                    (true, false) => return Err(Errno::NOTDIR),
                    (false, true) => return Err(Errno::ISDIR),
                    (true, true) => self.check_empty(replaced)?,
                    (false, false) => {}
                }
                self.lose_name(replaced)?;
            }
            Err(Errno::NOENT) => self.check_new(new_parent, new_name)?,
            Err(error) => return Err(error),
        }
        let (gone, here): ((OsString, _), _) = ((name.to_owned(), None), (new_name.to_owned(), Some(ino)));
        if parent == new_parent {
            self.change(parent, vec![gone, here], None)?;
        } else {
            let moved = self.change(new_parent, vec![here], None)?;
            self.change(parent, vec![gone], Some((new_parent, moved)))?;
        }
        self.changed_node(ino)?.place = Some((new_parent, new_name.to_owned()));
        Ok(())
    }

    /// Changes names in a directory, and returns the sequence number of this change.
    fn change(
        &mut self,
        directory: Ino,
        names: Vec<(OsString, Option<Ino>)>,
        after: Option<(Ino, u64)>,
    ) -> Result<u64, Errno> {
        let number = self.next_change;
        self.next_change += 1;
        let now = self.now;
        let node = self.changed_node(directory)?;
        node.attributes.modified = now;
        let Kind::Directory(directory) = &mut node.kind else { return Err(Errno::NOTDIR) };
        directory.apply(Change { number, names, after });
        Ok(number)
    }

    fn gain_name(&mut self, ino: Ino, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let node = self.changed_node(ino)?;
        node.links += 1;
        node.place = Some((parent, name.to_owned()));
        Ok(())
    }

    fn lose_name(&mut self, ino: Ino) -> Result<(), Errno> {
        let node = self.changed_node(ino)?;
        node.links = node.links.saturating_sub(1);
        Ok(())
    }

    fn check_new(&self, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let entries = self.entries(parent)?;
        // A removed directory can still be open.
        if parent != ROOT && self.node(parent)?.links == 0 {
            return Err(Errno::NOENT);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if entries.get(&self.spelled(parent, name)?).is_some() { Err(Errno::EXIST) } else { Ok(()) }
    }

    fn check_empty(&self, ino: Ino) -> Result<(), Errno> {
        if self.entries(ino)?.entries.is_empty() { Ok(()) } else { Err(Errno::NOTEMPTY) }
    }
}
