//! The kernel platform of the laboratory: a Linux kernel which runs as a program (user-mode Linux), in virtual time, with
//! its own TCP, its own queue disciplines and this project's `dfcp` on real sockets.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod guest;
