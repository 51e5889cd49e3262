//! Frames sent by the sender of files.

use super::{Delete, Entry, HASH_BYTES, Link, Listing, sentence};
use crate::error::{ProtocolError, truncate};
use crate::frame::{Fields, kind, with_header};
use crate::limits::{LINKS_MAX, SENTENCE_BYTES_MAX};

/// Flag bits of an offer frame.
const HAS_HASH: u8 = 1;
const ASKS_ONLY: u8 = 2;
const TAKES_BASIS: u8 = 4;

/// A frame sent by the sender of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToReceiver {
    /// A directory, before its content.
    Directory(Entry),
    /// A file, followed by its data.
    File(Entry),
    /// A file with a partial copy at the receiver, followed by the rest of its data.
    Resume {
        /// Length of the partial copy, bytes.
        offset: u64,
        /// Entry of the file.
        entry: Entry,
    },
    /// A file, followed by its data if the receiver requests it.
    Offer {
        /// BLAKE3 hash of the content, for comparison; without it, size and time are compared.
        hash: Option<[u8; HASH_BYTES]>,
        /// True for a dry run: the content is not sent in any case.
        asks_only: bool,
        /// True if the sender can omit parts that an older version at the receiver contains. The receiver must first
        /// list the chunks of that version.
        takes_basis: bool,
        /// Entry of the file.
        entry: Entry,
    },
    /// Announcement that listings of directories follow after the end frame, once all entries are stored.
    Delete(Delete),
    /// Names in a directory of the sender; all other names in that directory at the receiver are to be deleted.
    Listing(Listing),
    /// The next bytes of the current file. An empty frame shows that the sender is alive while its source has no data.
    Data(Vec<u8>),
    /// A reference to bytes in the older version at the receiver, which equal the next bytes of the current file.
    Copy {
        /// Offset of the first byte in the older version.
        start: u64,
        /// Number of bytes.
        len: u32,
    },
    /// The next hashes of the receiver's partial copy: chaining values of BLAKE3 subtrees.
    Tree(Vec<[u8; HASH_BYTES]>),
    /// Start of a part of the partial copy that is sent again; the data of that part follow.
    Again {
        /// Offset of the first byte in the file.
        start: u64,
    },
    /// End of the current file.
    FileEnd {
        /// Length of the file, bytes.
        len: u64,
        /// BLAKE3 hash of the file.
        hash: [u8; HASH_BYTES],
    },
    /// Abort of the current file, with the reason.
    FileAbort(String),
    /// Announcement of links after the end frame.
    Links {
        /// Number of links, from 1 to [`LINKS_MAX`].
        count: u32,
    },
    /// The next link.
    Link(Link),
    /// The last frame of the first stream, except for links and listings.
    End {
        /// Number of directory, file, resume and offer frames on all streams. An offered file counts once; links do not
        /// count.
        entries: u32,
        /// Number of streams that the sender opened in addition to the first one.
        streams: u32,
    },
}

impl ToReceiver {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Directory(entry) => entry.encode(kind::DIRECTORY, out),
            Self::File(entry) => entry.encode(kind::FILE, out),
            Self::Resume { offset, entry } => with_header(kind::RESUME, out, |out| {
                out.extend_from_slice(&offset.to_be_bytes());
                entry.put(out);
            }),
            Self::Offer { hash, asks_only, takes_basis, entry } => with_header(kind::OFFER, out, |out| {
                let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
                out.push(
                    flag(hash.is_some(), HAS_HASH) | flag(*asks_only, ASKS_ONLY) | flag(*takes_basis, TAKES_BASIS),
                );
                out.extend_from_slice(hash.as_ref().map_or(&[][..], |hash| hash));
                entry.put(out);
            }),
            Self::Delete(delete) => with_header(kind::DELETE, out, |out| delete.put(out)),
            Self::Listing(listing) => with_header(kind::LISTING, out, |out| listing.put(out)),
            Self::Links { count } => with_header(kind::LINKS, out, |out| out.extend_from_slice(&count.to_be_bytes())),
            Self::Link(link) => with_header(kind::LINK, out, |out| link.put(out)),
            Self::Data(data) => with_header(kind::DATA, out, |out| out.extend_from_slice(data)),
            Self::Copy { start, len } => with_header(kind::COPY, out, |out| {
                out.extend_from_slice(&start.to_be_bytes());
                out.extend_from_slice(&len.to_be_bytes());
            }),
            Self::Tree(hashes) => with_header(kind::TREE, out, |out| out.extend_from_slice(hashes.as_flattened())),
            Self::Again { start } => with_header(kind::AGAIN, out, |out| out.extend_from_slice(&start.to_be_bytes())),
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

