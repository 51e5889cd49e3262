//! Messages: byte strings with a deadline, worthless when they arrive late (`spec/protocol.md` §3.2).
//!
//! * [`plan`]: the policy that meets a deadline with the fewest datagrams.
//! * [`rows`]: memory layout of messages for coding.
//! * [`recv`], [`send`]: the two ends.
//!
//! This module knows neither streams nor pacing: a session (`session/open/messages.rs`) describes its path by a
//! [`PathView`](send::PathView).

pub(crate) mod plan;
pub(crate) mod recv;
pub(crate) mod rows;
pub(crate) mod send;

use std::time::Duration;

/// Deadline of a message, and the share of its kind that must arrive in time.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use std::time::Duration;
///
/// use dfcp::Deadline;
///
/// let frame = Deadline::within(Duration::from_millis(80)); // 99.9 % in time
/// let hint = Deadline::within(Duration::from_millis(30)).with_target(0.95);
/// let order = Deadline::RELIABLE;
/// # let _ = (frame, hint, order);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadline {
    /// Lifetime, from hand-over to delivery. `None` for a reliable message.
    within: Option<Duration>,
    target: f64,
}

impl Deadline {
    /// No deadline: the message is sent until the peer has proven to have it.
    pub const RELIABLE: Self = Self { within: None, target: Self::TARGET_DEFAULT };

    /// Default share of messages that must arrive in time: 99.9 %.
    pub const TARGET_DEFAULT: f64 = 0.999;

    /// Returns a deadline: the message is worthless unless the peer's application has it `within` this time of its
    /// hand-over.
    #[must_use]
    pub const fn within(within: Duration) -> Self {
        Self { within: Some(within), target: Self::TARGET_DEFAULT }
    }

    /// Sets the share of messages that must arrive in time, 0.5 to 0.999999. A higher share costs more datagrams.
    #[must_use]
    pub const fn with_target(self, target: f64) -> Self {
        Self { target, ..self }
    }

    /// Returns the share of messages that may be lost, 0.000001 to 0.5.
    fn lost_max(self) -> f64 {
        if self.target.is_nan() { 1.0 - Self::TARGET_DEFAULT } else { 1.0 - self.target.clamp(0.5, 0.999_999) }
    }
}

/// Reason for which a message was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The message exceeds the size limit of this session.
    #[error("a message of {bytes} bytes is too long: at most 262144 bytes are possible; send it on a stream")]
    TooLong {
        /// Size of the refused message, bytes.
        bytes: usize,
    },
    /// The send queue is full: the application hands over messages faster than the session's rate permits.
    #[error("too many messages wait to be sent; send fewer, or watch the session's rate")]
    Full,
    /// The handshake is not complete.
    #[error("the session is not open yet; wait until it is connected")]
    NotOpen,
    /// The peer takes no messages: it did not negotiate the feature.
    #[error("the peer takes no messages; both ends must permit them in their configuration")]
    NotTaken,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

/// A message that arrived in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// Sequence number of the message, assigned by the peer from 0 on. A gap is a message that was late or lost, or
    /// that may still arrive.
    pub id: u32,
    /// Content of the message.
    pub bytes: Vec<u8>,
    /// Delay from the sender's hand-over to arrival, without the path's minimum one-way delay, which cannot be measured
    /// without a common clock.
    pub waited: Duration,
}
