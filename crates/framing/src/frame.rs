//! The frames of `spec/file-transfer.md`: a type byte, a 32-bit body length, the body; numbers in network byte order.
//!
//! Decoding never panics, and a length is compared with its limit before anything is allocated for it.

use crate::error::ProtocolError;
use crate::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX};

/// Bytes before a body.
pub const HEADER_BYTES: usize = 5;
/// Bytes of the preamble each side sends first.
pub const PREAMBLE_BYTES: usize = 8;
/// Bit of a preamble's seventh byte: files go to the side that opened the connection.
const TO_CALLER: u8 = 1;

/// Protocol of a connection and, for files, their direction; the fifth and the seventh byte of the preamble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Files, [`crate::files`], sent by the side that opened the connection.
    Files,
    /// Files, sent to the side that opened the connection.
    FilesToCaller,
    /// Measurements, [`crate::perf`] and [`crate::messages`].
    Perf,
    /// Datagrams, each as a message, [`crate::messages`].
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

    /// True for files, in either direction.
    pub const fn is_files(self) -> bool {
        matches!(self, Self::Files | Self::FilesToCaller)
    }

    const fn flags(self) -> u8 {
        if matches!(self, Self::FilesToCaller) { TO_CALLER } else { 0 }
    }

    /// Version spoken here; another is refused.
    pub const fn version(self) -> u8 {
        match self {
            Self::Files | Self::FilesToCaller => 3,
            Self::Perf => 7,
            Self::Pipe => 1,
        }
    }

    /// The eight bytes each side sends first.
    pub const fn preamble(self) -> [u8; PREAMBLE_BYTES] {
        [b'D', b'F', b'C', b'P', self.letter(), self.version(), self.flags(), 0]
    }

    /// Checks the peer's preamble; reserved bits are ignored.
    ///
    /// # Errors
    /// Another service, or another version of this one; or files are to go the other way, so that both sides send or both receive.
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

/// Frame types. Below 0x40 the sender's, from 0x40 the receiver's.
pub mod kind {
    /// A directory, before what it contains.
    pub const DIRECTORY: u8 = 0x01;
    /// A file's name and metadata; its data follow.
    pub const FILE: u8 = 0x02;
    /// Bytes of the current file, or of a measurement.
    pub const DATA: u8 = 0x03;
    /// The current file is complete.
    pub const FILE_END: u8 = 0x04;
    /// The current file is given up.
    pub const FILE_ABORT: u8 = 0x05;
    /// No entry follows that is not on its way.
    pub const END: u8 = 0x06;
    /// As `FILE`, of which the receiver has the beginning.
    pub const RESUME: u8 = 0x07;
    /// A file which is sent if the receiver wants it.
    pub const OFFER: u8 = 0x08;
    /// Hashes of the beginning which the receiver has.
    pub const TREE: u8 = 0x09;
    /// A part of that beginning follows again.
    pub const AGAIN: u8 = 0x0a;
    /// Names in a directory: anything else there is to be deleted.
    pub const LISTING: u8 = 0x0b;
    /// A part of the file that the receiver has under this name.
    pub const COPY: u8 = 0x0c;
    /// Listings will follow.
    pub const DELETE: u8 = 0x0d;
    /// A link.
    pub const LINK: u8 = 0x0e;
    /// Number of links that follow the end frame.
    pub const LINKS: u8 = 0x0f;
    /// Outcome of one entry.
    pub const VERDICT: u8 = 0x41;
    /// Progress of the receiver.
    pub const PROGRESS: u8 = 0x42;
    /// All entries are answered.
    pub const SUMMARY: u8 = 0x43;
    /// The session ends here. A sender that listens says it, too, to a caller which it does not serve.
    pub const REFUSED: u8 = 0x44;
    /// Abilities of the receiver, for this sender.
    pub const HELLO: u8 = 0x45;
    /// A file of this sender of which the receiver has the beginning.
    pub const PARTIAL: u8 = 0x46;
    /// An offered file is to be sent.
    pub const WANT: u8 = 0x47;
    /// End of the compared part of a beginning, and the differing parts of it.
    pub const CHECKED: u8 = 0x48;
    /// A name that was deleted, or could not be.
    pub const DELETED: u8 = 0x49;
    /// Chunks of a file that the receiver has.
    pub const BASIS: u8 = 0x4a;
    /// All listings are done with.
    pub const SWEPT: u8 = 0x4b;
    /// Request of a perf client.
    pub const PERF_REQUEST: u8 = 0x21;
    /// A sender's own figures, sent along with the data when the server sends.
    pub const PERF_PATH: u8 = 0x22;
    /// The server's answer to a raw request to send: what follows has no frames. Without a body.
    pub const PERF_RAW: u8 = 0x23;
    /// Request of a perf client that measures messages.
    pub const PERF_MESSAGES: u8 = 0x24;
    /// Counts of a sender of messages.
    pub const MESSAGES_SENT: u8 = 0x25;
    /// A caller opens a pipe.
    pub const PIPE_OPEN: u8 = 0x26;
    /// Counts of a perf receiver.
    pub const PERF_REPORT: u8 = 0x61;
    /// Counts of a receiver of messages.
    pub const MESSAGES_CAME: u8 = 0x62;
}

/// Frame header: type and length of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The frame's type, see [`kind`].
    pub kind: u8,
    /// Length of the body, bytes.
    pub body_bytes: usize,
}

impl Header {
    /// Decodes a header. The body's length is within the limit of its type, so that memory may be taken for it.
    ///
    /// # Errors
    /// [`ProtocolError::TooLarge`].
    pub fn decode(header: [u8; HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let [kind, length @ ..] = header;
        let len = u32::from_be_bytes(length);
        let max = if kind == kind::DATA { DATA_BYTES_MAX } else { CONTROL_BYTES_MAX };
        let body_bytes = len as usize;
        if body_bytes > max { Err(ProtocolError::TooLarge { len, max }) } else { Ok(Self { kind, body_bytes }) }
    }
}

/// Appends a header and what `body` appends, then fills in its length.
pub fn with_header(frame_kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[frame_kind, 0, 0, 0, 0]);
    body(out);
    // Callers bound their bodies far below 4 GiB; a longer one would be cut here and refused by the peer.
    let len = u32::try_from(out.len() - start - HEADER_BYTES).unwrap_or(u32::MAX);
    out[start + 1..start + HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
}

/// Takes fixed-size fields off the front of a body.
#[derive(Debug)]
pub struct Fields<'a>(
    /// Bytes not yet decoded.
    pub &'a [u8],
);

impl Fields<'_> {
    /// The next `N` bytes, or `None` if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }
}

#[cfg(test)]
mod tests;
