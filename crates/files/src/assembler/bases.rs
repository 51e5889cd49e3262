//! Older versions of files at the receiver, against which a sender can send deltas.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dfcp_framing::error::{Failure, ProtocolError};
use dfcp_framing::files::{Basis, CHUNKS_PER_FRAME, ChunkName, Entry, HASH_BYTES, ToSender};
use dfcp_framing::limits::DATA_BYTES_MAX;

use super::{Assembler, Poke, Ready};
use crate::basis::{Alive, Cut, name};
use crate::error::TransferError;
use crate::limits::{BASES_MAX, BASES_WAITING_MAX, BASIS_CHUNKS_MAX, COPY_BYTES_MAX};
use crate::store::{Existing, Readings};

/// Older versions in use by a session, by ordinal of the entry.
#[derive(Debug, Default)]
pub(super) struct Bases {
    open: BTreeMap<u32, Older>,
    /// Offers that wait until fewer than [`BASES_MAX`] older versions are in use.
    waiting: BTreeMap<u32, Offer>,
    /// Counter of threads that are reading older versions.
    cutting: Alive,
}

/// File that the sender has offered.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) entry: Entry,
    pub(super) hash: Option<[u8; HASH_BYTES]>,
    pub(super) asks_only: bool,
    pub(super) takes_basis: bool,
}

/// Older version of an offered file.
#[derive(Debug)]
pub(super) struct Older {
    /// Name of the file, as offered.
    name: Vec<u8>,
    file: File,
    cut: Cut,
    found: Arc<Found>,
    /// Chunk boundaries reported to the sender, bytes from the start of the file.
    cuts: Vec<u64>,
}

/// Result of the thread that chunks an older version.
#[derive(Debug, Default)]
struct Found {
    /// Chunks of the file; `None` until the thread has ended, or if the file cannot be read.
    chunks: Mutex<Option<Vec<ChunkName>>>,
    /// Set when the result is no longer needed; stops the thread.
    is_over: AtomicBool,
}

impl Bases {
    /// Starts chunking `older`, or queues the offer. Returns false if neither is possible, or if this file was read too
    /// often. The new version is then sent as a whole.
    pub(super) fn begin(&mut self, offer: &Offer, older: &Existing, readings: &mut Readings, poke: &Poke) -> bool {
        let Entry { index, name, .. } = &offer.entry;
        // Also count the threads: the thread of a cancelled file may take a moment to stop.
        if self.open.len().max(self.cutting.count()) >= BASES_MAX {
            let has_room = self.waiting.len() < BASES_WAITING_MAX;
            if has_room {
                self.waiting.insert(*index, offer.clone());
            }
            return has_room;
        }
        if !readings.may_read(older.key()) {
            return false;
        }
        let (Ok(read), Ok(kept)) = (older.file().try_clone(), older.file().try_clone()) else { return false };
        let (index, len) = (*index, older.len());
        let (cut, found) = (Cut::of(len), Arc::new(Found::default()));
        let cutting = {
            let (found, poke, counted) = (Arc::clone(&found), Arc::clone(poke), self.cutting.begin());
            std::thread::Builder::new().name("cut".to_owned()).spawn(move || {
                let chunks = chunks(read, len, cut, BASIS_CHUNKS_MAX, &found.is_over);
                *found.chunks.lock().unwrap_or_else(PoisonError::into_inner) = chunks.ok();
                drop(counted);
                poke(Ready::Basis(index));
            })
        };
        if cutting.is_err() {
            return false;
        }
        self.open.insert(index, Older { name: name.clone(), file: kept, cut, found, cuts: Vec::new() });
        true
    }

    /// Returns true if an offer of this ordinal waits for its answer, or for the file itself.
    pub(super) fn has(&self, index: u32) -> bool {
        self.open.contains_key(&index) || self.waiting.contains_key(&index)
    }

    /// Removes and returns the older version for a file that starts now; the file copies from it.
    pub(super) fn take(&mut self, entry: &Entry) -> Option<Older> {
        self.waiting.remove(&entry.index);
        self.open.remove(&entry.index).filter(|older| older.name == entry.name)
    }

    /// Returns the counter of threads that are reading older versions.
    pub(super) fn cutting(&self) -> Alive {
        self.cutting.clone()
    }

