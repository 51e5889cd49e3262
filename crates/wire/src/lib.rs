//! DFCP's wire format: conversion between segments and bytes. The normative text is `spec/wire-format.md`; the golden
//! vectors are `spec/vectors/wire_*.txt`.
//!
//! A segment is a 24-byte header (thesis §3.5, figure 3.3), a stream id or up to 36 bytes of options, and a payload.
//! This crate checks the *form*: lengths, reserved bits, ranges and integrity. The protocol (`dfcp-proto`) checks
//! whether a segment is valid in the state of a connection.
//!
//! Receiving: [`Unverified::connection_id`] routes a datagram, and [`Unverified::read`] reads its header. Verification
//! returns the typed segment, which borrows its payload. [`handshake::Payload::decode`] and [`feedback::decode`] decode
//! payloads. For any bytes, no decoder panics, allocates or copies the payload.
//!
//! Sending: [`segment::Segment::begin`] and [`classic::Segment::begin`] write the header, the caller writes the payload
//! into the [`Draft`] in place, and [`Draft::finish`] completes the datagram or returns its parts to be sealed.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod block_info;
mod bytes;
pub mod classic;
mod draft;
mod error;
mod features;
pub mod feedback;
mod flags;
mod fragment;
pub mod handshake;
mod header;
mod integrity;
mod options;
mod outline;
mod ports;
mod profile;
pub mod segment;
mod sizes;
mod stream_id;
mod unverified;

pub use block_info::BlockInfo;
pub use draft::{Checksum, Crc, Draft, Finished, ToSeal, Trailer};
pub use error::{DecodeError, EncodeError};
pub use features::Features;
pub use flags::Flags;
pub use fragment::Fragment;
pub use options::SymbolSize;
pub use outline::{Outline, SegmentKind};
pub use ports::Ports;
pub use profile::Profile;
pub use sizes::{
    CRC_BYTES, DATAGRAM_BYTES_MAX, DatagramBuffer, FRAGMENTS_MAX, HEADER_BYTES, LOSS_RUNS_MAX, MARKS_MAX,
    MESSAGE_BYTES_MAX, MESSAGE_GROUP_BYTES, MESSAGE_SYMBOLS_MAX, MESSAGE_WORDS_BYTES, OPTIONS_BYTES_MAX,
    STREAM_ID_BYTES, TAG_BYTES, overhead_bytes, payload_bytes_max, trailer_bytes,
};
pub use stream_id::{Opener, StreamId, StreamKind, StreamLimits};
pub use unverified::Unverified;

/// Version of the protocol, as in [`segment::SynOptions::version`].
pub const VERSION: u8 = 2;

/// Source bytes of a full classic block (thesis §3.8): the largest [`classic::BlockLength`].
pub const CLASSIC_BLOCK_BYTES: u32 = 63_536;
