//! UDP sockets with many datagrams per system call (`recvmmsg`, GRO and GSO where available).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket as Socket2, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::limits::{RECEIVE_BYTES_MAX, SEND_BYTES_MAX, SOCKET_BUFFER_BYTES};
use super::told::is_of_the_past;

/// A UDP socket with its offload capabilities.
#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
}

/// Buffer for one batch of received messages, shared by all sockets of a relay.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
    filled: usize,
}

impl ReceiveBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; BATCH_SIZE * RECEIVE_BYTES_MAX], metas: [RecvMeta::default(); BATCH_SIZE], filled: 0 }
    }

    /// Returns the datagrams of the last [`Socket::receive`], each with the metadata of its message.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = (&RecvMeta, &[u8])> {
        let messages = self.metas[..self.filled].iter().zip(self.bytes.chunks_exact(RECEIVE_BYTES_MAX));
        messages.flat_map(|(meta, buffer)| {
            let message = &buffer[..meta.len.min(buffer.len())];
            let empty = message.is_empty().then_some((meta, message));
            empty.into_iter().chain(message.chunks(meta.stride.max(1)).map(move |datagram| (meta, datagram)))
        })
    }
}

/// Addresses and ECN codepoint of a run of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) destination: SocketAddr,
    /// Source address; `None` lets the kernel choose.
    pub(super) source: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
}

/// Local addresses on which a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// Any local address. Replies must leave from the destination address of the client's datagram.
    Any,
    One,
}

/// Omits the destination address from the ancillary data of received messages. With GRO, its buffer lacks room for both
/// address and ECN mark.
fn leave_addresses_out(socket: &Socket2, addr: SocketAddr) {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        let result = match addr {
            SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &false),
            SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false),
        };
        if let Err(error) = result {
            tracing::debug!(%error, "marks of joined datagrams will be cleared");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, addr);
}

impl Socket {
    /// Binds a socket with large buffers for one or all local addresses. Requires a tokio runtime.
    pub(super) fn bind(addr: SocketAddr, to: Local) -> io::Result<Self> {
        let socket = Socket2::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        // The kernel grants what its limits allow. `buffer_bytes` reports the granted sizes; smaller ones are no error.
        if let Err(error) = socket
            .set_recv_buffer_size(SOCKET_BUFFER_BYTES)
            .and_then(|()| socket.set_send_buffer_size(SOCKET_BUFFER_BYTES))
        {
            tracing::debug!(%error, "socket buffers stay as they are");
        }
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        if to == Local::One || !addr.ip().is_unspecified() {
            leave_addresses_out(&socket, addr);
        }
        Ok(Self { io: UdpSocket::from_std(socket.into())?, state })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Returns the granted sizes of the receive and send buffers, bytes.
    pub(super) fn buffer_bytes(&self) -> io::Result<(usize, usize)> {
        let socket = SockRef::from(&self.io);
        Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
    }

    /// Returns true if the socket is readable; otherwise registers the task's waker.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> bool {
        matches!(self.io.poll_recv_ready(context), Poll::Ready(_))
    }

    /// Fills `buffer` with waiting datagrams. Returns false if there are none.
    pub(super) fn receive(&self, buffer: &mut ReceiveBuffer) -> io::Result<bool> {
        let ReceiveBuffer { bytes, metas, filled } = buffer;
        *filled = 0;
        let received = self.io.try_io(Interest::READABLE, || {
            let mut chunks = bytes.chunks_exact_mut(RECEIVE_BYTES_MAX);
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            self.state.recv((&self.io).into(), &mut slices, metas)
        });
        match received {
            Ok(messages) => {
                *filled = messages;
                Ok(messages > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if is_of_the_past(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the maximum number of datagrams of `segment_bytes` bytes per send.
    pub(super) fn segments_max(&self, segment_bytes: usize) -> usize {
        (SEND_BYTES_MAX / segment_bytes.max(1)).min(self.state.max_gso_segments()).max(1)
    }

    /// Sends `bytes` as datagrams of `segment_bytes` bytes; the last one may be shorter. Returns number and total bytes
    /// of the datagrams that the kernel refused.
    pub(super) fn send(&self, route: Route, bytes: &[u8], segment_bytes: usize) -> (u64, u64) {
        let several = bytes.len() > segment_bytes;
        if self.send_once(route, bytes, several.then_some(segment_bytes)).is_ok() {
            return (0, 0);
        }
        if !several {
            return (1, bytes.len() as u64);
        }
        // An interface without GSO, or with a smaller MTU, refuses the whole batch: try each datagram alone.
        let refused = bytes.chunks(segment_bytes).filter(|datagram| self.send_once(route, datagram, None).is_err());
        refused.fold((0, 0), |(count, sum), datagram| (count + 1, sum + datagram.len() as u64))
    }

    fn send_once(&self, route: Route, contents: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        let Route { destination, source: src_ip, ecn } = route;
        let transmit = Transmit { destination, ecn, contents, segment_size, src_ip };
        // Bypass tokio's readiness, which is unknown until the first event. A datagram that exceeds the kernel's buffer
        // now is dropped, like at any full interface queue.
        let sent = self.state.try_send((&self.io).into(), &transmit);
        if let Err(error) = &sent {
            tracing::trace!(%error, %destination, bytes = contents.len(), "not sent");
        }
        sent
    }
}
