//! The socket of an endpoint, for either carrier.

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

/// A non-blocking socket.
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

    /// Takes over a UDP socket that the application has made, with its settings.
    ///
    /// # Errors
    /// `socket` is no UDP socket over IP, is not bound, or is connected.
    pub(crate) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self::Udp(Udp::adopt(socket)?))
    }

    /// Binds a socket of the same carrier to another address, to replace this one.
    ///
    /// # Errors
    /// Same as [`bind`](Self::bind); or, directly over IP, `address` has another port.
    pub(crate) fn bind_successor(&self, address: SocketAddr) -> io::Result<Self> {
        match self {
            Self::Udp(_) => Self::bind(Carrier::Udp, address),
            Self::RawIp(socket) => Ok(Self::RawIp(socket.bind_successor(address)?)),
        }
    }

    /// Returns true if the socket can send to this canonical address, provided there is a route.
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

    /// Returns the addresses that may be set as source of the socket's datagrams.
    pub(crate) fn sources(&self) -> Sources {
        Sources { bound_to: self.local_addr().ip() }
    }

    /// Returns the descriptor for polling. A raw socket also has the type `UdpSocket` here.
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

    /// Returns the bytes of datagrams that the system queues until they are received; 0 if it does not report that.
    pub(crate) fn receive_queue_bytes(&self) -> u64 {
        let granted = socket2::SockRef::from(self.descriptor()).recv_buffer_size();
        granted.map_or(0, |bytes| (bytes / limits::SOCKET_BYTES_PER_BYTE) as u64)
    }

    /// Returns true if the kernel may join received datagrams (GRO).
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

/// Addresses of this machine that may be set as source of a socket's datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    bound_to: IpAddr,
}

impl Sources {
    /// Returns true if a connection that has sent from `ip` may keep that source address. A socket bound to an address
    /// needs no explicit source. The machine may have lost `ip`: then the system would refuse to send with an error
    /// that also means a lack of GSO, which would disable GSO.
    pub(crate) fn has(self, ip: IpAddr) -> bool {
        self.bound_to.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok()
    }
}

/// Requests large buffers. Smaller ones lose datagrams at high rates but still work, and many systems grant no more.
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
