//! Kernel platform of the laboratory: a Linux kernel that runs as a program (user-mode Linux), in virtual time, with its own TCP, its own
//! queue disciplines and this project's `dfcp` on real sockets.

#![forbid(unsafe_code)]

#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(target_os = "linux")]
pub mod build;
#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod console;
#[cfg(target_os = "linux")]
pub mod guest;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
mod job;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
pub mod limits;
#[cfg(target_os = "linux")]
mod platform;
#[cfg(target_os = "linux")]
mod process;
#[cfg(all(test, target_os = "linux"))]
mod testing;

#[cfg(target_os = "linux")]
pub use cache::{Cache, Cached};
#[cfg(target_os = "linux")]
pub use console::Listener;
#[cfg(target_os = "linux")]
pub use host::{Ended, Guest, GuestError};
#[cfg(target_os = "linux")]
pub use job::Commands;
#[cfg(target_os = "linux")]
pub use kernel::{Kernel, KernelError};
#[cfg(target_os = "linux")]
pub use platform::KernelPlatform;
