//! Reasons why a whole transfer fails. The reason why one file is not stored is a [`dfcp_framing::error::Failure`].

use std::io;

use dfcp::{ConnectionError, StreamError};
use dfcp_framing::error::{Failure, FailureCode, ProtocolError};
use dfcp_framing::printable;

use crate::reading::ReadError;

/// Reason why a whole transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The connection broke. The sentence has the cause in it, so it is no source besides.
    #[error("{}", lost(.0))]
    Connection(io::Error),
    /// The peer closed before the end.
    #[error("the peer closed the connection before the transfer was complete; see its messages and send again")]
    PeerClosed,
    /// The other side has given up what it sends or receives: its program was interrupted, or has failed.
    #[error("the other side was interrupted; see its messages, and send again: it goes on where it was")]
    Interrupted,
    /// The peer broke one of the streams off and not the connection.
    #[error("the other side broke a stream off ({0}); see its messages and try again")]
    Stream(io::Error),
    /// The peer keeps the connection alive and says nothing.
    #[error("the peer has been silent for {seconds} s; see whether its disk hangs, and send again")]
    Silent {
        /// Longest silence allowed, s.
        seconds: u64,
    },
    /// Two senders have reached each other.
    #[error(
        "the other side sends files, too: run `dfcp receive` on one of the two, with --from HOST:PORT if the sender listens and \
         with --listen PORT if it calls"
    )]
    BothSend,
    /// Two receivers have reached each other.
    #[error(
        "the other side receives files, too: run `dfcp send` on one of the two, with HOST:PORT at the end if the receiver listens \
         and with --listen PORT if it calls"
    )]
    BothReceive,
    /// The peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Its peer has another session.
    #[error("the same peer has connected again, so this silent connection is given up")]
    Displaced,
    /// This sender was told to end ([`Canceller`](crate::Canceller)).
    #[error("sending was cancelled before everything had arrived; send again: it goes on where it was")]
    Cancelled,
    /// This receiver was told to end.
    #[error("the receiver was stopped before everything had arrived; start it again, and send again")]
    Stopped,
    /// The receiver ended the session.
    #[error("the peer ended the session: {}", printable(&.0.sentence))]
    Refused(Failure),
    /// The receiver deletes nothing.
    #[error("the receiver deletes nothing: start it with --allow-delete, or leave --delete out here; nothing was sent")]
    NoDeletion,
    /// The receiver makes no links.
    #[error(
        "the receiver keeps no links: it is older, has a system without them, or writes to its standard output; update it there, or leave \
         --links out here; nothing was sent"
    )]
    NoLinks,
    /// This receiver could not flush what it had stored.
    #[error("the names of the received files could not be flushed to disk: {0}; check the disk and send again")]
    Flush(io::Error),
    /// This receiver could not write down what it had stored.
    #[error(
        "the receiver cannot write its audit log, and confirms nothing that is not in it; tell its owner, and send again"
    )]
    NotRecorded,
    /// The system gives no random numbers.
    #[error(
        "this machine gives no random numbers ({0}), without which nothing is deleted: mend that, or leave --delete out"
    )]
    Random(io::Error),
    /// This sender could not write down what it had sent.
    #[error("the audit log cannot be written, and nothing more is sent that is not in it; mend it, and start again")]
    SentNotRecorded,
    /// A thread of this program ended without a result.
    #[error("the disk thread of this program failed; please report this as a bug")]
    DiskThread,
}

impl TransferError {
    /// True if another session may go on after this one ended so: the path or the other program was lost, and this side did not end it itself. Users report two mistakes of other
    /// programs: a full disk or a refused key that is tried for hours, and an error that was taken for permanent because it came in an unusual form.
    /// So all errors are listed, and an unknown one is not tried again.
    #[must_use]
    pub fn may_be_resumed(&self) -> bool {
        match self {
            Self::Connection(error) => is_transient_io(error),
            // The program on the other side was ended, or its disk hangs.
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

    /// Of a sender: what it means there that files are to go the other way.
    #[must_use]
    pub fn at_sender(self) -> Self {
        if matches!(self, Self::Protocol(ProtocolError::Direction)) { Self::BothSend } else { self }
    }

    /// Of a receiver, the same.
    pub(super) fn at_receiver(self) -> Self {
        if matches!(self, Self::Protocol(ProtocolError::Direction)) { Self::BothReceive } else { self }
    }

    /// From an error of a stream beside the first one: that stream's own, or the connection's.
    pub(super) fn of_stream(error: io::Error) -> Self {
        match StreamError::of(&error) {
            // The code of a stream that is dropped, as all are when a program ends.
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
    // The stream's end, of which the connection knows more, or an error of the socket.
    StreamError::of(error).is_some() || cause.is_none()
}

/// True if another connection to the same peer may not meet this error.
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
        // Another connection has other keys and numbers.
        | ConnectionError::ForgeryLimit
        | ConnectionError::StreamTooLong => true,
        // Somebody else is there, or the other side does not want this one.
        ConnectionError::UnexpectedKey(_)
        | ConnectionError::PinnedKeyRefused
        | ConnectionError::NotAdmitted
        | ConnectionError::Incompatible
        | ConnectionError::PeerMisbehaved(_)
        // The path, until somebody changes it.
        | ConnectionError::PathTooNarrow
        // This side.
        | ConnectionError::CipherFailed
        | ConnectionError::CannotEncode(_)
        | ConnectionError::CannotCode
        | ConnectionError::Aborted => false,
        _ => false,
    }
}

/// A peer which resets a connection is there: its program has ended or failed, and the path is not to blame.
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
