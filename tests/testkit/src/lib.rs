//! Drivers of the protocol for tests: without I/O or clock, so that a test is a pure function of its seed.
//!
//! Each layer is usable without those above it:
//!
//! * [`Host`] is an endpoint with its connections. It receives and returns datagrams.
//! * [`Stream`] and [`Application`] write a [`Pattern`] to a connection and check the peer's.
//! * [`Node`] is a host whose applications do their [`Job`]; it counts sent and received data.
//! * [`Testbed`] is a client, a server and a [`Path`] between them on one virtual clock. A tap observes every datagram and may change it.
//!   [`Links`] has loss, queues and jitter; [`DelayLine`] has a delay, and space for an attacker's datagrams.

#![forbid(unsafe_code)]

mod application;
mod host;
mod node;
mod path;
mod pattern;
pub mod raw;
mod segment;
mod streams;
mod testbed;
mod trust;

pub use application::{Application, Job, Stream};
pub use host::{Host, Packet, Received, seed32};
pub use node::{Node, Observable};
pub use path::{DelayLine, Links, LinksConfig, Path};
pub use pattern::Pattern;
pub use segment::{rewrites, rewritten};
pub use streams::{StreamApplications, StreamState};
pub use testbed::{Outcome, Tap, Testbed, client_address, server_address};
pub use trust::{Trust, sealed};
