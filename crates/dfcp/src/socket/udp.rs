//! The UDP socket: batched sending (GSO) and receiving (GRO).

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use crate::socket::enlarge_buffers;

/// What is told beside datagrams that were joined has no room for the mark of their packets, if the time of their arrival is in it, which
/// `UdpSocketState` asks for and nothing here needs.
fn leave_times_out(socket: &UdpSocket) {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false) {
        tracing::debug!(%error, "marks of joined datagrams will not be seen");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

#[derive(Debug)]
pub(crate) struct Udp {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Udp {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        enlarge_buffers(&socket);
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        leave_times_out(&socket);
        let local = socket.local_addr()?;
        Ok(Self { io: socket, state, local })
    }

    pub(crate) fn io(&self) -> &UdpSocket {
        &self.io
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    pub(crate) fn joins(&self) -> bool {
        self.state.gro_segments() > 1
    }

    pub(crate) fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<usize> {
        self.state.try_send(UdpSockRef::from(&self.io), transmit)?;
        Ok(transmit.contents.len())
    }

    pub(crate) fn try_receive(&self, slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.io), slices, meta)
    }
}