    /// Returns the next queued offer if fewer than [`BASES_MAX`] older versions are in use.
    fn next(&mut self) -> Option<Offer> {
        if self.open.len().max(self.cutting.count()) >= BASES_MAX {
            return None;
        }
        Some(self.waiting.pop_first()?.1)
    }
}

impl Drop for Older {
    fn drop(&mut self) {
        self.found.is_over.store(true, Ordering::Relaxed);
    }
}

impl Older {
    /// Reads `len` bytes from `start` in the older version. The range must consist of whole chunks reported to the
    /// sender: with smaller units, the sender could find out unknown content byte by byte through hashes.
    ///
    /// # Errors
    /// The outer error means that the range is not made of whole chunks; the inner error is that of reading the file or
    /// of `take`.
    pub(super) fn copy(
        &mut self,
        start: u64,
        len: u32,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Result<(), Failure>, ProtocolError> {
        let is_cut = |at: Option<u64>| at.is_some_and(|at| self.cuts.binary_search(&at).is_ok());
        if len > COPY_BYTES_MAX || !is_cut(Some(start)) || !is_cut(start.checked_add(len.into())) {
            return Err(ProtocolError::Malformed { frame: "copy" });
        }
        let mut copy = || {
            let failed = |error| Failure::from_io("read the file that it replaces", &error);
            self.file.seek(SeekFrom::Start(start)).map_err(failed)?;
            let mut left = len as usize;
            let mut buffer = vec![0; DATA_BYTES_MAX.min(left)];
            while left > 0 {
                let now = left.min(buffer.len());
                self.file.read_exact(&mut buffer[..now]).map_err(failed)?;
                take(&buffer[..now])?;
                left -= now;
            }
            Ok(())
        };
        Ok(copy())
    }
}

/// Returns the chunks of the first `len` bytes of a file. A last chunk below the minimum length is omitted, because its
/// content could be guessed from its hash.
fn chunks(mut file: File, len: u64, cut: Cut, max: usize, is_over: &AtomicBool) -> io::Result<Vec<ChunkName>> {
    file.seek(SeekFrom::Start(0))?;
    let mut chunks = Vec::new();
    for chunk in cut.chunks(file.take(len)) {
        let data = chunk.map_err(io::Error::from)?.data;
        // A repeating pattern can consist of minimum-length chunks only, so the number of chunks must be limited.
        if is_over.load(Ordering::Relaxed) || chunks.len() == max {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if data.len() >= cut.least_bytes() {
            chunks.push(name(&data));
        }
    }
    Ok(chunks)
}

impl Assembler {
    /// Sends the chunks of an older version to the sender, after its thread has ended.
    pub(super) fn based(&mut self, index: u32) {
        let Some(older) = self.bases.open.get_mut(&index) else { return };
        let chunks = older.found.chunks.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        let average_bytes = older.cut.average_bytes();
        let ends = chunks.iter().scan(0, |end, chunk| {
            *end += u64::from(chunk.len);
            Some(*end)
        });
        older.cuts = std::iter::once(0).chain(ends).collect();
        for some in chunks.chunks(CHUNKS_PER_FRAME) {
            self.answers.push(ToSender::Basis(Basis { index, average_bytes, chunks: some.to_vec() }));
        }
        self.answers.push(ToSender::Want { index });
    }

    /// Starts queued offers while fewer than [`BASES_MAX`] older versions are in use.
    pub(super) fn take_up_waiting(&mut self) -> Result<(), TransferError> {
        while let Some(offer) = self.bases.next() {
            self.offer(&offer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file can exceed the limit on chunks if it repeats a pattern with short chunks, or if it grows.
    #[test]
    fn an_older_version_of_too_many_chunks_is_not_told_of() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let named = |len, max| {
            let named = chunks(file.try_clone().unwrap(), len, Cut::of(0), max, &AtomicBool::new(false));
            named.map(|chunks| chunks.len()).ok()
        };
        // All chunks have the maximum length, 64 KiB.
        assert_eq!(named(1 << 20, 16), Some(16));
        assert_eq!(named(1 << 20, 15), None);
        assert_eq!(named(1 << 19, 15), Some(8));
        // A remainder below the minimum length is not reported.
        assert_eq!(named((1 << 19) + 4095, 15), Some(8));
        assert_eq!(named((1 << 19) + 4096, 15), Some(9));
    }
}
