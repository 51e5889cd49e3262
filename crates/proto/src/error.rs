//! Errors, grouped by the side at fault.

use std::time::Duration;

use dfcp_secure::Fingerprint;
use dfcp_wire::{DecodeError, EncodeError, Profile};

use crate::schedule::Schedule;

/// A configuration that cannot work.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::{Config, Rate};
///
/// let error = Config::modern().with_rate(Rate::Fixed { rate_bps: 20 }).validate().expect_err("too slow");
/// assert_eq!(error.to_string(), "rate_bps is 20; it must lie between 1000 and 1000000000000");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number is outside its range.
    #[error("{name} is {value}; it must lie between {min} and {max}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// Configured value.
        value: u64,
        /// Least permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// No trusted peer is configured.
    #[error(
        "no trusted peer is configured: give the peer's key or fingerprint, a verifier or a pre-shared key, or choose `PeerKey::Any`"
    )]
    PeerUndecided,
    /// The handshake library rejected the settings.
    #[error("the handshake could not be set up with these settings")]
    Handshake,
    /// The connection is encrypted, but its codec carries no bytes.
    #[error("the codec carries no bytes, so there is nothing to encrypt; choose another, or a plaintext connection")]
    NothingToSeal,
    /// The redundancy is not a number between 0 and 16.
    #[error("the open loop's redundancy must lie between 0 and 16")]
    Redundancy,
    /// The classic profile has no automatic rate, because its acknowledgements carry too little information.
    #[error("the classic profile has no automatic rate; give it a rate, or choose the line's")]
    AutomaticRateOfClassic,
    /// The requested profile was left out of this program at build time.
    #[error(
        "the classic profile is not a part of this program; build it with the feature `classic` of the library `dfcp`"
    )]
    ClassicLeftOut,
    /// The profile does not support the schedule.
    #[error("the {profile:?} profile has no {schedule:?} schedule; modern has Adaptive, classic Flood and OpenLoop")]
    ScheduleOfOtherProfile {
        /// The profile chosen.
        profile: Profile,
        /// The schedule chosen.
        schedule: Schedule,
    },
}

/// Reason for which a connection ended, other than a close by both sides.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::ConnectionError;
///
/// /// True if a later attempt may succeed.
/// fn is_temporary(error: &ConnectionError) -> bool {
///     matches!(error, ConnectionError::HandshakeTimeout { .. } | ConnectionError::TimedOut | ConnectionError::Reset)
/// }
/// assert!(!is_temporary(&ConnectionError::NotAdmitted));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer did not answer the handshake in time.
    #[error(
        "the peer did not answer within {after:.1?}; is something listening there, and do firewalls let it through?"
    )]
    HandshakeTimeout {
        /// Time waited for the answer.
        after: Duration,
    },
    /// The peer refused the connection.
    #[error("the peer refused the connection; it may not accept this profile, or have no room")]
    Refused,
    /// The peer's static key is not accepted here.
    #[error(
        "the peer has the key {0}, which is not accepted here; if that was not expected, somebody stands in between"
    )]
    UnexpectedKey(Fingerprint),
    /// The peer could not decrypt the first message, which was encrypted to the key known for it.
    #[error(
        "the peer does not have the key that it is known by here; if its key was not replaced, somebody stands in between"
    )]
    PinnedKeyRefused,
    /// The peer does not admit this end's key.
    #[error("the peer does not admit this key; its owner can add the key to those which are admitted")]
    NotAdmitted,
    /// More datagrams failed to authenticate than the cipher permits ([seal-7] of `spec/security.md`).
    #[error("too many forged datagrams came for this connection; open a new one")]
    ForgeryLimit,
    /// The cryptographic library returned an error.
    #[error("the cipher failed on this machine; nothing more can be sealed")]
    CipherFailed,
    /// Content to be sent does not fit into a segment.
    #[error("this side could not write a segment, which is a fault of this program: {0}")]
    CannotEncode(EncodeError),
    /// The codec rejected a block of written data.
    #[error("this side could not code a block, which is a fault of this program")]
    CannotCode,
    /// The peer reset the connection.
    #[error("the peer reset the connection")]
    Reset,
    /// The peer's application aborted the session ([`Connection::abort_with`](crate::Connection::abort_with)).
    #[error("the peer's application ended the session with error code {error}")]
    EndedByPeer {
        /// Error code of the peer's application.
        error: u32,
    },
    /// No valid segment came from the peer within the idle timeout.
    #[error("nothing was heard from the peer for the idle timeout; the path or the peer is gone")]
    TimedOut,
    /// The peer has proven that it no longer knows this session: its program has restarted, or had already ended the
    /// session (`spec/protocol.md` \[rst-7\]). An immediate new connection to the same address may succeed.
    #[error("the other side no longer knows this session, most likely because it has restarted; connect again")]
    PeerLostSession,
    /// Packets of 1280 bytes, which every path must carry, are lost while smaller ones arrive (`spec/protocol.md`
    /// \[size-9\]).
    #[error(
        "the path loses all packets of 1280 bytes and carries smaller ones; raise the MTU of the tunnel or link on the way to 1280 or more"
    )]
    PathTooNarrow,
    /// The peer acknowledged none of the repeated FINs.
    #[error("the peer did not confirm the end of the stream in time")]
    CloseTimeout,
    /// All block ids are used up.
    #[error("the stream has used up its 2^32 - 1 block numbers; go on in another connection")]
    StreamTooLong,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    PeerMisbehaved(PeerMisbehaved),
    /// The peer uses a version or code that this side does not support.
    #[error("the peer chose a version or code which this side does not have")]
    Incompatible,
    /// This side aborted the connection.
    #[error("the connection was aborted on this side")]
    Aborted,
}

