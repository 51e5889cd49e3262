//! Trace writer: JSON text sequences (RFC 7464), a header, then one record per event.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::json;

use super::event::Event;
use super::{Message, Shared, Side};
use crate::audit::utc::rfc3339;
use crate::limits::{QLOG_BYTES_MAX, QLOG_FLUSH_INTERVAL};

/// First byte of each record, which ends with a line feed. A reader can resynchronise after a truncated record.
pub(super) const RECORD_SEPARATOR: u8 = 0x1E;

/// URI of the events in `docs/qlog.md`; it identifies them and need not resolve.
const EVENT_SCHEMA: &str = "dfcp:qlog-events:1";

/// Writer of a trace file.
#[derive(Debug)]
pub(super) struct Writer<W: Write> {
    out: BufWriter<W>,
    bytes: u64,
    /// True if the trace has reached its length limit.
    is_cut: bool,
    /// Time of the last record; no later record gets an earlier time. Connections report in turns, so an event's time
    /// may be slightly increased.
    latest: Duration,
}

/// Record after the header.
#[derive(Serialize)]
struct Record<'a, D> {
    /// Time since the trace began, ms.
    time: f64,
    name: &'a str,
    group_id: &'a str,
    data: D,
}

impl<W: Write> Writer<W> {
    /// Writes the header unbuffered, so that errors show before there are connections.
    pub(super) fn begin(out: W, side: Side, now: SystemTime) -> io::Result<Self> {
        let mut writer = Self { out: BufWriter::new(out), bytes: 0, is_cut: false, latest: Duration::ZERO };
        let vantage_point = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        writer.append(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            // Fields of earlier drafts, for qvis.
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": format!("dfcp {}", env!("CARGO_PKG_VERSION")),
            "trace": {
                "vantage_point": { "type": vantage_point },
                "event_schemas": [EVENT_SCHEMA],
                "common_fields": {
                    "protocol_types": ["DFCP"],
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": rfc3339(now) },
                },
            },
        }))?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// Writes events until the trace is closed and the queue is empty.
    ///
    /// # Errors
    /// Returns the first error of the file.
    pub(super) fn run(mut self, receiver: &Receiver<Message>, shared: &Arc<Shared>) -> io::Result<()> {
        loop {
            match receiver.recv_timeout(QLOG_FLUSH_INTERVAL) {
                Ok(message) => self.take(&message, shared)?,
                // Flush for concurrent readers, and in case the program is killed.
                Err(RecvTimeoutError::Timeout) => self.out.flush()?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if shared.is_closed.load(Ordering::Relaxed) {
                while let Ok(message) = receiver.try_recv() {
                    self.take(&message, shared)?;
                }
                break;
            }
        }
        self.out.flush()
    }

    /// Writes an event, preceded by a record with the number of lost events, if any.
    fn take(&mut self, message: &Message, shared: &Shared) -> io::Result<()> {
        if self.is_cut {
            return Ok(());
        }
        let lost = shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.record(message, "dfcp:events_lost", json!({ "count": lost }))?;
        }
        let group = &message.group;
        if self.bytes >= QLOG_BYTES_MAX && !matches!(message.event, Event::End) {
            self.record(message, "dfcp:trace_cut", json!({ "bytes_max": QLOG_BYTES_MAX }))?;
            self.is_cut = true;
            shared.is_closed.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let time = self.time(message.at);
        message.event.write(|name, data| self.append(&Record { time, name, group_id: group, data }))
    }

    fn record(&mut self, message: &Message, name: &str, data: serde_json::Value) -> io::Result<()> {
        let time = self.time(message.at);
        self.append(&Record { time, name, group_id: &message.group, data })
    }

    /// Returns the monotonic time of a record, ms.
    fn time(&mut self, at: Duration) -> f64 {
        self.latest = self.latest.max(at);
        self.latest.as_secs_f64() * 1e3
    }

    /// Pretends that this many bytes have been written.
    #[cfg(test)]
    pub(super) fn pretend(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    fn append(&mut self, record: &impl Serialize) -> io::Result<()> {
        let mut line = vec![RECORD_SEPARATOR];
        serde_json::to_writer(&mut line, record)?;
        line.push(b'\n');
        self.bytes += line.len() as u64;
        self.out.write_all(&line)
    }
}
