//! Testbed platform of the laboratory: plans in real time, on the processors and the TCP of this machine. Senders are in one network
//! namespace, receivers in another; between them `dfcp-emu` emulates the links of `dfcp-netem`, which the simulator uses too. Linux only;
//! on other systems this crate is empty.
//!
//! Every run is a separate process ([`serve`]), because only a single-threaded one can create a user namespace; its end removes networks,
//! devices and flows in any case.

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
