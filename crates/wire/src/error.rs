//! Errors in received bytes, and in values to be sent.

use crate::sizes::REPORT_BYTES;
use crate::{DATAGRAM_BYTES_MAX, Flags, HEADER_BYTES, Profile};
use thiserror::Error;

/// Reason to refuse received bytes. The sender or the path is at fault; the datagram must be dropped and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The datagram is shorter than the fixed header.
    #[error("the datagram has {bytes} bytes, fewer than the {HEADER_BYTES} of a header")]
    TooShort {
        /// Bytes of the datagram.
        bytes: usize,
    },
    /// The datagram exceeds the limit of this version.
    #[error("the datagram has {bytes} bytes, more than {DATAGRAM_BYTES_MAX}")]
    TooLong {
        /// Bytes of the datagram.
        bytes: usize,
    },
    /// The data offset lies inside the header or past the datagram's end.
    #[error("data offset {words} (32-bit words) is not between 6 and the end of the {bytes} bytes received")]
    DataOffset {
        /// The field's value.
        words: u8,
        /// Length of the datagram up to the payload's end, without the CRC.
        bytes: usize,
    },
    /// The six reserved bits are neither all zero (classic) nor `1000ee` (modern).
    #[error("the reserved bits {bits:#08b} belong to no known profile")]
    ReservedBits {
        /// The six bits.
        bits: u8,
    },
    /// The classic profile lacks the flags FBK and SEC.
    #[error("a classic segment has the flags {flags}; FBK and SEC are not of that profile")]
    FlagsOfProfile {
        /// All flags of the segment.
        flags: Flags,
    },
    /// No kind of segment has this combination of flags.
    #[error("no kind of segment has the flags {flags}")]
    FlagCombination {
        /// Flags of the segment without SEC.
        flags: Flags,
    },
    /// S1 of a modern ACK, which states its kind, is unknown.
    #[error("S1 of an ACK is {s1}, which stands for no kind of ACK")]
    AckKind {
        /// The field's value.
        s1: u32,
    },
    /// A message segment must have three or four words between header and payload.
    #[error("a message segment has neither three nor four words between header and payload")]
    MessageWords,
    /// A field of a message segment is out of its range, or contradicts another.
    #[error("the {field} of a message segment is {value}, which is out of range or contradicts its other fields")]
    MessageField {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        value: u32,
    },
    /// The payload of a path probe must be zero padding.
    #[error("the padding of a path probe holds {found:#04x} instead of zero")]
    ProbePadding {
        /// First byte that is not zero.
        found: u8,
    },
    /// The checksum field of a modern segment must be zero.
    #[error("the checksum field of a modern segment is {found:#06x} instead of zero")]
    ChecksumNotZero {
        /// The field's value.
        found: u16,
    },
    /// The checksum of a classic segment is wrong, or zero, which is never sent.
    #[error("the checksum is {found:#06x} instead of {computed:#06x}")]
    Checksum {
        /// The field's value.
        found: u16,
        /// Computed value.
        computed: u16,
    },
    /// The CRC-32C of a modern plaintext datagram is wrong.
    #[error("the CRC-32C is {found:#010x} instead of {computed:#010x}")]
    Crc {
        /// Last four bytes.
        found: u32,
        /// Computed value.
        computed: u32,
    },
    /// An option extends past the data offset.
    #[error("option kind {kind} needs {need} more bytes, {left} are left")]
    OptionTruncated {
        /// The option's kind.
        kind: u8,
        /// Missing bytes.
        need: usize,
        /// Bytes left before the data offset.
        left: usize,
    },
    /// An option's value has the wrong length.
    #[error("option {field} has {got} bytes instead of {expected}")]
    OptionLength {
        /// The option's name.
        field: &'static str,
        /// Bytes found.
        got: usize,
        /// Required length.
        expected: usize,
    },
    /// An option's value is outside its range.
    #[error("option {field} has the value {value}, which is out of range")]
    OptionValue {
        /// The option's name.
        field: &'static str,
        /// The value.
        value: u32,
    },
    /// Duplicate option.
    #[error("option kind {kind} stands twice")]
    OptionDuplicate {
        /// The option's kind.
        kind: u8,
    },
    /// An unknown option must not be ignored (kind 128 or more).
    #[error("option kind {kind} is unknown and may not be ignored")]
    CriticalOption {
        /// The option's kind.
        kind: u8,
    },
    /// Bytes after the end of the options are not zero.
    #[error("the padding behind the options holds {found:#04x} instead of zero")]
    OptionPadding {
        /// First byte that is not zero.
        found: u8,
    },
    /// Options follow a header other than SYN or SYNACK, after which there is room for a stream id at most.
    #[error("data offset {words} (32-bit words) leaves room for options, which only SYN and SYNACK have")]
    OptionsAfterHandshake {
        /// The data offset.
        words: u8,
    },
    /// A segment states stream id 0, which must be omitted.
    #[error("the segment names stream 0, which no segment must name")]
    StreamIdZero,
    /// A segment of this kind cannot have a stream id.
    #[error("a segment with the flags {flags} and S1 = {s1} names stream {stream}, but its kind has none")]
    StreamIdUnexpected {
        /// Flags of the segment without SEC.
        flags: Flags,
        /// The field's value.
        s1: u32,
        /// Stream id as a number.
        stream: u32,
    },
    /// The profile option and the reserved bits disagree.
    #[error("the profile option says {option:?}, the reserved bits say {header:?}")]
    ProfileMismatch {
        /// The option's value.
        option: Profile,
        /// The profile in the reserved bits.
        header: Profile,
    },
    /// S2 states a fragment index beyond the count.
    #[error("S2 says that the payload is part {index} of {count}, counted from 0, of an encoding symbol")]
    FragmentIndex {
        /// Index of the part, from 0.
        index: u8,
        /// Number of parts of the symbol.
        count: u8,
    },
    /// A block has length 0.
    #[error("S2 gives the block length 0")]
    BlockInfoLength,
    /// A handshake parameter extends past the payload's end.
    #[error("handshake parameter {kind} needs {need} more bytes, {left} are left")]
    ParameterTruncated {
        /// The parameter's type.
        kind: u8,
        /// Missing bytes.
        need: usize,
        /// Bytes left in the payload.
        left: usize,
    },
    /// A handshake parameter's value has the wrong length.
    #[error("handshake parameter {field} has {got} bytes instead of {expected}")]
    ParameterLength {
        /// The parameter's name.
        field: &'static str,
        /// Bytes found.
        got: usize,
        /// Required length.
        expected: usize,
    },
    /// Duplicate handshake parameter.
    #[error("handshake parameter {kind} stands twice")]
    ParameterDuplicate {
        /// The parameter's type.
        kind: u8,
    },
    /// An unknown handshake parameter must not be ignored (type 128 or more).
    #[error("handshake parameter {kind} is unknown and may not be ignored")]
    CriticalParameter {
        /// The parameter's type.
        kind: u8,
    },
    /// A handshake payload lacks a mandatory parameter.
    #[error("the handshake payload lacks the parameter {field}")]
    ParameterMissing {
        /// The parameter's name.
        field: &'static str,
    },
    /// Connection id 0 is invalid.
    #[error("the handshake payload chooses the connection id 0")]
    ConnectionIdZero,
    /// A feedback payload is shorter than the report's fixed part.
    #[error("the feedback report has {bytes} bytes, fewer than {REPORT_BYTES}")]
    ReportTooShort {
        /// Bytes of the payload.
        bytes: usize,
    },
    /// A record of a feedback report extends past the payload's end.
    #[error("record {kind} of the feedback report needs {need} more bytes, {left} are left")]
    RecordTruncated {
        /// The record's type.
        kind: u8,
        /// Missing bytes.
        need: usize,
        /// Bytes left in the payload.
        left: usize,
    },
    /// A record's value has the wrong length.
    #[error("record {kind} of the feedback report has {bytes} bytes, which is no length of such a record")]
    RecordLength {
        /// The record's type.
        kind: u8,
        /// Bytes found.
        bytes: usize,
    },
    /// A record's value is invalid.
    #[error("record {kind} of the feedback report cannot be: {what}")]
    RecordValue {
        /// The record's type.
        kind: u8,
        /// The fault.
        what: &'static str,
    },
    /// An unknown record must not be ignored (type 128 or more).
    #[error("record {kind} of the feedback report is unknown and may not be ignored")]
    CriticalRecord {
        /// The record's type.
        kind: u8,
    },
    /// Two records of a feedback report describe the same stream, or both the unseen streams.
    #[error("two records of type {kind} of the feedback report are about the same")]
    RecordDuplicate {
        /// The records' type.
        kind: u8,
    },
    /// The last entry of a stream's list in a feedback report lacks its second byte.
    #[error("the last entry of the list of stream {stream} in the feedback report lacks its second byte")]
    ReportEntryTruncated {
        /// Stream id as a number.
        stream: u32,
    },
}

/// Reason why values cannot be encoded. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The output buffer is too short.
    #[error("the output buffer has {have} bytes, {need} are needed")]
    BufferTooSmall {
        /// Bytes of the buffer.
        have: usize,
        /// Minimum number of bytes needed.
        need: usize,
    },
    /// The datagram would exceed the limit of this version.
    #[error("the datagram would have {bytes} bytes, more than {DATAGRAM_BYTES_MAX}")]
    TooLong {
        /// Length of the datagram.
        bytes: usize,
    },
    /// A handshake parameter's length does not fit into its field.
    #[error("a handshake parameter of {bytes} bytes is too long")]
    ParameterTooLong {
        /// Bytes of its value.
        bytes: usize,
    },
    /// Connection id 0 is invalid.
    #[error("the connection id is 0")]
    ConnectionIdZero,
}
