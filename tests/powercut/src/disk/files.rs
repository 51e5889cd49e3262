//! Contents and attributes.

use std::ffi::OsStr;
use std::time::SystemTime;

use rustix::io::Errno;

use super::Disk;
use crate::node::{File, Ino, Kind};

/// Attributes to set; `None` leaves one unchanged.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) accessed: Option<SystemTime>,
    pub(crate) modified: Option<SystemTime>,
}

impl Disk {
    fn file(&self, ino: Ino) -> Result<&File, Errno> {
        self.node(ino)?.file().ok_or(Errno::INVAL)
    }

    /// File for a modification of its content, with updated time of modification.
    fn changed_file(&mut self, ino: Ino) -> Result<&mut File, Errno> {
        let now = self.now;
        let node = self.changed_node(ino)?;
        node.attributes.modified = now;
        if let Kind::File(file) = &mut node.kind { Ok(file) } else { Err(Errno::INVAL) }
    }

    /// Reads volatile content.
    pub(crate) fn content(&self, ino: Ino, offset: u64, max: u64) -> Result<Vec<u8>, Errno> {
        Ok(self.file(ino)?.content.read(offset, max))
    }

    /// Writes until the disk is full, and returns the number of bytes written.
    pub(crate) fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let free_blocks = self.free_blocks();
        let written = self.changed_file(ino)?.content.write(offset, data, free_blocks);
        if written == 0 && !data.is_empty() { Err(Errno::NOSPC) } else { Ok(written) }
    }

    /// Sets the length of a file.
    pub(crate) fn truncate(&mut self, ino: Ino, len: u64) -> Result<(), Errno> {
        let file = self.changed_file(ino)?;
        file.content.set_len(len);
        file.shortest = file.shortest.min(len);
        Ok(())
    }

    pub(crate) fn set(&mut self, ino: Ino, settings: &Settings) -> Result<(), Errno> {
        let attributes = &mut self.changed_node(ino)?.attributes;
        attributes.mode = settings.mode.map_or(attributes.mode, |mode| mode & 0o7777);
        attributes.uid = settings.uid.unwrap_or(attributes.uid);
        attributes.gid = settings.gid.unwrap_or(attributes.gid);
        attributes.accessed = settings.accessed.unwrap_or(attributes.accessed);
        attributes.modified = settings.modified.unwrap_or(attributes.modified);
        Ok(())
    }

    pub(crate) fn extended(&self, ino: Ino, name: &OsStr) -> Result<&[u8], Errno> {
        self.node(ino)?.attributes.extended.get(name).map(Vec::as_slice).ok_or(Errno::NODATA)
    }

    /// Sets an extended attribute. `is_there` requires that it exists (true), or that it does not (false).
    pub(crate) fn set_extended(
        &mut self,
        ino: Ino,
        name: &OsStr,
        value: &[u8],
        is_there: Option<bool>,
    ) -> Result<(), Errno> {
        if !name.as_encoded_bytes().starts_with(b"user.") {
            return Err(Errno::NOTSUP);
        }
        let extended = &mut self.changed_node(ino)?.attributes.extended;
        match (is_there, extended.contains_key(name)) {
            (Some(true), false) => Err(Errno::NODATA),
            (Some(false), true) => Err(Errno::EXIST),
            _ => {
                extended.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
        }
    }

    pub(crate) fn remove_extended(&mut self, ino: Ino, name: &OsStr) -> Result<(), Errno> {
        self.changed_node(ino)?.attributes.extended.remove(name).map(|_value| ()).ok_or(Errno::NODATA)
    }

    /// Makes a node durable, except its name, which belongs to its directory.
    pub(crate) fn flush(&mut self, ino: Ino, attributes: bool) -> Result<(), Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::STALE)?.flush(attributes);
        Ok(())
    }
}
