//! Emulated network links without I/O: packets in with a time, packets out with a time.
//!
//! A [`Link`] is one direction of one hop. The caller supplies the time; the link never reads a clock, so the same code runs in the
//! simulator (simulated nanoseconds), the protocol tests and the relay (real time). Equal configuration, seed and sequence of calls give
//! equal results on every machine.
//!
//! # Model
//!
//! ```text
//! push ─► policer ─► queue ─► serialisation ─► outage ─► loss ─► duplication ─► delay + jitter, batches, reordering, corruption ─► pop
//!               (discipline)  (at rate_bps)
//! ```
//!
//! * **Loss comes after the bottleneck.** A lost packet has used its share of the rate, so a path of rate C and loss p
//!   carries at most C·(1 − p), like a radio link. The same holds for packets lost in an outage.
//! * **Serialisation is exact.** N packets of s bytes sent back to back leave after ⌈N·8·s·10⁹ / C⌉ ns: the unused part
//!   of the last nanosecond of a packet is carried over to the next one.
//! * **Order is kept** unless reordering is configured: jitter never lets a packet overtake another.
//! * **ECN is supported**: if enabled, RED and CoDel mark ECN-capable packets and drop the others. Impairments after
//!   the queue preserve marks.
//! * **The queue discipline is configurable**: DropTail, or a [`Discipline`] that is fair to flows or drops early. A
//!   [`Queue`] also works without a link.
//! * **Each impairment has its own random generator**, so that enabling jitter does not change which packets are lost.
//!
//! ```
//! use std::time::Duration;
//! use dfcp_netem::{Link, LinkConfig, Loss};
//! use dfcp_time::Time;
//!
//! // 8 Mbit/s and 10 ms: a packet of 1000 bytes takes 1 ms to send and 10 ms to travel.
//! let config = LinkConfig::default()
//!     .with_rate_bps(8_000_000)
//!     .with_delay(Duration::from_millis(10))
//!     .with_loss(Loss::None);
//! let mut link = Link::new(config, 1)?;
//! link.push(Time::ZERO, vec![0u8; 1000]);
//! assert_eq!(link.next_time(), Some(Time::from_ms(11)));
//! assert_eq!(link.pop(Time::from_us(10_999)), None);
//! assert_eq!(link.pop(Time::from_ms(11)), Some(vec![0u8; 1000]));
//! # Ok::<(), dfcp_netem::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod config;
mod delivery_trace;
mod ecn;
mod error;
mod flight;
mod link;
mod loss;
mod packet;
mod policer;
mod queue;
mod random;
mod schedule;
mod stats;
mod transmitter;

pub use config::{FULL_PACKET_BYTES, HELD_BYTES_MAX_DEFAULT, LinkChange, LinkConfig, REORDER_DELAY_DEFAULT};
pub use delivery_trace::{
    DeliveryTrace, DeliveryTraceError, OPPORTUNITY_BYTES, TRACE_BIN_DEFAULT, TRACE_LINES_MAX, TRACE_MS_MAX,
    TRACE_TEXT_BYTES_MAX, binned_rate_bps,
};
pub use ecn::Ecn;
pub use error::ConfigError;
pub use link::Link;
pub use loss::Loss;
pub use packet::{Datagram, Packet, flip_bit};
pub use policer::Policer;
pub use queue::{
    Discipline, DropCause, Drr, FLOWS_MAX, FqCodel, QUANTUM_BYTES_DEFAULT, QUANTUM_BYTES_MIN, QUEUE_PACKETS_DEFAULT,
    Queue, QueueLimit, Red, RedUnit, Sfq, Wfq,
};
pub use schedule::{PathEvent, Schedule, Way};
pub use stats::{Count, LinkStats};
