//! Frames of `spec/file-transfer.md`: a type byte, a 32-bit body length, and the body; numbers are in network byte
//! order.
//!
//! Decoding never panics, and a length is checked against its limit before memory is allocated for it.

use crate::error::ProtocolError;
use crate::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX};

/// Length of a frame header, bytes.
pub const HEADER_BYTES: usize = 5;
/// Length of the preamble that each end sends first, bytes.
pub const PREAMBLE_BYTES: usize = 8;
/// Bit of a preamble's seventh byte: files go to the end that opened the connection.
const TO_CALLER: u8 = 1;

/// Protocol of a connection and, for files, the direction: the fifth and the seventh byte of the preamble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Files ([`crate::files`]) sent by the end that opened the connection.
    Files,
    /// Files sent to the end that opened the connection.
    FilesToCaller,
    /// Measurements ([`crate::perf`] and [`crate::messages`]).
    Perf,
    /// Piped datagrams, each as one message ([`crate::messages`]).
    Pipe,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::Files | Self::FilesToCaller => "file transfer",
            Self::Perf => "perf",
            Self::Pipe => "pipe",
        }
    }

    const fn letter(self) -> u8 {
        match self {
            Self::Files | Self::FilesToCaller => b'F',
            Self::Perf => b'P',
            Self::Pipe => b'U',
        }
    }

    /// Returns true for files, in either direction.
    pub const fn is_files(self) -> bool {
        matches!(self, Self::Files | Self::FilesToCaller)
    }

    const fn flags(self) -> u8 {
        if matches!(self, Self::FilesToCaller) { TO_CALLER } else { 0 }
    }

    /// Returns the protocol version at this end; a peer with another version is refused.
    pub const fn version(self) -> u8 {
        match self {
            Self::Files | Self::FilesToCaller => 3,
            Self::Perf => 7,
            Self::Pipe => 1,
        }
    }

    /// Returns the eight bytes that each end sends first.
    pub const fn preamble(self) -> [u8; PREAMBLE_BYTES] {
        [b'D', b'F', b'C', b'P', self.letter(), self.version(), self.flags(), 0]
    }

    /// Checks the peer's preamble; reserved bits are ignored.
    ///
    /// # Errors
    /// Fails for another service, another version of this service, or disagreeing directions (both ends send, or both
    /// receive).
    pub fn check(self, preamble: [u8; PREAMBLE_BYTES]) -> Result<(), ProtocolError> {
        let [b'D', b'F', b'C', b'P', service, version, flags, _] = preamble else {
            return Err(ProtocolError::Preamble { expected: self.name() });
        };
        if service != self.letter() {
            return Err(ProtocolError::Preamble { expected: self.name() });
        }
        if version != self.version() {
            return Err(ProtocolError::Version { got: version, ours: self.version() });
        }
        if self.is_files() && flags & TO_CALLER != self.flags() {
            return Err(ProtocolError::Direction);
        }
        Ok(())
    }
}

