//! DFCP's wire format: segments to bytes and back. The normative text is `spec/wire-format.md`; the golden vectors
//! are `spec/vectors/wire_*.txt`.
//!
//! A segment is a 24-byte header (thesis §3.5, figure 3.3), up to 36 bytes of options and a payload. This crate
//! checks *form*: lengths, reserved bits, ranges and integrity. Whether a segment makes sense in the state of its
//! connection is the protocol's question (`dfcp-proto`).
//!
//! Receiving: [`peek`] routes a datagram cheaply, [`Segment::decode`] verifies it and borrows its payload;
//! [`BlockInfo::from_s2`], [`handshake::Parameters::decode`] and [`feedback::decode`] read what lies inside.
//! No decoder panics, allocates or copies the payload, whatever the bytes are.
//!
//! Sending in place: [`write_header`] says where the payload starts, the caller writes it there, and [`finish`]
//! completes the datagram. [`encode`] does the three steps for a payload that lies elsewhere.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod block_info;
mod bytes;
mod error;
pub mod feedback;
mod flags;
pub mod handshake;
mod header;
mod integrity;
mod options;
mod sizes;
mod untyped;

pub use block_info::BlockInfo;
pub use error::{DecodeError, EncodeError};
pub use flags::Flags;
pub use header::{Header, Profile};
pub use integrity::Integrity;
pub use options::Options;
pub use sizes::{
    CRC_BYTES, DATAGRAM_BYTES_MAX, DatagramBuffer, HEADER_BYTES, OPTIONS_BYTES_MAX, TAG_BYTES, data_overhead_bytes,
    payload_bytes_max, trailer_bytes,
};
pub use untyped::{Peek, Segment, encode, finish, option_bytes, peek, write_header};

/// The version of the protocol which this crate speaks, as in [`Options::version`].
pub const VERSION: u8 = 1;

/// Source bytes of a full classic block (thesis §3.8), hence the largest [`Options::block_length`].
pub const CLASSIC_BLOCK_BYTES: u32 = 63_536;
