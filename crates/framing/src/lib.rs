//! Frames of `spec/file-transfer.md`, for file transfers and measurements, and names of files. Sans I/O.
//!
//! A caller first reads the peer's preamble ([`frame::Service::check`]). For each frame it then reads the header
//! ([`frame::Header::decode`]), which limits the length of the body, and the body. File transfers use the frames
//! [`files::ToReceiver`] and [`files::ToSender`], and measurements the frames of [`perf`]. [`messages`] has control
//! frames that accompany messages. A name in a frame is an arbitrary byte string until [`names::RelativeName::parse`]
//! accepts it.
//!
//! No decoder panics for any input.

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod amounts;
pub mod error;
pub mod files;
pub mod folding;
pub mod frame;
pub mod limits;
pub mod link_target;
pub mod messages;
pub mod names;
pub mod perf;
mod printable;

pub use amounts::{human_bytes, human_rate};
pub use printable::{printable, printable_bytes, printable_path};
