//! The raw IP socket (`spec/wire-format.md` §6). It receives in batches (`recvmmsg`) and sends one by one, as the
//! kernel neither joins nor splits datagrams of an unknown protocol.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dfcp_proto::{DATAGRAM_BUFFER_BYTES, Dscp};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

#[cfg(target_os = "linux")]
use crate::socket::marked;
use crate::socket::{enlarge_buffers, ipv4};

/// TTL recommended by RFC 1700, if the system does not report its own.
const TTL_DEFAULT: u8 = 64;

#[derive(Debug)]
pub(crate) struct RawIp {
    /// A raw socket in the type of a UDP socket: the calls made on it here (polling, non-blocking I/O) are the same for
    /// any datagram socket.
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    protocol: u8,
    /// Time to live of IPv4 packets.
    ttl: u8,
    /// Port reservations of this socket, and of its predecessors that may still be open.
    ports: ReservedPorts,
    _port: Arc<ReservedPort>,
}

/// Reservation of a port among the system's UDP ports, by a socket that is never read. Ends with its drop.
#[derive(Debug)]
struct ReservedPort {
    _socket: socket2::Socket,
    local: SocketAddr,
}

impl RawIp {
    pub(crate) fn bind(protocol: u8, address: SocketAddr) -> io::Result<Self> {
        Self::bind_with_ports(protocol, address, ReservedPorts::default())
    }

    /// Binds a socket with the same port to another address. The port belongs to the connections, and is kept.
    ///
    /// # Errors
    /// Same as [`bind`](Self::bind); or `address` has a port other than 0 and the current port.
    pub(crate) fn bind_successor(&self, mut address: SocketAddr) -> io::Result<Self> {
        let port = self.local.port();
        if ![0, port].contains(&address.port()) {
            let sentence = format!("directly over IP an endpoint keeps its port, {port}: name that one, or 0");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        address.set_port(port);
        Self::bind_with_ports(self.protocol, address, self.ports.clone())
    }

    fn bind_with_ports(protocol: u8, address: SocketAddr, ports: ReservedPorts) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol))));
        let socket = socket.map_err(name_the_right)?;
        enlarge_buffers(&socket);
        if address.is_ipv4() {
            // Without this option, Linux does not report a full send buffer over IPv4: it drops packets and returns
            // success (`__ip_append_data`). Over IPv6, Linux drops them silently in any case.
            socket.set_header_included_v4(true)?;
        }
        let ttl = socket.ttl_v4().ok().and_then(|ttl| u8::try_from(ttl).ok()).unwrap_or(TTL_DEFAULT);
        let mut any_port = address;
        any_port.set_port(0);
        socket.bind(&any_port.into())?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let port = ports.reserve(address)?;
        let mut local = address;
        local.set_port(port.local.port());
        Ok(Self { io: socket, state, local, protocol, ttl, ports, _port: port })
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

    /// Sends datagrams one by one, and returns the bytes sent. An error after the first datagram is left to the next
    /// call.
    pub(crate) fn try_send(&self, transmit: &Transmit<'_>, dscp: Dscp) -> io::Result<usize> {
        let mut destination = transmit.destination;
        // The kernel takes the port of a raw IPv6 address for a protocol number, and ignores it for IPv4.
        destination.set_port(0);
        let stride = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let mut sent = 0;
        for contents in transmit.contents.chunks(stride) {
            let one =
                Transmit { destination, ecn: transmit.ecn, contents, segment_size: None, src_ip: transmit.src_ip };
            match self.send_one(&one, dscp) {
                Ok(()) => sent += contents.len(),
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn send_one(&self, transmit: &Transmit<'_>, dscp: Dscp) -> io::Result<()> {
        let IpAddr::V4(destination) = transmit.destination.ip() else {
            return self.send_over_ipv6(transmit, dscp);
        };
        let source = if let Some(IpAddr::V4(source)) = transmit.src_ip { source } else { Ipv4Addr::UNSPECIFIED };
        let mut packet = [0; ipv4::HEADER_BYTES_MIN + DATAGRAM_BUFFER_BYTES];
        let (header, room) = packet.split_at_mut(ipv4::HEADER_BYTES_MIN);
        let tos = dscp.value() << 2 | transmit.ecn.map_or(0, |mark| mark as u8);
        header.copy_from_slice(&ipv4::header(self.protocol, (self.ttl, tos), source, destination));
        let payload = room.get_mut(..transmit.contents.len()).ok_or(io::ErrorKind::InvalidInput)?;
        payload.copy_from_slice(transmit.contents);
        let contents = &packet[..ipv4::HEADER_BYTES_MIN + transmit.contents.len()];
        let transmit = Transmit { contents, ..transmit.clone() };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit)
    }

    /// Sends over IPv6, where the kernel makes the header.
    fn send_over_ipv6(&self, transmit: &Transmit<'_>, dscp: Dscp) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if dscp != Dscp::CS0 {
            return marked::send(&self.io, transmit, dscp);
        }
        // Other systems accept no DSCP and have no raw IP socket here, so `dscp` is unused.
        let _ = dscp;
        self.state.try_send(UdpSockRef::from(&self.io), transmit)
    }

    pub(crate) fn try_receive(&self, slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.io), slices, meta)
    }
}

/// Port reservations of one endpoint, with their addresses. A rebind may return to the address of an earlier socket
/// that is still open.
#[derive(Clone, Debug, Default)]
struct ReservedPorts(Arc<Mutex<Vec<Weak<ReservedPort>>>>);

impl ReservedPorts {
    /// Returns the reservation that covers `address`, or makes a new one.
    fn reserve(&self, address: SocketAddr) -> io::Result<Arc<ReservedPort>> {
        let mut reserved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.retain(|port| port.strong_count() > 0);
        if let Some(own) = reserved.iter().filter_map(Weak::upgrade).find(|port| port.covers(address)) {
            return Ok(own);
        }
        let port = Arc::new(ReservedPort::take(address)?);
        reserved.push(Arc::downgrade(&port));
        Ok(port)
    }
}

impl ReservedPort {
    fn covers(&self, address: SocketAddr) -> bool {
        let (own, other) = (self.local.ip(), address.ip());
        let is_within = own == other || (own.is_unspecified() && own.is_ipv4() == other.is_ipv4());
        is_within && self.local.port() == address.port()
    }

    fn take(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Requests the least receive buffer, as datagrams of strangers are never read. The system has a larger minimum.
        socket.set_recv_buffer_size(1)?;
        socket.bind(&address.into())?;
        let local = socket.local_addr()?.as_socket();
        let local = local.ok_or_else(|| io::Error::other("the system gave a port without an address"))?;
        Ok(Self { _socket: socket, local })
    }
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
