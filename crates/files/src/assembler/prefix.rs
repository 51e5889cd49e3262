//! Verification of a resumed file's beginning: the content at the receiver is compared with the sender's content.
//!
//! For each part of the beginning, three hashes are compared: the sender's current hash, the receiver's hash from the
//! time of arrival (kept in the journal), and a new hash read from the disk by a separate thread. A part whose hashes
//! disagree is requested again. The comparison only avoids useless work: the final hash over the whole file decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blake3::hazmat::HasherExt;
use dfcp_framing::error::{Failure, ProtocolError};
use dfcp_framing::files::ToSender;
use dfcp_framing::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX};

use crate::hash_tree::{ChainingValue, Part};
use crate::store::{Resumed, Staged};

/// Maximum number of parts in one answer; limited by the frame size.
const ANSWER_PARTS_MAX: usize = (CONTROL_BYTES_MAX - 12) / 8;

/// Number of parts after which the reading thread reports its progress.
const PARTS_PER_POKE: usize = 64;

/// Result of a worker thread, to be processed by the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// New hashes of the beginning of the file on this stream.
    Beginning(usize),
    /// Chunks of the older version of the entry with this ordinal.
    Basis(u32),
}

/// Callback by which worker threads report a result; callable from any thread.
pub(crate) type Poke = Arc<dyn Fn(Ready) + Send + Sync>;

/// Verification of the beginning of one file.
#[derive(Debug)]
pub(super) struct Prefix {
    parts: Vec<Part>,
    /// Chaining values of the largest parts from the journal, by number.
    written_down: Vec<Option<ChainingValue>>,
    span_bytes: u64,
    theirs: Vec<ChainingValue>,
    disk: Arc<Disk>,
    /// Number of parts compared so far.
    compared: usize,
    /// Number of compared parts that were reported to the sender.
    told: usize,
    /// Start offsets of differing parts that are not reported yet.
    differ: Vec<u64>,
    /// Parts requested again that have not arrived, by start offset.
    awaited: BTreeMap<u64, Part>,
    /// Start offsets of all parts requested again so far.
    asked: BTreeSet<u64>,
    again: Option<Again>,
}

/// Part that is being received again.
#[derive(Debug)]
struct Again {
    part: Part,
    position: u64,
    hasher: Box<blake3::Hasher>,
}

/// Chaining values that a thread reads from the disk.
#[derive(Debug, Default)]
struct Disk {
    read: Mutex<Values>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Values {
    values: Vec<ChainingValue>,
    error: Option<io::Error>,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Values> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hashes the parts of `file` in order, and calls `poke` from time to time.
    fn read(&self, mut file: File, parts: &[Part], poke: impl Fn()) {
        let mut buffer = vec![0; DATA_BYTES_MAX];
        for (number, part) in parts.iter().enumerate() {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let value = hash(&mut file, *part, &mut buffer);
            let is_last = number + 1 == parts.len() || value.is_err();
            {
                let mut read = self.lock();
                match value {
                    Ok(value) => read.values.push(value),
                    Err(error) => read.error = Some(error),
                }
            }
            if is_last || (number + 1) % PARTS_PER_POKE == 0 {
                poke();
            }
            if is_last {
                return;
            }
        }
    }
}

fn hash(file: &mut impl Read, part: Part, buffer: &mut [u8]) -> io::Result<ChainingValue> {
    let mut hasher = part.hasher();
    let mut left = part.bytes();
    while left > 0 {
        let now = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        file.read_exact(&mut buffer[..now])?;
        hasher.update(&buffer[..now]);
        left -= now as u64;
    }
    Ok(hasher.finalize_non_root())
}

impl Prefix {
    /// Starts the thread that reads the partial file.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn begin(resumed: Resumed, stream: usize, poke: Poke) -> Result<Self, Failure> {
        let Resumed { shape, offset, spans, file } = resumed;
        let parts: Vec<_> = shape.parts(0, offset).collect();
        let disk = Arc::new(Disk::default());
        let reading = {
            let (disk, parts) = (Arc::clone(&disk), parts.clone());
            std::thread::Builder::new()
                .name("verify".to_owned())
                .spawn(move || disk.read(file, &parts, || poke(Ready::Beginning(stream))))
        };
        reading.map_err(|error| Failure::from_io("verify what it has of it", &error))?;
        Ok(Self {
            parts,
            written_down: spans,
            span_bytes: shape.span_bytes(),
            theirs: Vec::new(),
            disk,
            compared: 0,
            told: 0,
            differ: Vec::new(),
            awaited: BTreeMap::new(),
            asked: BTreeSet::new(),
            again: None,
        })
    }

