//! Feedback segment: the header of a report.

use super::Fields;
use crate::{Flags, StreamId};

/// Header of a segment with a feedback report as its payload ([`feedback`](crate::feedback)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportHeader {
    /// Capacity of the receiver's socket buffer, KiB; 0 if unknown.
    pub receive_queue_kib: u32,
}

impl ReportHeader {
    pub(super) const fn fields(self) -> Fields {
        Fields { flags: Flags::FBK, block_id: 0, s1: self.receive_queue_kib, s2: 0, stream: StreamId::FIRST }
    }

    pub(super) const fn read(fields: Fields) -> Self {
        Self { receive_queue_kib: fields.s1 }
    }
}
