//! Reading and encoding of the files of one stream.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Instant, SystemTime};

use dfcp_framing::files::{Entry, ToReceiver};
use dfcp_framing::frame::{HEADER_BYTES, kind, with_header};
use dfcp_framing::limits::DATA_BYTES_MAX;
use tokio::sync::mpsc;

use super::job::{Content, Job, Opened};
use super::steady::{Bounded, CHANGED, Reading, SENDINGS_MAX, Stamp, Worth};
use super::{Chunk, Event, Feed, Shared, Stopped, entry_of};
use crate::basis::Known;

/// Shortest read, bytes. One call then reads the rest of a small file and detects its end.
const READ_BYTES_MIN: usize = 4096;

/// Longest read from standard input, bytes: the capacity of a Linux pipe.
const INPUT_READ_BYTES: usize = 64 * 1024;

/// Encoded bytes from which a chunk is passed to the connection.
const CHUNK_BYTES: usize = DATA_BYTES_MAX;

/// Sentence for a file that the receiver rejects for a reason of its own.
pub(super) const NOT_TAKEN: &str = "the receiver does not take it";

/// Reads and encodes the files of one stream.
#[derive(Debug)]
pub(super) struct Encoder {
    chunks: mpsc::Sender<Chunk>,
    spare: Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    /// Number of the stream; 0 is the first stream.
    stream: usize,
    pub(super) chunk: Chunk,
}

impl Encoder {
    /// Creates the encoder and the receiving end of its chunks, of which at most `waiting_max` are queued.
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

    /// Sends one file after the other until no more remain or the session ends.
    pub(super) fn run(mut self) {
        // The cause of `Stopped` is reported elsewhere.
        let _ = self.work();
    }

    fn work(&mut self) -> Result<(), Stopped> {
        let shared = Arc::clone(&self.shared);
        loop {
            let waiting = shared.jobs.try_next();
            let next = match waiting {
                Some(job) => Some(job),
                None => {
                    // Chunks that are ready must not wait for the next file.
                    self.flush()?;
                    shared.jobs.next()
                }
            };
            let Some(job) = next else { return self.flush() };
            self.file(job)?;
        }
    }

    /// Sends one file.
    pub(super) fn file(&mut self, Job { entry, content, older, .. }: Job) -> Result<(), Stopped> {
        let index = entry.index;
        self.shared.reading.begin(index);
        let announced = entry.size_hint_bytes;
        let sent = match content {
            Content::File(file, status) => {
                self.versions(Opened { entry, file, status, announced }, older.as_ref(), SENDINGS_MAX)
            }
            Content::Offered(found) => match found.open() {
                Ok((file, status)) => {
                    let entry = entry_of(&entry, &status);
                    self.versions(Opened { entry, file, status, announced }, older.as_ref(), SENDINGS_MAX)
                }
                Err(sentence) => {
                    entry.encode(kind::FILE, &mut self.chunk.bytes);
                    self.give_up(index, sentence)
                }
            },
            Content::Resumed(resumed) => self.resume(entry, *resumed),
            Content::StandardInput => self.standard_input(&entry),
        };
        self.shared.reading.end(index);
        sent
    }

    /// Sends a consistent version of a file. If the file changes while it is read, it is sent again, at most
    /// `sendings_max` times in total.
    pub(super) fn versions(
        &mut self,
        mut opened: Opened,
        older: Option<&Known>,
        sendings_max: usize,
    ) -> Result<(), Stopped> {
        let index = opened.entry.index;
        for sending in 1.. {
            if self.version(&opened, older)? {
                break;
            }
            if sending >= sendings_max {
                return self.give_up(index, CHANGED.to_owned());
            }
            if let Err(error) = opened.again(&self.shared) {
                return self.give_up(index, format!("it cannot be read: {error}"));
            }
        }
        Ok(())
    }

