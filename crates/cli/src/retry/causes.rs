//! Classification of failed calls. For session errors, see [`TransferError::may_be_resumed`](dfcp_files::TransferError::may_be_resumed).

use dfcp::ConnectError;
use dfcp_files::is_transient_connection;

/// Returns true if a later call may succeed. An earlier session has shown that rights and settings of this side are
/// correct; closed ports and missing routes are typical of starting hosts and networks.
#[must_use]
pub fn is_transient_call(error: &ConnectError) -> bool {
    match error {
        ConnectError::Io(_) => true,
        ConnectError::Connection(error) => is_transient_connection(error),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use dfcp::ConnectionError;

    use super::*;

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
