//! Errors of `perf` and `pipe` sessions, and of their message exchange.

use std::io;

use dfcp::ConnectionError;
use dfcp::classic::ParameterError;
use dfcp_files::reading::ReadError;
use dfcp_framing::error::{Failure, ProtocolError};
use dfcp_framing::printable;

/// Reason why a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The connection broke. The message includes the cause, so `source` is empty.
    #[error("{}", lost(.0))]
    Connection(io::Error),
    /// The peer closed the connection early.
    #[error("the peer closed the connection before the end; see its messages and try again")]
    PeerClosed,
    /// The peer keeps the connection alive but sends nothing.
    #[error("the peer has been silent for {seconds} s; see its messages and try again")]
    Silent {
        /// Silence limit, s.
        seconds: u64,
    },
    /// The peer violated the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The peer ended the session.
    #[error("the peer ended the session: {}", printable(&.0.sentence))]
    Refused(Failure),
    /// The server was started without the options that the request needs.
    #[error("the client was refused: {0}")]
    Unsuited(String),
    /// A socket of this machine failed, but the connection is intact.
    #[error("datagrams of this machine cannot be taken any more ({0}); start it again")]
    Local(io::Error),
    /// The measurement requires undecoded data, but only classic connections can leave data undecoded.
    #[error("{0}; start both sides with --insecure-classic")]
    AlwaysDecoded(#[from] ParameterError),
}

impl From<ReadError> for SessionError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Closed => Self::PeerClosed,
            ReadError::Connection(error) => Self::Connection(error),
            ReadError::Protocol(error) => Self::Protocol(error),
        }
    }
}

/// Describes a lost connection. A peer that resets the connection is reachable: its program has ended or failed, and
/// the path works.
fn lost(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ConnectionError>());
    if matches!(cause, Some(ConnectionError::PeerLostSession | ConnectionError::PathTooNarrow)) {
        format!("the connection to the peer ended: {error}")
    } else if error.kind() == io::ErrorKind::ConnectionReset {
        format!(
            "the peer broke the connection off ({error}): it was stopped or has failed; see its messages and try again"
        )
    } else {
        format!("the connection to the peer was lost ({error}); try again when the path is back")
    }
}
