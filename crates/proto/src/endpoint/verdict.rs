//! Decisions about sealed SYNs.

use dfcp_wire::segment::ResetReason;

/// The decision about a SYN.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer has been written; its length.
    Answer(usize),
    /// It is to be refused for this reason.
    Refuse(ResetReason),
    /// There is no room, or it is not worth an answer.
    Drop,
}
