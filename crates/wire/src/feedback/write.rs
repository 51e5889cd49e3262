//! In-place writer of a feedback payload.

use super::arrivals::{EcnCounts, LossRun, MARK_BYTES, Mark, Marks};
use super::messages::{MESSAGES_HEAD_BYTES, MessageRun};
use super::record::{
    ARRIVAL_CLOCK, ECN, LOSS_RUNS, MARKS, MESSAGES, RECORD_HEADER_BYTES, STREAM, STREAM_STATE_BYTES, UNSEEN,
    limits_to_bytes,
};
use super::runs::{Run, RunWriter};
use super::{REPORT_BYTES, Report, STREAM_RECORD_BYTES_MIN, StreamState};
use crate::bytes::Writer;
use crate::sizes::{LOSS_RUNS_MAX, MARKS_MAX};
use crate::{EncodeError, StreamLimits};

/// Length of a stream's record without its list, bytes.
const STREAM_HEAD_BYTES: usize = RECORD_HEADER_BYTES + STREAM_STATE_BYTES;

/// In-place writer of a feedback payload: first the report, then its records.
#[derive(Debug)]
pub struct ReportWriter<'a> {
    out: &'a mut [u8],
    len: usize,
}

/// In-place writer of one stream's record, which joins the report only when [finished](Self::finish).
#[derive(Debug)]
#[must_use = "a record counts when it is finished"]
pub struct StreamRecordWriter<'a> {
    head: &'a mut [u8; STREAM_HEAD_BYTES],
    list: RunWriter<'a>,
    report_len: &'a mut usize,
}

/// In-place writer of the messages record, which joins the report only when [finished](Self::finish).
#[derive(Debug)]
#[must_use = "a record counts when it is finished"]
pub struct MessagesRecordWriter<'a> {
    head: &'a mut [u8; RECORD_HEADER_BYTES + MESSAGES_HEAD_BYTES],
    list: RunWriter<'a>,
    report_len: &'a mut usize,
}

impl<'a> ReportWriter<'a> {
    /// Starts a payload in `out`, whose length limits the records.
    ///
    /// # Errors
    /// Fails with [`EncodeError::BufferTooSmall`] if `out` cannot hold the fixed part.
    pub fn new(out: &'a mut [u8], report: &Report) -> Result<Self, EncodeError> {
        let mut writer = Writer::new(out);
        writer.put(&report.to_bytes()?)?;
        Ok(Self { len: REPORT_BYTES, out })
    }

    /// Starts the record of a stream; its list is pushed afterwards. The caller must write at most one record per
    /// stream. Returns `None`, without effect, if there is no room for the record with a list of one byte.
    pub fn stream(&mut self, state: &StreamState) -> Option<StreamRecordWriter<'_>> {
        let room = self.out.get_mut(self.len..)?;
        if room.len() < STREAM_RECORD_BYTES_MIN {
            return None;
        }
        let (head, list) = room.split_first_chunk_mut::<STREAM_HEAD_BYTES>()?;
        // Keep the value within the range of the record's length field, which is far above any datagram.
        let list_end = list.len().min(usize::from(u16::MAX) - STREAM_STATE_BYTES);
        let list = RunWriter::new(list.get_mut(..list_end)?);
        let [kind, high, low, place @ ..] = head;
        [*kind, *high, *low] = [STREAM, 0, 0];
        *place = state.to_bytes();
        Some(StreamRecordWriter { head, list, report_len: &mut self.len })
    }

    /// Appends the index of the first unseen stream of each kind, at most once per report. Returns false, without
    /// effect, if there is no room.
    #[must_use = "after false nothing was written"]
    pub fn unseen(&mut self, first_unseen: StreamLimits) -> bool {
        self.put_record(UNSEEN, &limits_to_bytes(first_unseen))
    }

    /// Appends the receiver's clock at the arrival of the highest datagram, µs. This record and the following ones may
    /// occur at most once per report. Returns false, without effect, if there is no room.
    #[must_use = "after false nothing was written"]
    pub fn arrival_clock(&mut self, clock_us: u32) -> bool {
        self.put_record(ARRIVAL_CLOCK, &clock_us.to_be_bytes())
    }

    /// Appends earlier marks, newest first: 1 to [`MARKS_MAX`](crate::MARKS_MAX). Returns false, without effect, if
    /// there is no room or the marks are invalid (see [`Mark`]).
    #[must_use = "after false nothing was written"]
    pub fn marks(&mut self, marks: &[Mark]) -> bool {
        let mut value = [0; MARKS_MAX * MARK_BYTES];
        let Some(value) = value.get_mut(..marks.len() * MARK_BYTES) else { return false };
        for (place, mark) in value.chunks_exact_mut(MARK_BYTES).zip(marks) {
            let Some(bytes) = mark.to_bytes() else { return false };
            place.copy_from_slice(&bytes);
        }
        Marks::read(MARKS, value).is_ok() && self.put_record(MARKS, value)
    }

    /// Appends the ECN counters. Returns false, without effect, if there is no room.
    #[must_use = "after false nothing was written"]
    pub fn ecn(&mut self, counts: EcnCounts) -> bool {
        self.put_record(ECN, &counts.to_bytes())
    }

    /// Appends the newest loss runs, as many as fit and at most [`LOSS_RUNS_MAX`](crate::LOSS_RUNS_MAX), and returns
    /// their number. Stops at an invalid run. Returns `None`, without effect, if there is no room for a record.
    pub fn loss_runs(&mut self, runs: impl IntoIterator<Item = LossRun>) -> Option<usize> {
        let room = self.out.get_mut(self.len..)?;
        let (head, room) = room.split_first_chunk_mut::<RECORD_HEADER_BYTES>()?;
        let mut writer = Writer::new(room);
        let mut written = 0;
        for run in runs.into_iter().take(LOSS_RUNS_MAX) {
            let Some((bytes, len)) = run.to_bytes() else { break };
            if writer.put(bytes.get(..len)?).is_err() {
                break;
            }
            written += 1;
        }
        let bytes = writer.len();
        // The length fits: at most 32 runs of 16 bytes.
        let [high, low] = (bytes as u16).to_be_bytes();
        *head = [LOSS_RUNS, high, low];
        self.len += RECORD_HEADER_BYTES + bytes;
        Some(written)
    }

    /// Starts the record of messages; the states of messages from `first_id` on are pushed afterwards. Returns `None`,
    /// without effect, if there is no room for the record with a list of one byte.
    pub fn messages(&mut self, first_id: u32) -> Option<MessagesRecordWriter<'_>> {
        let room = self.out.get_mut(self.len..)?;
        let (head, list) = room.split_first_chunk_mut::<{ RECORD_HEADER_BYTES + MESSAGES_HEAD_BYTES }>()?;
        // Keep the value within the range of the record's length field, which is far above any datagram.
        let list_end = list.len().min(usize::from(u16::MAX) - MESSAGES_HEAD_BYTES);
        let list = list.get_mut(..list_end).filter(|list| !list.is_empty())?;
        // The fields for length and proof are written at the end.
        let [kind, high, low, a, b, c, d, _proof @ ..] = head;
        [*kind, *high, *low] = [MESSAGES, 0, 0];
        [*a, *b, *c, *d] = first_id.to_be_bytes();
        Some(MessagesRecordWriter { head, list: RunWriter::new(list), report_len: &mut self.len })
    }

    /// Appends a record of known length. Returns false, without effect, if there is no room.
    fn put_record(&mut self, kind: u8, value: &[u8]) -> bool {
        let Some(room) = self.out.get_mut(self.len..) else { return false };
        if room.len() < RECORD_HEADER_BYTES + value.len() {
            return false;
        }
        let mut writer = Writer::new(room);
        let [high, low] = (value.len() as u16).to_be_bytes();
        let written = writer.put(&[kind, high, low]).and_then(|()| writer.put(value));
        self.len += writer.len();
        written.is_ok()
    }

    /// Returns the number of bytes left for further records.
    #[must_use]
    pub const fn room_bytes(&self) -> usize {
        self.out.len() - self.len
    }

    /// Returns the payload's length in bytes.
    #[must_use]
    pub const fn finish(self) -> usize {
        self.len
    }
}

