//! Errors, grouped by the side at fault.

use std::time::Duration;

use dfcp_secure::Fingerprint;
use dfcp_wire::{DecodeError, EncodeError, Profile};

use crate::schedule::Schedule;

/// A configuration which cannot work.
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
    /// A number outside its range.
    #[error("{name} is {value}; it must lie between {min} and {max}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// No trusted peer is configured.
    #[error(
        "no trusted peer is configured: give the peer's key or fingerprint, a verifier or a pre-shared key, or choose `PeerKey::Any`"
    )]
    PeerUndecided,
    /// The library of the handshake refused what it was given.
    #[error("the handshake could not be set up with these settings")]
    Handshake,
    /// An encrypted connection with a codec which carries no bytes.
    #[error("the codec carries no bytes, so there is nothing to encrypt; choose another, or a plaintext connection")]
    NothingToSeal,
    /// A redundancy which is not a number between 0 and 16.
    #[error("the open loop's redundancy must lie between 0 and 16")]
    Redundancy,
    /// Classic acknowledgements do not tell enough for an automatic rate.
    #[error("the classic profile has no automatic rate; give it a rate, or choose the line's")]
    AutomaticRateOfClassic,
    /// The profile that is asked for was left out of this program.
    #[error(
        "the classic profile is not a part of this program; build it with the feature `classic` of the library `dfcp`"
    )]
    ClassicLeftOut,
    /// A schedule which the profile does not have.
    #[error("the {profile:?} profile has no {schedule:?} schedule; modern has Adaptive, classic Flood and OpenLoop")]
    ScheduleOfOtherProfile {
        /// The profile chosen.
        profile: Profile,
        /// The schedule chosen.
        schedule: Schedule,
    },
}

/// Why a connection ended other than by both sides closing it.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use dfcp::ConnectionError;
///
/// /// True if calling again, later, may help.
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
        /// Time that the answer was waited for.
        after: Duration,
    },
    /// The peer answered that it does not take this connection.
    #[error("the peer refused the connection; it may not accept this profile, or have no room")]
    Refused,
    /// The peer has shown a static key which is not accepted here.
    #[error(
        "the peer has the key {0}, which is not accepted here; if that was not expected, somebody stands in between"
    )]
    UnexpectedKey(Fingerprint),
    /// The peer could not read a first message which was meant for the key that it is known by.
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
    /// The cipher's library failed.
    #[error("the cipher failed on this machine; nothing more can be sealed")]
    CipherFailed,
    /// Content to be sent does not fit into a segment.
    #[error("this side could not write a segment, which is a fault of this program: {0}")]
    CannotEncode(EncodeError),
    /// Written data could not be made into symbols.
    #[error("this side could not code a block, which is a fault of this program")]
    CannotCode,
    /// The peer reset the connection.
    #[error("the peer reset the connection")]
    Reset,
    /// The peer's application ended the session at once ([`Connection::abort_with`](crate::Connection::abort_with)).
    #[error("the peer's application ended the session with error code {error}")]
    EndedByPeer {
        /// Its error code.
        error: u32,
    },
    /// Nothing valid came from the peer for the idle timeout.
    #[error("nothing was heard from the peer for the idle timeout; the path or the peer is gone")]
    TimedOut,
    /// The peer has proven that it no longer knows this session: its program has restarted, or had already ended the session
    /// (`spec/protocol.md` \[rst-7\]). A new connection to the same address may succeed at once.
    #[error("the other side no longer knows this session, most likely because it has restarted; connect again")]
    PeerLostSession,
    /// Packets of 1280 bytes, which every path must carry, do not arrive, and smaller ones do (`spec/protocol.md` \[size-9\]).
    #[error(
        "the path loses all packets of 1280 bytes and carries smaller ones; raise the MTU of the tunnel or link on the way to 1280 or more"
    )]
    PathTooNarrow,
    /// Closing was given up after all repeats of FIN.
    #[error("the peer did not confirm the end of the stream in time")]
    CloseTimeout,
    /// All block ids are used up.
    #[error("the stream has used up its 2^32 - 1 block numbers; go on in another connection")]
    StreamTooLong,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    PeerMisbehaved(PeerMisbehaved),
    /// The peer speaks something we do not.
    #[error("the peer chose a version or code which this side does not have")]
    Incompatible,
    /// This side aborted the connection.
    #[error("the connection was aborted on this side")]
    Aborted,
}

