//! Flows of messages with deadlines, and models of other message transports for comparison with DFCP.
//!
//! An application submits messages at regular intervals. Each message is worthless after its deadline. `application.rs`
//! sends them as DFCP messages; `model.rs` contains two common transports, with fixed FEC and with ARQ; `bound.rs`
//! computes the optimum.

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

/// Header of a model's datagram, bytes: IPv4 and UDP, and 16 bytes as in SRT.
pub const MODEL_HEADER_BYTES: u32 = 28 + 16;
/// Longest message of a model, bytes: one datagram in an IP packet of 1500 bytes.
pub const MODEL_BYTES_MAX: u32 = 1_500 - MODEL_HEADER_BYTES;
/// Longest DFCP message in simulations, bytes.
pub(crate) const DFCP_BYTES_MAX: u32 = 1 << 16;
/// Shortest message, bytes. A message contains its submission time.
const BYTES_MIN: u32 = 8;
const EVERY_MIN: Duration = Duration::from_micros(10);
const EVERY_MAX: Duration = Duration::from_secs(1_000);
const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of messages whose deadline has not passed; an end must remember them all.
const OPEN_MAX: u128 = 100_000;
/// Range of target shares accepted by [`dfcp_proto::Deadline::with_target`].
const TARGETS: std::ops::RangeInclusive<f64> = 0.5..=0.999_999;
/// Time after its deadline within which a message counts as late; after that it counts as lost. DFCP's receiver uses
/// the same value.
const LATE: Duration = Duration::from_secs(1);

/// Messages that an application submits periodically.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// Length of each message, bytes.
    pub bytes: u32,
    /// Interval between messages.
    pub every: Duration,
    /// Time from a message's submission to its deadline.
    pub deadline: Duration,
    /// Target share of messages delivered on time, 0 to 1. Models ignore it.
    pub target: f64,
    /// Also write an endless stream; DFCP only.
    pub beside_stream: bool,
}

/// Reason why a message flow cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MessagesError {
    /// The length is out of range.
    #[error("messages have {bytes} bytes, but here they have {BYTES_MIN} to {max}; choose another length")]
    Bytes {
        /// Length given, bytes.
        bytes: u32,
        /// Longest message of the transport, bytes.
        max: u32,
    },
    /// The interval between messages is out of range.
    #[error("a message is handed over every {0:?}, but 10 µs to 1000 s are possible; choose another interval")]
    Every(Duration),
    /// The deadline is out of range.
    #[error("the deadline is {0:?}, but lies above 0 and not above 60 s; choose another one")]
    Deadline(Duration),
    /// Too many messages would be within their deadline at a time.
    #[error("more than {OPEN_MAX} messages are worth something at once; shorten the deadline or send fewer")]
    Open,
    /// The target share is out of range.
    #[error("the target is {0}, but lies between 0.5 and 0.999999")]
    Target(f64),
    /// The flow has a size, but messages last for the whole simulation.
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
    /// Checks the messages for a transport whose messages have at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Fails if length, interval, deadline or target share is out of range. Also fails if too many messages would be
    /// within their deadline at a time.
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

    /// Checks the messages for DFCP.
    pub(crate) fn validate_dfcp(&self) -> Result<(), MessagesError> {
        self.validate(DFCP_BYTES_MAX)
    }

    /// Returns the submission time of message `number`, if message 0 is submitted at `began`.
    pub(crate) fn handed_over_at(&self, began: Time, number: u64) -> Time {
        let after_ns = (self.every.as_nanos() as u64).saturating_mul(number);
        Time::from_ns(began.as_ns().saturating_add(after_ns))
    }

    /// Returns the number of messages submitted before `time`, if message 0 is submitted at `began`.
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
    /// Messages delivered on time, out of `due`.
    pub in_time: u64,
    /// Messages completed within a second after their deadline. Messages that are neither on time nor late were lost.
    pub late: u64,
    /// Datagrams sent with messages or repair symbols.
    pub datagrams: u64,
}

/// Content of a model's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSegment {
    /// A message.
    Data {
        /// Number of the message, from 0.
        number: u64,
        /// Submission time of message 0.
        began: Time,
    },
    /// A repair symbol for a group of messages.
    Repair {
        /// Number of the group, from 0.
        group: u64,
        /// Submission time of message 0.
        began: Time,
    },
    /// A request for a missing message.
    Nak {
        /// Number of the message.
        number: u64,
    },
}

#[cfg(test)]
mod tests;