impl StreamRecordWriter<'_> {
    /// Appends the state of the next block or blocks. A run that continues the last run is merged into it.
    ///
    /// Returns false if nothing more will be written to this list: either the buffer is full (a long run was written in
    /// part), or `missing` is not between 1 and [`MISSING_MAX`](super::MISSING_MAX) (nothing was written).
    #[must_use = "after false nothing more is written"]
    #[inline] // as it only passes on to a function with several callers
    pub fn push(&mut self, run: Run) -> bool {
        self.list.push(run)
    }

    /// Sets the record's [`proof_listed`](StreamState::proof_listed) once the list is complete. It covers the complete
    /// blocks for which [`push`](Self::push) returned true; the caller must push each of them as a separate run.
    pub const fn set_proof_listed(&mut self, proof_listed: u32) {
        let [.., a, b, c, d] = &mut *self.head;
        [*a, *b, *c, *d] = proof_listed.to_be_bytes();
    }

    /// Makes the record part of the report; a dropped record is discarded.
    pub fn finish(self) {
        let bytes = self.list.len();
        let [_, high, low, ..] = self.head;
        // The list was limited so that its length fits into the field.
        [*high, *low] = ((STREAM_STATE_BYTES + bytes) as u16).to_be_bytes();
        *self.report_len += STREAM_HEAD_BYTES + bytes;
    }
}

impl MessagesRecordWriter<'_> {
    /// Appends the state of the next message or messages. A run that continues the last run is merged into it. Returns
    /// false if the buffer is full: nothing more will be written, and a long run was written in part.
    #[must_use = "after false nothing more is written"]
    pub fn push(&mut self, run: MessageRun<'_>) -> bool {
        match run {
            MessageRun::Complete(messages) => self.list.push(Run::Complete(messages)),
            MessageRun::Empty(messages) => self.list.push(Run::Empty(messages)),
            MessageRun::Partial(symbols) => self.list.push_bytes(symbols.bytes()),
        }
    }

    /// Makes the record part of the report, with the `proof` of the pushed states. An empty record is discarded, like a
    /// dropped one.
    pub fn finish(self, proof: u32) {
        let bytes = self.list.len();
        if bytes == 0 {
            return;
        }
        let [_, high, low, _, _, _, _, proof_place @ ..] = self.head;
        *proof_place = proof.to_be_bytes();
        // The list was limited so that its length fits into the field.
        [*high, *low] = ((MESSAGES_HEAD_BYTES + bytes) as u16).to_be_bytes();
        *self.report_len += RECORD_HEADER_BYTES + MESSAGES_HEAD_BYTES + bytes;
    }
}
