//! Records after a report's fixed part: type (1 byte), length of the value (2 bytes), value. Numbers are big endian.

use super::arrivals::{EcnCounts, LossRuns, Marks};
use super::messages::{MessageRuns, MessagesState};
use super::runs::Runs;
use crate::bytes::Reader;
use crate::{DecodeError, StreamId, StreamLimits};

/// Highest record type that a reader may ignore if it does not know the type.
const IGNORABLE_TYPE_MAX: u8 = 127;
pub(super) const ARRIVAL_CLOCK: u8 = 3;
pub(super) const MARKS: u8 = 4;
pub(super) const ECN: u8 = 5;
pub(super) const LOSS_RUNS: u8 = 6;
pub(super) const MESSAGES: u8 = 7;
pub(super) const UNSEEN: u8 = 8;
pub(super) const STREAM: u8 = 128;

/// Length of a record without its value, bytes.
pub(super) const RECORD_HEADER_BYTES: usize = 3;
/// Length of an encoded [`StreamState`], bytes; the list of blocks follows.
pub(super) const STREAM_STATE_BYTES: usize = 24;
/// Length of encoded [`StreamLimits`], bytes.
pub(super) const LIMITS_BYTES: usize = 8;

/// Length of a stream's record with the shortest useful list, bytes.
pub const STREAM_RECORD_BYTES_MIN: usize = RECORD_HEADER_BYTES + STREAM_STATE_BYTES + 1;

/// State of one stream in a report, in addition to the list of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamState {
    /// Id of the stream.
    pub stream: StreamId,
    /// Id of the first incomplete block: all earlier blocks are decoded.
    pub next_needed: u32,
    /// Number of blocks that the application has read, or that were discarded on its behalf.
    pub blocks_read: u32,
    /// Size of the `blocks_read` blocks, KiB; each block counts at least 256 bytes. The sum is rounded down, modulo
    /// 2³².
    pub kib_read: u32,
    /// XOR of the decoding proofs of all blocks before the first incomplete one; 0 in connections without proofs.
    pub proof_cumulative: u32,
    /// XOR of the proofs of the blocks that the list reports as complete; 0 in connections without proofs. The listed
    /// blocks are known only after writing, so it is set by
    /// [`StreamRecordWriter::set_proof_listed`](super::StreamRecordWriter::set_proof_listed).
    pub proof_listed: u32,
}

impl StreamState {
    pub(super) fn to_bytes(self) -> [u8; STREAM_STATE_BYTES] {
        let mut bytes = [0; STREAM_STATE_BYTES];
        let Self { stream, next_needed, blocks_read, kib_read, proof_cumulative, proof_listed } = self;
        let words = [stream.to_word(), next_needed, blocks_read, kib_read, proof_cumulative, proof_listed];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        bytes
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            stream: StreamId::from_word(u32::from_be_bytes(reader.array()?)),
            next_needed: u32::from_be_bytes(reader.array()?),
            blocks_read: u32::from_be_bytes(reader.array()?),
            kib_read: u32::from_be_bytes(reader.array()?),
            proof_cumulative: u32::from_be_bytes(reader.array()?),
            proof_listed: u32::from_be_bytes(reader.array()?),
        })
    }
}

