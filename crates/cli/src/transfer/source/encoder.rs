//! Reads files and encodes them for one stream.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use dfcp_framing::files::{Entry, ToReceiver};
use dfcp_framing::frame::{HEADER_BYTES, kind, with_header};
use dfcp_framing::limits::DATA_BYTES_MAX;
use tokio::sync::mpsc;

use super::resume::{NOT_TAKEN, Resumed};
use super::tree::Found;
use super::{Chunk, Event, Feed, Shared, Stopped, entry_of};
use crate::transfer::basis::Known;

/// Shortest read, bytes: what is left of a small file, and the end of any file, are found with one call.
const READ_BYTES_MIN: usize = 4096;

/// Longest read from standard input, bytes: what a pipe of Linux holds.
const INPUT_READ_BYTES: usize = 64 * 1024;

/// Encoded bytes after which a chunk goes to the connection.
const CHUNK_BYTES: usize = DATA_BYTES_MAX;

/// A file to be sent. Its [`Event::Entry`] has gone ahead.
#[derive(Debug)]
pub(in crate::transfer) struct Job {
    pub(super) entry: Entry,
    pub(super) content: Content,
    /// BLAKE3 of its content, if it was looked at before.
    pub(super) hash: Option<blake3::Hash>,
    /// Of what an older version at the receiver consists.
    pub(super) older: Option<Known>,
}

/// Where a file's content comes from.
#[derive(Debug)]
pub(super) enum Content {
    /// An open file, and the length that it had.
    File(File, u64),
    /// A file that was offered, to be opened now.
    Offered(Found),
    /// An open file of which the receiver has the beginning.
    Resumed(Box<Resumed>),
    /// Standard input, to its end. Its length is not known before, so what is read counts as found.
    StandardInput,
}

/// Fills the chunks of one stream.
#[derive(Debug)]
pub(super) struct Encoder {
    chunks: mpsc::Sender<Chunk>,
    spare: Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    /// 0 for the first one.
    stream: usize,
    pub(super) chunk: Chunk,
}

impl Encoder {
    /// For a stream by its number, and what its chunks are taken from, of which at most `waiting_max` wait.
    pub(super) fn new(
        stream: usize,
        waiting_max: usize,
        events: mpsc::Sender<Event>,
        shared: Arc<Shared>,
    ) -> (Self, Feed) {
        let (chunks, chunks_out) = mpsc::channel(waiting_max);
        let (spare_in, spare) = std::sync::mpsc::channel();
        let encoder = Self { chunks, spare, events, shared, stream, chunk: Chunk::default() };
        (encoder, Feed { chunks: chunks_out, spare: spare_in })
    }

    /// Sends one file after the other, until there are no more or nobody listens.
    pub(super) fn run(mut self) {
        // `Stopped` needs no handling: see there.
        let _ = self.work();
    }

    fn work(&mut self) -> Result<(), Stopped> {
        let shared = Arc::clone(&self.shared);
        loop {
            let waiting = shared.jobs.try_next();
            let next = match waiting {
                Some(job) => Some(job),
                None => {
                    // What is ready should not wait for the next file.
                    self.flush()?;
                    shared.jobs.next()
                }
            };
            let Some(job) = next else { return self.flush() };
            self.file(job)?;
        }
    }

    /// Sends a file.
    pub(super) fn file(&mut self, Job { mut entry, content, older, .. }: Job) -> Result<(), Stopped> {
        let index = entry.index;
        if let Content::Resumed(resumed) = content {
            ToReceiver::Resume { offset: resumed.offset, entry }.encode(&mut self.chunk.bytes);
            let sent = self.resume(index, *resumed);
            self.shared.reading.end(index);
            return sent;
        }
        self.shared.reading.begin(index);
        let announced = entry.size_hint_bytes;
        let opened = match content {
            Content::Offered(found) => found.open().map(|(file, status)| {
                entry = entry_of(&entry, &status);
                Content::File(file, status.len)
            }),
            content => Ok(content),
        };
        entry.encode(kind::FILE, &mut self.chunk.bytes);
        let sent = match opened {
            Ok(Content::File(mut file, len)) => match &older {
                Some(older) => self.changes(index, file, announced, older),
                None => {
                    let read_bytes = usize::try_from(len.saturating_add(1)).unwrap_or(DATA_BYTES_MAX);
                    self.content(index, &mut file, read_bytes.clamp(READ_BYTES_MIN, DATA_BYTES_MAX), false)
                }
            },
            Ok(_) => {
                // The first bytes may take long to come.
                self.chunk.is_live = true;
                self.flush()?;
                self.content(index, &mut io::stdin().lock(), INPUT_READ_BYTES, true)
            }
            Err(sentence) => self.give_up(index, sentence),
        };
        self.shared.reading.end(index);
        sent
    }

