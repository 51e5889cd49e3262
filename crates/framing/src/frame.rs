//! The frames of `spec/file-transfer.md`: a type byte, a 32-bit body length, the body; numbers in network byte order.
//!
//! Decoding never panics, and a length is compared with its limit before anything is allocated for it.

use crate::error::{Failure, FailureCode, ProtocolError, truncate};
use crate::limits::{CONTROL_BYTES_MAX, DATA_BYTES_MAX, SENTENCE_BYTES_MAX};

/// Bytes before a body.
pub const HEADER_BYTES: usize = 5;
/// Bytes of the preamble each side sends first.
pub const PREAMBLE_BYTES: usize = 8;
/// Bytes of a BLAKE3 hash.
pub const HASH_BYTES: usize = 32;

/// Which protocol a connection carries; the fifth byte of the preamble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// Files: [`ToReceiver`] and [`ToSender`].
    Files = b'F',
    /// Measurements, [`crate::perf`] and [`crate::messages`].
    Perf = b'P',
    /// Datagrams, each as a message, [`crate::messages`].
    Pipe = b'U',
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::Files => "file transfer",
            Self::Perf => "perf",
            Self::Pipe => "pipe",
        }
    }

    /// Which version of it is spoken here.
    pub const fn version(self) -> u8 {
        match self {
            Self::Files => 2,
            Self::Perf => 6,
            Self::Pipe => 1,
        }
    }

    /// The eight bytes each side sends first.
    pub const fn preamble(self) -> [u8; PREAMBLE_BYTES] {
        [b'D', b'F', b'C', b'P', self as u8, self.version(), 0, 0]
    }

    /// Checks the peer's preamble; the last two bytes are reserved and ignored.
    ///
    /// # Errors
    /// Another service, or another version of this one.
    pub fn check(self, preamble: [u8; PREAMBLE_BYTES]) -> Result<(), ProtocolError> {
        let [b'D', b'F', b'C', b'P', service, version, _, _] = preamble else {
            return Err(ProtocolError::Preamble { expected: self.name() });
        };
        if service != self as u8 {
            return Err(ProtocolError::Preamble { expected: self.name() });
        }
        if version != self.version() {
            return Err(ProtocolError::Version { got: version, ours: self.version() });
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
    /// What became of one entry.
    pub const VERDICT: u8 = 0x41;
    /// How far the receiver has come.
    pub const PROGRESS: u8 = 0x42;
    /// All entries are answered.
    pub const SUMMARY: u8 = 0x43;
    /// The session ends here.
    pub const REFUSED: u8 = 0x44;
    /// What a perf client wants.
    pub const PERF_REQUEST: u8 = 0x21;
    /// A sender's own figures, sent along with the data when the server sends.
    pub const PERF_PATH: u8 = 0x22;
    /// The server's answer to a raw request to send: what follows has no frames. Without a body.
    pub const PERF_RAW: u8 = 0x23;
    /// What a perf client wants of messages.
    pub const PERF_MESSAGES: u8 = 0x24;
    /// What a sender of messages has done.
    pub const MESSAGES_SENT: u8 = 0x25;
    /// A caller opens a pipe.
    pub const PIPE_OPEN: u8 = 0x26;
    /// What a perf receiver counted.
    pub const PERF_REPORT: u8 = 0x61;
    /// What has come of messages.
    pub const MESSAGES_CAME: u8 = 0x62;
}

/// What stands before a body.
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

/// Name and metadata of a file or directory, as received: the name is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its ordinal, by which it is answered: entries are numbered from 0 in the order in which they were found.
    pub index: u32,
    /// Directories among the entries of lower ordinals. A receiver which takes it later than these finds its directory made.
    pub directories: u32,
    /// Permission bits, of which only the lowest nine are used.
    pub mode: u32,
    /// Modification time, whole seconds since 1970 (negative before).
    pub mtime_s: i64,
    /// Modification time, nanoseconds beyond, below 10⁹.
    pub mtime_ns: u32,
    /// Room that it will take on a disk, as far as the sender knows, bytes; 0 for directories.
    pub size_hint_bytes: u64,
    /// The name as it came.
    pub name: Vec<u8>,
}