/// Misbehaviour that no correct peer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// A report covers datagrams that were never sent.
    #[error("its report covers datagram {claimed}, but only {sent} were sent")]
    ReportOfUnsentDatagrams {
        /// Datagram number that the report names.
        claimed: u64,
        /// Datagrams sent.
        sent: u64,
    },
    /// A report covers a datagram number that this sender skipped, so the peer claims a datagram that it cannot have
    /// received.
    #[error("its report covers datagram {claimed}, which was never sent")]
    ReportOfSkippedDatagram {
        /// Datagram number that the report names.
        claimed: u64,
    },
    /// The counts of a report contradict each other.
    #[error("its report counts {received} datagrams, but says that {accounted} served or were wasted")]
    InconsistentReport {
        /// Datagrams that the report counts as received.
        received: u64,
        /// Data datagrams that follow from the report's blocks and counts of waste.
        accounted: u64,
    },
    /// A report covers blocks that were never sent.
    #[error("its report covers block {claimed}, but only {sent} were sent")]
    ReportOfUnsentBlocks {
        /// Block that the report names.
        claimed: u64,
        /// Blocks sent.
        sent: u64,
    },
    /// A report says that more was read than it acknowledges, or less than an earlier report said.
    #[error("its report says that {kib} KiB in {blocks} blocks were read, more than is decoded or less than before")]
    InconsistentReading {
        /// Blocks that were read, according to the report.
        blocks: u32,
        /// KiB of these blocks.
        kib: u64,
    },
    /// An acknowledgement lacks the proof that the named blocks were decoded.
    #[error("it acknowledges blocks up to {block_id} which it has not decoded")]
    WrongProof {
        /// Last block that the acknowledgement names.
        block_id: u32,
    },
    /// A report covers messages that this side has not begun to send.
    #[error("it reports on message {claimed}, but only {sent} were begun")]
    ReportOfUnsentMessages {
        /// Last message that the report names.
        claimed: u64,
        /// Messages begun by this side.
        sent: u64,
    },
    /// A report of message symbols lacks the proof that the symbols have arrived.
    #[error("it reports symbols of messages from {message_id} on which it has not received")]
    WrongMessageProof {
        /// First message that the report names.
        message_id: u32,
    },
    /// Segments of one block contradict each other about the block's size.
    #[error("the segments of block {block_id} do not belong together")]
    InconsistentBlock {
        /// Id of the block.
        block_id: u32,
    },
    /// The stream ended twice in different places, or data came after its end.
    #[error("its stream ends at block {earlier} and again at block {later}")]
    InconsistentEnd {
        /// End announced first.
        earlier: u32,
        /// Block that contradicts the first end: another end, or data past the first one.
        later: u32,
    },
    /// The peer named a stream beyond its credit.
    #[error("it names stream {stream}, but may open only {permitted} of that kind")]
    StreamBeyondCredit {
        /// Id of the stream.
        stream: u32,
        /// Streams of this kind that the peer may have opened so far.
        permitted: u32,
    },
    /// The peer named a stream of the kind that this side opens, but this side has not opened it.
    #[error("it names stream {stream}, which this side has not opened")]
    StreamNotOpened {
        /// Id of the stream.
        stream: u32,
    },
    /// A segment that only the sender of a one-way stream sends came from its receiver, or the reverse.
    #[error("it names stream {stream} in a direction which that stream does not have")]
    StreamDirection {
        /// Id of the stream.
        stream: u32,
    },
}

