//! Errors that end a whole transfer. For failures of single files, see [`dfcp_framing::error::Failure`].

use std::io;

use dfcp::{ConnectionError, StreamError};
use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::printable;

use crate::reading::ReadError;

/// Error that ended a whole transfer.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The connection broke. The message includes the cause, so `source` returns `None`.
    #[error("{}", lost(.0))]
    Connection(io::Error),
    /// The peer closed the connection early.
    #[error("the peer closed the connection before the transfer was complete; see its messages and send again")]
    PeerClosed,
    /// The other side aborted, because its program was interrupted or failed.
    #[error("the other side was interrupted; see its messages, and send again: it goes on where it was")]
    Interrupted,
    /// The peer reset one stream without closing the connection.
    #[error("the other side broke a stream off ({0}); see its messages and try again")]
    Stream(io::Error),
    /// The peer keeps the connection alive but sends nothing.
    #[error("the peer has been silent for {seconds} s; see whether its disk hangs, and send again")]
    Silent {
        /// Time without a frame after which the session ended, s.
        seconds: u64,
    },
    /// Both sides are senders.
    #[error("the other side sends files, too: one of the two must receive")]
    BothSend,
    /// Both sides are receivers.
    #[error("the other side receives files, too: one of the two must send")]
    BothReceive,
    /// The peer violated the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A newer session of the same peer has replaced this one.
    #[error("the same peer has connected again, so this silent connection is given up")]
    Displaced,
    /// Sending was cancelled on this side by a [`Canceller`](crate::Canceller).
    #[error("sending was cancelled before everything had arrived; send again: it goes on where it was")]
    Cancelled,
    /// This receiver was stopped.
    #[error("the receiver was stopped before everything had arrived; start it again, and send again")]
    Stopped,
    /// The receiver ended the session and gave a reason.
    #[error("the peer ended the session: {}", printable(&.0.sentence))]
    Refused(Failure),
    /// The receiver does not permit deletion.
    #[error("the receiver permits no deletion, so nothing was sent")]
    NoDeletion,
    /// The receiver does not support links.
    #[error(
        "the receiver keeps no links, so nothing was sent: it is older, has a system without links, or writes to its standard output"
    )]
    NoLinks,
    /// This receiver could not flush stored files.
    #[error("the names of the received files could not be flushed to disk: {0}; check the disk and send again")]
    Flush(io::Error),
    /// This receiver could not write its audit log.
    #[error(
        "the receiver cannot write its audit log, and confirms nothing that is not in it; tell its owner, and send again"
    )]
    NotRecorded,
    /// The system provides no random numbers.
    #[error("this machine gives no random numbers ({0}), without which deletion is unsafe")]
    Random(io::Error),
    /// This sender could not write its audit log.
    #[error("the audit log cannot be written, and nothing more is sent that is not in it; mend it, and start again")]
    SentNotRecorded,
    /// A disk thread of this program ended without a result.
    #[error("the disk thread of this program failed; please report this as a bug")]
    DiskThread,
}

impl TransferError {
    /// Returns true if another session may continue the transfer. This is so if the path or the other program was lost,
    /// and this side did not end the transfer itself. Two faults reported for similar programs are avoided by listing
    /// every error: endless retries after a full disk or a refused key, and giving up after a temporary error in an
    /// unusual form. An unknown error is not retried.
    #[must_use]
    pub fn may_be_resumed(&self) -> bool {
        match self {
            Self::Connection(error) => is_transient_io(error),
            // The program on the other side ended, or its disk hangs.
            Self::PeerClosed | Self::Interrupted | Self::Stream(_) | Self::Silent { .. } => true,
            Self::Refused(failure) => matches!(failure.code, FailureCode::Busy | FailureCode::Stopped),
            Self::BothSend
            | Self::BothReceive
            | Self::Protocol(_)
            | Self::Displaced
            | Self::Stopped
            | Self::Cancelled
            | Self::NoDeletion
            | Self::NoLinks
            | Self::Flush(_)
            | Self::NotRecorded
            | Self::Random(_)
            | Self::SentNotRecorded
            | Self::DiskThread => false,
        }
    }

    /// Rewords the error of a wrong direction for a sender: the peer sends, too.
    #[must_use]
    pub fn at_sender(self) -> Self {
        if matches!(self, Self::Protocol(ProtocolError::Direction)) { Self::BothSend } else { self }
    }

    /// Rewords the error of a wrong direction for a receiver: the peer receives, too.
    pub(super) fn at_receiver(self) -> Self {
        if matches!(self, Self::Protocol(ProtocolError::Direction)) { Self::BothReceive } else { self }
    }

