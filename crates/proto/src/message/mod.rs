//! Messages: units of bytes which are worth nothing after a deadline (`spec/protocol.md` §3.2).
//!
//! * [`plan`]: how few datagrams suffice.
//! * [`rows`]: how messages lie in memory to be coded.
//! * [`recv`], [`send`]: the two ends.
//!
//! Streams and pacing are unknown here: a session (`session/open/messages.rs`) describes its path by a
//! [`PathView`](send::PathView).

pub(crate) mod plan;
pub(crate) mod recv;
pub(crate) mod rows;
pub(crate) mod send;

use std::time::Duration;

/// Time within which a message is of use, and the share of such messages that must come by then.
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
    /// `None` for a message that is worth something whenever it comes.
    within: Option<Duration>,
    target: f64,
}

impl Deadline {
    /// No deadline: it is sent until the peer has it.
    pub const RELIABLE: Self = Self { within: None, target: Self::TARGET_DEFAULT };

    /// The share of messages that shall come in time, unless another is asked for.
    pub const TARGET_DEFAULT: f64 = 0.999;

    /// Worth nothing later than this after it was handed over, until it is with the peer's application.
    #[must_use]
    pub const fn within(within: Duration) -> Self {
        Self { within: Some(within), target: Self::TARGET_DEFAULT }
    }

    /// The share of such messages that shall come in time, 0.5 to 0.999999. A higher one costs more datagrams.
    #[must_use]
    pub const fn with_target(self, target: f64) -> Self {
        Self { target, ..self }
    }

    /// The share that may be lost.
    fn lost_max(self) -> f64 {
        if self.target.is_nan() { 1.0 - Self::TARGET_DEFAULT } else { 1.0 - self.target.clamp(0.5, 0.999_999) }
    }
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// It is longer than a message can be on this session.
    #[error("a message of {bytes} bytes is too long: at most 262144 bytes are possible; send it on a stream")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// More messages wait than there is room for: they are handed over faster than the session's rate permits.
    #[error("too many messages wait to be sent; send fewer, or watch the session's rate")]
    Full,
    /// The handshake is not done.
    #[error("the session is not open yet; wait until it is connected")]
    NotOpen,
    /// The peer takes no messages: it has not chosen the feature.
    #[error("the peer takes no messages; both ends must permit them in their configuration")]
    NotTaken,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

/// A message which has come in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// Number of the message among the peer's: 0 is its first. Missing ones were late or lost, or are still to come.
    pub id: u32,
    /// The message.
    pub bytes: Vec<u8>,
    /// Time from the sender's hand-over to arrival, less the recent minimum of the path's one-way delay, which is unknown without
    /// a common clock.
    pub waited: Duration,
}