    /// Sends the current version of a file. Returns false, and leaves out the end frame, if the file changed while it
    /// was read.
    fn version(&mut self, opened: &Opened, older: Option<&Known>) -> Result<bool, Stopped> {
        let Opened { entry, file, status, announced } = opened;
        entry.encode(kind::FILE, &mut self.chunk.bytes);
        let stamp = Stamp::new(status, SystemTime::now());
        let mut content = Bounded::new(file, status);
        let reading = match older {
            Some(older) => self.changes(entry.index, content, *announced, older)?,
            None => {
                let read_bytes = usize::try_from(status.len.saturating_add(1)).unwrap_or(DATA_BYTES_MAX);
                let read_bytes = read_bytes.clamp(READ_BYTES_MIN, DATA_BYTES_MAX);
                self.content(entry.index, &mut content, read_bytes, false)?
            }
        };
        match reading {
            Some(reading) => self.end_if_steady(entry.index, file, &stamp, &reading),
            None => Ok(true),
        }
    }

    /// Ends a file, unless it changed while it was read. Returns true if the file is finished.
    pub(super) fn end_if_steady(
        &mut self,
        index: u32,
        file: &File,
        stamp: &Stamp,
        reading: &Reading,
    ) -> Result<bool, Stopped> {
        let worth = match stamp.proves(reading, file) {
            Ok(true) => Ok(Worth::Whole),
            Ok(false) => {
                if reading.len > DATA_BYTES_MAX as u64 {
                    // The second reading may take long; the empty data frame tells the receiver that this side is
                    // alive.
                    self.chunk.is_live = true;
                    ToReceiver::Data(Vec::new()).encode(&mut self.chunk.bytes);
                    self.flush()?;
                }
                let started = Instant::now();
                let worth = reading.judge(file, || self.shared.reading.is_over(index));
                self.spent(started);
                self.chunk.is_live = false;
                worth
            }
            Err(error) => Err(error),
        };
        match worth {
            Ok(Worth::Mixture) if self.is_refused(index) => self.give_up(index, NOT_TAKEN.to_owned()).map(|()| true),
            Ok(Worth::Mixture) => Ok(false),
            Ok(worth) => self.end(index, reading, worth == Worth::Beginning).map(|()| true),
            Err(error) => self.give_up(index, format!("it cannot be read: {error}")).map(|()| true),
        }
    }

    fn end(&mut self, index: u32, reading: &Reading, has_grown: bool) -> Result<(), Stopped> {
        let Reading { len, hash, copied_bytes, resumed_bytes } = *reading;
        self.event(Event::Sent { index, bytes: len, copied_bytes, resumed_bytes, hash, has_grown })?;
        ToReceiver::FileEnd { len, hash: *hash.as_bytes() }.encode(&mut self.chunk.bytes);
        self.flush_if_full()
    }

    /// Sends standard input to its end. It cannot be read again, so a change cannot be detected.
    fn standard_input(&mut self, entry: &Entry) -> Result<(), Stopped> {
        entry.encode(kind::FILE, &mut self.chunk.bytes);
        // The first bytes may take long to arrive, so send the file frame now.
        self.chunk.is_live = true;
        self.flush()?;
        match self.content(entry.index, &mut io::stdin().lock(), INPUT_READ_BYTES, true)? {
            Some(reading) => self.end(entry.index, &reading, false),
            None => Ok(()),
        }
    }

    /// Sends the content of `input`. Returns `None` if the file was given up. With `is_live`, data is sent without
    /// delay, since more may take long.
    fn content(
        &mut self,
        index: u32,
        input: &mut impl Read,
        read_bytes: usize,
        is_live: bool,
    ) -> Result<Option<Reading>, Stopped> {
        let mut hasher = blake3::Hasher::new();
        let mut len = 0_u64;
        loop {
            if self.is_refused(index) {
                return self.give_up(index, NOT_TAKEN.to_owned()).map(|()| None);
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
                Err(error) => return self.give_up(index, format!("it cannot be read: {error}")).map(|()| None),
            }
            self.flush_if_full()?;
        }
        self.chunk.is_live = false;
        Ok(Some(Reading { len, hash: hasher.finalize(), copied_bytes: 0, resumed_bytes: 0 }))
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
        // The channel has room for the events of all unanswered entries.
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

    /// Adds the time since `since` to the busy time of this stream's thread.
    pub(super) fn spent(&self, since: Instant) {
        self.shared.spent(self.stream, since.elapsed());
    }
}

/// Appends one data frame with at most `read_bytes` from `input`. Returns the length of its content, or 0 without a
/// frame at the end.
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
