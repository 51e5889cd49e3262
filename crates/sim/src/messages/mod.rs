//! Message flows with deadlines, and the transports that they are compared with.
//!
//! An application submits messages at regular intervals, each worthless after its deadline. `application.rs` uses DFCP's own messages;
//! `model.rs` has two common transports, fixed FEC and ARQ; `bound.rs` computes the optimum.

mod application;
mod arq;
mod bound;
mod fec;
mod model;
mod schedule;
mod tally;

use std::time::Duration;

use dfcp_time::Time;

pub(crate) use self::application::MessageApplication;
pub use self::bound::{Bound, Least, Losses};
pub use self::model::{ModelConfig, ModelEnd, Recovery};
pub(crate) use self::schedule::{Schedule, Sent};
pub(crate) use self::tally::{Received, Tally};

/// Header of a model's datagram: UDP and IPv4, and as many bytes as SRT's.
pub const MODEL_HEADER_BYTES: u32 = 28 + 16;
/// Longest message in a model's datagram, in an IP packet of 1500 bytes.
pub const MODEL_BYTES_MAX: u32 = 1_500 - MODEL_HEADER_BYTES;
/// Longest message of DFCP in simulations.
pub(crate) const DFCP_BYTES_MAX: u32 = 1 << 16;
/// Shortest message: it contains its submission time.
const BYTES_MIN: u32 = 8;
const EVERY_MIN: Duration = Duration::from_micros(10);
const EVERY_MAX: Duration = Duration::from_secs(1_000);
const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of open messages, which an end must remember.
const OPEN_MAX: u128 = 100_000;
/// Range accepted by [`dfcp_proto::Deadline::with_target`].
const TARGETS: std::ops::RangeInclusive<f64> = 0.5..=0.999_999;
/// Delay after the deadline up to which a message counts as late, and then as lost; equal to DFCP's receiver.
const LATE: Duration = Duration::from_secs(1);

/// Periodic messages of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// Length of each message, bytes.
    pub bytes: u32,
    /// Interval between messages.
    pub every: Duration,
    /// Lifetime of a message from its submission.
    pub deadline: Duration,
    /// Target share on time; ignored by models.
    pub target: f64,
    /// Write an endless stream beside the messages; DFCP only.
    pub beside_stream: bool,
}

/// Reason why a message flow cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MessagesError {
    /// The length is out of range.
    #[error("messages have {bytes} bytes, but here they have {BYTES_MIN} to {max}; choose another length")]
    Bytes {
        /// Given length, bytes.
        bytes: u32,
        /// Longest message of the transport, bytes.
        max: u32,
    },
    /// The interval is out of range.
    #[error("a message is handed over every {0:?}, but 10 µs to 1000 s are possible; choose another interval")]
    Every(Duration),
    /// The deadline is out of range.
    #[error("the deadline is {0:?}, but lies above 0 and not above 60 s; choose another one")]
    Deadline(Duration),
    /// Too many messages would be open.
    #[error("more than {OPEN_MAX} messages are worth something at once; shorten the deadline or send fewer")]
    Open,
    /// The target is out of range.
    #[error("the target is {0}, but lies between 0.5 and 0.999999")]
    Target(f64),
    /// A message flow cannot have a size: it lasts for the whole simulation.
    #[error("a flow of messages has no end; leave out its bytes")]
    Sized,
    /// The classic profile has no messages.
    #[error("classic connections have no messages; use the modern profile")]
    Classic,
    /// A model has no streams.
    #[error("this transport sends messages alone; only DFCP has a stream beside them")]
    Stream,
}

impl Messages {
    /// Validates the messages for a transport with messages of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Fails if the length, interval, deadline or target is out of range, or too many messages would be open at a time.
    pub fn validate(&self, bytes_max: u32) -> Result<(), MessagesError> {
        if !(BYTES_MIN..=bytes_max).contains(&self.bytes) {
            return Err(MessagesError::Bytes { bytes: self.bytes, max: bytes_max });
        }
        if !(EVERY_MIN..=EVERY_MAX).contains(&self.every) {
            return Err(MessagesError::Every(self.every));
        }
        if self.deadline.is_zero() || self.deadline > DEADLINE_MAX {
            return Err(MessagesError::Deadline(self.deadline));
        }
        if self.deadline.as_nanos() / self.every.as_nanos() > OPEN_MAX {
            return Err(MessagesError::Open);
        }
        if !TARGETS.contains(&self.target) {
            return Err(MessagesError::Target(self.target));
        }
        Ok(())
    }

    /// Validates the messages for DFCP.
    pub(crate) fn validate_dfcp(&self) -> Result<(), MessagesError> {
        self.validate(DFCP_BYTES_MAX)
    }

    /// Submission time of message `number`, if the first is at `began`.
    pub(crate) fn handed_over_at(&self, began: Time, number: u64) -> Time {
        let after_ns = (self.every.as_nanos() as u64).saturating_mul(number);
        Time::from_ns(began.as_ns().saturating_add(after_ns))
    }

    /// Number of messages submitted before `time`, the first at `began`.
    pub(crate) fn handed_over_before(&self, began: Time, time: Time) -> u64 {
        time.as_ns().saturating_sub(began.as_ns()).div_ceil(self.every.as_nanos() as u64)
    }
}

/// Results of a flow's messages so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageReport {
    /// Messages that the application submitted.
    pub handed_over: u64,
    /// Submitted messages whose deadline has passed.
    pub due: u64,
    /// Messages among these that were delivered on time.
    pub in_time: u64,
    /// Messages completed within a second after their deadline; those neither on time nor late were lost.
    pub late: u64,
    /// Datagrams with messages or repair symbols.
    pub datagrams: u64,
}

/// Content of a model's datagram. `began` is the first message's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSegment {
    /// Message.
    Data {
        /// Number of the message, from 0.
        number: u64,
        /// Time of the first message.
        began: Time,
    },
    /// Repair symbol of a group of messages.
    Repair {
        /// Number of the group, from 0.
        group: u64,
        /// Time of the first message.
        began: Time,
    },
    /// Request for a missing message.
    Nak {
        /// Number of the message.
        number: u64,
    },
}

#[cfg(test)]
mod tests;
