//! Payload of feedback segments (flag FBK): a report about the connection, in a fixed layout, then as many records
//! about its streams as fit.

mod arrivals;
mod messages;
mod record;
mod runs;
mod write;

pub use crate::sizes::REPORT_BYTES;
pub use arrivals::{EcnCounts, LossRun, LossRuns, Mark, Marks};
pub use messages::{MessageRun, MessageRuns, MessagesState, SymbolSet};
pub use record::{Record, Records, STREAM_RECORD_BYTES_MIN, StreamState};
pub use runs::{MISSING_MAX, Run, Runs};
pub use write::{MessagesRecordWriter, ReportWriter, StreamRecordWriter};

use crate::bytes::{Reader, Writer};
use crate::{DecodeError, EncodeError, StreamLimits};
use record::{limits_to_bytes, read_limits};

/// Fixed part of a feedback payload. All numbers count the direction that the report describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Highest datagram number (S3) seen.
    pub highest_datagram: u32,
    /// Number of distinct valid datagrams received, including control; wraps.
    pub datagrams_received: u32,
    /// Bytes of these datagrams: header, options, payload, and CRC or tag.
    pub bytes_received: u64,
    /// Time from the arrival of the highest datagram to the sending of this report, in microseconds.
    pub hold_us: u32,
    /// Arrival rate of the received bytes as estimated by the receiver, bit/s.
    pub arrival_rate_bps: u64,
    /// Receiver's memory for unread blocks, KiB, over all streams. The value may fall (`spec/protocol.md`
    /// \[window-3\]).
    pub memory_kib: u32,
    /// Total number of streams of each kind that the peer may have opened since the start; never falls.
    pub streams: StreamLimits,
    /// Data datagrams that did not help the receiver.
    pub wasted: Wasted,
}

/// Numbers of distinct data datagrams that were wasted so far, by cause. Each number wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wasted {
    /// Symbols that were linearly dependent on earlier ones.
    pub dependent: u32,
    /// Symbols of blocks that were already decoded.
    pub late: u32,
    /// Symbols without room at the receiver: outside of the window, or out of memory.
    pub refused: u32,
}

impl Report {
    fn to_bytes(self) -> Result<[u8; REPORT_BYTES], EncodeError> {
        let mut bytes = [0; REPORT_BYTES];
        let mut writer = Writer::new(&mut bytes);
        writer.put(&self.highest_datagram.to_be_bytes())?;
        writer.put(&self.datagrams_received.to_be_bytes())?;
        writer.put(&self.bytes_received.to_be_bytes())?;
        writer.put(&self.hold_us.to_be_bytes())?;
        writer.put(&self.arrival_rate_bps.to_be_bytes())?;
        writer.put(&self.memory_kib.to_be_bytes())?;
        writer.put(&limits_to_bytes(self.streams))?;
        writer.put(&self.wasted.dependent.to_be_bytes())?;
        writer.put(&self.wasted.late.to_be_bytes())?;
        writer.put(&self.wasted.refused.to_be_bytes())?;
        Ok(bytes)
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            highest_datagram: u32::from_be_bytes(reader.array()?),
            datagrams_received: u32::from_be_bytes(reader.array()?),
            bytes_received: u64::from_be_bytes(reader.array()?),
            hold_us: u32::from_be_bytes(reader.array()?),
            arrival_rate_bps: u64::from_be_bytes(reader.array()?),
            memory_kib: u32::from_be_bytes(reader.array()?),
            streams: read_limits(reader)?,
            wasted: Wasted {
                dependent: u32::from_be_bytes(reader.array()?),
                late: u32::from_be_bytes(reader.array()?),
                refused: u32::from_be_bytes(reader.array()?),
            },
        })
    }
}

/// Decodes a feedback payload. Everything is validated here, so the iterators cannot fail. Unknown records of types
/// below 128 are skipped.
///
/// # Errors
/// Fails with [`DecodeError::ReportTooShort`]; or, for a record, with [`DecodeError::RecordTruncated`],
/// [`DecodeError::RecordLength`], [`DecodeError::CriticalRecord`], [`DecodeError::RecordValue`],
/// [`DecodeError::RecordDuplicate`] or [`DecodeError::ReportEntryTruncated`].
pub fn decode(payload: &[u8]) -> Result<(Report, Records<'_>), DecodeError> {
    let mut reader = Reader::new(payload);
    let Some(report) = Report::read(&mut reader) else {
        return Err(DecodeError::ReportTooShort { bytes: payload.len() });
    };
    Ok((report, Records::read(reader.rest())?))
}