    /// Takes the sender's next chaining values, in the order of the parts.
    ///
    /// # Errors
    /// Fails if there are more values than parts.
    pub(super) fn take(&mut self, values: &[ChainingValue]) -> Result<(), ProtocolError> {
        if self.theirs.len() + values.len() > self.parts.len() {
            return Err(ProtocolError::OutOfPlace { frame: "tree" });
        }
        for value in values {
            let part = self.parts[self.theirs.len()];
            self.theirs.push(*value);
            // With the value from the journal, a change at the sender is detected before the thread has read that part
            // from the disk.
            let number = usize::try_from(part.start / self.span_bytes).unwrap_or(usize::MAX);
            let known = self.written_down.get(number).copied().flatten().filter(|_| part.bytes() == self.span_bytes);
            if known.is_some_and(|known| known != *value) {
                self.ask(part);
            }
        }
        Ok(())
    }

    fn ask(&mut self, part: Part) {
        if self.asked.insert(part.start) {
            self.differ.push(part.start);
            self.awaited.insert(part.start, part);
        }
    }

    /// Compares the values known so far. Parts that agree are added to the hash of the file.
    ///
    /// # Errors
    /// Fails if the reading thread could not read the file.
    pub(super) fn advance(&mut self, staged: &mut Staged) -> Result<(), Failure> {
        let disk = Arc::clone(&self.disk);
        let read = disk.lock();
        if let Some(error) = &read.error {
            return Err(Failure::from_io("read what it has of it", error));
        }
        let all = self.parts.len().min(self.theirs.len()).min(read.values.len());
        while self.compared < all {
            let (part, value) = (self.parts[self.compared], read.values[self.compared]);
            if self.asked.contains(&part.start) {
                // The part was requested again; the thread may have read it while it was being overwritten.
            } else if value == self.theirs[self.compared] {
                staged.insert(part, value);
            } else {
                self.ask(part);
            }
            self.compared += 1;
        }
        Ok(())
    }

    /// Returns the answers that are due to the sender.
    pub(super) fn answers(&mut self, index: u32) -> Vec<ToSender> {
        let is_all = self.compared == self.parts.len();
        if self.differ.is_empty() && (!is_all || self.told == self.compared) {
            return Vec::new();
        }
        self.told = self.compared;
        let end = self.compared.checked_sub(1).map_or(0, |last| self.parts[last].end);
        let differ = std::mem::take(&mut self.differ);
        let mut answers: Vec<_> = differ
            .chunks(ANSWER_PARTS_MAX)
            .map(|some| ToSender::Checked { index, end, differ: some.to_vec() })
            .collect();
        if answers.is_empty() {
            answers.push(ToSender::Checked { index, end, differ: Vec::new() });
        }
        answers
    }

    /// Handles the sender's announcement that the part at `start` follows.
    ///
    /// # Errors
    /// Fails if the part was not requested, or if another part is incomplete.
    pub(super) fn again(&mut self, start: u64) -> Result<(), ProtocolError> {
        let out_of_place = ProtocolError::OutOfPlace { frame: "again" };
        if self.again.is_some() {
            return Err(out_of_place);
        }
        let part = self.awaited.remove(&start).ok_or(out_of_place)?;
        self.again = Some(Again { part, position: start, hasher: Box::new(part.hasher()) });
        Ok(())
    }

    /// Writes data of a part that is sent again. Returns false if no such part is in progress.
    ///
    /// # Errors
    /// Inner error: the data cannot be written. Outer error: the data exceeds the part.
    pub(super) fn write(&mut self, data: &[u8], staged: &mut Staged) -> Result<Result<bool, Failure>, ProtocolError> {
        let Some(again) = &mut self.again else { return Ok(Ok(false)) };
        if data.len() as u64 > again.part.end - again.position {
            return Err(ProtocolError::OutOfPlace { frame: "data" });
        }
        if let Err(failure) = staged.write_again(again.position, data) {
            return Ok(Err(failure));
        }
        again.hasher.update(data);
        again.position += data.len() as u64;
        if again.position == again.part.end {
            staged.insert(again.part, again.hasher.finalize_non_root());
            self.again = None;
        }
        Ok(Ok(true))
    }

    /// Returns the length of the verified beginning, bytes.
    pub(super) fn len(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// Returns true if all parts have been compared and every part requested again has arrived.
    pub(super) fn is_settled(&self) -> bool {
        self.compared == self.parts.len() && self.awaited.is_empty() && self.again.is_none()
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        self.disk.is_over.store(true, Ordering::Relaxed);
    }
}
