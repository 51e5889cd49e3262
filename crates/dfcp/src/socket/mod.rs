//! The socket of an endpoint: one of the carriers.

mod ipv4;
mod raw_ip;
#[cfg(test)]
mod tests;
mod udp;

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit};

use crate::carrier::Carrier;
use crate::limits;
use raw_ip::RawIp;
use udp::Udp;

/// One socket, shared by an endpoint's tasks.
#[derive(Debug)]
pub(crate) enum Socket {
    Udp(Udp),
    RawIp(RawIp),
}

impl Socket {
    /// Binds to `address`, with buffers as large as the system grants. Must be called within a runtime.
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

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.io().writable().await,
            Self::RawIp(socket) => socket.io().writable().await,
        }
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.io().readable().await,
            Self::RawIp(socket) => socket.io().readable().await,
        }
    }

    fn try_receive(&self, slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.try_receive(slices, meta),
            Self::RawIp(socket) => socket.try_receive(slices, meta),
        }
    }

    /// Bytes which a buffer for one receive call needs.
    fn buffer_bytes(&self) -> usize {
        match self {
            Self::Udp(_) => limits::RECEIVE_BUFFER_BYTES,
            Self::RawIp(_) => limits::RAW_RECEIVE_BUFFER_BYTES,
        }
    }
}

/// Datagrams of one sender which came together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    /// Who sent them; over raw IP without a port.
    pub(crate) remote: SocketAddr,
    /// To which of our addresses.
    pub(crate) local_ip: Option<IpAddr>,
    /// Each datagram has so many bytes, the last perhaps fewer.
    pub(crate) stride: usize,
    pub(crate) bytes: &'a [u8],
}

/// Buffers for one receive call.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
    buffer_bytes: usize,
    /// The protocol number if there are IPv4 headers to be taken off.
    ipv4_protocol: Option<u8>,
}

impl ReceiveBuffers {
    pub(crate) fn new(socket: &Socket) -> Self {
        let buffer_bytes = socket.buffer_bytes();
        let ipv4_protocol = match socket {
            Socket::RawIp(raw) if raw.local_addr().is_ipv4() => Some(raw.protocol()),
            _ => None,
        };
        let bytes = vec![0; BATCH_SIZE * buffer_bytes];
        Self { bytes, meta: [RecvMeta::default(); BATCH_SIZE], buffer_bytes, ipv4_protocol }
    }

    /// Receives what is there, or says `WouldBlock`; returns how many buffers were filled.
    pub(crate) fn try_receive(&mut self, socket: &Socket) -> io::Result<usize> {
        let mut chunks = self.bytes.chunks_mut(self.buffer_bytes);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        socket.try_receive(&mut slices, &mut self.meta)
    }

    /// What is in the first `count` buffers. What has no sound IP header is left out.
    pub(crate) fn filled(&self, count: usize) -> impl Iterator<Item = Arrival<'_>> {
        let buffers = self.bytes.chunks(self.buffer_bytes);
        self.meta.iter().zip(buffers).take(count).filter_map(|(meta, buffer)| self.arrival(meta, buffer))
    }

    fn arrival<'a>(&self, meta: &RecvMeta, buffer: &'a [u8]) -> Option<Arrival<'a>> {
        let mut bytes = buffer.get(..meta.len)?;
        let mut stride = meta.stride;
        if let Some(protocol) = self.ipv4_protocol {
            bytes = ipv4::payload(bytes, protocol)?;
            stride = bytes.len();
        }
        Some(Arrival { remote: meta.addr, local_ip: meta.dst_ip, stride, bytes })
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
