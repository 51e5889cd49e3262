//! Sending of a file of which the receiver already has the beginning.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Instant, SystemTime};

use blake3::hazmat::HasherExt;
use dfcp_framing::files::{Entry, ToReceiver};
use dfcp_framing::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX};

use super::Stopped;
use super::encoder::{Encoder, NOT_TAKEN, read_data_frame};
use super::job::{Opened, Resumed};
use super::reading::Next;
use super::steady::{Reading, SENDINGS_MAX, Stamp};
use crate::hash_tree::{ChainingValue, Part, Shape, TreeHasher};

/// Maximum number of chaining values per frame.
const TREE_VALUES_MAX: usize = CONTROL_BYTES_MAX / 32;

/// Maximum number of parts hashed before their values are sent.
const HASHED_AHEAD_MAX: usize = 1024;

/// Outcome of sending the rest and the requested parts.
enum Outcome {
    Sent(blake3::Hash),
    GivenUp(String),
    /// The file has become shorter than announced.
    BecameShorter,
}

impl Encoder {
    /// Sends the rest of the file, the chaining values of its beginning as they become known, and parts that the
    /// receiver requests. If the file changes meanwhile, it is sent as a whole.
    pub(super) fn resume(&mut self, entry: Entry, resumed: Resumed) -> Result<(), Stopped> {
        let Resumed { beginning, mut rest, status, shape, offset } = resumed;
        let (index, len) = (entry.index, shape.file_bytes());
        ToReceiver::Resume { offset, entry: entry.clone() }.encode(&mut self.chunk.bytes);
        let stamp = Stamp::new(&status, SystemTime::now());
        match self.rest_and_beginning(index, beginning, &mut rest, (shape, offset))? {
            Outcome::Sent(hash) => {
                let reading = Reading { len, hash, copied_bytes: 0, resumed_bytes: offset };
                if self.end_if_steady(index, &rest, &stamp, &reading)? {
                    return Ok(());
                }
            }
            Outcome::GivenUp(sentence) => return self.give_up(index, sentence),
            Outcome::BecameShorter => {}
        }
        let mut opened = Opened { entry, file: rest, status, announced: 0 };
        match opened.again(self.shared()) {
            Ok(()) => self.versions(opened, None, SENDINGS_MAX - 1),
            Err(error) => self.give_up(index, format!("it cannot be read: {error}")),
        }
    }

    fn rest_and_beginning(
        &mut self,
        index: u32,
        beginning: File,
        rest: &mut File,
        (shape, offset): (Shape, u64),
    ) -> Result<Outcome, Stopped> {
        let cannot_read = |error: io::Error| Outcome::GivenUp(format!("it cannot be read: {error}"));
        let parts: Vec<_> = shape.parts(0, offset).collect();
        self.shared().reading.begin_at(index, &parts);
        let (values_in, values) = sync_channel(HASHED_AHEAD_MAX);
        let hash = move || {
            for part in parts {
                let value = hash_part(&beginning, part).map(|value| (part, value));
                let is_failed = value.is_err();
                // Sending fails if the file was given up.
                if values_in.send(value).is_err() || is_failed {
                    return;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("hash beginning".to_owned()).spawn(hash) {
            return Ok(cannot_read(error));
        }
        let mut hasher = TreeHasher::new(shape, offset);
        if let Err(error) = rest.seek(SeekFrom::Start(offset)) {
            return Ok(cannot_read(error));
        }
        while hasher.position() < shape.file_bytes() {
            if self.is_refused(index) {
                return Ok(Outcome::GivenUp(NOT_TAKEN.to_owned()));
            }
            let started = Instant::now();
            let read = self.data(rest, shape.file_bytes() - hasher.position(), |data| hasher.update(data));
            self.spent(started);
            match read {
                Ok(0) => return Ok(Outcome::BecameShorter),
                Ok(_) => {}
                Err(error) => return Ok(cannot_read(error)),
            }
            self.flush_if_full()?;
            if let Err(error) = self.hashes(&values, &mut hasher, false)? {
                return Ok(cannot_read(error));
            }
        }
        if let Err(error) = self.hashes(&values, &mut hasher, true)? {
            return Ok(cannot_read(error));
        }
        self.flush()?;
        loop {
            match self.shared().reading.next(index) {
                Next::Settled => break,
                Next::Refused => return Ok(Outcome::GivenUp(NOT_TAKEN.to_owned())),
                Next::Closed => return Err(Stopped),
                Next::Again(start) => {
                    let Some(part) = shape.parts(0, offset).find(|part| part.start == start) else {
                        return Err(Stopped);
                    };
                    match self.again(rest, part)? {
                        Ok(true) => {}
                        Ok(false) => return Ok(Outcome::BecameShorter),
                        Err(error) => return Ok(cannot_read(error)),
                    }
                }
            }
        }
        Ok(match hasher.root() {
            Some(hash) => Outcome::Sent(hash),
            None => Outcome::BecameShorter,
        })
    }

    /// Sends the chaining values that are known. With `all`, waits for the remaining ones.
    fn hashes(
        &mut self,
        values: &Receiver<io::Result<(Part, ChainingValue)>>,
        hasher: &mut TreeHasher,
        all: bool,
    ) -> Result<io::Result<()>, Stopped> {
        loop {
            let mut ready = Vec::new();
            while ready.len() < TREE_VALUES_MAX {
                let next = match values.try_recv() {
                    Ok(next) => next,
                    Err(_) if all && ready.is_empty() => match values.recv() {
                        Ok(next) => next,
                        Err(_) => return Ok(Ok(())),
                    },
                    Err(_) => break,
                };
                match next {
                    Ok((part, value)) => {
                        hasher.tree().insert(part, value);
                        ready.push(value);
                    }
                    Err(error) => return Ok(Err(error)),
                }
            }
            if ready.is_empty() {
                return Ok(Ok(()));
            }
            ToReceiver::Tree(ready).encode(&mut self.chunk.bytes);
            if all {
                self.flush()?;
            } else {
                self.flush_if_full()?;
            }
        }
    }

    /// Sends a part of the beginning again. Returns false if the file has become too short.
    fn again(&mut self, file: &mut File, part: Part) -> Result<io::Result<bool>, Stopped> {
        if let Err(error) = file.seek(SeekFrom::Start(part.start)) {
            return Ok(Err(error));
        }
        ToReceiver::Again { start: part.start }.encode(&mut self.chunk.bytes);
        let mut left = part.bytes();
        while left > 0 {
            match self.data(file, left, |_| {}) {
                Ok(0) => return Ok(Ok(false)),
                Ok(read) => left -= read as u64,
                Err(error) => return Ok(Err(error)),
            }
            self.flush_if_full()?;
        }
        self.flush()?;
        Ok(Ok(true))
    }

    /// Appends a data frame of at most `max` bytes. Returns the length of its content; 0 at the end of the file.
    fn data(&mut self, file: &mut File, max: u64, hear: impl FnMut(&[u8])) -> io::Result<usize> {
        let read_bytes = usize::try_from(max).map_or(DATA_BYTES_MAX, |max| max.min(DATA_BYTES_MAX));
        read_data_frame(file, read_bytes, &mut self.chunk.bytes, hear)
    }
}

/// Hashes the next part. Parts are hashed in order, so the file position is already at the part's start.
fn hash_part(mut file: &File, part: Part) -> io::Result<ChainingValue> {
    let mut hasher = part.hasher();
    hasher.update_reader((&mut file).take(part.bytes()))?;
    if hasher.count() < part.bytes() {
        Err(io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(hasher.finalize_non_root())
    }
}
