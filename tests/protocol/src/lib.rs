//! Tests of the protocol as a whole, on one virtual clock.
//!
//! A [`Pair`] is the driver of protocol tests: two real endpoints and emulated links with loss, reordering and blackouts. It checks every
//! delivered byte, and is a pure function of its seed.

#![forbid(unsafe_code)]

mod flow;
pub mod messages;
pub mod random;
pub mod random_streams;
pub mod storm;
pub mod table;

use dfcp_testkit::{Links, Testbed};

pub use flow::{Flow, FlowConfig};

/// Two endpoints over emulated links.
pub type Pair = Testbed<Links>;
