//! TCP as two state machines: a [`Sender`] of one stream, and the [`Receiver`] that acknowledges it.
//!
//! # Driving them
//!
//! Both ends have the same four functions. After each `on_segment` and each `handle_timeout`, call `poll_transmit`
//! until it returns `None`. Call `handle_timeout` at the time given by `next_timeout`. Late and repeated calls of
//! `handle_timeout` are safe, because it acts only on expired deadlines.
//!
//! # What is modelled
//!
//! * The connection consists of handshake (either segment may be lost), data, FIN, and its acknowledgement. The
//!   receiver sends no data, so its own FIN is omitted.
//! * Sequence numbers count bytes and never wrap: the SYN has number 0, data starts at 1. Every data segment is full,
//!   except the last one of a finite stream, which carries the FIN.
//! * [`Config::modern`] models Linux 6.12: RACK-TLP (RFC 8985), proportional rate reduction, F-RTO, undo by timestamps
//!   and D-SACK, bursts sized by the rate, the receiver's delayed and compressed acknowledgements and buffer tuning,
//!   and clock ticks. A real kernel is the reference (`tests/kernel.rs`).
//! * [`Config::rfc`] models the RFCs. Losses are detected by SACK (RFC 2018), with the rule of RFC 6675 or of FACK in
//!   Linux 2.6, or by duplicate acknowledgements (RFC 5681, RFC 6582). It includes limited transmit (RFC 3042), and the
//!   RTO (RFC 6298) with timestamps or Karn's algorithm. The window is reduced immediately, by PRR (RFC 6937, RFC
//!   9937), or by the rate halving of Linux 2.6.
//! * Congestion control: see [`Congestion`].
//! * Explicit congestion notification ([`Config::ecn`]; RFC 3168): marks reduce the window once per window, as a loss
//!   does. DCTCP reduces it by the share of marked segments (RFC 8257), and BBR ignores marks.
//!
//! Not modelled: AccECN, the persist timer and Nagle's algorithm (the receiver's window never closes), memory limits of
//! the sender's socket, and giving up (the retransmission timer backs off for ever).
//!
//! # Cost
//!
//! Nothing is allocated per segment once the window has reached its maximum size. An acknowledgement takes amortised
//! constant time for any number of outstanding or lost segments.

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
