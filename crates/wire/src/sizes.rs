//! Sizes of a datagram's parts, and sizes derived from them. No other module computes such sizes.

/// Length of the fixed header, bytes (thesis figure 3.3).
pub const HEADER_BYTES: usize = 24;

/// Maximum length of options, bytes: the data offset counts at most fifteen 32-bit words, and the header takes six.
pub const OPTIONS_BYTES_MAX: usize = 36;

/// Length of a stream id between header and payload, bytes. Segments of stream 0, and segments without a stream, have
/// no stream id.
pub const STREAM_ID_BYTES: usize = 4;

/// Length of the CRC-32C at the end of a modern plaintext datagram, bytes.
pub const CRC_BYTES: usize = 4;

/// Length of the authentication tag at the end of an encrypted datagram, bytes (`spec/security.md` \[seal-1\]).
pub const TAG_BYTES: usize = 16;

/// Length of the longest datagram of this version, bytes: the payload of an Ethernet frame. Longer datagrams are
/// neither sent nor accepted.
pub const DATAGRAM_BYTES_MAX: usize = 1500;

/// Maximum number of parts of one encoding symbol, limited by the bits in S2.
pub const FRAGMENTS_MAX: u8 = 4;

/// Maximum length of a message, bytes: 256 KiB.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 18;

/// Upper bound of encoding symbol ids of messages: four times the maximum number of source symbols, like for blocks. A
/// bit set of these ids has at most 128 bytes.
pub const MESSAGE_SYMBOLS_MAX: u32 = 1024;

/// Length of the words between header and payload of a message segment, bytes: three words.
pub const MESSAGE_WORDS_BYTES: usize = 12;

/// Length of the additional word of a repair symbol over several messages, bytes.
pub const MESSAGE_GROUP_BYTES: usize = 4;

/// Length of the fixed part of a feedback report, bytes.
pub const REPORT_BYTES: usize = 52;

/// Maximum number of marks in a report.
pub const MARKS_MAX: usize = 3;

/// Maximum number of loss runs in a report.
pub const LOSS_RUNS_MAX: usize = 32;

/// Buffer for any datagram. Headers written into it always fit.
pub type DatagramBuffer = [u8; DATAGRAM_BYTES_MAX];

/// Returns the length of the trailer of a modern segment, bytes: a tag if `sealed`, otherwise a CRC.
#[must_use]
pub const fn trailer_bytes(sealed: bool) -> usize {
    if sealed { TAG_BYTES } else { CRC_BYTES }
}

/// Returns the length of header and trailer of a modern segment without options, bytes. Segments of streams other than
/// stream 0 have [`STREAM_ID_BYTES`] more.
#[must_use]
pub const fn overhead_bytes(sealed: bool) -> usize {
    HEADER_BYTES + trailer_bytes(sealed)
}

/// Returns the maximum payload of a modern segment without options, for any stream: 1456 bytes if encrypted, otherwise
/// 1468 bytes. A segment without a stream id would have room for [`STREAM_ID_BYTES`] more. Symbols leave these bytes
/// unused, as all streams of a connection share one symbol size.
#[must_use]
pub const fn payload_bytes_max(sealed: bool) -> usize {
    DATAGRAM_BYTES_MAX - overhead_bytes(sealed) - STREAM_ID_BYTES
}
