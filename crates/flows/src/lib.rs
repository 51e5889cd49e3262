//! Ends of a plan's flows over real sockets: the kernel's own TCP, DFCP through its public crate, and quinn's QUIC.
//! Platforms of the laboratory that have a kernel use these ends, over any network between the hosts. Linux only; on
//! other systems this crate is empty.
//!
//! All ends of a run are tasks of one thread, because a socket's host follows from the thread's namespace.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clock;
mod counters;
mod dfcp;
mod first_data;
mod flow;
#[cfg(feature = "quic")]
mod quic;
mod start;
mod tcp;

pub use clock::{Alarm, Clock};
pub use counters::{TcpCounters, tcp_counters};
pub use flow::{Hosts, Surroundings, Told};
pub use start::{start, transport};
pub use tcp::{congestion, tcp_buffers, tcp_ecn};