/// Misbehaviour of a peer: no correct peer does any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// A report about datagrams which were never sent.
    #[error("its report covers datagram {claimed}, but only {sent} were sent")]
    ReportOfUnsentDatagrams {
        /// The number the report names.
        claimed: u64,
        /// Datagrams sent.
        sent: u64,
    },
    /// A report about a datagram number which the sender had skipped: its author claims what it has not seen.
    #[error("its report covers datagram {claimed}, which was never sent")]
    ReportOfSkippedDatagram {
        /// The number the report names.
        claimed: u64,
    },
    /// A report whose counts do not belong together.
    #[error("its report counts {received} datagrams, but says that {accounted} served or were wasted")]
    InconsistentReport {
        /// Datagrams which it counts as received.
        received: u64,
        /// Data datagrams for which its blocks and its counts of waste stand.
        accounted: u64,
    },
    /// A report about blocks which were never sent.
    #[error("its report covers block {claimed}, but only {sent} were sent")]
    ReportOfUnsentBlocks {
        /// The block the report names.
        claimed: u64,
        /// Blocks sent.
        sent: u64,
    },
    /// A report which says that more was read than it acknowledges, or less than an earlier one said.
    #[error("its report says that {kib} KiB in {blocks} blocks were read, more than is decoded or less than before")]
    InconsistentReading {
        /// Blocks which it says were read.
        blocks: u32,
        /// KiB of those.
        kib: u64,
    },
    /// An acknowledgement without the proof that what it names was decoded.
    #[error("it acknowledges blocks up to {block_id} which it has not decoded")]
    WrongProof {
        /// The last block which it names.
        block_id: u32,
    },
    /// A report of messages which have not been begun.
    #[error("it reports on message {claimed}, but only {sent} were begun")]
    ReportOfUnsentMessages {
        /// The last one it names.
        claimed: u64,
        /// Messages begun.
        sent: u64,
    },
    /// A report of symbols of messages without the proof that they have arrived.
    #[error("it reports symbols of messages from {message_id} on which it has not received")]
    WrongMessageProof {
        /// The first message which it names.
        message_id: u32,
    },
    /// A block whose segments do not agree about its size.
    #[error("the segments of block {block_id} do not belong together")]
    InconsistentBlock {
        /// The block.
        block_id: u32,
    },
    /// The stream ended twice in different places, or data came after its end.
    #[error("its stream ends at block {earlier} and again at block {later}")]
    InconsistentEnd {
        /// The end announced first.
        earlier: u32,
        /// The block that contradicts it: another end, or data past the first one.
        later: u32,
    },
    /// A stream which it may not open yet.
    #[error("it names stream {stream}, but may open only {permitted} of that kind")]
    StreamBeyondCredit {
        /// The stream's id.
        stream: u32,
        /// Streams of this kind that it may have opened until now.
        permitted: u32,
    },
    /// A stream which this side would open, and has not.
    #[error("it names stream {stream}, which this side has not opened")]
    StreamNotOpened {
        /// The stream's id.
        stream: u32,
    },
    /// A segment that only the sender of a one-way stream sends came from its receiver, or the reverse.
    #[error("it names stream {stream} in a direction which that stream does not have")]
    StreamDirection {
        /// The stream's id.
        stream: u32,
    },
}

/// Why something could not be done with a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer does not permit another stream of this kind yet.
    #[error("the peer permits no further stream for now; wait until others have ended")]
    NoCredit,
    /// The peer permits no stream of this kind, now or later.
    #[error("the peer takes no streams of this kind; its configuration says how many it takes")]
    NotTaken,
    /// There is no memory for another stream.
    #[error("this side has no memory left for another stream")]
    NoMemory,
    /// The stream is none of ours in this direction, or has ended here.
    #[error("the stream is not open in this direction, or has ended")]
    Ended,
    /// The peer's application has ended its half at once, and said why.
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The connection is over.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// Why a parameter of thesis table 3.2 could not be set or read.
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
    /// Table 3.2 gives this parameter no such operation.
    #[error("{0} cannot be set; thesis table 3.2 lets it be read only")]
    ReadOnly(&'static str),
    /// Table 3.2 gives this parameter no such operation.
    #[error("{0} cannot be read; thesis table 3.2 lets it be set only")]
    WriteOnly(&'static str),
    /// The value is outside the parameter's range.
    #[error("{name} must lie between {min} and {max}")]
    OutOfRange {
        /// The parameter's documented name.
        name: &'static str,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// The window of a classic connection is allocated when it is established and cannot change (thesis §3.10.1,
    /// `spec/protocol.md` \[window-5\]); nor can *Coding*, because blocks under way keep their encoding.
    #[error("{0} can only be set before the connection is established")]
    TooLate(&'static str),
    /// The table has no parameter of this name.
    #[error(
        "thesis table 3.2 has no such parameter; those that can be set are Window size, Redundancy, Coding, Decoding, \
         Maxtokens, Numtokens, Inctokens and Inttokens"
    )]
    Unknown,
    /// It would change nothing on this connection.
    #[error(
        "{0} can only be set on a connection of the classic profile; this one is modern, which has no such setting"
    )]
    ClassicOnly(&'static str),
}

/// Why a datagram was dropped without effect; counted, never logged per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// It is not a segment.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It belongs to no block in the window.
    #[error("outside the window")]
    OutsideWindow,
    /// No memory is left for its block.
    #[error("no receive memory left")]
    NoMemory,
    /// It makes no sense in this state.
    #[error("unexpected in this state")]
    Unexpected,
    /// It does not authenticate.
    #[error("not authentic")]
    Forged,
    /// It was seen before.
    #[error("a duplicate")]
    Duplicate,
    /// A report was dropped, because earlier reports of this peer have used up the processing time for reports.
    #[error("too many reports")]
    TooManyReports,
}
