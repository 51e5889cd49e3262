//! Reasons why a file was not stored ([`Failure`]), and violations of the protocol by a peer ([`ProtocolError`]).

use std::io;

use crate::limits::SENTENCE_BYTES_MAX;

/// Code of a failed entry, as sent in a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureCode {
    /// An entry of that name exists, and the receiver does not replace entries.
    Exists = 1,
    /// The name is invalid (see [`super::names::NameError`]), or leads through a symbolic link.
    Name = 2,
    /// The receiver's user has no write permission.
    Permission = 3,
    /// The receiver's disk or quota is full.
    DiskFull = 4,
    /// The received content differs from the content sent.
    Mismatch = 5,
    /// Any other error of the receiver's file system.
    FileSystem = 6,
    /// The sender aborted the file.
    GivenUp = 7,
    /// The server has reached its limit of peers; for a deletion: a transfer to that entry is in progress.
    Busy = 8,
    /// The peer violated the protocol.
    Protocol = 9,
    /// The receiver does not admit the sender.
    NotAdmitted = 10,
    /// The receiver's program was stopped.
    Stopped = 11,
    /// The server was started without an option that the request needs. (Code 12 is not a failure: unchanged.)
    Unsuited = 13,
    /// The entry was not deleted, because another file system is mounted there.
    Mounted = 14,
    /// The directory was not deleted, because it is not empty.
    NotEmpty = 15,
}

impl FailureCode {
    /// Decodes a failure code; `None` for codes of later versions.
    pub fn from_wire(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Exists,
            2 => Self::Name,
            3 => Self::Permission,
            4 => Self::DiskFull,
            5 => Self::Mismatch,
            6 => Self::FileSystem,
            7 => Self::GivenUp,
            8 => Self::Busy,
            9 => Self::Protocol,
            10 => Self::NotAdmitted,
            11 => Self::Stopped,
            13 => Self::Unsuited,
            14 => Self::Mounted,
            15 => Self::NotEmpty,
            _ => return None,
        })
    }
}

/// Reason why a file was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failure {
    /// Code for programs.
    pub code: FailureCode,
    /// Sentence for people; at most [`SENTENCE_BYTES_MAX`] bytes.
    pub sentence: String,
}

impl Failure {
    /// Makes a failure; the sentence is cut to [`SENTENCE_BYTES_MAX`].
    pub fn new(code: FailureCode, sentence: impl Into<String>) -> Self {
        let mut sentence = sentence.into();
        truncate(&mut sentence, SENTENCE_BYTES_MAX);
        Self { code, sentence }
    }

    /// Makes a failure from an error of the receiver's file system during `what`, like “write the file”.
    pub fn from_io(what: &str, error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        let (code, hint) = match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
                (FailureCode::DiskFull, "the receiver's disk is full: free some space there and send again")
            }
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
                (FailureCode::Permission, "the receiver may not write there: change its --output or the permissions")
            }
            Kind::AlreadyExists => (FailureCode::Exists, EXISTS),
            _ => return Self::new(FailureCode::FileSystem, format!("the receiver could not {what}: {error}")),
        };
        Self::new(code, hint)
    }
}

/// Sentence for a sender whose file name already exists at the receiver, with any content.
pub const EXISTS: &str = "it exists at the receiver; give --force there to replace it, or --allow-update so that files \
                          which are the same count as unchanged";

/// Cuts `text` to at most `bytes_max` bytes, at a character boundary.
pub fn truncate(text: &mut String, bytes_max: usize) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Violation of the format of `spec/file-transfer.md` by a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The first eight bytes are not a preamble of this protocol.
    #[error("the peer does not speak the dfcp {expected} protocol; is the right dfcp command running there?")]
    Preamble {
        /// Service at this end.
        expected: &'static str,
    },
    /// The preamble has another version.
    #[error("the peer speaks version {got} of the protocol and this is version {ours}; update the older of the two")]
    Version {
        /// Version of the peer.
        got: u8,
        /// Version at this end.
        ours: u8,
    },
    /// The directions disagree: both ends send files, or both receive them.
    #[error("both sides send files or both receive them; run `dfcp send` on one side and `dfcp receive` on the other")]
    Direction,
    /// The type of a frame is unknown.
    #[error("the peer sent a frame of unknown type {kind:#04x}")]
    UnknownFrame {
        /// Type byte.
        kind: u8,
    },
    /// A frame exceeds the limit of its type.
    #[error("the peer announced a frame of {len} bytes, more than the {max} allowed")]
    TooLarge {
        /// Announced length of the body, bytes.
        len: u32,
        /// Limit, bytes.
        max: usize,
    },
    /// The body of a frame has the wrong length or a field out of range.
    #[error("the peer sent a malformed {frame} frame")]
    Malformed {
        /// Name of the frame.
        frame: &'static str,
    },
    /// The frame is not allowed at this point.
    #[error("the peer sent a {frame} frame where none is allowed")]
    OutOfPlace {
        /// Name of the frame.
        frame: &'static str,
    },
    /// An ordinal is wrong: used twice, decreasing for directories, or of an entry whose predecessors are missing.
    #[error("the sender's entry {index} is out of order or has come before")]
    Ordinal {
        /// Ordinal in the frame.
        index: u32,
    },
    /// The stream ended within a file.
    #[error("the sender ended a stream inside of a file")]
    CutFile,
    /// The sender opened more additional streams than a session permits, or than it announced.
    #[error("the sender opened more streams than it may")]
    TooManyStreams,
    /// More entries are missing between received entries than can be in flight.
    #[error("the sender left out too many entries")]
    TooManyGaps,
    /// A verdict refers to an entry that was not sent, or that already has a verdict.
    #[error("the receiver answered for entry {index}, which does not await an answer")]
    StrayVerdict {
        /// Ordinal in the verdict.
        index: u32,
    },
    /// The totals of the two ends differ.
    #[error("what was sent and what was received do not agree")]
    Summary,
}