    /// Decodes the type and body of one frame. For a data frame, `body` is moved into the result, and left empty.
    ///
    /// # Errors
    /// Fails for unknown types and malformed bodies.
    pub fn decode(frame_kind: u8, body: &mut Vec<u8>) -> Result<Self, ProtocolError> {
        if frame_kind == kind::DATA {
            return Ok(Self::Data(std::mem::take(body)));
        }
        let mut fields = Fields(body);
        let (decoded, frame) = match frame_kind {
            kind::DIRECTORY => (Entry::take(&mut fields).map(Self::Directory), "directory"),
            kind::FILE => (Entry::take(&mut fields).map(Self::File), "file"),
            kind::RESUME => (Self::decode_resume(&mut fields), "resume"),
            kind::OFFER => (Self::decode_offer(&mut fields), "offer"),
            kind::DELETE => (Delete::take(&mut fields).map(Self::Delete), "delete"),
            kind::LISTING => (Listing::take(&mut fields).map(Self::Listing), "listing"),
            kind::LINKS => (Self::decode_links(&mut fields), "links"),
            kind::LINK => (Link::take(&mut fields).map(Self::Link), "link"),
            kind::COPY => (Self::decode_copy(&mut fields), "copy"),
            kind::TREE => (Self::decode_tree(&mut fields), "tree"),
            kind::AGAIN => (fields.array().map(|start| Self::Again { start: u64::from_be_bytes(start) }), "again"),
            kind::FILE_END => (Self::decode_file_end(&mut fields), "file end"),
            kind::FILE_ABORT => (sentence(std::mem::take(&mut fields.0)).map(Self::FileAbort), "file abort"),
            kind::END => (Self::decode_end(&mut fields), "end"),
            _ => return Err(ProtocolError::UnknownFrame { kind: frame_kind }),
        };
        decoded.filter(|_| fields.0.is_empty()).ok_or(ProtocolError::Malformed { frame })
    }

    fn decode_resume(fields: &mut Fields<'_>) -> Option<Self> {
        let offset = u64::from_be_bytes(fields.array()?);
        let entry = Entry::take(fields)?;
        // The offset of a partial copy must not exceed the length of the file.
        entry.len.is_some_and(|len| offset <= len).then_some(Self::Resume { offset, entry })
    }

    fn decode_offer(fields: &mut Fields<'_>) -> Option<Self> {
        let [how] = fields.array()?;
        if how > HAS_HASH | ASKS_ONLY | TAKES_BASIS {
            return None;
        }
        let hash = if how & HAS_HASH == 0 { None } else { Some(fields.array()?) };
        let entry = Entry::take(fields)?;
        let (asks_only, takes_basis) = (how & ASKS_ONLY != 0, how & TAKES_BASIS != 0);
        entry.len.is_some().then_some(Self::Offer { hash, asks_only, takes_basis, entry })
    }

    fn decode_links(fields: &mut Fields<'_>) -> Option<Self> {
        let count = u32::from_be_bytes(fields.array()?);
        (1..=LINKS_MAX).contains(&count).then_some(Self::Links { count })
    }

    fn decode_copy(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self::Copy { start: u64::from_be_bytes(fields.array()?), len: u32::from_be_bytes(fields.array()?) })
    }

    fn decode_tree(fields: &mut Fields<'_>) -> Option<Self> {
        let (hashes, rest) = fields.0.as_chunks();
        fields.0 = rest;
        Some(Self::Tree(hashes.to_vec()))
    }

    fn decode_file_end(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self::FileEnd { len: u64::from_be_bytes(fields.array()?), hash: fields.array()? })
    }

    fn decode_end(fields: &mut Fields<'_>) -> Option<Self> {
        let (entries, streams) = (fields.array()?, fields.array()?);
        Some(Self::End { entries: u32::from_be_bytes(entries), streams: u32::from_be_bytes(streams) })
    }

    /// Returns the name of the frame for messages to users.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Directory(_) => "directory",
            Self::File(_) => "file",
            Self::Resume { .. } => "resume",
            Self::Offer { .. } => "offer",
            Self::Delete(_) => "delete",
            Self::Listing(_) => "listing",
            Self::Links { .. } => "links",
            Self::Link(_) => "link",
            Self::Data(_) => "data",
            Self::Copy { .. } => "copy",
            Self::Tree(_) => "tree",
            Self::Again { .. } => "again",
            Self::FileEnd { .. } => "file end",
            Self::FileAbort(_) => "file abort",
            Self::End { .. } => "end",
        }
    }
}
