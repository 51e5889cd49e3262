//! The socket of an endpoint: one of the carriers.

mod ipv4;
mod raw_ip;
mod receive;
#[cfg(test)]
mod tests;
mod udp;

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use quinn_udp::{RecvMeta, Transmit};

use crate::carrier::Carrier;
use crate::limits;
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

    /// How many datagrams one [`Transmit`] may carry now; it becomes 1 when the system turns out not to have GSO.
    pub(crate) fn segments_max(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.segments_max(),
            Self::RawIp(_) => limits::RAW_DATAGRAMS_PER_TURN,
        }
    }

    /// Sends at once, or says `WouldBlock`. Returns how many bytes of the contents, in whole datagrams, are gone: over
    /// UDP all of them.
    pub(crate) fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.try_send(transmit),
            Self::RawIp(socket) => socket.try_send(transmit),
        }
    }

    /// What can be waited for. (A raw socket calls itself a UDP socket, too.)
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

    /// Whether the kernel may join datagrams which it delivers.
    fn joins(&self) -> bool {
        match self {
            Self::Udp(socket) => socket.joins(),
            Self::RawIp(_) => false,
        }
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
