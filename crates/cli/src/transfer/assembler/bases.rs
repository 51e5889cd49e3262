//! Older versions of files that a sender replaces by what has changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use dfcp_framing::error::Failure;
use dfcp_framing::files::{Basis, CHUNKS_PER_FRAME, ChunkName, Entry, HASH_BYTES, ToSender};
use dfcp_framing::limits::DATA_BYTES_MAX;

use super::{Assembler, Poke, Ready};
use crate::limits::{BASES_MAX, BASES_WAITING_MAX};
use crate::transfer::basis::{Cut, name};
use crate::transfer::error::TransferError;

/// Those of a session, by the ordinals of their entries.
#[derive(Debug, Default)]
pub(super) struct Bases {
    open: BTreeMap<u32, Older>,
    /// Offers that wait until one of these is done with.
    waiting: BTreeMap<u32, Offer>,
}

/// A file that a sender has.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) entry: Entry,
    pub(super) hash: Option<[u8; HASH_BYTES]>,
    pub(super) asks_only: bool,
    pub(super) takes_basis: bool,
}

/// An older version.
#[derive(Debug)]
struct Older {
    file: File,
    cut: Cut,
    /// What a thread finds; none if it cannot be read.
    found: Arc<Mutex<Option<Vec<ChunkName>>>>,
}

impl Bases {
    /// Begins to find out of which chunks `file` consists, or keeps the offer until that can be done. False if it cannot be
    /// had: then the new version is sent as a whole.
    pub(super) fn begin(&mut self, offer: &Offer, file: &File, len: u64, poke: &Poke) -> bool {
        let index = offer.entry.index;
        if self.open.len() >= BASES_MAX {
            let has_room = self.waiting.len() < BASES_WAITING_MAX;
            if has_room {
                self.waiting.insert(index, offer.clone());
            }
            return has_room;
        }
        let (Ok(read), Ok(kept)) = (file.try_clone(), file.try_clone()) else { return false };
        let (cut, found) = (Cut::of(len), Arc::new(Mutex::new(None)));
        let cutting = {
            let (found, poke) = (Arc::clone(&found), Arc::clone(poke));
            std::thread::Builder::new().name("cut".to_owned()).spawn(move || {
                let chunks = chunks(read, cut);
                *found.lock().unwrap_or_else(PoisonError::into_inner) = chunks.ok();
                poke(Ready::Basis(index));
            })
        };
        if cutting.is_err() {
            return false;
        }
        self.open.insert(index, Older { file: kept, cut, found });
        true
    }

    /// The older version of a file that comes now, to be copied from.
    pub(super) fn take(&mut self, index: u32) -> Option<File> {
        self.waiting.remove(&index);
        Some(self.open.remove(&index)?.file)
    }

    /// The next offer that has waited long enough.
    fn next(&mut self) -> Option<Offer> {
        if self.open.len() >= BASES_MAX {
            return None;
        }
        Some(self.waiting.pop_first()?.1)
    }
}

fn chunks(mut file: File, cut: Cut) -> io::Result<Vec<ChunkName>> {
    file.seek(SeekFrom::Start(0))?;
    cut.chunks(file).map(|chunk| Ok(name(&chunk.map_err(io::Error::from)?.data))).collect()
}

impl Assembler {
    /// It is known of what an older version consists: its sender is told, and may send.
    pub(super) fn based(&mut self, index: u32) {
        let Some(older) = self.bases.open.get(&index) else { return };
        let chunks = older.found.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        let average_bytes = older.cut.average_bytes();
        for some in chunks.chunks(CHUNKS_PER_FRAME) {
            self.answers.push(ToSender::Basis(Basis { index, average_bytes, chunks: some.to_vec() }));
        }
        self.answers.push(ToSender::Want { index });
    }

    /// Takes up offers that have waited for others, as far as there is room for them now.
    pub(super) fn take_up_waiting(&mut self) -> Result<(), TransferError> {
        while let Some(offer) = self.bases.next() {
            self.offer(&offer)?;
        }
        Ok(())
    }
}

/// Hands on `len` bytes of an older version from `start` on.
///
/// # Errors
/// It cannot be read, or not that far.
pub(super) fn copy(
    file: &mut File,
    start: u64,
    len: u32,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error| Failure::from_io("read the file that it replaces", &error);
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut left = len as usize;
    let mut buffer = vec![0; DATA_BYTES_MAX.min(left)];
    while left > 0 {
        let now = left.min(buffer.len());
        file.read_exact(&mut buffer[..now]).map_err(failed)?;
        take(&buffer[..now])?;
        left -= now;
    }
    Ok(())
}
