//! Asynchronous network errors about datagrams that a socket sent earlier.

use std::io::{Error, ErrorKind};

/// Returns true if a receive error is an ICMP report about an earlier datagram. Anyone who knows the ports can forge
/// such reports. The socket still works, and the next call may return a datagram.
#[must_use]
pub fn is_of_the_past(error: &Error) -> bool {
    use ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, PermissionDenied};
    let kinds = [ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable, PermissionDenied];
    kinds.contains(&error.kind()) || is_rare(error)
}

/// Returns true for ICMP errors without an [`std::io::ErrorKind`]: protocol unreachable, host unknown or isolated, and
/// similar (`icmp(7)`).
#[cfg(unix)]
fn is_rare(error: &Error) -> bool {
    use rustix::io::Errno;
    let mut rare = vec![Errno::NOPROTOOPT, Errno::HOSTDOWN, Errno::OPNOTSUPP, Errno::MSGSIZE, Errno::PROTO];
    #[cfg(target_os = "linux")]
    rare.push(Errno::NONET);
    Errno::from_io_error(error).is_some_and(|errno| rare.contains(&errno))
}

#[cfg(not(unix))]
fn is_rare(_: &Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors to which Linux maps ICMP and ICMPv6 messages (`icmp_err_convert`, `icmpv6_err_convert`).
    #[cfg(target_os = "linux")]
    #[test]
    fn whatever_icmp_says_is_of_the_past_and_a_socket_that_is_gone_is_not() {
        use rustix::io::Errno;
        for errno in [
            Errno::NETUNREACH,
            Errno::HOSTUNREACH,
            Errno::NOPROTOOPT,
            Errno::CONNREFUSED,
            Errno::MSGSIZE,
            Errno::OPNOTSUPP,
            Errno::HOSTDOWN,
            Errno::NONET,
            Errno::ACCESS,
            Errno::PROTO,
        ] {
            assert!(is_of_the_past(&errno.into()), "{errno}");
        }
        for errno in [Errno::BADF, Errno::NOTSOCK, Errno::NOMEM, Errno::INVAL] {
            assert!(!is_of_the_past(&errno.into()), "{errno}");
        }
    }
}
