//! Library of the `dfcp` command, so that tests and other programs of the workspace can drive it.
//!
//! `main.rs` parses ([`args`]), runs one command and prints at most one error. The commands ([`send`], [`receive`],
//! [`perf`], [`pipe`], [`relay`]) are thin: their work on a connection is in [`dfcp_files`] and [`perf`], generic over
//! [`dfcp_files::transport::Transport`]. Only [`net`] opens and accepts connections of the `dfcp` crate. [`identity`]
//! holds the user's key and the trusted keys; [`pairing`] authenticates two users by a one-time code. Based on both,
//! [`contact`] decides which hosts to trust, and [`admission`] which peers to accept.

#![forbid(unsafe_code)]

pub mod admission;
pub mod args;
pub mod audit;
mod capture;
pub mod cli;
pub mod connection_text;
pub mod contact;
pub mod decrypt;
#[cfg(target_os = "linux")]
pub mod emulate;
pub mod estimate;
mod flags;
pub mod generate;
mod groups;
pub mod id;
pub mod identity;
pub mod key_log;
pub mod laboratory;
pub mod limits;
mod listening;
pub mod messages;
pub mod metrics;
pub mod monitor;
pub mod net;
pub mod pairing;
mod path_frame;
pub mod perf;
pub mod pipe;
mod private_file;
pub mod progress;
pub mod qlog;
pub mod receive;
pub mod recording;
pub mod relay;
pub mod resolve;
pub mod retry;
pub mod send;
pub mod serving;
pub mod session_error;
mod silence;
pub mod stats;
pub mod stop;
#[cfg(test)]
mod testing;

pub(crate) use dfcp_terminal::{output, units};
