//! Applications on the streams of a session.

use std::collections::BTreeMap;

use dfcp_proto::{Connection, Opener, Read, StreamError, StreamEvent, StreamId, StreamKind};
use dfcp_time::Time;

use crate::pattern::Pattern;

/// Bytes written or read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// State of one stream at one end.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// Bytes to write before the stream finishes.
    pub send_bytes: u64,
    /// True to flush instead of finishing after `send_bytes`, because more may be added.
    pub stays_open: bool,
    /// Bytes accepted by the stream.
    pub written: u64,
    /// Time at which the peer had proven the receipt of all data.
    pub delivered_at: Option<Time>,
    /// Code with which the peer has stopped the stream.
    pub stopped: Option<u32>,
    /// True to read arriving bytes.
    pub reads: bool,
    /// Bytes read.
    pub read: u64,
    /// Time at which the peer's half was read to its end.
    pub ended_at: Option<Time>,
    /// Code with which the peer has reset its half.
    pub reset: Option<u32>,
    /// Offset of the first byte read that differs from the peer's pattern.
    pub corrupt_at: Option<u64>,
    /// True if nothing more is read, because this end requested the peer to stop.
    pub has_stopped_peer: bool,
    writes: bool,
    /// True while [`StreamEvent::Writable`] is awaited, after a write was refused.
    is_full: bool,
    /// True while [`StreamEvent::Readable`] is awaited, after all available data was read.
    is_empty: bool,
}

/// Applications at one end of a session. Each stream has its own patterns.
#[derive(Debug)]
pub struct StreamApplications {
    seed: u64,
    /// Role of this end as opener of streams.
    us: Opener,
    /// All streams that were opened here or accepted.
    pub streams: BTreeMap<StreamId, StreamState>,
    /// Bytes that an accepted bidirectional stream writes.
    pub answer_bytes: u64,
    /// True to read accepted streams immediately.
    pub reads: bool,
    buffer: Vec<u8>,
}

impl StreamApplications {
    /// Makes applications without open streams. Both ends must have the same seed.
    #[must_use]
    pub fn new(seed: u64, us: Opener) -> Self {
        Self { seed, us, streams: BTreeMap::new(), answer_bytes: 0, reads: true, buffer: vec![0; BUFFER_BYTES] }
    }

    /// Opens a stream that writes `send_bytes` and finishes.
    ///
    /// # Errors
    /// Fails like [`Streams::open`](dfcp_proto::Streams::open).
    pub fn open(
        &mut self,
        connection: &mut Connection,
        kind: StreamKind,
        send_bytes: u64,
    ) -> Result<StreamId, StreamError> {
        let mut streams = connection.streams();
        let id = streams.open(kind)?;
        self.add(id, send_bytes);
        Ok(id)
    }

    fn add(&mut self, id: StreamId, send_bytes: u64) {
        let is_ours = id.opener() == self.us;
        let writes = is_ours || id.kind() == StreamKind::Bidirectional;
        let reads = self.reads && (!is_ours || id.kind() == StreamKind::Bidirectional);
        let state = StreamState {
            send_bytes: if writes { send_bytes } else { 0 },
            stays_open: false,
            written: 0,
            delivered_at: None,
            stopped: None,
            reads,
            read: 0,
            ended_at: None,
            reset: None,
            corrupt_at: None,
            has_stopped_peer: false,
            writes,
            is_full: false,
            is_empty: false,
        };
        self.streams.insert(id, state);
    }

    /// The state of one stream.
    #[must_use]
    pub fn get(&self, id: StreamId) -> Option<&StreamState> {
        self.streams.get(&id)
    }