    /// What is read from `input`. From one that is `live` more may take long to come, so nothing waits for it.
    fn content(&mut self, index: u32, input: &mut impl Read, read_bytes: usize, is_live: bool) -> Result<(), Stopped> {
        let mut hasher = blake3::Hasher::new();
        let mut len = 0_u64;
        loop {
            if self.is_refused(index) {
                return self.give_up(index, NOT_TAKEN.to_owned());
            }
            let started = Instant::now();
            let outcome = read_data_frame(input, read_bytes, &mut self.chunk.bytes, |data| {
                hasher.update(data);
            });
            if !is_live {
                self.spent(started);
            }
            match outcome {
                Ok(0) => break,
                Ok(read) if is_live => {
                    len += read as u64;
                    self.shared.found(read as u64);
                    self.flush()?;
                }
                Ok(read) => len += read as u64,
                Err(error) => return self.give_up(index, format!("it cannot be read: {error}")),
            }
            self.flush_if_full()?;
        }
        self.chunk.is_live = false;
        let hash = hasher.finalize();
        self.event(Event::Sent { index, bytes: len, copied_bytes: 0, hash })?;
        ToReceiver::FileEnd { len, hash: *hash.as_bytes() }.encode(&mut self.chunk.bytes);
        self.flush_if_full()
    }

    pub(super) fn is_refused(&self, index: u32) -> bool {
        self.shared.reading.is_refused(index)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn give_up(&mut self, index: u32, sentence: String) -> Result<(), Stopped> {
        self.chunk.is_live = false;
        self.event(Event::GaveUp { index, sentence: sentence.clone() })?;
        ToReceiver::FileAbort(sentence).encode(&mut self.chunk.bytes);
        self.flush_if_full()
    }

    pub(super) fn flush_if_full(&mut self) -> Result<(), Stopped> {
        if self.chunk.bytes.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn event(&self, event: Event) -> Result<(), Stopped> {
        // There is room for all that may be unanswered.
        self.events.try_send(event).map_err(|_| Stopped)
    }

    pub(super) fn flush(&mut self) -> Result<(), Stopped> {
        if self.chunk.bytes.is_empty() {
            return Ok(());
        }
        let mut next = self.spare.try_recv().unwrap_or_default();
        next.clear();
        let next = Chunk { bytes: next, is_live: self.chunk.is_live };
        self.chunks.blocking_send(std::mem::replace(&mut self.chunk, next)).map_err(|_| Stopped)
    }

    /// Counts time since then as spent with the disk.
    pub(super) fn spent(&self, since: Instant) {
        self.shared.spent(self.stream, since.elapsed());
    }
}

/// Appends one data frame of at most `read_bytes` from `input`; returns how many, 0 (and no frame) at its end.
pub(super) fn read_data_frame(
    input: &mut impl Read,
    read_bytes: usize,
    chunk: &mut Vec<u8>,
    mut hear: impl FnMut(&[u8]),
) -> io::Result<usize> {
    let start = chunk.len();
    let mut outcome = Ok(0);
    with_header(kind::DATA, chunk, |chunk| {
        let body = chunk.len();
        chunk.resize(body + read_bytes, 0);
        outcome = loop {
            match input.read(&mut chunk[body..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        chunk.truncate(body + outcome.as_ref().map_or(0, |read| *read));
    });
    if !matches!(outcome, Ok(1..)) {
        chunk.truncate(start);
        return outcome;
    }
    hear(&chunk[start + HEADER_BYTES..]);
    outcome
}
