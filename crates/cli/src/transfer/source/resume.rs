//! Sends the rest of a file of which the receiver has the beginning.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use blake3::hazmat::HasherExt;
use dfcp_framing::files::ToReceiver;
use dfcp_framing::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX};

use super::encoder::{Encoder, read_data_frame};
use super::reading::Next;
use super::{Event, Stopped};
use crate::transfer::hash_tree::{ChainingValue, Part, Shape, TreeHasher};

/// Hashes that fit into a frame.
const TREE_VALUES_MAX: usize = CONTROL_BYTES_MAX / 32;

/// Parts hashed ahead of being sent.
const HASHED_AHEAD_MAX: usize = 1024;

/// Told of a file that ended too early.
const BECAME_SHORTER: &str = "it became shorter while it was sent: send it again";

/// A file of which the receiver has the beginning.
#[derive(Debug)]
pub(super) struct Resumed {
    /// To read the beginning.
    pub(super) beginning: File,
    /// To read the rest.
    pub(super) rest: File,
    pub(super) shape: Shape,
    /// Where the rest begins.
    pub(super) offset: u64,
}

/// What became of it.
enum Outcome {
    Sent(blake3::Hash),
    GivenUp(String),
}

impl Encoder {
    /// Sends the rest, the hashes of the beginning as they are ready, and what the receiver asks for again.
    pub(super) fn resume(&mut self, index: u32, resumed: Resumed) -> Result<(), Stopped> {
        let len = resumed.shape.file_bytes();
        match self.rest_and_beginning(index, resumed)? {
            Outcome::Sent(hash) => {
                self.event(Event::Sent { index, bytes: len, copied_bytes: 0, hash })?;
                ToReceiver::FileEnd { len, hash: *hash.as_bytes() }.encode(&mut self.chunk.bytes);
                self.flush_if_full()
            }
            Outcome::GivenUp(sentence) => self.give_up(index, sentence),
        }
    }

    fn rest_and_beginning(&mut self, index: u32, resumed: Resumed) -> Result<Outcome, Stopped> {
        let Resumed { beginning, mut rest, shape, offset } = resumed;
        let cannot_read = |error: io::Error| Outcome::GivenUp(format!("it cannot be read: {error}"));
        let parts: Vec<_> = shape.parts(0, offset).collect();
        self.shared().reading.begin_at(index, &parts);
        let (values_in, values) = sync_channel(HASHED_AHEAD_MAX);
        let hash = move || {
            for part in parts {
                let value = hash_part(&beginning, part).map(|value| (part, value));
                let is_failed = value.is_err();
                // Nobody waits for it if the file was given up.
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
            let read = self.data(&mut rest, shape.file_bytes() - hasher.position(), |data| hasher.update(data));
            self.spent(started);
            match read {
                Ok(0) => return Ok(Outcome::GivenUp(BECAME_SHORTER.to_owned())),
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
                    match self.again(&mut rest, part)? {
                        Ok(true) => {}
                        Ok(false) => return Ok(Outcome::GivenUp(BECAME_SHORTER.to_owned())),
                        Err(error) => return Ok(cannot_read(error)),
                    }
                }
            }
        }
        Ok(match hasher.root() {
            Some(hash) => Outcome::Sent(hash),
            None => Outcome::GivenUp(BECAME_SHORTER.to_owned()),
        })
    }

    /// Sends the hashes that are ready, or waits for all.
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

    /// Sends a part of the beginning; whether the file still has it.
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

    /// Appends a data frame of at most `max` bytes; returns how many it has, 0 at the end of the file.
    fn data(&mut self, file: &mut File, max: u64, hear: impl FnMut(&[u8])) -> io::Result<usize> {
        let read_bytes = usize::try_from(max).map_or(DATA_BYTES_MAX, |max| max.min(DATA_BYTES_MAX));
        read_data_frame(file, read_bytes, &mut self.chunk.bytes, hear)
    }
}

/// Given as the reason when the receiver has said its own.
pub(super) const NOT_TAKEN: &str = "the receiver does not take it";

/// Parts come in order, so the file's own position is where they begin.
fn hash_part(mut file: &File, part: Part) -> io::Result<ChainingValue> {
    let mut hasher = part.hasher();
    hasher.update_reader((&mut file).take(part.bytes()))?;
    if hasher.count() < part.bytes() {
        Err(io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(hasher.finalize_non_root())
    }
}
