//! Frames sent by the receiver of files.

use super::{Basis, sentence};
use crate::error::{Failure, FailureCode, ProtocolError};
use crate::frame::{Fields, kind, with_header};

/// Capability bits of a hello frame; unknown bits are ignored.
const TAKES_OFFERS: u8 = 1;
const DELETES: u8 = 2;
const KEEPS_LINKS: u8 = 4;

/// Kind of success of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Confirmed {
    /// The entry was stored.
    Stored = 0,
    /// A file of this name, length and hash existed already, and was not written.
    Unchanged = 12,
}

/// A frame sent by the receiver of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSender {
    /// Verdict on the entry with this ordinal.
    Verdict {
        /// Ordinal of the entry.
        index: u32,
        /// Kind of success (the content was verified), or the reason for a failure.
        outcome: Result<Confirmed, Failure>,
    },
    /// Progress of the receiver.
    Progress(Progress),
    /// Totals, sent when every entry has its verdict.
    Summary {
        /// Number of entries stored or unchanged.
        stored: u32,
        /// Number of entries not stored.
        failed: u32,
        /// Final values of the progress.
        progress: Progress,
    },
    /// End of the session by the receiver, with a reason.
    Refused(Failure),
    /// Capabilities of the receiver for this sender. Exactly [`Hello::partials`] frames [`ToSender::Partial`] follow.
    Hello(Hello),
    /// A partial copy of a file of this sender.
    Partial(Partial),
    /// Request for the content of an offered file.
    Want {
        /// Ordinal of the file.
        index: u32,
    },
    /// The next chunks of the older version of an offered file. After the last chunks, the receiver requests the
    /// content.
    Basis(Basis),
    /// Report of a deletion (or, in a dry run, of a possible one), or of its failure.
    Deleted {
        /// Reason for a failure; `None` for a success.
        failure: Option<FailureCode>,
        /// Name of the entry.
        name: Vec<u8>,
    },
    /// End of the deletions for all listings. It follows one [`ToSender::Deleted`] frame for each reported name.
    Swept {
        /// Number of names reported.
        told: u32,
        /// In a dry run, number of further entries that would be deleted, but belong to others, so that their names are
        /// not reported to this sender.
        unnamed: u32,
    },
    /// Progress of the comparison of a partial copy with the sender's content.
    Checked {
        /// Ordinal of the file.
        index: u32,
        /// Offset up to which the copy was compared.
        end: u64,
        /// Offsets of the differing parts, among the parts compared since the previous frame of this type.
        differ: Vec<u64>,
    },
}

/// Capabilities of a receiver for one sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hello {
    /// True if the receiver answers offers.
    pub takes_offers: bool,
    /// True if the receiver deletes files that the sender does not have.
    pub deletes: bool,
    /// True if the receiver creates links.
    pub keeps_links: bool,
    /// Number of partial copies at the receiver.
    pub partials: u32,
}

/// A partial copy of a file at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// Length of the partial copy, bytes.
    pub offset: u64,
    /// Length of the whole file, bytes.
    pub len: u64,
    /// Modification time of the file, whole seconds since 1970 (negative before).
    pub mtime_s: i64,
    /// Modification time of the file, nanoseconds within the second, below 10⁹.
    pub mtime_ns: u32,
    /// Name of the file.
    pub name: Vec<u8>,
}