/// Reason for which a stream operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer does not permit another stream of this kind yet.
    #[error("the peer permits no further stream for now; wait until others have ended")]
    NoCredit,
    /// The peer permits no stream of this kind, now or later.
    #[error("the peer takes no streams of this kind; its configuration says how many it takes")]
    NotTaken,
    /// No memory is left for another stream.
    #[error("this side has no memory left for another stream")]
    NoMemory,
    /// The stream has no such direction on this side, does not exist, or has ended.
    #[error("the stream is not open in this direction, or has ended")]
    Ended,
    /// The peer's application reset the stream, with this error code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The connection has ended.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// Reason for which a parameter of thesis table 3.2 could not be set or read.
///
/// ```
/// # mod dfcp { pub use dfcp_proto::*; pub use dfcp_proto as classic; }
/// use dfcp::Config;
/// use dfcp::classic::{Parameter, ParameterError};
///
/// let error = Config::modern().set(Parameter::Decoding, 0);
/// assert_eq!(error, Err(ParameterError::ClassicOnly("Decoding")));
/// ```
#[cfg(feature = "classic")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// Table 3.2 permits only reading this parameter.
    #[error("{0} cannot be set; thesis table 3.2 lets it be read only")]
    ReadOnly(&'static str),
    /// Table 3.2 permits only setting this parameter.
    #[error("{0} cannot be read; thesis table 3.2 lets it be set only")]
    WriteOnly(&'static str),
    /// The value is outside the parameter's range.
    #[error("{name} must lie between {min} and {max}")]
    OutOfRange {
        /// Name of the parameter in table 3.2.
        name: &'static str,
        /// Least permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// The window of a classic connection is allocated when it is established and cannot change (thesis §3.10.1,
    /// `spec/protocol.md` \[window-5\]). *Coding* cannot change either, because blocks in flight keep their encoding.
    #[error("{0} can only be set before the connection is established")]
    TooLate(&'static str),
    /// Table 3.2 has no parameter of this name.
    #[error(
        "thesis table 3.2 has no such parameter; those that can be set are Window size, Redundancy, Coding, Decoding, \
         Maxtokens, Numtokens, Inctokens and Inttokens"
    )]
    Unknown,
    /// The parameter has no effect on this connection, which is modern.
    #[error(
        "{0} can only be set on a connection of the classic profile; this one is modern, which has no such setting"
    )]
    ClassicOnly(&'static str),
}

/// Reason for which a datagram was dropped without effect. Drops are counted, never logged per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// The datagram is not a segment.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The segment belongs to no block in the window.
    #[error("outside the window")]
    OutsideWindow,
    /// No memory is left for the segment's block.
    #[error("no receive memory left")]
    NoMemory,
    /// The segment makes no sense in the connection's state.
    #[error("unexpected in this state")]
    Unexpected,
    /// The segment does not authenticate.
    #[error("not authentic")]
    Forged,
    /// The datagram was received before.
    #[error("a duplicate")]
    Duplicate,
    /// A report was dropped, because earlier reports of this peer have used up the processing time for reports.
    #[error("too many reports")]
    TooManyReports,
}
