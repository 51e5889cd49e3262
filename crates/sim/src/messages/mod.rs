//! Messages with deadlines: flows of them, and what they are measured against.
//!
//! An application hands messages over at regular intervals, and each is worth nothing after its deadline. `application.rs` does that with DFCP's own
//! messages; `model.rs` has two transports of today, fixed FEC and ARQ; `bound.rs` computes what no transport can do better.

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

/// UDP and IPv4 below a model's datagram, and a header as long as SRT's.
pub const MODEL_HEADER_BYTES: u32 = 28 + 16;
/// The longest message which a model's datagram has room for, in an IP packet of 1500 bytes.
pub const MODEL_BYTES_MAX: u32 = 1_500 - MODEL_HEADER_BYTES;
/// The longest message of DFCP's here.
pub(crate) const DFCP_BYTES_MAX: u32 = 1 << 16;
/// A message says when it was handed over.
const BYTES_MIN: u32 = 8;
const EVERY_MIN: Duration = Duration::from_micros(10);
const EVERY_MAX: Duration = Duration::from_secs(1_000);
const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Messages whose deadlines are not over at the same time: what an end has to remember.
const OPEN_MAX: u128 = 100_000;
/// Range accepted by [`dfcp_proto::Deadline::with_target`].
const TARGETS: std::ops::RangeInclusive<f64> = 0.5..=0.999_999;
/// A message which is complete so much later than its deadline is late; after that it is lost. DFCP's receiver counts alike.
const LATE: Duration = Duration::from_secs(1);

/// Messages which an application hands over one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// Bytes of each.
    pub bytes: u32,
    /// Interval of messages.
    pub every: Duration,
    /// Time from handing over until a message is worth nothing.
    pub deadline: Duration,
    /// The share which should come in time; models ignore it.
    pub target: f64,
    /// The flow's stream is written without end, beside them; DFCP alone.
    pub beside_stream: bool,
}

/// A flow of messages cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MessagesError {
    /// Too short or too long.
    #[error("messages have {bytes} bytes, but here they have {BYTES_MIN} to {max}; choose another length")]
    Bytes {
        /// As given.
        bytes: u32,
        /// Longest message of the transport, bytes.
        max: u32,
    },
    /// Too fast or too slow.
    #[error("a message is handed over every {0:?}, but 10 µs to 1000 s are possible; choose another interval")]
    Every(Duration),
    /// No time, or too much.
    #[error("the deadline is {0:?}, but lies above 0 and not above 60 s; choose another one")]
    Deadline(Duration),
    /// More than an end can remember.
    #[error("more than {OPEN_MAX} messages are worth something at once; shorten the deadline or send fewer")]
    Open,
    /// The share is out of range.
    #[error("the target is {0}, but lies between 0.5 and 0.999999")]
    Target(f64),
    /// A flow of messages lasts as long as the simulation.
    #[error("a flow of messages has no end; leave out its bytes")]
    Sized,
    /// Classic connections have no messages.
    #[error("classic connections have no messages; use the modern profile")]
    Classic,
    /// A model has no streams.
    #[error("this transport sends messages alone; only DFCP has a stream beside them")]
    Stream,
}

impl Messages {
    /// Checks them for a transport whose messages have at most `bytes_max` bytes.
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

    /// Checks the settings for DFCP.
    pub(crate) fn validate_dfcp(&self) -> Result<(), MessagesError> {
        self.validate(DFCP_BYTES_MAX)
    }

    /// Time at which message `number` is handed over, if the first is at `began`.
    pub(crate) fn handed_over_at(&self, began: Time, number: u64) -> Time {
        let after_ns = (self.every.as_nanos() as u64).saturating_mul(number);
        Time::from_ns(began.as_ns().saturating_add(after_ns))
    }

    /// Messages handed over before `time`, the first at `began`.
    pub(crate) fn handed_over_before(&self, began: Time, time: Time) -> u64 {
        time.as_ns().saturating_sub(began.as_ns()).div_ceil(self.every.as_nanos() as u64)
    }
}

/// Results of a flow's messages up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageReport {
    /// Handed over by the application.
    pub handed_over: u64,
    /// Messages among them whose deadline is over.
    pub due: u64,
    /// Messages among these that were delivered before it.
    pub in_time: u64,
    /// Complete at the receiver within a second after their deadline; what is neither in time nor late was lost.
    pub late: u64,
    /// Datagrams sent with messages, or with what repairs them.
    pub datagrams: u64,
}

/// Content of a model's datagram. `began` is the time of the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSegment {
    /// A message.
    Data {
        /// Number of the message, from 0.
        number: u64,
        /// See above.
        began: Time,
    },
    /// A repair symbol of a group of messages.
    Repair {
        /// Number of the group, from 0.
        group: u64,
        /// See above.
        began: Time,
    },
    /// The receiver misses a message.
    Nak {
        /// Number of the message.
        number: u64,
    },
}

#[cfg(test)]
mod tests;
