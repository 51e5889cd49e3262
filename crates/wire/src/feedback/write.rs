//! Writing a feedback payload in place.

use super::record::{RECORD_HEADER_BYTES, STREAM, STREAM_STATE_BYTES, UNSEEN, UNSEEN_BYTES, put_limits};
use super::runs::{Run, RunWriter};
use super::{REPORT_BYTES, Report, STREAM_RECORD_BYTES_MIN, StreamState};
use crate::bytes::Writer;
use crate::{EncodeError, StreamLimits};

/// Bytes of a stream's record besides its list.
const STREAM_HEAD_BYTES: usize = RECORD_HEADER_BYTES + STREAM_STATE_BYTES;

/// Writes a feedback payload in place: the report, then its records.
#[derive(Debug)]
pub struct ReportWriter<'a> {
    out: &'a mut [u8],
    len: usize,
}

/// Writes the record of one stream in place. It is in the report only when it is [finished](Self::finish).
#[derive(Debug)]
#[must_use = "a record counts when it is finished"]
pub struct StreamRecordWriter<'a> {
    head: &'a mut [u8; STREAM_HEAD_BYTES],
    list: RunWriter<'a>,
    report_len: &'a mut usize,
}

impl<'a> ReportWriter<'a> {
    /// Starts a payload in `out`, whose length limits the records.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`] if `out` cannot hold the fixed part.
    pub fn new(out: &'a mut [u8], report: &Report) -> Result<Self, EncodeError> {
        let mut writer = Writer::new(out);
        writer.put(&report.to_bytes()?)?;
        Ok(Self { len: REPORT_BYTES, out })
    }

    /// Begins the record of a stream, whose list is then pushed. A report has one record of a stream at most, which is for
    /// the caller to see to. `None` if there is no room for it and for a list of at least one byte; nothing is written then.
    pub fn stream(&mut self, state: &StreamState) -> Option<StreamRecordWriter<'_>> {
        let room = self.out.get_mut(self.len..)?;
        if room.len() < STREAM_RECORD_BYTES_MIN {
            return None;
        }
        let (head, list) = room.split_first_chunk_mut::<STREAM_HEAD_BYTES>()?;
        // The length field of a record ends there, far above any datagram.
        let list_end = list.len().min(usize::from(u16::MAX) - STREAM_STATE_BYTES);
        let list = RunWriter::new(list.get_mut(..list_end)?);
        let mut writer = Writer::new(head);
        writer.put(&[STREAM, 0, 0]).ok()?;
        writer.put(&state.to_bytes().ok()?).ok()?;
        Some(StreamRecordWriter { head, list, report_len: &mut self.len })
    }

    /// Appends the record which says, for each kind of stream, the first index of which nothing has been seen. A report has
    /// one at most. `false` if there is no room; nothing is written then.
    #[must_use = "after false nothing was written"]
    pub fn unseen(&mut self, first_unseen: StreamLimits) -> bool {
        let Some(room) = self.out.get_mut(self.len..) else { return false };
        if room.len() < RECORD_HEADER_BYTES + UNSEEN_BYTES {
            return false;
        }
        let mut writer = Writer::new(room);
        let [high, low] = (UNSEEN_BYTES as u16).to_be_bytes();
        let written = writer.put(&[UNSEEN, high, low]).and_then(|()| put_limits(&mut writer, first_unseen));
        self.len += writer.len();
        written.is_ok()
    }

    /// Bytes which further records may take.
    #[must_use]
    pub const fn room_bytes(&self) -> usize {
        self.out.len() - self.len
    }

    /// The payload's length in bytes.
    #[must_use]
    pub const fn finish(self) -> usize {
        self.len
    }
}

impl StreamRecordWriter<'_> {
    /// Appends the state of the next block or blocks; a run that continues the last one is merged into it.
    ///
    /// `false` means: stop, nothing more will be written to this list. Either the buffer is full, and of a long run the list
    /// then holds the part which fitted; or `missing` is not between 1 and [`MISSING_MAX`](super::MISSING_MAX), and nothing
    /// was written.
    #[must_use = "after false nothing more is written"]
    pub fn push(&mut self, run: Run) -> bool {
        self.list.push(run)
    }

    /// Replaces the record's [`proof_listed`](StreamState::proof_listed), now that the list is known: with the proofs of those
    /// complete blocks for which [`push`](Self::push) has returned true, each pushed as a run of its own.
    pub const fn set_proof_listed(&mut self, proof_listed: u32) {
        let [.., a, b, c, d] = &mut *self.head;
        [*a, *b, *c, *d] = proof_listed.to_be_bytes();
    }

    /// Makes the record part of the report. One that is dropped instead is not.
    pub fn finish(self) {
        let bytes = self.list.len();
        let [_, high, low, ..] = self.head;
        // The list was given no more room than fits into the field.
        [*high, *low] = ((STREAM_STATE_BYTES + bytes) as u16).to_be_bytes();
        *self.report_len += STREAM_HEAD_BYTES + bytes;
    }
}
