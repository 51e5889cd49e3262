//! Errors that another session may not meet.
//!
//! Users of other programs report both mistakes: a full disk, a refused key or a changed host that is tried for hours, and an error that was
//! taken for permanent because it came in an unusual form. So all of them are listed, and what is unknown is not tried again.

use std::io;

use dfcp::{ConnectError, ConnectionError, StreamError};
use dfcp_files::error::TransferError;
use dfcp_framing::error::FailureCode;

/// True if another session may go on after this one ended so.
#[must_use]
pub fn is_transient_loss(error: &TransferError) -> bool {
    match error {
        TransferError::Connection(error) => is_transient_io(error),
        // The program on the other side was ended, or its disk hangs.
        TransferError::PeerClosed
        | TransferError::Interrupted
        | TransferError::Stream(_)
        | TransferError::Silent { .. } => true,
        TransferError::Refused(failure) => matches!(failure.code, FailureCode::Busy | FailureCode::Stopped),
        TransferError::BothSend
        | TransferError::BothReceive
        | TransferError::Protocol(_)
        | TransferError::Displaced
        | TransferError::Stopped
        | TransferError::NoDeletion
        | TransferError::NoLinks
        | TransferError::Unsuited(_)
        | TransferError::Local(_)
        | TransferError::AlwaysDecoded(_)
        | TransferError::Flush(_)
        | TransferError::NotRecorded
        | TransferError::Random(_)
        | TransferError::SentNotRecorded
        | TransferError::DiskThread => false,
    }
}

/// True if the next call may be answered after this one was not. After an earlier session, rights and settings of this side are in
/// order, and closed ports and missing routes are how hosts and networks look while they start.
#[must_use]
pub fn is_transient_call(error: &ConnectError) -> bool {
    match error {
        ConnectError::Io(_) => true,
        ConnectError::Connection(error) => is_transient_connection(error),
        _ => false,
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

fn is_transient_connection(error: &ConnectionError) -> bool {
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

#[cfg(test)]
mod tests {
    use dfcp_framing::error::{Failure, ProtocolError};

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
            assert!(is_transient_loss(&lost), "{lost}");
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
            assert!(!is_transient_loss(&lost), "{lost}");
        }
    }

    #[test]
    fn a_closed_port_a_missing_route_and_silence_are_failed_calls_and_a_wrong_key_ends_them() {
        let key = dfcp::StaticKey::from_seed(&[1; 32]).public().fingerprint();
        for kind in
            [io::ErrorKind::ConnectionRefused, io::ErrorKind::NetworkUnreachable, io::ErrorKind::HostUnreachable]
        {
            assert!(is_transient_call(&ConnectError::Io(kind.into())));
        }
        let after = std::time::Duration::from_secs(1);
        for why in [ConnectionError::HandshakeTimeout { after }, ConnectionError::Refused] {
            assert!(is_transient_call(&why.into()));
        }
        for why in
            [ConnectionError::UnexpectedKey(key), ConnectionError::PinnedKeyRefused, ConnectionError::NotAdmitted]
        {
            assert!(!is_transient_call(&why.into()));
        }
    }
}
