//! The UDP socket: batched sending (GSO) and receiving (GRO).

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

use dfcp_proto::Dscp;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use crate::socket::family::Family;
#[cfg(target_os = "linux")]
use crate::socket::marked;
use crate::socket::{brought, enlarge_buffers};

/// Disables the receive timestamps that `UdpSocketState` enables and this crate does not need. With joined datagrams,
/// the ancillary data has no room for both timestamp and ECN mark.
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
    family: Family,
    /// Default DSCP, for datagrams without one of their own.
    dscp: Dscp,
    /// The system has refused GSO in a call that did not go through `state`.
    #[cfg(target_os = "linux")]
    is_without_gso: AtomicBool,
}

impl Udp {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        enlarge_buffers(&socket);
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr()?;
        Self::new(socket, local, Dscp::CS0)
    }

    /// Takes over a socket that the application has made, and keeps its settings: buffers, marks, device, DSCP.
    pub(crate) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        let local = brought::check(&socket)?;
        let dscp = brought::dscp(&socket, local);
        Self::new(socket, local, dscp)
    }

    fn new(io: UdpSocket, local: SocketAddr, dscp: Dscp) -> io::Result<Self> {
        io.set_nonblocking(true)?;
        let only_v6 = local.is_ipv6() && socket2::SockRef::from(&io).only_v6()?;
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        leave_times_out(&io);
        Ok(Self {
            io,
            state,
            local,
            family: Family::of(local, only_v6),
            dscp,
            #[cfg(target_os = "linux")]
            is_without_gso: AtomicBool::new(false),
        })
    }

    pub(crate) fn io(&self) -> &UdpSocket {
        &self.io
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns true if the socket can send to this canonical address, provided there is a route.
    pub(crate) fn reaches(&self, remote: SocketAddr) -> bool {
        self.family.reaches(self.local, remote)
    }

    pub(crate) fn segments_max(&self) -> usize {
        #[cfg(target_os = "linux")]
        if self.is_without_gso.load(Ordering::Relaxed) {
            return 1;
        }
        self.state.max_gso_segments().max(1)
    }

    pub(crate) fn joins(&self) -> bool {
        self.state.gro_segments() > 1
    }

    pub(crate) fn try_send(&self, transmit: &Transmit<'_>, dscp: Option<Dscp>) -> io::Result<usize> {
        let destination = self.family.address(transmit.destination);
        let src_ip = transmit.src_ip.and_then(|ip| self.family.source(ip));
        let transmit = Transmit { destination, src_ip, ..transmit.clone() };
        match dscp.unwrap_or(self.dscp) {
            Dscp::CS0 => self.state.try_send(UdpSockRef::from(&self.io), &transmit)?,
            dscp => self.send_marked(&transmit, dscp)?,
        }
        Ok(transmit.contents.len())
    }

    #[cfg(target_os = "linux")]
    fn send_marked(&self, transmit: &Transmit<'_>, dscp: Dscp) -> io::Result<()> {
        let result = marked::send(&self.io, transmit, dscp);
        let is_refused = |error: &io::Error| {
            let code = error.raw_os_error();
            code == Some(rustix::io::Errno::INVAL.raw_os_error()) || code == Some(rustix::io::Errno::IO.raw_os_error())
        };
        if transmit.segment_size.is_some() && result.as_ref().is_err_and(is_refused) {
            // Same test as in `UdpSocketState`: drivers without GSO report only these errors.
            self.is_without_gso.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Other systems accept no DSCP.
    #[cfg(not(target_os = "linux"))]
    fn send_marked(&self, transmit: &Transmit<'_>, _dscp: Dscp) -> io::Result<()> {
        self.state.try_send(UdpSockRef::from(&self.io), transmit)
    }

    pub(crate) fn try_receive(&self, slices: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.io), slices, meta)
    }
}