/// One record of a report.
#[derive(Clone, Debug)]
pub enum Record<'a> {
    /// State of a stream, and of its blocks from the first incomplete one on.
    Stream(StreamState, Runs<'a>),
    /// Index of the first unseen stream of each kind, opened by the report's receiver: no datagram of this stream or a
    /// later one has arrived.
    Unseen(StreamLimits),
    /// Receiver's clock at the arrival of the highest datagram, µs modulo 2³². Part of the feature
    /// [`ARRIVAL_CLOCK`](crate::Features::ARRIVAL_CLOCK), like [`Marks`](Self::Marks).
    ArrivalClock(u32),
    /// Earlier states of arrivals.
    Marks(Marks<'a>),
    /// ECN counters; feature [`ECN_COUNTS`](crate::Features::ECN_COUNTS).
    Ecn(EcnCounts),
    /// Runs of lost datagrams; feature [`LOSS_RUNS`](crate::Features::LOSS_RUNS).
    LossRuns(LossRuns<'a>),
    /// State of messages; feature [`MESSAGES`](crate::Features::MESSAGES).
    Messages(MessagesState, MessageRuns<'a>),
}

/// Known records of a decoded report, in the report's order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    reader: Reader<'a>,
}

impl<'a> Records<'a> {
    /// Validates and reads all records.
    pub(super) fn read(records: &'a [u8]) -> Result<Self, DecodeError> {
        let all = Self { reader: Reader::new(records) };
        let mut rest = all.clone();
        while rest.reader.left() > 0 {
            let left_before = rest.reader.left();
            if let Some(record) = next(&mut rest.reader)? {
                // A datagram holds about fifty records, so comparing each record with all previous ones is cheap.
                let before = records.split_at_checked(records.len() - left_before).unwrap_or_default().0;
                let mut earlier = Self { reader: Reader::new(before) };
                if earlier.any(|it| it.is_about_the_same(&record)) {
                    return Err(DecodeError::RecordDuplicate { kind: record.kind() });
                }
            }
        }
        Ok(all)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        while self.reader.left() > 0 {
            // Validated records cannot fail here.
            if let Some(record) = next(&mut self.reader).ok()? {
                return Some(record);
            }
        }
        None
    }
}

impl Record<'_> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Stream(..) => STREAM,
            Self::Unseen(_) => UNSEEN,
            Self::ArrivalClock(_) => ARRIVAL_CLOCK,
            Self::Marks(_) => MARKS,
            Self::Ecn(_) => ECN,
            Self::LossRuns(_) => LOSS_RUNS,
            Self::Messages(..) => MESSAGES,
        }
    }

    fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stream(this, _), Self::Stream(that, _)) => this.stream == that.stream,
            _ => self.kind() == other.kind(),
        }
    }
}

/// Reads the next record; `None` if its type is unknown and ignorable.
fn next<'a>(reader: &mut Reader<'a>) -> Result<Option<Record<'a>>, DecodeError> {
    let Some([kind, high, low]) = reader.array::<RECORD_HEADER_BYTES>() else {
        let kind = reader.rest().first().copied().unwrap_or_default();
        return Err(DecodeError::RecordTruncated { kind, need: RECORD_HEADER_BYTES, left: reader.left() });
    };
    let (need, left) = (usize::from(u16::from_be_bytes([high, low])), reader.left());
    let Some(value) = reader.take(need) else {
        return Err(DecodeError::RecordTruncated { kind, need, left });
    };
    let wrong_length = DecodeError::RecordLength { kind, bytes: value.len() };
    let mut reader = Reader::new(value);
    match kind {
        STREAM => {
            let state = StreamState::read(&mut reader).ok_or(wrong_length)?;
            let truncated = DecodeError::ReportEntryTruncated { stream: state.stream.to_word() };
            Ok(Some(Record::Stream(state, Runs::read(reader.rest()).ok_or(truncated)?)))
        }
        UNSEEN => match (read_limits(&mut reader), reader.left()) {
            (Some(limits), 0) => Ok(Some(Record::Unseen(limits))),
            _ => Err(wrong_length),
        },
        _ if kind <= IGNORABLE_TYPE_MAX => feature_record(kind, value),
        _ => Err(DecodeError::CriticalRecord { kind }),
    }
}

/// Reads a record of an optional feature; `None` if its type is unknown.
#[cold]
fn feature_record(kind: u8, value: &[u8]) -> Result<Option<Record<'_>>, DecodeError> {
    let wrong_length = DecodeError::RecordLength { kind, bytes: value.len() };
    Ok(Some(match kind {
        ARRIVAL_CLOCK => Record::ArrivalClock(u32::from_be_bytes(value.try_into().map_err(|_| wrong_length)?)),
        MARKS => Record::Marks(Marks::read(kind, value)?),
        ECN => Record::Ecn(EcnCounts::read(kind, value)?),
        LOSS_RUNS => Record::LossRuns(LossRuns::read(kind, value)?),
        MESSAGES => {
            let mut reader = Reader::new(value);
            let state = MessagesState::read(&mut reader).ok_or(wrong_length)?;
            Record::Messages(state, MessageRuns::read(kind, reader.rest(), state.first_id)?)
        }
        _ => return Ok(None),
    }))
}

pub(super) fn limits_to_bytes(limits: StreamLimits) -> [u8; LIMITS_BYTES] {
    let [a, b, c, d] = limits.bidirectional.to_be_bytes();
    let [e, f, g, h] = limits.one_way.to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

pub(super) fn read_limits(reader: &mut Reader<'_>) -> Option<StreamLimits> {
    Some(StreamLimits {
        bidirectional: u32::from_be_bytes(reader.array()?),
        one_way: u32::from_be_bytes(reader.array()?),
    })
}