/// What a sender says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToReceiver {
    /// A directory, before what it contains.
    Directory(Entry),
    /// A file; its data follow.
    File(Entry),
    /// The next bytes of the current file. None at all: the sender is there, and its source has nothing yet.
    Data(Vec<u8>),
    /// The current file is complete.
    FileEnd {
        /// Bytes sent.
        len: u64,
        /// BLAKE3 of those bytes.
        hash: [u8; HASH_BYTES],
    },
    /// The current file is given up, and why.
    FileAbort(String),
    /// The last frame of the first stream.
    End {
        /// Directory and File frames on all streams.
        entries: u32,
        /// Streams beside the first one that the sender has opened.
        streams: u32,
    },
}

/// How an entry came to be at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Confirmed {
    /// It was stored.
    Stored = 0,
    /// A file of this name, length and hash was there already, and was not written.
    Unchanged = 12,
}

/// What a receiver says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSender {
    /// What became of the entry with this ordinal.
    Verdict {
        /// The ordinal.
        index: u32,
        /// How it is there and verified, or why not.
        outcome: Result<Confirmed, Failure>,
    },
    /// How far the receiver has come.
    Progress(Progress),
    /// Every entry has its verdict.
    Summary {
        /// Entries stored or unchanged.
        stored: u32,
        /// Entries not stored.
        failed: u32,
        /// Final figures.
        progress: Progress,
    },
    /// The receiver ends the session.
    Refused(Failure),
}

/// Running totals of a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of file data taken from the connection.
    pub received_bytes: u64,
    /// Time its disk thread was busy, µs.
    pub disk_us: u64,
}

impl Entry {
    /// Appends the whole frame, of type `DIRECTORY` or `FILE`.
    pub fn encode(&self, frame_kind: u8, out: &mut Vec<u8>) {
        with_header(frame_kind, out, |out| {
            out.extend_from_slice(&self.index.to_be_bytes());
            out.extend_from_slice(&self.directories.to_be_bytes());
            out.extend_from_slice(&self.mode.to_be_bytes());
            out.extend_from_slice(&self.mtime_s.to_be_bytes());
            out.extend_from_slice(&self.mtime_ns.to_be_bytes());
            out.extend_from_slice(&self.size_hint_bytes.to_be_bytes());
            out.extend_from_slice(&self.name);
        });
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let entry = Self {
            index: u32::from_be_bytes(fields.array()?),
            directories: u32::from_be_bytes(fields.array()?),
            mode: u32::from_be_bytes(fields.array()?),
            mtime_s: i64::from_be_bytes(fields.array()?),
            mtime_ns: u32::from_be_bytes(fields.array()?),
            size_hint_bytes: u64::from_be_bytes(fields.array()?),
            name: fields.0.to_vec(),
        };
        (entry.mtime_ns < 1_000_000_000).then_some(entry)
    }
}

impl ToReceiver {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Directory(entry) => entry.encode(kind::DIRECTORY, out),
            Self::File(entry) => entry.encode(kind::FILE, out),
            Self::Data(data) => with_header(kind::DATA, out, |out| out.extend_from_slice(data)),
            Self::FileEnd { len, hash } => with_header(kind::FILE_END, out, |out| {
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(hash);
            }),
            Self::FileAbort(sentence) => {
                let mut sentence = sentence.clone();
                truncate(&mut sentence, SENTENCE_BYTES_MAX);
                with_header(kind::FILE_ABORT, out, |out| out.extend_from_slice(sentence.as_bytes()));
            }
            Self::End { entries, streams } => with_header(kind::END, out, |out| {
                out.extend_from_slice(&entries.to_be_bytes());
                out.extend_from_slice(&streams.to_be_bytes());
            }),
        }
    }

    /// From the type and body of one frame. `body` is emptied for `Data`, so that its memory moves along.
    ///
    /// # Errors
    /// Unknown types and malformed bodies.
    pub fn decode(frame_kind: u8, body: &mut Vec<u8>) -> Result<Self, ProtocolError> {
        let malformed = |frame| ProtocolError::Malformed { frame };
        match frame_kind {
            kind::DIRECTORY => Entry::decode(body).map(Self::Directory).ok_or_else(|| malformed("directory")),
            kind::FILE => Entry::decode(body).map(Self::File).ok_or_else(|| malformed("file")),
            kind::DATA => Ok(Self::Data(std::mem::take(body))),
            kind::FILE_END => {
                let mut fields = Fields(body);
                let (Some(len), Some(hash), true) = (fields.array(), fields.array(), fields.0.is_empty()) else {
                    return Err(malformed("file end"));
                };
                Ok(Self::FileEnd { len: u64::from_be_bytes(len), hash })
            }
            kind::FILE_ABORT => sentence(body).map(Self::FileAbort).ok_or_else(|| malformed("file abort")),
            kind::END => {
                let mut fields = Fields(body);
                let (Some(entries), Some(streams), true) = (fields.array(), fields.array(), fields.0.is_empty()) else {
                    return Err(malformed("end"));
                };
                Ok(Self::End { entries: u32::from_be_bytes(entries), streams: u32::from_be_bytes(streams) })
            }
            _ => Err(ProtocolError::UnknownFrame { kind: frame_kind }),
        }
    }

    /// The frame's name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Directory(_) => "directory",
            Self::File(_) => "file",
            Self::Data(_) => "data",
            Self::FileEnd { .. } => "file end",
            Self::FileAbort(_) => "file abort",
            Self::End { .. } => "end",
        }
    }
}

