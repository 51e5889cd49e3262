//! Discrete-event simulator, over the links of `dfcp-netem`, of three kinds of transports: DFCP's own code, models of
//! TCP, and quinn's QUIC.
//!
//! Time is counted in integer nanoseconds, and simultaneous events happen in the order of scheduling. A seed therefore
//! determines all events, on every machine and in every build.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod behaviour;
mod config;
mod counting;
mod dfcp;
mod end;
mod endpoint;
mod event_queue;
mod flow;
mod lie;
pub mod messages;
mod observer;
mod packet;
mod pcapng;
mod quic;
mod simulation;
pub mod tcp;
mod topology;
mod verifier;
mod web;

pub use behaviour::{Behaviour, Demand};
pub use config::{FlowConfig, FlowError, Transport};
pub use counting::Counting;
pub use dfcp::{DfcpConfig, DfcpEnd};
pub use end::End;
pub use flow::FlowReport;
pub use lie::Lie;
pub use observer::{Fingerprint, Nobody, Observer};
pub use packet::{Body, Datagram, FlowId, LinkId, Packet};
pub use pcapng::{Captured, Pcapng};
#[cfg(feature = "quic")]
pub use quic::{QUIC_NAME, quic_configs};
pub use quic::{QuicConfig, QuicCongestion, QuicEnd, QuicError};
pub use simulation::Simulation;
pub use topology::{Edge, Graph, Network, Node, Pair, Row};
pub use verifier::Verifier;
pub use web::{WebConfig, WebConnection, WebError, WebReceiver, WebSender, WebStats};
