//! TCP as a pair of state machines: a [`Sender`] with one stream of data, and the [`Receiver`] which acknowledges it.
//!
//! # Driving them
//!
//! Both ends have the same four calls. After each `on_segment` and each `handle_timeout`, call `poll_transmit` until it
//! returns `None`; then come back at `next_timeout`, or when a segment arrives. A timer may be handed in late or twice:
//! `handle_timeout` acts only on deadlines which have passed.
//!
//! # What is modelled
//!
//! * Handshake (either segment may be lost), the data, the FIN, and its acknowledgement. The receiver has nothing to
//!   send, so its own FIN is left out.
//! * Sequence numbers count bytes and never wrap: SYN is number 0, data starts at 1. Every data segment is full, except
//!   the last of a finite stream, which carries the FIN.
//! * Linux 6.12 ([`Config::modern`]): RACK-TLP (RFC 8985), proportional rate reduction, F-RTO, undoing needless
//!   reductions by timestamps and D-SACK, bursts sized by the rate, the receiver's delayed and compressed
//!   acknowledgements and the tuning of its buffer, and the clock's ticks. A kernel decides how (`tests/kernel.rs`).
//! * The RFCs ([`Config::rfc`]): selective acknowledgements (RFC 2018) by the rule of RFC 6675 or by Linux 2.6's forward
//!   acknowledgements, or duplicate acknowledgements (RFC 5681, RFC 6582); limited transmit (RFC 3042); the
//!   retransmission timer (RFC 6298) with timestamps or Karn's algorithm. The window comes down at once, by proportional
//!   rate reduction (RFC 6937, RFC 9937), or by Linux 2.6's rate halving.
//! * Congestion control: see [`Congestion`].
//! * Explicit congestion notification ([`Config::ecn`]; RFC 3168): marks reduce the window once in a window of data as a loss does,
//!   DCTCP's by the share that was marked (RFC 8257); BBR does not heed them.
//!
//! Not modelled: AccECN, persist timer and Nagle's algorithm (the receiver's window never closes), memory limits of the sender's
//! socket, and giving up (a timer backs off for ever).
//!
//! # Cost
//!
//! Nothing is allocated for a segment once the window has reached its largest size, and an acknowledgement costs amortised
//! constant time, however many segments are outstanding and however many of them were lost.

mod config;
mod congestion;
mod delivery_rate;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod window;

pub use config::{AckPolicy, Config, ConfigError, Congestion, LossDetection, Reduction, RtoFloor};
pub use receiver::{RECEIVE_BUFFER_BYTES_MAX, Receiver, ReceiverStats};
pub use recovery::Phase;
pub use segment::{Flags, SACK_BLOCKS_MAX, SackBlocks, Segment};
pub use sender::{Sender, SenderStats};
