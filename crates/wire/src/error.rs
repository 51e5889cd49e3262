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
        /// Length of the datagram, bytes.
        bytes: usize,
    },
    /// The datagram exceeds the limit of this version.
    #[error("the datagram has {bytes} bytes, more than {DATAGRAM_BYTES_MAX}")]
    TooLong {
        /// Length of the datagram, bytes.
        bytes: usize,
    },
    /// The data offset is inside the fixed header or beyond the datagram's end.
    #[error("data offset {words} (32-bit words) is not between 6 and the end of the {bytes} bytes received")]
    DataOffset {
        /// Value of the field, 32-bit words.
        words: u8,
        /// Length of the datagram up to the end of the payload, bytes; without the CRC.
        bytes: usize,
    },
    /// The six reserved bits are neither all zero (classic) nor `1000ee` (modern).
    #[error("the reserved bits {bits:#08b} belong to no known profile")]
    ReservedBits {
        /// Value of the six bits.
        bits: u8,
    },
    /// A classic segment has the flag FBK or SEC, which that profile lacks.
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
    /// S1 of a modern ACK, which states the kind of ACK, is unknown.
    #[error("S1 of an ACK is {s1}, which stands for no kind of ACK")]
    AckKind {
        /// Value of the field.
        s1: u32,
    },
    /// A message segment does not have three or four words between header and payload.
    #[error("a message segment has neither three nor four words between header and payload")]
    MessageWords,
    /// A field of a message segment is out of range, or contradicts another field.
    #[error("the {field} of a message segment is {value}, which is out of range or contradicts its other fields")]
    MessageField {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u32,
    },
    /// The payload of a path probe is not all zero.
    #[error("the padding of a path probe holds {found:#04x} instead of zero")]
    ProbePadding {
        /// First byte that is not zero.
        found: u8,
    },
    /// The checksum field of a modern segment is not zero.
    #[error("the checksum field of a modern segment is {found:#06x} instead of zero")]
    ChecksumNotZero {
        /// Value of the field.
        found: u16,
    },
    /// The checksum of a classic segment is wrong, or zero, which senders never send.
    #[error("the checksum is {found:#06x} instead of {computed:#06x}")]
    Checksum {
        /// Value of the field.
        found: u16,
        /// Computed value.
        computed: u16,
    },
    /// The CRC-32C of a modern plaintext datagram is wrong.
    #[error("the CRC-32C is {found:#010x} instead of {computed:#010x}")]
    Crc {
        /// Value of the datagram's last four bytes.
        found: u32,
        /// Computed value.
        computed: u32,
    },
    /// An option extends beyond the data offset.
    #[error("option kind {kind} needs {need} more bytes, {left} are left")]
    OptionTruncated {
        /// Kind of the option.
        kind: u8,
        /// Number of further bytes needed.
        need: usize,
        /// Number of bytes left before the data offset.
        left: usize,
    },
    /// An option's value has the wrong length.
    #[error("option {field} has {got} bytes instead of {expected}")]
    OptionLength {
        /// Name of the option.
        field: &'static str,
        /// Length found, bytes.
        got: usize,
        /// Required length, bytes.
        expected: usize,
    },
    /// An option's value is outside its range.
    #[error("option {field} has the value {value}, which is out of range")]
    OptionValue {
        /// Name of the option.
        field: &'static str,
        /// Value of the option.
        value: u32,
    },
    /// An option occurs twice.
    #[error("option kind {kind} stands twice")]
    OptionDuplicate {
        /// Kind of the option.
        kind: u8,
    },
    /// An unknown option must not be ignored (its kind is 128 or more).
    #[error("option kind {kind} is unknown and may not be ignored")]
    CriticalOption {
        /// Kind of the option.
        kind: u8,
    },
    /// The padding after the options is not all zero.
    #[error("the padding behind the options holds {found:#04x} instead of zero")]
    OptionPadding {
        /// First byte that is not zero.
        found: u8,
    },
    /// A segment other than SYN and SYNACK has options, although only a stream id may follow its header.
    #[error("data offset {words} (32-bit words) leaves room for options, which only SYN and SYNACK have")]
    OptionsAfterHandshake {
        /// Value of the data offset field, 32-bit words.
        words: u8,
    },
    /// A segment states stream id 0, which must be omitted.
    #[error("the segment names stream 0, which no segment must name")]
    StreamIdZero,
    /// A segment has a stream id, but its kind cannot have one.
    #[error("a segment with the flags {flags} and S1 = {s1} names stream {stream}, but its kind has none")]
    StreamIdUnexpected {
        /// Flags of the segment without SEC.
        flags: Flags,
        /// Value of the field.
        s1: u32,
        /// Stream id as a number.
        stream: u32,
    },
    /// The profile option and the reserved bits disagree.
    #[error("the profile option says {option:?}, the reserved bits say {header:?}")]
    ProfileMismatch {
        /// Profile in the option.
        option: Profile,
        /// Profile in the reserved bits.
        header: Profile,
    },
    /// S2 states a fragment index that is not below the count.
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
    /// A handshake parameter extends beyond the payload's end.
    #[error("handshake parameter {kind} needs {need} more bytes, {left} are left")]
    ParameterTruncated {
        /// Type of the parameter.
        kind: u8,
        /// Number of further bytes needed.
        need: usize,
        /// Number of bytes left in the payload.
        left: usize,
    },
    /// A handshake parameter's value has the wrong length.
    #[error("handshake parameter {field} has {got} bytes instead of {expected}")]
    ParameterLength {
        /// Name of the parameter.
        field: &'static str,
        /// Length found, bytes.
        got: usize,
        /// Required length, bytes.
        expected: usize,
    },
    /// A handshake parameter occurs twice.
    #[error("handshake parameter {kind} stands twice")]
    ParameterDuplicate {
        /// Type of the parameter.
        kind: u8,
    },
    /// An unknown handshake parameter must not be ignored (its type is 128 or more).
    #[error("handshake parameter {kind} is unknown and may not be ignored")]
    CriticalParameter {
        /// Type of the parameter.
        kind: u8,
    },
    /// A handshake payload lacks a mandatory parameter.
    #[error("the handshake payload lacks the parameter {field}")]
    ParameterMissing {
        /// Name of the parameter.
        field: &'static str,
    },
    /// Connection id 0 is invalid.
    #[error("the handshake payload chooses the connection id 0")]
    ConnectionIdZero,
    /// A feedback payload is shorter than the report's fixed part.
    #[error("the feedback report has {bytes} bytes, fewer than {REPORT_BYTES}")]
    ReportTooShort {
        /// Length of the payload, bytes.
        bytes: usize,
    },
    /// A record of a feedback report extends beyond the payload's end.
    #[error("record {kind} of the feedback report needs {need} more bytes, {left} are left")]
    RecordTruncated {
        /// Type of the record.
        kind: u8,
        /// Number of further bytes needed.
        need: usize,
        /// Number of bytes left in the payload.
        left: usize,
    },
    /// A record's value has the wrong length.
    #[error("record {kind} of the feedback report has {bytes} bytes, which is no length of such a record")]
    RecordLength {
        /// Type of the record.
        kind: u8,
        /// Length found, bytes.
        bytes: usize,
    },
    /// A record's value is invalid.
    #[error("record {kind} of the feedback report cannot be: {what}")]
    RecordValue {
        /// Type of the record.
        kind: u8,
        /// Description of the fault.
        what: &'static str,
    },
    /// An unknown record must not be ignored (its type is 128 or more).
    #[error("record {kind} of the feedback report is unknown and may not be ignored")]
    CriticalRecord {
        /// Type of the record.
        kind: u8,
    },
    /// A feedback report has two records about one stream, or two of another type, which may occur only once.
    #[error("two records of type {kind} of the feedback report are about the same")]
    RecordDuplicate {
        /// Type of both records.
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
        /// Length of the buffer, bytes.
        have: usize,
        /// Minimum length needed, bytes.
        need: usize,
    },
    /// The datagram would exceed the limit of this version.
    #[error("the datagram would have {bytes} bytes, more than {DATAGRAM_BYTES_MAX}")]
    TooLong {
        /// Length of the datagram, bytes.
        bytes: usize,
    },
    /// A handshake parameter is too long for its length field.
    #[error("a handshake parameter of {bytes} bytes is too long")]
    ParameterTooLong {
        /// Length of the parameter's value, bytes.
        bytes: usize,
    },
    /// Connection id 0 is invalid.
    #[error("the connection id is 0")]
    ConnectionIdZero,
}
