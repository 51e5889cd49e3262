//! Test packets between two hosts (`spec/estimation.md`), sans I/O: [`Server`] sends them, [`Client`] estimates from them.
//!
//! The caller passes arrivals and the time to both, and gets the datagrams to send and the time of the next call.
//! Neither draws random numbers: seeds and sessions are arguments, and must be unpredictable in real use.

mod client;
mod datagram;
mod places;
mod server;

pub use client::{Client, ClientError, Progress};
pub use datagram::{
    Answer, DATAGRAM_BYTES_MAX, Datagram, PROBE_BYTES, ProbeDatagram, REQUEST_BYTES, Reason, Request, VERSION,
};
pub use server::{Change, Received, Server, ServerConfig, Step};
