//! Sizes of a datagram's parts, and what follows from them. Nobody else adds them up.

/// Bytes of the fixed header (thesis figure 3.3).
pub const HEADER_BYTES: usize = 24;

/// The most bytes that options can take: the data offset counts at most fifteen 32-bit words, six of them the header.
pub const OPTIONS_BYTES_MAX: usize = 36;

/// Bytes of a stream id between header and payload. Segments of stream 0, and of no stream, have none.
pub const STREAM_ID_BYTES: usize = 4;

/// Bytes of the CRC-32C which ends an unsealed modern datagram.
pub const CRC_BYTES: usize = 4;

/// Bytes of the authentication tag which ends a sealed datagram (`spec/security.md` \[seal-1\]).
pub const TAG_BYTES: usize = 16;

/// The longest datagram of this version: what an Ethernet frame carries. Longer ones are neither sent nor accepted.
pub const DATAGRAM_BYTES_MAX: usize = 1500;

/// The most parts of one encoding symbol. S2 has no room for more.
pub const FRAGMENTS_MAX: u8 = 4;

/// The most bytes of a message: 256 KiB.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 18;

/// Encoding symbols of a message, or of several which are coded together, have ids below this: so a set of them has at most
/// 128 bytes. It is four times the most source symbols, as of blocks.
pub const MESSAGE_SYMBOLS_MAX: u32 = 1024;

/// Bytes between header and payload of a message segment: three words.
pub const MESSAGE_WORDS_BYTES: usize = 12;

/// Bytes behind these where a repair symbol covers several messages.
pub const MESSAGE_GROUP_BYTES: usize = 4;

/// Bytes of the fixed part of a feedback report.
pub const REPORT_BYTES: usize = 52;

/// The most marks of a report.
pub const MARKS_MAX: usize = 3;

/// The most loss runs of a report.
pub const LOSS_RUNS_MAX: usize = 32;

/// Room for any datagram. Segments are written into it, so that their headers always fit.
pub type DatagramBuffer = [u8; DATAGRAM_BYTES_MAX];

/// Bytes behind the payload of a modern segment: a tag if it is sealed, else a CRC.
#[must_use]
pub const fn trailer_bytes(sealed: bool) -> usize {
    if sealed { TAG_BYTES } else { CRC_BYTES }
}

/// Bytes of a modern segment without options besides its payload: header and trailer. Segments of other streams than stream
/// 0 have [`STREAM_ID_BYTES`] more.
#[must_use]
pub const fn overhead_bytes(sealed: bool) -> usize {
    HEADER_BYTES + trailer_bytes(sealed)
}

/// The longest payload of a modern segment without options, whatever its stream: 1456 bytes if it is sealed, else 1468.
/// Without a stream id a segment has room for [`STREAM_ID_BYTES`] more, which symbols do not use: all streams of a connection
/// share one symbol size.
#[must_use]
pub const fn payload_bytes_max(sealed: bool) -> usize {
    DATAGRAM_BYTES_MAX - overhead_bytes(sealed) - STREAM_ID_BYTES
}
