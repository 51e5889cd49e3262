//! Records of a receiving half in reports.

use dfcp_wire::StreamId;
use dfcp_wire::feedback::{ReportWriter, Run, StreamRecordWriter, StreamState};

use crate::limits;
use crate::stream::recv::slot::Slot;
use crate::stream::recv::{RecvCommon, RecvStream};

impl RecvStream {
    /// Writes the record of the stream `id`. Returns false, and writes nothing, if there is no room for it.
    pub(crate) fn write_record(&mut self, id: StreamId, writer: &mut ReportWriter<'_>) -> bool {
        let state = StreamState {
            stream: id,
            next_needed: self.next_needed,
            blocks_read: self.first_id,
            kib_read: (self.read_bytes / 1_024) as u32,
            proof_cumulative: self.proof,
            proof_listed: 0, // set when the list is written
        };
        let Some(mut record) = writer.stream(&state) else { return false };
        self.write_runs(&mut record);
        record.finish();
        (self.told_read_bytes, self.told_read_blocks) = (self.read_bytes, self.first_id);
        true
    }

    /// Writes the states of the blocks from the next needed one, oldest first, as far as there is room, and the proof
    /// of the complete blocks among them (\[report-5\], \[proof-5\]).
    fn write_runs(&self, writer: &mut StreamRecordWriter<'_>) {
        let mut listed = 0;
        let from = (self.next_needed - self.first_id) as usize;
        for slot in self.slots.iter().skip(from) {
            let (run, proof) = match slot {
                Slot::Empty => (Run::Empty(1), 0),
                Slot::Complete { proof, .. } => (Run::Complete(1), *proof),
                Slot::Open(decoder, _) => (Run::Open { missing: decoder.missing().max(1) as u16 }, 0),
            };
            if !writer.push(run) {
                return writer.set_proof_listed(listed);
            }
            listed ^= proof;
        }
        writer.set_proof_listed(listed);
        let known = self.first_id.saturating_add(self.slots.len() as u32);
        let tail =
            self.end.map_or(limits::EMPTY_TAIL_BLOCKS, |end| end.saturating_sub(known).min(limits::EMPTY_TAIL_BLOCKS));
        if tail > 0 {
            // A failed push is harmless: a truncated list says nothing about the blocks behind its end.
            let _fits = writer.push(Run::Empty(tail));
        }
    }

    /// Returns the bytes read, as counted by flow control, that no report has named yet.
    pub(crate) fn untold_bytes(&self) -> u64 {
        self.read_bytes - self.told_read_bytes
    }

    /// Returns true if unreported reads amount to a quarter of the window in blocks.
    pub(crate) fn has_untold_blocks(&self, common: &RecvCommon) -> bool {
        self.first_id - self.told_read_blocks >= common.window_blocks.div_ceil(4)
    }
}
