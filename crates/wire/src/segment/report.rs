//! Feedback: the header of a report.

use super::Fields;
use crate::Flags;

/// Precedes a feedback report, which is the payload ([`feedback`](crate::feedback)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportHeader {
    /// The next block needed: all earlier ones are decoded.
    pub next_needed: u32,
    /// What the receiving system holds of what has arrived, KiB; 0 if that is not told.
    pub receive_queue_kib: u32,
}

impl ReportHeader {
    pub(super) const fn fields(self) -> Fields {
        Fields { flags: Flags::FBK, block_id: self.next_needed, s1: self.receive_queue_kib, s2: 0 }
    }

    pub(super) const fn read(fields: Fields) -> Self {
        Self { next_needed: fields.block_id, receive_queue_kib: fields.s1 }
    }
}
