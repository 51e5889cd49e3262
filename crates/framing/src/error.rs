//! Reasons why one file was not stored ([`Failure`]), and breaches of the protocol by a peer ([`ProtocolError`]).

use std::io;

use crate::limits::SENTENCE_BYTES_MAX;

/// Reason why one file or directory was not stored, as it travels in a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureCode {
    /// Something of that name is there already and the receiver was not told to replace it.
    Exists = 1,
    /// The name is not acceptable, see [`super::names::NameError`], or leads through a symbolic link.
    Name = 2,
    /// The receiver's user may not write there.
    Permission = 3,
    /// The receiver's disk or quota is full.
    DiskFull = 4,
    /// The content that arrived differs from what was sent.
    Mismatch = 5,
    /// Any other error of the receiver's file system.
    FileSystem = 6,
    /// The sender gave the file up.
    GivenUp = 7,
    /// The server serves as many peers as it may; of something that is to be deleted: a transfer is under way there.
    Busy = 8,
    /// The peer broke the protocol.
    Protocol = 9,
    /// The receiver does not admit the sender.
    NotAdmitted = 10,
    /// The receiver's program was told to end.
    Stopped = 11,
    /// The server was not started for what the client asks. (12 is no failure: unchanged.)
    Unsuited = 13,
    /// Another file system is mounted there, so it is not deleted.
    Mounted = 14,
    /// Something in the directory stays, so it is not deleted.
    NotEmpty = 15,
}

impl FailureCode {
    /// The code's meaning; `None` for codes of a later version.
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

/// Reason why one file was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failure {
    /// The code, for programs.
    pub code: FailureCode,
    /// The sentence, for people; at most [`SENTENCE_BYTES_MAX`] bytes.
    pub sentence: String,
}

impl Failure {
    /// A failure; its sentence is cut to its limit.
    pub fn new(code: FailureCode, sentence: impl Into<String>) -> Self {
        let mut sentence = sentence.into();
        truncate(&mut sentence, SENTENCE_BYTES_MAX);
        Self { code, sentence }
    }

    /// The failure for an error of the receiver's file system while it did `what` ("write the file").
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

/// Sentence for a sender whose name is taken, whatever the content of the file.
pub const EXISTS: &str = "it exists at the receiver; give --force there to replace it, or --allow-update so that files \
                          which are the same count as unchanged";

/// Shortens `text` to at most `bytes_max` bytes without cutting a character.
pub fn truncate(text: &mut String, bytes_max: usize) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// A peer which does not keep to the format of `spec/file-transfer.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The first eight bytes are not ours.
    #[error("the peer does not speak the dfcp {expected} protocol; is the right dfcp command running there?")]
    Preamble {
        /// The service spoken here.
        expected: &'static str,
    },
    /// Our preamble with another version.
    #[error("the peer speaks version {got} of the protocol and this is version {ours}; update the older of the two")]
    Version {
        /// The peer's version.
        got: u8,
        /// Ours.
        ours: u8,
    },
    /// Files are to go the other way than this side has it: both sides send, or both receive.
    #[error("both sides send files or both receive them; run `dfcp send` on one side and `dfcp receive` on the other")]
    Direction,
    /// A frame of unknown type.
    #[error("the peer sent a frame of unknown type {kind:#04x}")]
    UnknownFrame {
        /// The type byte.
        kind: u8,
    },
    /// A frame larger than its type may be.
    #[error("the peer announced a frame of {len} bytes, more than the {max} allowed")]
    TooLarge {
        /// As announced.
        len: u32,
        /// The limit.
        max: usize,
    },
    /// A frame whose body has the wrong length or a field out of range.
    #[error("the peer sent a malformed {frame} frame")]
    Malformed {
        /// The frame's name.
        frame: &'static str,
    },
    /// A frame which may not come at this point.
    #[error("the peer sent a {frame} frame where none is allowed")]
    OutOfPlace {
        /// The frame's name.
        frame: &'static str,
    },
    /// Two entries with one ordinal, directories whose ordinals do not grow, or an entry which belongs after ones that have not come.
    #[error("the sender's entry {index} is out of order or has come before")]
    Ordinal {
        /// As in its frame.
        index: u32,
    },
    /// A stream ended between the first and the last frame of a file.
    #[error("the sender ended a stream inside of a file")]
    CutFile,
    /// More streams beside the first one than a session may have, or than the sender says it has opened.
    #[error("the sender opened more streams than it may")]
    TooManyStreams,
    /// More entries are missing among those that came than can be on their way.
    #[error("the sender left out too many entries")]
    TooManyGaps,
    /// A verdict about something that was not sent, or was answered before.
    #[error("the receiver answered for entry {index}, which does not await an answer")]
    StrayVerdict {
        /// As in the verdict.
        index: u32,
    },
    /// The totals of the two sides differ.
    #[error("what was sent and what was received do not agree")]
    Summary,
}
