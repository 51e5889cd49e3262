//! Sizes of a datagram's parts, and the sizes derived from them; computed only here.

/// Bytes of the fixed header (thesis figure 3.3).
pub const HEADER_BYTES: usize = 24;

/// Maximum length of options: the data offset counts at most fifteen 32-bit words, six of them the header.
pub const OPTIONS_BYTES_MAX: usize = 36;

/// Length of a stream id between header and payload. Segments of stream 0, and of no stream, have none.
pub const STREAM_ID_BYTES: usize = 4;

/// Length of the CRC-32C at the end of a modern plaintext datagram.
pub const CRC_BYTES: usize = 4;

/// Length of the authentication tag at the end of an encrypted datagram (`spec/security.md` \[seal-1\]).
pub const TAG_BYTES: usize = 16;

/// Longest datagram of this version: the payload of an Ethernet frame. Longer ones are neither sent nor accepted.
pub const DATAGRAM_BYTES_MAX: usize = 1500;

/// Maximum number of parts of one encoding symbol, limited by S2.
pub const FRAGMENTS_MAX: u8 = 4;

/// Maximum length of a message: 256 KiB.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 18;

/// Upper bound of encoding symbol ids of messages, so that a set of them has at most 128 bytes: four times the maximum number of source
/// symbols, as for blocks.
pub const MESSAGE_SYMBOLS_MAX: u32 = 1024;

/// Bytes between header and payload of a message segment: three words.
pub const MESSAGE_WORDS_BYTES: usize = 12;

/// Length of the additional word if a repair symbol covers several messages.
pub const MESSAGE_GROUP_BYTES: usize = 4;

/// Bytes of the fixed part of a feedback report.
pub const REPORT_BYTES: usize = 52;

/// Maximum number of marks in a report.
pub const MARKS_MAX: usize = 3;

/// Maximum number of loss runs in a report.
pub const LOSS_RUNS_MAX: usize = 32;

/// Buffer for any datagram; headers written into it always fit.
pub type DatagramBuffer = [u8; DATAGRAM_BYTES_MAX];

/// Length of the trailer of a modern segment: a tag if `sealed`, else a CRC.
#[must_use]
pub const fn trailer_bytes(sealed: bool) -> usize {
    if sealed { TAG_BYTES } else { CRC_BYTES }
}

/// Length of header and trailer of a modern segment without options. Segments of streams other than stream 0 have [`STREAM_ID_BYTES`] more.
#[must_use]
pub const fn overhead_bytes(sealed: bool) -> usize {
    HEADER_BYTES + trailer_bytes(sealed)
}

/// Maximum payload of a modern segment without options, for any stream: 1456 bytes if encrypted, else 1468. A segment without a stream id
/// has room for [`STREAM_ID_BYTES`] more, which symbols leave unused: all streams of a connection share one symbol size.
#[must_use]
pub const fn payload_bytes_max(sealed: bool) -> usize {
    DATAGRAM_BYTES_MAX - overhead_bytes(sealed) - STREAM_ID_BYTES
}
