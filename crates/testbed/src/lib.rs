//! Testbed platform of the laboratory: plans run in real time, on the processors and the TCP of this machine. Senders
//! are in one network namespace and receivers in another. Between them, `dfcp-emu` emulates links with the models of
//! `dfcp-netem`, which the simulator uses, too. On systems other than Linux, this crate is empty.
//!
//! Every run is a separate process ([`serve`]), because only a single-threaded process can create a user namespace.
//! When the process ends, the kernel removes all networks, devices and flows.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod experiment;
mod host;
mod job;
pub mod limits;
mod network;
mod platform;
mod process;
mod processor;
mod refusal;
mod serve;

pub use host::Host;
pub use platform::TestbedPlatform;
pub use serve::serve;
