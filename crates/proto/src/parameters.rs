//! The thirteen parameters of thesis table 3.2, by their documented names and types.

use dfcp_fountain::raptor::SEGMENT_BYTES;

use crate::error::ParameterError;
use crate::limits;

/// What table 3.2 lets an application do with a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It can be set.
    Set,
    /// It can be read.
    Get,
    /// It can be set and read.
    Both,
}

/// A parameter of thesis table 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    /// Largest size of the sliding window, blocks.
    WindowSize,
    /// Encoded bytes of a block from which the receiver tries to decode it.
    Redundancy,
    /// 1: every block is encoded. 0: offline encoding, the first block's segments serve for all (§3.12.1).
    Coding,
    /// 1: blocks are decoded. 0: their bytes are only counted (§3.12.1).
    Decoding,
    /// Capacity of the token bucket, encoded bytes: at least a segment's 1420, or 0 for no bucket (§3.12.2).
    Maxtokens,
    /// Tokens in the bucket now.
    Numtokens,
    /// Tokens added per interval.
    Inctokens,
    /// Ticks of 4 ms per interval; 1 by default.
    Inttokens,
    /// Segments sent.
    OutgoingSegments,
    /// Segments received.
    IncomingSegments,
    /// Segments dropped on arrival.
    DroppedSegments,
    /// Acknowledgements sent.
    AcksSent,
    /// Acknowledgements received.
    AcksReceived,
}

impl Parameter {
    /// All thirteen, in the table's order.
    pub const ALL: [Self; 13] = [
        Self::WindowSize,
        Self::Redundancy,
        Self::Coding,
        Self::Decoding,
        Self::Maxtokens,
        Self::Numtokens,
        Self::Inctokens,
        Self::Inttokens,
        Self::OutgoingSegments,
        Self::IncomingSegments,
        Self::DroppedSegments,
        Self::AcksSent,
        Self::AcksReceived,
    ];

    /// Its name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WindowSize => "Window size",
            Self::Redundancy => "Redundancy",
            Self::Coding => "Coding",
            Self::Decoding => "Decoding",
            Self::Maxtokens => "Maxtokens",
            Self::Numtokens => "Numtokens",
            Self::Inctokens => "Inctokens",
            Self::Inttokens => "Inttokens",
            Self::OutgoingSegments => "Outgoing segments",
            Self::IncomingSegments => "Incoming segments",
            Self::DroppedSegments => "Dropped segments",
            Self::AcksSent => "ACKs sent",
            Self::AcksReceived => "ACKs received",
        }
    }

    /// What may be done with it.
    #[must_use]
    pub fn access(self) -> Access {
        match self {
            Self::WindowSize | Self::Redundancy | Self::Coding | Self::Decoding => Access::Set,
            Self::Maxtokens | Self::Numtokens | Self::Inctokens | Self::Inttokens => Access::Both,
            Self::OutgoingSegments
            | Self::IncomingSegments
            | Self::DroppedSegments
            | Self::AcksSent
            | Self::AcksReceived => Access::Get,
        }
    }

    /// The values it may be set to, when `value` is asked for.
    fn range(self, value: u64, window_blocks_max: u32) -> (u64, u64) {
        match self {
            Self::WindowSize => (1, window_blocks_max.into()),
            Self::Redundancy => limits::REDUNDANCY_BYTES,
            Self::Coding | Self::Decoding => (0, 1),
            Self::Inttokens => (1, 15_000),
            // 0 switches the bucket off; one which cannot hold the tokens of one segment would stop the sender for ever.
            Self::Maxtokens if value > 0 => (SEGMENT_BYTES as u64, u32::MAX.into()),
            Self::Maxtokens | Self::Numtokens | Self::Inctokens => (0, u32::MAX.into()),
            Self::OutgoingSegments
            | Self::IncomingSegments
            | Self::DroppedSegments
            | Self::AcksSent
            | Self::AcksReceived => (0, u64::MAX),
        }
    }

    pub(crate) fn check_settable(self, value: u64, window_blocks_max: u32) -> Result<(), ParameterError> {
        if self.access() == Access::Get {
            return Err(ParameterError::ReadOnly(self.name()));
        }
        let (min, max) = self.range(value, window_blocks_max);
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(ParameterError::OutOfRange { name: self.name(), min, max })
        }
    }
}
