//! The UDP socket: batched sending (GSO) and receiving (GRO).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::limits;

/// One UDP socket, shared by an endpoint's tasks.
#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    /// Binds to `address`, with buffers as large as the system grants. Must be called within a runtime.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // Smaller buffers lose datagrams at high rates but still work, and many systems grant no more.
        for result in [
            socket.set_recv_buffer_size(limits::SOCKET_BUFFER_BYTES),
            socket.set_send_buffer_size(limits::SOCKET_BUFFER_BYTES),
        ] {
            if let Err(error) = result {
                tracing::debug!(%error, "the system keeps its own socket buffer size");
            }
        }
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        socket.set_nonblocking(true)?;
        let socket = std::net::UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        Ok(Self { io: UdpSocket::from_std(socket)?, state, local })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// How many datagrams one [`Transmit`] may carry now; it becomes 1 when the system turns out not to have GSO.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Sends at once, or says `WouldBlock`.
    pub(crate) fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, || self.state.try_send(UdpSockRef::from(&self.io), transmit))
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.io.readable().await
    }
}

/// Buffers for one receive call.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; BATCH_SIZE * limits::RECEIVE_BUFFER_BYTES], meta: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Receives what is there, or says `WouldBlock`; returns how many buffers were filled.
    pub(crate) fn try_receive(&mut self, socket: &Socket) -> io::Result<usize> {
        let mut chunks = self.bytes.chunks_mut(limits::RECEIVE_BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let meta = &mut self.meta;
        socket.io.try_io(Interest::READABLE, || socket.state.recv(UdpSockRef::from(&socket.io), &mut slices, meta))
    }

    /// The first `count` buffers: each holds datagrams of `stride` bytes from one sender, the last may be shorter.
    pub(crate) fn filled(&self, count: usize) -> impl Iterator<Item = (&RecvMeta, &[u8])> {
        let buffers = self.bytes.chunks(limits::RECEIVE_BUFFER_BYTES);
        self.meta.iter().zip(buffers).take(count).filter_map(|(meta, buffer)| Some((meta, buffer.get(..meta.len)?)))
    }
}