impl Progress {
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.received_bytes.to_be_bytes());
        out.extend_from_slice(&self.disk_us.to_be_bytes());
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { received_bytes: u64::from_be_bytes(fields.array()?), disk_us: u64::from_be_bytes(fields.array()?) })
    }
}

impl ToSender {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Verdict { index, outcome } => with_header(kind::VERDICT, out, |out| {
                out.extend_from_slice(&index.to_be_bytes());
                match outcome {
                    Ok(confirmed) => out.push(*confirmed as u8),
                    Err(failure) => put_failure(failure, out),
                }
            }),
            Self::Progress(progress) => with_header(kind::PROGRESS, out, |out| progress.put(out)),
            Self::Summary { stored, failed, progress } => with_header(kind::SUMMARY, out, |out| {
                out.extend_from_slice(&stored.to_be_bytes());
                out.extend_from_slice(&failed.to_be_bytes());
                progress.put(out);
            }),
            Self::Refused(failure) => with_header(kind::REFUSED, out, |out| put_failure(failure, out)),
        }
    }

    /// From the type and body of one frame.
    ///
    /// # Errors
    /// Unknown types and malformed bodies.
    pub fn decode(frame_kind: u8, body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let (decoded, frame) = match frame_kind {
            kind::VERDICT => (Self::decode_verdict(&mut fields), "verdict"),
            kind::PROGRESS => (Progress::take(&mut fields).map(Self::Progress), "progress"),
            kind::SUMMARY => (Self::decode_summary(&mut fields), "summary"),
            kind::REFUSED => (take_failure(&mut fields).map(Self::Refused), "refusal"),
            _ => return Err(ProtocolError::UnknownFrame { kind: frame_kind }),
        };
        decoded.filter(|_| fields.0.is_empty()).ok_or(ProtocolError::Malformed { frame })
    }

    fn decode_verdict(fields: &mut Fields<'_>) -> Option<Self> {
        let index = u32::from_be_bytes(fields.array()?);
        let confirmed = match fields.0 {
            [code, ..] if *code == Confirmed::Stored as u8 => Some(Confirmed::Stored),
            [code, ..] if *code == Confirmed::Unchanged as u8 => Some(Confirmed::Unchanged),
            _ => None,
        };
        let outcome = match confirmed {
            // There is nothing to explain, so what follows would be left over.
            Some(confirmed) => {
                let [_code] = fields.array()?;
                Ok(confirmed)
            }
            None => Err(take_failure(fields)?),
        };
        Some(Self::Verdict { index, outcome })
    }

    fn decode_summary(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self::Summary {
            stored: u32::from_be_bytes(fields.array()?),
            failed: u32::from_be_bytes(fields.array()?),
            progress: Progress::take(fields)?,
        })
    }
}

fn put_failure(failure: &Failure, out: &mut Vec<u8>) {
    out.push(failure.code as u8);
    out.extend_from_slice(failure.sentence.as_bytes());
}

fn take_failure(fields: &mut Fields<'_>) -> Option<Failure> {
    let [code] = fields.array()?;
    let code = match code {
        0 => return None,
        // A later version may know more reasons; its sentence says which.
        code => FailureCode::from_wire(code).unwrap_or(FailureCode::FileSystem),
    };
    Some(Failure { code, sentence: sentence(std::mem::take(&mut fields.0))? })
}

fn sentence(body: &[u8]) -> Option<String> {
    if body.len() > SENTENCE_BYTES_MAX {
        return None;
    }
    std::str::from_utf8(body).ok().map(str::to_owned)
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
    /// What is left.
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
