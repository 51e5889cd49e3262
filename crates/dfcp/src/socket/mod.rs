//! The socket of an endpoint: one of the carriers.

mod brought;
mod family;
mod ipv4;
#[cfg(target_os = "linux")]
mod marked;
mod raw_ip;
mod receive;
#[cfg(test)]
mod tests;
mod udp;

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use dfcp_proto::Dscp;
use quinn_udp::{RecvMeta, Transmit};

use crate::carrier::Carrier;
use crate::limits;
use crate::outbox::BatchSocket;
pub(crate) use family::canonical;
use raw_ip::RawIp;
pub(crate) use receive::{Arrival, ReceiveBuffers};
use udp::Udp;

/// One socket; none of its calls waits.
#[derive(Debug)]
pub(crate) enum Socket {
    Udp(Udp),
    RawIp(RawIp),
}

impl Socket {
    /// Binds to `address`, with buffers as large as the system grants.
    pub(crate) fn bind(carrier: Carrier, address: SocketAddr) -> io::Result<Self> {
        carrier.check()?;
        Ok(match carrier {
            Carrier::Udp => Self::Udp(Udp::bind(address)?),
            Carrier::RawIp { protocol } => Self::RawIp(RawIp::bind(protocol, address)?),
        })
    }

    /// Takes over a UDP socket which the application has made, with all that it has set.
    ///
    /// # Errors
    /// It is no UDP socket over IP, is not bound, or is connected.
    pub(crate) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self::Udp(Udp::adopt(socket)?))
    }

    /// One of the same carrier at another address, which can take its place.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); or, directly over IP, `address` has another port.
    pub(crate) fn bind_successor(&self, address: SocketAddr) -> io::Result<Self> {
        match self {
            Self::Udp(_) => Self::bind(Carrier::Udp, address),
            Self::RawIp(socket) => Ok(Self::RawIp(socket.bind_successor(address)?)),
        }
    }

    /// True if it can send to this canonical address, routes apart.
    pub(crate) fn reaches(&self, remote: SocketAddr) -> bool {
        match self {
            Self::Udp(socket) => socket.reaches(remote),
            Self::RawIp(socket) => socket.local_addr().is_ipv4() == remote.is_ipv4(),
        }
    }

    pub(crate) fn carrier(&self) -> Carrier {
        match self {
            Self::Udp(_) => Carrier::Udp,
            Self::RawIp(socket) => Carrier::RawIp { protocol: socket.protocol() },
        }
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Udp(socket) => socket.local_addr(),
            Self::RawIp(socket) => socket.local_addr(),
        }
    }

    /// The addresses that its datagrams may leave from by name.
    pub(crate) fn sources(&self) -> Sources {
        Sources { bound_to: self.local_addr().ip() }
    }

    /// Socket that can be polled. (A raw socket calls itself a UDP socket, too.)
    pub(crate) fn descriptor(&self) -> &UdpSocket {
        match self {
            Self::Udp(socket) => socket.io(),
            Self::RawIp(socket) => socket.io(),
        }
    }

    fn try_receive(&self, slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.try_receive(slices, meta),
            Self::RawIp(socket) => socket.try_receive(slices, meta),
        }
    }

    /// Bytes of datagrams which the system keeps until they are received; 0 if it does not say.
    pub(crate) fn receive_queue_bytes(&self) -> u64 {
        let granted = socket2::SockRef::from(self.descriptor()).recv_buffer_size();
        granted.map_or(0, |bytes| (bytes / limits::SOCKET_BYTES_PER_BYTE) as u64)
    }

    /// True if the kernel may join datagrams which it delivers.
    fn joins(&self) -> bool {
        match self {
            Self::Udp(socket) => socket.joins(),
            Self::RawIp(_) => false,
        }
    }
}

impl BatchSocket for Socket {
    fn segments_max(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.segments_max(),
            Self::RawIp(_) => limits::RAW_DATAGRAMS_PER_TURN,
        }
    }

    fn try_send(&self, transmit: &Transmit<'_>, dscp: Option<Dscp>) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.try_send(transmit, dscp),
            Self::RawIp(socket) => socket.try_send(transmit, dscp.unwrap_or_default()),
        }
    }
}

/// The addresses of this machine that a socket's datagrams may leave from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    bound_to: IpAddr,
}

impl Sources {
    /// True if a connection that has used `ip` may go on to. A socket with an address of its own needs no name, and a machine may have lost
    /// the address: the system refuses it then, as it does many other things, and GSO would be switched off.
    pub(crate) fn has(self, ip: IpAddr) -> bool {
        self.bound_to.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok()
    }
}

/// Smaller buffers lose datagrams at high rates but still work, and many systems grant no more.
fn enlarge_buffers(socket: &socket2::Socket) {
    for result in [
        socket.set_recv_buffer_size(limits::SOCKET_BUFFER_BYTES),
        socket.set_send_buffer_size(limits::SOCKET_BUFFER_BYTES),
    ] {
        if let Err(error) = result {
            tracing::debug!(%error, "the system keeps its own socket buffer size");
        }
    }
}
