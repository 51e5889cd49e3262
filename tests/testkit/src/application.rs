//! Applications that write a pattern and check the peer's.

use std::time::Duration;

use dfcp_proto::{Connection, ConnectionError, Read, State, StreamError, StreamId};
use dfcp_time::Time;

use crate::pattern::Pattern;

/// Bytes written to a connection and read from it.
#[derive(Clone, Debug)]
pub struct Stream {
    own: Pattern,
    peer: Pattern,
    /// Bytes accepted by the connection.
    pub written: u64,
    /// Bytes delivered by the connection.
    pub read: u64,
    /// True once the peer's stream was read to its end.
    pub has_ended: bool,
    /// Error that ended reading.
    pub read_error: Option<ConnectionError>,
    /// Offset of the first byte read that differs from the peer's pattern.
    pub corrupt_at: Option<u64>,
}

impl Stream {
    /// Makes a stream that writes `own` and expects `peer`.
    #[must_use]
    pub fn new(own: Pattern, peer: Pattern) -> Self {
        Self { own, peer, written: 0, read: 0, has_ended: false, read_error: None, corrupt_at: None }
    }

    /// Writes the next bytes, at most the size of `buffer`; returns the number accepted.
    ///
    /// # Errors
    /// Fails like [`Streams::write`](dfcp_proto::Streams::write).
    pub fn write(&mut self, now: Time, connection: &mut Connection, buffer: &mut [u8]) -> Result<usize, StreamError> {
        self.own.fill(self.written, buffer);
        let taken = connection.streams().write(now, StreamId::FIRST, buffer)?;
        assert!(taken <= buffer.len(), "{taken} of {} bytes were taken", buffer.len());
        self.written += taken as u64;
        Ok(taken)
    }

    /// Reads and checks at most as many bytes as `buffer` holds; returns 0 if none are available, or at the end.
    pub fn read(&mut self, now: Time, connection: &mut Connection, buffer: &mut [u8]) -> usize {
        if self.is_read() {
            return 0;
        }
        match connection.streams().read(now, StreamId::FIRST, buffer) {
            Ok(Read::Bytes(count)) => {
                assert!((1..=buffer.len()).contains(&count), "{count} bytes were read into {}", buffer.len());
                let wrong = self.peer.first_difference(self.read, &buffer[..count]);
                self.corrupt_at = self.corrupt_at.or(wrong);
                self.read += count as u64;
                return count;
            }
            Ok(Read::Blocked) => {}
            Ok(Read::End) => self.has_ended = true,
            Err(StreamError::Connection(error)) => self.read_error = Some(error),
            Err(error) => panic!("the first stream can only end with its connection: {error}"),
        }
        0
    }

    /// True if nothing more will be read.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.has_ended || self.read_error.is_some()
    }
}

/// Task of an application.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Bytes to send.
    pub send_bytes: u64,
    /// Maximum number of bytes written at a time.
    pub write_bytes: usize,
    /// Maximum number of bytes read per [`Job::read_every`]; `usize::MAX` reads all at once.
    pub read_bytes: usize,
    /// Interval of reading; zero reads whenever data is available.
    pub read_every: Duration,
    /// True to shut down after the last byte; otherwise this half stays open.
    pub shut_down: bool,
    /// True to write at every step instead of waiting for [`StreamEvent::Writable`](dfcp_proto::StreamEvent::Writable): the sender always
    /// has enough data.
    pub is_eager: bool,
}

impl Job {
    /// Makes a job that sends `send_bytes` as fast as permitted, and reads everything at once.
    #[must_use]
    pub fn send(send_bytes: u64) -> Self {
        Self {
            send_bytes,
            write_bytes: 256 * 1024,
            read_bytes: usize::MAX,
            read_every: Duration::ZERO,
            shut_down: true,
            is_eager: false,
        }
    }
}

/// An application on one connection.
#[derive(Clone, Debug)]
pub struct Application {
    /// Bytes written and read.
    pub stream: Stream,
    /// True if no write was refused since the last [`StreamEvent::Writable`](dfcp_proto::StreamEvent::Writable).
    is_writable: bool,
    next_read: Time,
}

impl Application {
    /// Makes an idle application.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self { stream, is_writable: true, next_read: Time::ZERO }
    }

    /// Reports that the connection is writable again.
    pub fn writable(&mut self) {
        self.is_writable = true;
    }

    /// Writes and reads as required by `job`; `buffer` limits each write and each read.
    pub fn work(&mut self, now: Time, job: &Job, connection: &mut Connection, buffer: &mut [u8]) {
        self.write(now, job, connection, buffer);
        self.read(now, job, connection, buffer);
    }

    fn write(&mut self, now: Time, job: &Job, connection: &mut Connection, buffer: &mut [u8]) {
        let mut progress = false;
        self.is_writable |= job.is_eager;
        while self.is_writable && self.stream.written < job.send_bytes {
            let rest = usize::try_from(job.send_bytes - self.stream.written).unwrap_or(usize::MAX);
            let length = rest.min(job.write_bytes).min(buffer.len());
            let Ok(taken) = self.stream.write(now, connection, &mut buffer[..length]) else { return };
            progress = true;
            self.is_writable = taken == length;
        }
        if self.stream.written < job.send_bytes || !job.shut_down {
            return;
        }
        let state = connection.state();
        let is_unshut = matches!(state, State::SynSent | State::SynReceived | State::Established | State::CloseWait);
        if is_unshut && (progress || state != State::SynReceived) {
            connection.streams().finish(now, StreamId::FIRST);
        }
    }

    fn read(&mut self, now: Time, job: &Job, connection: &mut Connection, buffer: &mut [u8]) {
        if now < self.next_read {
            return;
        }
        let mut budget = job.read_bytes;
        while budget > 0 {
            let room = budget.min(buffer.len());
            let count = self.stream.read(now, connection, &mut buffer[..room]);
            if count == 0 {
                break;
            }
            budget -= count;
        }
        if !job.read_every.is_zero() && !self.stream.is_read() {
            self.next_read = now + job.read_every;
        }
    }

    /// Time of the next read, if the application reads periodically and data is available.
    #[must_use]
    pub fn next_read(&self, job: &Job, connection: &Connection) -> Option<Time> {
        let reads_later =
            !job.read_every.is_zero() && connection.is_readable(StreamId::FIRST) && !self.stream.is_read();
        reads_later.then_some(self.next_read)
    }
}