    /// Immediately resets the sending half of a stream with this code. The half counts as done.
    pub fn reset(&mut self, now: Time, connection: &mut Connection, id: StreamId, error: u32) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        connection.streams().reset(now, id, error);
        state.writes = false;
    }

    /// Requests the peer to stop its half of a stream with this code. The half counts as done.
    pub fn stop_sending(&mut self, now: Time, connection: &mut Connection, id: StreamId, error: u32) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        connection.streams().stop_sending(now, id, error);
        (state.reads, state.has_stopped_peer) = (false, true);
    }

    /// True if each stream has delivered or abandoned its data, and was read to its end or reset, as far as it has these halves.
    #[must_use]
    pub fn are_done(&self) -> bool {
        let is_read = |id: &StreamId| id.opener() != self.us || id.kind() == StreamKind::Bidirectional;
        self.streams.iter().all(|(id, it)| {
            let has_read = it.ended_at.is_some() || it.reset.is_some() || it.has_stopped_peer;
            (!it.writes || it.delivered_at.is_some()) && (!is_read(id) || has_read)
        })
    }

    /// Handles events, accepts streams, writes and reads.
    pub fn work(&mut self, now: Time, connection: &mut Connection) {
        // Accept first, because the peer may already have stopped a new stream.
        while let Some(id) = connection.streams().accept() {
            self.add(id, self.answer_bytes);
        }
        while let Some(event) = connection.streams().poll_event() {
            self.take_event(now, event);
        }
        let (seed, us, buffer) = (self.seed, self.us, &mut self.buffer);
        for (&id, state) in &mut self.streams {
            write(now, connection, id, state, pattern(seed, id, us), buffer);
            let peer = if us == Opener::Initiator { Opener::Acceptor } else { Opener::Initiator };
            read(now, connection, id, state, pattern(seed, id, peer), buffer);
        }
    }

    fn take_event(&mut self, now: Time, event: StreamEvent) {
        match event {
            StreamEvent::Finished(id) => {
                if let Some(state) = self.streams.get_mut(&id) {
                    state.delivered_at = Some(now);
                }
            }
            StreamEvent::Writable(id) => {
                if let Some(state) = self.streams.get_mut(&id) {
                    state.is_full = false;
                }
            }
            StreamEvent::Readable(id) => {
                if let Some(state) = self.streams.get_mut(&id) {
                    state.is_empty = false;
                }
            }
            StreamEvent::Stopped { stream, error } => {
                if let Some(state) = self.streams.get_mut(&stream) {
                    state.stopped = Some(error);
                    state.writes = false;
                }
            }
            _ => {}
        }
    }
}

/// Pattern that one end writes to a stream.
fn pattern(seed: u64, id: StreamId, writer: Opener) -> Pattern {
    let word = u64::from(id.to_word()) << 1 | u64::from(writer == Opener::Acceptor);
    Pattern(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ word)
}

fn write(
    now: Time,
    connection: &mut Connection,
    id: StreamId,
    state: &mut StreamState,
    pattern: Pattern,
    buffer: &mut [u8],
) {
    if !state.writes {
        return;
    }
    let mut streams = connection.streams();
    let before = state.written;
    while state.written < state.send_bytes && !state.is_full {
        let length = buffer.len().min(usize::try_from(state.send_bytes - state.written).unwrap_or(usize::MAX));
        pattern.fill(state.written, &mut buffer[..length]);
        match streams.write(now, id, &buffer[..length]) {
            Ok(taken) => {
                state.written += taken as u64;
                state.is_full = taken == 0;
            }
            Err(_) => return,
        }
    }
    if state.written == state.send_bytes && state.stays_open {
        if state.written > before {
            streams.flush(id);
        }
    } else if state.written == state.send_bytes && state.delivered_at.is_none() {
        streams.finish(now, id);
    }
}

fn read(
    now: Time,
    connection: &mut Connection,
    id: StreamId,
    state: &mut StreamState,
    pattern: Pattern,
    buffer: &mut [u8],
) {
    while state.reads && !state.is_empty && state.ended_at.is_none() && state.reset.is_none() {
        match connection.streams().read(now, id, buffer) {
            Ok(Read::Bytes(count)) => {
                let wrong = pattern.first_difference(state.read, &buffer[..count]);
                state.corrupt_at = state.corrupt_at.or(wrong);
                state.read += count as u64;
            }
            Ok(Read::End) => state.ended_at = Some(now),
            Err(StreamError::Reset(error)) => state.reset = Some(error),
            Ok(Read::Blocked) => state.is_empty = true,
            Err(_) => return,
        }
    }
}

impl std::fmt::Display for StreamApplications {
    /// Formats the number of streams, and the first unfinished ones.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {} streams", self.us, self.streams.len())?;
        let is_open = |it: &StreamState| {
            (it.writes && it.delivered_at.is_none()) || (it.reads && it.ended_at.is_none() && it.reset.is_none())
        };
        for (id, it) in self.streams.iter().filter(|(_, it)| is_open(it)).take(3) {
            write!(f, "; {id:?}: {it:?}")?;
        }
        Ok(())
    }
}
