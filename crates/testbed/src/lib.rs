//! The testbed platform of the laboratory: plans in real time, on the processors and the TCP of this machine. Senders are in one network
//! namespace, receivers in another; between them are the links of `dfcp-netem`, which the simulator has too, emulated by `dfcp-emu`.
//! Linux only; on other systems this crate is empty.
//!
//! Every run is a process of its own ([`serve`]), because only one without threads may make a user namespace; when it ends, however that
//! came about, networks, devices and flows are gone.

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
