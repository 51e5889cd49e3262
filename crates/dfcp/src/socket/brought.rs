//! Sockets that the application has made: which can serve, and what they are set to.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use dfcp_proto::Dscp;
use socket2::{Protocol, SockRef, Type};

fn refused(sentence: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, sentence)
}

/// The address that `socket` is bound to.
///
/// # Errors
/// It is no UDP socket over IP, is not bound, or is connected.
pub(super) fn check(socket: &UdpSocket) -> io::Result<SocketAddr> {
    let view = SockRef::from(socket);
    // Without either, what the system says of its address is not what it is for UDP.
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

/// Other systems do not say.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn is_udp(_view: &SockRef<'_>) -> io::Result<bool> {
    Ok(true)
}

/// The code point that the application has set on it.
pub(super) fn dscp(socket: &UdpSocket, local: SocketAddr) -> Dscp {
    let view = SockRef::from(socket);
    // A socket of both IP versions has one for each: nobody sets two on purpose.
    let of_v4 = view.tos_v4().unwrap_or_default();
    #[cfg(target_os = "linux")]
    let of_v6 = if local.is_ipv6() { view.tclass_v6().unwrap_or_default() } else { 0 };
    // Elsewhere datagrams are not marked.
    #[cfg(not(target_os = "linux"))]
    let of_v6 = 0;
    let tos = if of_v6 > 0 { of_v6 } else { of_v4 };
    u8::try_from(tos >> 2).ok().and_then(Dscp::new).unwrap_or_default()
}
