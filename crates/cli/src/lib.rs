//! The parts of the `dfcp` command, as a library so that tests and the other programs of the workspace can drive them.
//!
//! `main.rs` parses ([`args`]), runs one command and prints at most one error. The commands ([`send`], [`receive`],
//! [`perf`], [`relay`]) are thin: what they do on a connection is in [`transfer`] and [`perf`], written over any
//! [`transport::Transport`]; only [`net`] knows the `dfcp` crate.

#![forbid(unsafe_code)]

pub mod args;
pub mod demo;
pub mod limits;
pub mod net;
pub mod output;
pub mod perf;
pub mod progress;
pub mod receive;
pub mod relay;
pub mod send;
pub mod serving;
pub mod stop;
pub mod transfer;
pub mod transport;
pub mod units;
