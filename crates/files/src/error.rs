//! Reasons why a whole transfer fails. The reason why one file is not stored is a [`dfcp_framing::error::Failure`].

use std::io;

use dfcp::{ConnectionError, ParameterError, StreamError};
use dfcp_framing::error::{Failure, ProtocolError};
use dfcp_framing::printable;

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
    /// This server was not started for what the client asks.
    #[error("the client was refused: {0}")]
    Unsuited(String),
    /// A socket of this machine, beside the connection.
    #[error("datagrams of this machine cannot be taken any more ({0}); start it again")]
    Local(io::Error),
    /// Data is to be left undecoded, which connections of this kind cannot do.
    #[error("{0}; start both sides with --insecure-classic")]
    AlwaysDecoded(#[from] ParameterError),
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