/// Frame types: senders use types below 0x40, receivers types from 0x40 on.
pub mod kind {
    /// A directory, before its content.
    pub const DIRECTORY: u8 = 0x01;
    /// Name and metadata of a file, followed by its data.
    pub const FILE: u8 = 0x02;
    /// Bytes of the current file, or of a measurement.
    pub const DATA: u8 = 0x03;
    /// End of the current file, with its length and hash.
    pub const FILE_END: u8 = 0x04;
    /// Abort of the current file.
    pub const FILE_ABORT: u8 = 0x05;
    /// End of the entries, except those in flight on other streams.
    pub const END: u8 = 0x06;
    /// A file with a partial copy at the receiver.
    pub const RESUME: u8 = 0x07;
    /// A file whose content is sent if the receiver requests it.
    pub const OFFER: u8 = 0x08;
    /// Hashes of the receiver's partial copy.
    pub const TREE: u8 = 0x09;
    /// Start of a part of the partial copy that is sent again.
    pub const AGAIN: u8 = 0x0a;
    /// Names in a directory of the sender; all other names in that directory at the receiver are to be deleted.
    pub const LISTING: u8 = 0x0b;
    /// Reference to a part of the older version that the receiver has under this name.
    pub const COPY: u8 = 0x0c;
    /// Announcement of listings.
    pub const DELETE: u8 = 0x0d;
    /// A link.
    pub const LINK: u8 = 0x0e;
    /// Announcement of links after the end frame.
    pub const LINKS: u8 = 0x0f;
    /// Verdict on one entry.
    pub const VERDICT: u8 = 0x41;
    /// Progress of the receiver.
    pub const PROGRESS: u8 = 0x42;
    /// Totals, after all verdicts.
    pub const SUMMARY: u8 = 0x43;
    /// End of the session with a reason; also sent by a listening sender to a caller that it refuses.
    pub const REFUSED: u8 = 0x44;
    /// Capabilities of the receiver for this sender.
    pub const HELLO: u8 = 0x45;
    /// A partial copy of a file of this sender.
    pub const PARTIAL: u8 = 0x46;
    /// Request for an offered file.
    pub const WANT: u8 = 0x47;
    /// Progress of the comparison of a partial copy, with the differing parts.
    pub const CHECKED: u8 = 0x48;
    /// Report of a deletion or its failure.
    pub const DELETED: u8 = 0x49;
    /// Chunks of a file at the receiver.
    pub const BASIS: u8 = 0x4a;
    /// End of the deletions for all listings.
    pub const SWEPT: u8 = 0x4b;
    /// Request of a perf client.
    pub const PERF_REQUEST: u8 = 0x21;
    /// Path statistics of a sending perf server, sent between data frames.
    pub const PERF_PATH: u8 = 0x22;
    /// A perf server's answer to a raw request to send; it has no body. The data after it have no frames.
    pub const PERF_RAW: u8 = 0x23;
    /// Request of a perf client that measures messages.
    pub const PERF_MESSAGES: u8 = 0x24;
    /// Counters of a sender of messages.
    pub const MESSAGES_SENT: u8 = 0x25;
    /// Request of a client to open a pipe.
    pub const PIPE_OPEN: u8 = 0x26;
    /// Counters of a perf receiver.
    pub const PERF_REPORT: u8 = 0x61;
    /// Counters of a receiver of messages.
    pub const MESSAGES_CAME: u8 = 0x62;
}

/// Frame header: type and length of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type of the frame, see [`kind`].
    pub kind: u8,
    /// Length of the body, bytes.
    pub body_bytes: usize,
}

impl Header {
    /// Decodes a header. The length of the body is checked against the limit of its type, so that memory of this size
    /// may be allocated.
    ///
    /// # Errors
    /// Fails with [`ProtocolError::TooLarge`].
    pub fn decode(header: [u8; HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let [kind, length @ ..] = header;
        let len = u32::from_be_bytes(length);
        let max = if kind == kind::DATA { DATA_BYTES_MAX } else { CONTROL_BYTES_MAX };
        let body_bytes = len as usize;
        if body_bytes > max { Err(ProtocolError::TooLarge { len, max }) } else { Ok(Self { kind, body_bytes }) }
    }
}

/// Appends a header and the bytes that `body` appends, then fills in their length.
pub fn with_header(frame_kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[frame_kind, 0, 0, 0, 0]);
    body(out);
    // Callers keep bodies far below 4 GiB. A longer length would be clamped here, and refused by the peer.
    let len = u32::try_from(out.len() - start - HEADER_BYTES).unwrap_or(u32::MAX);
    out[start + 1..start + HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
}

/// Decoder of fixed-size fields at the start of a body.
#[derive(Debug)]
pub struct Fields<'a>(
    /// Bytes not yet decoded.
    pub &'a [u8],
);

impl Fields<'_> {
    /// Decodes the next `N` bytes; `None` if fewer bytes are left.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }
}

#[cfg(test)]
mod tests;
