//! The raw IP socket (`spec/wire-format.md` §6): receives in batches (`recvmmsg`), sends one by one; the kernel neither
//! joins nor splits datagrams of a protocol which it does not know.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use dfcp_proto::DATAGRAM_BUFFER_BYTES;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use crate::socket::{enlarge_buffers, ipv4};

/// If the system does not say how far packets go, what RFC 1700 recommends.
const TTL_DEFAULT: u8 = 64;

#[derive(Debug)]
pub(crate) struct RawIp {
    /// A raw socket: only the name of its type is UDP's, and what it is used for here (readiness, non-blocking calls) is
    /// the same for any datagram socket.
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    protocol: u8,
    /// Of packets over IPv4.
    ttl: u8,
    /// Holds the port.
    _port: socket2::Socket,
}

impl RawIp {
    pub(crate) fn bind(protocol: u8, address: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol))));
        let socket = socket.map_err(name_the_right)?;
        enlarge_buffers(&socket);
        if address.is_ipv4() {
            // Without this Linux does not say that the send buffer is full: it drops what comes then, and calls it sent
            // (`__ip_append_data`). Over IPv6 it does so all the same.
            socket.set_header_included_v4(true)?;
        }
        let ttl = socket.ttl_v4().ok().and_then(|ttl| u8::try_from(ttl).ok()).unwrap_or(TTL_DEFAULT);
        let mut any_port = address;
        any_port.set_port(0);
        socket.bind(&any_port.into())?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let (port, local) = reserve_port(address)?;
        Ok(Self { io: socket, state, local, protocol, ttl, _port: port })
    }

    pub(crate) fn io(&self) -> &UdpSocket {
        &self.io
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn protocol(&self) -> u8 {
        self.protocol
    }

    /// An error after the first datagram waits for the next call.
    pub(crate) fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<usize> {
        let mut destination = transmit.destination;
        // To the kernel the port of a raw IPv6 socket is a protocol number; to IPv4 it is nothing.
        destination.set_port(0);
        let stride = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let mut sent = 0;
        for contents in transmit.contents.chunks(stride) {
            let one =
                Transmit { destination, ecn: transmit.ecn, contents, segment_size: None, src_ip: transmit.src_ip };
            match self.send_one(&one) {
                Ok(()) => sent += contents.len(),
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn send_one(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let IpAddr::V4(destination) = transmit.destination.ip() else {
            return self.state.try_send(UdpSockRef::from(&self.io), transmit);
        };
        let source = if let Some(IpAddr::V4(source)) = transmit.src_ip { source } else { Ipv4Addr::UNSPECIFIED };
        let mut packet = [0; ipv4::HEADER_BYTES_MIN + DATAGRAM_BUFFER_BYTES];
        let (header, room) = packet.split_at_mut(ipv4::HEADER_BYTES_MIN);
        header.copy_from_slice(&ipv4::header(self.protocol, (self.ttl, transmit.ecn), source, destination));
        let payload = room.get_mut(..transmit.contents.len()).ok_or(io::ErrorKind::InvalidInput)?;
        payload.copy_from_slice(transmit.contents);
        let contents = &packet[..ipv4::HEADER_BYTES_MIN + transmit.contents.len()];
        let transmit = Transmit { contents, ..transmit.clone() };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit)
    }

    pub(crate) fn try_receive(&self, slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.io), slices, meta)
    }
}

/// Takes a port for as long as the socket lives, from the system's UDP ports; nothing is read from it.
fn reserve_port(address: SocketAddr) -> io::Result<(socket2::Socket, SocketAddr)> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // The system has a least size, larger than this: what strangers send there soon finds it full.
    socket.set_recv_buffer_size(1)?;
    socket.bind(&address.into())?;
    let local = socket.local_addr()?.as_socket();
    let local = local.ok_or_else(|| io::Error::other("the system gave a port without an address"))?;
    Ok((socket, local))
}

fn name_the_right(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "raw IP needs CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program, or use UDP",
    )
}
