//! What a segment's kind asks of its payload.

use crate::DecodeError;

/// The payload of a segment which is being read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// It was in the clear.
    Clear(&'a [u8]),
    /// It was sealed, and has been opened.
    Opened(&'a [u8]),
}

impl<'a> Payload<'a> {
    const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Clear(bytes) | Self::Opened(bytes) => bytes,
        }
    }

    /// A Noise message is never sealed, and never empty.
    pub(super) const fn may_be_handshake(self) -> bool {
        matches!(self, Self::Clear([_, ..]))
    }

    /// Padding is zeros (as in RFC 9000 §19.1): anything else would say something that nobody reads.
    pub(super) fn check_zeros(self) -> Result<(), DecodeError> {
        match self.bytes().iter().find(|byte| **byte != 0) {
            None => Ok(()),
            Some(&found) => Err(DecodeError::ProbePadding { found }),
        }
    }
}
