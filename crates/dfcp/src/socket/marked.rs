//! Sending with a DSCP chosen by the application. `UdpSocketState` sets the TOS byte of each datagram to the two ECN
//! bits alone, which overrides the socket's setting.

use std::io::{self, IoSlice};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

use dfcp_proto::Dscp;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use quinn_udp::{EcnCodepoint, Transmit};

/// Returns the TOS byte with DSCP and ECN bits.
pub(super) fn tos(dscp: Dscp, ecn: Option<EcnCodepoint>) -> u8 {
    dscp.value() << 2 | ecn.map_or(0, |mark| mark as u8)
}

/// Sends without blocking, or returns `WouldBlock`. Without GSO the system returns `EINVAL`, as for other faults.
pub(super) fn send(socket: &UdpSocket, transmit: &Transmit<'_>, dscp: Dscp) -> io::Result<()> {
    let tos = tos(dscp, transmit.ecn);
    let class = i32::from(tos);
    let segment_bytes = transmit.segment_size.map(|bytes| u16::try_from(bytes).unwrap_or(u16::MAX));
    let any = libc::in_addr { s_addr: 0 };
    let (mut source_v4, mut source_v6) = (None, None);
    match transmit.src_ip {
        Some(IpAddr::V4(ip)) => {
            let ipi_spec_dst = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            source_v4 = Some(libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: any });
        }
        Some(IpAddr::V6(ip)) => {
            let ipi6_addr = libc::in6_addr { s6_addr: ip.octets() };
            source_v6 = Some(libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 });
        }
        None => {}
    }
    let mark = if transmit.destination.ip().to_canonical().is_ipv4() {
        ControlMessage::Ipv4Tos(&tos)
    } else {
        ControlMessage::Ipv6TClass(&class)
    };
    let others = [
        segment_bytes.as_ref().map(ControlMessage::UdpGsoSegments),
        source_v4.as_ref().map(ControlMessage::Ipv4PacketInfo),
        source_v6.as_ref().map(ControlMessage::Ipv6PacketInfo),
    ];
    let messages: Vec<_> = [Some(mark)].into_iter().chain(others).flatten().collect();
    let destination = SockaddrStorage::from(transmit.destination);
    let contents = [IoSlice::new(transmit.contents)];
    sendmsg(socket.as_raw_fd(), &contents, &messages, MsgFlags::empty(), Some(&destination))?;
    Ok(())
}