/// Running totals of a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of file data read from the connection.
    pub received_bytes: u64,
    /// Busy time of the disk thread, µs.
    pub disk_us: u64,
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
            Self::Hello(Hello { takes_offers, deletes, keeps_links, partials }) => {
                with_header(kind::HELLO, out, |out| {
                    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
                    out.push(
                        flag(*takes_offers, TAKES_OFFERS) | flag(*deletes, DELETES) | flag(*keeps_links, KEEPS_LINKS),
                    );
                    out.extend_from_slice(&partials.to_be_bytes());
                })
            }
            Self::Partial(partial) => with_header(kind::PARTIAL, out, |out| partial.put(out)),
            Self::Deleted { failure, name } => with_header(kind::DELETED, out, |out| {
                out.push(failure.map_or(0, |code| code as u8));
                out.extend_from_slice(name);
            }),
            Self::Swept { told, unnamed } => with_header(kind::SWEPT, out, |out| {
                out.extend_from_slice(&told.to_be_bytes());
                out.extend_from_slice(&unnamed.to_be_bytes());
            }),
            Self::Basis(basis) => with_header(kind::BASIS, out, |out| basis.put(out)),
            Self::Want { index } => with_header(kind::WANT, out, |out| out.extend_from_slice(&index.to_be_bytes())),
            Self::Checked { index, end, differ } => with_header(kind::CHECKED, out, |out| {
                out.extend_from_slice(&index.to_be_bytes());
                out.extend_from_slice(&end.to_be_bytes());
                out.extend(differ.iter().flat_map(|start| start.to_be_bytes()));
            }),
        }
    }

    /// Decodes the type and body of one frame.
    ///
    /// # Errors
    /// Fails for unknown types and malformed bodies.
    pub fn decode(frame_kind: u8, body: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(body);
        let (decoded, frame) = match frame_kind {
            kind::VERDICT => (Self::decode_verdict(&mut fields), "verdict"),
            kind::PROGRESS => (Progress::take(&mut fields).map(Self::Progress), "progress"),
            kind::SUMMARY => (Self::decode_summary(&mut fields), "summary"),
            kind::REFUSED => (take_failure(&mut fields).map(Self::Refused), "refusal"),
            kind::HELLO => (Self::decode_hello(&mut fields), "hello"),
            kind::PARTIAL => (Partial::take(&mut fields).map(Self::Partial), "partial"),
            kind::DELETED => (Self::decode_deleted(&mut fields), "deleted"),
            kind::SWEPT => (Self::decode_swept(&mut fields), "swept"),
            kind::BASIS => (Basis::take(&mut fields).map(Self::Basis), "basis"),
            kind::WANT => (fields.array().map(|index| Self::Want { index: u32::from_be_bytes(index) }), "want"),
            kind::CHECKED => (Self::decode_checked(&mut fields), "checked"),
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
            // A success has no sentence, so further bytes are an error.
            Some(confirmed) => {
                let [_code] = fields.array()?;
                Ok(confirmed)
            }
            None => Err(take_failure(fields)?),
        };
        Some(Self::Verdict { index, outcome })
    }

    fn decode_hello(fields: &mut Fields<'_>) -> Option<Self> {
        let [abilities] = fields.array()?;
        let takes_offers = abilities & TAKES_OFFERS != 0;
        let deletes = abilities & DELETES != 0;
        let keeps_links = abilities & KEEPS_LINKS != 0;
        Some(Self::Hello(Hello { takes_offers, deletes, keeps_links, partials: u32::from_be_bytes(fields.array()?) }))
    }

    fn decode_deleted(fields: &mut Fields<'_>) -> Option<Self> {
        let [code] = fields.array()?;
        let failure = (code != 0).then(|| FailureCode::from_wire(code).unwrap_or(FailureCode::FileSystem));
        Some(Self::Deleted { failure, name: std::mem::take(&mut fields.0).to_vec() })
    }

    fn decode_swept(fields: &mut Fields<'_>) -> Option<Self> {
        let (told, unnamed) = (fields.array()?, fields.array()?);
        Some(Self::Swept { told: u32::from_be_bytes(told), unnamed: u32::from_be_bytes(unnamed) })
    }

    fn decode_checked(fields: &mut Fields<'_>) -> Option<Self> {
        let index = u32::from_be_bytes(fields.array()?);
        let end = u64::from_be_bytes(fields.array()?);
        let (differ, rest) = fields.0.as_chunks();
        fields.0 = rest;
        Some(Self::Checked { index, end, differ: differ.iter().map(|start| u64::from_be_bytes(*start)).collect() })
    }

    fn decode_summary(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self::Summary {
            stored: u32::from_be_bytes(fields.array()?),
            failed: u32::from_be_bytes(fields.array()?),
            progress: Progress::take(fields)?,
        })
    }
}

impl Partial {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.len.to_be_bytes());
        out.extend_from_slice(&self.mtime_s.to_be_bytes());
        out.extend_from_slice(&self.mtime_ns.to_be_bytes());
        out.extend_from_slice(&self.name);
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let partial = Self {
            offset: u64::from_be_bytes(fields.array()?),
            len: u64::from_be_bytes(fields.array()?),
            mtime_s: i64::from_be_bytes(fields.array()?),
            mtime_ns: u32::from_be_bytes(fields.array()?),
            name: std::mem::take(&mut fields.0).to_vec(),
        };
        (partial.offset <= partial.len && partial.mtime_ns < 1_000_000_000).then_some(partial)
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
        // A later version may have more codes; the sentence states the reason.
        code => FailureCode::from_wire(code).unwrap_or(FailureCode::FileSystem),
    };
    Some(Failure { code, sentence: sentence(std::mem::take(&mut fields.0))? })
}