    /// Converts an I/O error of an additional stream, which may have broken alone or with the connection.
    pub(super) fn of_stream(error: io::Error) -> Self {
        match StreamError::of(&error) {
            // A stream dropped by the other program, for example at its end, is reset with code 0.
            Some(StreamError::Reset { code: 0 } | StreamError::Stopped { code: 0 }) => Self::Interrupted,
            Some(_) => Self::Stream(error),
            None => Self::Connection(error),
        }
    }
}

impl From<ReadError> for TransferError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Closed => Self::PeerClosed,
            ReadError::Connection(error) => Self::Connection(error),
            ReadError::Protocol(error) => Self::Protocol(error),
        }
    }
}

fn is_transient_io(error: &io::Error) -> bool {
    let cause = error.get_ref();
    if let Some(why) = cause.and_then(|cause| cause.downcast_ref::<ConnectionError>()) {
        return is_transient_connection(why);
    }
    // Either the stream has ended, which is retried, or the socket failed, which is usually temporary.
    StreamError::of(error).is_some() || cause.is_none()
}

/// Returns true if another connection to the same peer may succeed.
#[must_use]
pub fn is_transient_connection(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::HandshakeTimeout { .. }
        | ConnectionError::Refused
        | ConnectionError::Reset
        | ConnectionError::PeerLostSession
        | ConnectionError::EndedByPeer { .. }
        | ConnectionError::TimedOut
        | ConnectionError::CloseTimeout
        // A new connection has new keys and packet numbers.
        | ConnectionError::ForgeryLimit
        | ConnectionError::StreamTooLong => true,
        // Another host answers, or the other side refuses this host.
        ConnectionError::UnexpectedKey(_)
        | ConnectionError::PinnedKeyRefused
        | ConnectionError::NotAdmitted
        | ConnectionError::Incompatible
        | ConnectionError::PeerMisbehaved(_)
        // The path itself must be changed first.
        | ConnectionError::PathTooNarrow
        // The cause lies on this side.
        | ConnectionError::CipherFailed
        | ConnectionError::CannotEncode(_)
        | ConnectionError::CannotCode
        | ConnectionError::Aborted => false,
        _ => false,
    }
}

/// Returns the message for a lost connection. After a reset, the path evidently works, so the message blames the peer's
/// program.
fn lost(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ConnectionError>());
    if matches!(cause, Some(ConnectionError::PeerLostSession)) {
        return format!("the connection to the peer ended: {error}");
    }
    if error.kind() == io::ErrorKind::ConnectionReset {
        format!(
            "the peer broke the connection off ({error}): it was stopped or has failed; see its messages and try again"
        )
    } else if matches!(cause, Some(ConnectionError::PathTooNarrow)) {
        format!("the connection to the peer ended: {error}, and send again")
    } else {
        format!("the connection to the peer was lost ({error}); send again when the path is back")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(why: ConnectionError) -> TransferError {
        TransferError::Connection(io::Error::other(why))
    }

    fn refused(code: FailureCode) -> TransferError {
        TransferError::Refused(Failure::new(code, "why"))
    }

    #[test]
    fn what_time_mends_is_tried_again() {
        for lost in [
            ended(ConnectionError::TimedOut),
            ended(ConnectionError::Reset),
            ended(ConnectionError::PeerLostSession),
            ended(ConnectionError::EndedByPeer { error: 3 }),
            ended(ConnectionError::StreamTooLong),
            TransferError::Connection(io::Error::from_raw_os_error(101)),
            TransferError::Connection(StreamError::SessionClosed.into()),
            TransferError::PeerClosed,
            TransferError::Stream(StreamError::Reset { code: 0 }.into()),
            TransferError::Silent { seconds: 60 },
            refused(FailureCode::Busy),
            refused(FailureCode::Stopped),
        ] {
            assert!(lost.may_be_resumed(), "{lost}");
        }
    }

    #[test]
    fn what_only_people_mend_is_not() {
        let key = dfcp::StaticKey::from_seed(&[1; 32]).public().fingerprint();
        for lost in [
            ended(ConnectionError::UnexpectedKey(key)),
            ended(ConnectionError::NotAdmitted),
            ended(ConnectionError::PinnedKeyRefused),
            ended(ConnectionError::Incompatible),
            ended(ConnectionError::PathTooNarrow),
            ended(ConnectionError::Aborted),
            refused(FailureCode::NotAdmitted),
            refused(FailureCode::Unsuited),
            refused(FailureCode::DiskFull),
            refused(FailureCode::Permission),
            refused(FailureCode::Protocol),
            TransferError::Protocol(ProtocolError::Summary),
            TransferError::NoDeletion,
            TransferError::NoLinks,
            TransferError::BothSend,
            TransferError::Stopped,
            TransferError::NotRecorded,
            TransferError::SentNotRecorded,
            TransferError::DiskThread,
            TransferError::Flush(io::ErrorKind::StorageFull.into()),
        ] {
            assert!(!lost.may_be_resumed(), "{lost}");
        }
    }
}
