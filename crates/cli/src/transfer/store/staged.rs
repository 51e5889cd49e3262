//! A file under a temporary name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use dfcp_framing::error::Failure;
use dfcp_framing::names::{TEMPORARY_PREFIX, TEMPORARY_SUFFIX};

use super::changed::Place;
use crate::limits::{HOLE_BYTES_MIN, TEMPORARY_NAMES_TRIED_MAX};

/// A file being received. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    pub(super) file: File,
    pub(super) temporary: Temporary,
    /// Its last component.
    pub(super) destination: OsString,
    hasher: blake3::Hasher,
    len: u64,
    /// Where the file's own position is: behind what was written last.
    written_bytes: u64,
}

impl Staged {
    pub(super) fn new(place: &Arc<Place>, destination: &OsStr) -> io::Result<Self> {
        let (file, temporary) = Temporary::create(place, 0o600)?;
        let destination = destination.to_owned();
        Ok(Self { file, temporary, destination, hasher: blake3::Hasher::new(), len: 0, written_bytes: 0 })
    }

    /// Appends `data`. Where whole blocks of the file system would be zero, a hole is left instead.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.hasher.update(data);
        let start = self.len;
        self.len += data.len() as u64;
        self.write_solid(start, data).map_err(|error| Failure::from_io("write the file", &error))
    }

    /// Writes the parts of `data`, whose place is `start`, that are not pieces of zeros. A piece ends where a block does, so
    /// one that is cut by the borders of `data` counts by what is in it.
    fn write_solid(&mut self, start: u64, data: &[u8]) -> io::Result<()> {
        const ZEROS: [u8; HOLE_BYTES_MIN] = [0; HOLE_BYTES_MIN];
        let mut end = 0;
        let mut solid: Option<usize> = None;
        while end < data.len() {
            let from = end;
            let into_block = ((start + from as u64) % HOLE_BYTES_MIN as u64) as usize;
            end = data.len().min(from + HOLE_BYTES_MIN - into_block);
            let piece = &data[from..end];
            if piece != &ZEROS[..piece.len()] {
                solid.get_or_insert(from);
            } else if let Some(begin) = solid.take() {
                self.write_at(start + begin as u64, &data[begin..from])?;
            }
        }
        solid.map_or(Ok(()), |begin| self.write_at(start + begin as u64, &data[begin..]))
    }

    fn write_at(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        if position != self.written_bytes {
            self.file.seek(SeekFrom::Start(position))?;
        }
        self.file.write_all(data)?;
        self.written_bytes = position + data.len() as u64;
        Ok(())
    }

    /// Gives the file its length, in which a hole at its end is not contained yet.
    pub(super) fn finish_length(&self) -> io::Result<()> {
        if self.written_bytes == self.len { Ok(()) } else { self.file.set_len(self.len) }
    }

    /// BLAKE3 of all bytes so far.
    pub(super) fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing came yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The name of an unfinished file, and the directory in which it is. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Temporary {
    place: Arc<Place>,
    name: OsString,
    is_renamed: bool,
}

impl Temporary {
    /// Makes a file with `mode` in the directory `place`, which stays open until the file has its name. As long as the file is open it
    /// is locked, so that other receivers know that it is not abandoned.
    pub(super) fn create(place: &Arc<Place>, mode: u32) -> io::Result<(File, Self)> {
        for _ in 0..TEMPORARY_NAMES_TRIED_MAX {
            let random = getrandom::u64().map_err(io::Error::other)?;
            let name = OsString::from(format!("{TEMPORARY_PREFIX}{random:016x}{TEMPORARY_SUFFIX}"));
            match place.directory().create_file(&name, mode) {
                Ok(file) => {
                    let temporary = Self { place: Arc::clone(place), name, is_renamed: false };
                    if let Err(error) = file.try_lock() {
                        // Some file systems know no locks. Nothing is removed there for being abandoned, either.
                        tracing::debug!(%error, "an unfinished file is not locked");
                    }
                    return Ok((file, temporary));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no name for a temporary file is free"))
    }

    pub(super) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Gives the file its name.
    pub(super) fn rename(mut self, destination: &OsStr, replace: bool) -> io::Result<()> {
        self.place.directory().rename(&self.name, destination, replace)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed
            && let Err(error) = self.place.directory().remove_file(&self.name)
        {
            tracing::debug!(%error, "an unfinished file could not be removed");
        }
    }
}
