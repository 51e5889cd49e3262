//! The ends of a plan's flows over real sockets: the kernel's own TCP, DFCP by the crate which users have, and quinn's QUIC. The
//! laboratory's platforms that have a kernel run them, whatever the network between the hosts is. Linux only; on other systems this crate
//! is empty.
//!
//! All of a run's ends are tasks of one thread, because which host a socket is at is the thread's.

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
