//! Checks of sockets that the application has made, and reading of their settings.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use dfcp_proto::Dscp;
use socket2::{Protocol, SockRef, Type};

fn refused(sentence: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, sentence)
}

/// Checks `socket`, and returns its local address.
///
/// # Errors
/// `socket` is no UDP socket over IP, is not bound, or is connected.
pub(super) fn check(socket: &UdpSocket) -> io::Result<SocketAddr> {
    let view = SockRef::from(socket);
    // For other types and protocols, the system's address would have another meaning.
    if view.r#type()? != Type::DGRAM || !is_udp(&view)? {
        return Err(refused("this is no UDP socket: bring one of type SOCK_DGRAM and protocol UDP"));
    }
    let Some(local) = view.local_addr()?.as_socket() else {
        return Err(refused("this is no UDP socket over IP: bring one of the address family AF_INET or AF_INET6"));
    };
    if local.port() == 0 {
        return Err(refused("the socket is not bound: bind it first, to port 0 if any will do"));
    }
    if view.peer_addr().is_ok() {
        return Err(refused("the socket is connected, and would hear one address alone: bring one that is only bound"));
    }
    Ok(local)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn is_udp(view: &SockRef<'_>) -> io::Result<bool> {
    Ok(view.protocol()? == Some(Protocol::UDP))
}

/// Other systems do not report the protocol.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn is_udp(_view: &SockRef<'_>) -> io::Result<bool> {
    Ok(true)
}

/// Returns the DSCP that the application has set on the socket.
pub(super) fn dscp(socket: &UdpSocket, local: SocketAddr) -> Dscp {
    let view = SockRef::from(socket);
    // A dual-stack socket has one setting for each IP version. They are assumed not to differ.
    let of_v4 = view.tos_v4().unwrap_or_default();
    #[cfg(target_os = "linux")]
    let of_v6 = if local.is_ipv6() { view.tclass_v6().unwrap_or_default() } else { 0 };
    // Other systems do not mark datagrams.
    #[cfg(not(target_os = "linux"))]
    let of_v6 = 0;
    let tos = if of_v6 > 0 { of_v6 } else { of_v4 };
    u8::try_from(tos >> 2).ok().and_then(Dscp::new).unwrap_or_default()
}
