//! Netlink requests: addresses, routes, and bringing devices up. The kernel answers within the call, so nothing here blocks.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};
use rtnetlink::{AddressMessageBuilder, LinkMessageBuilder, LinkUnspec, RouteMessageBuilder};

/// Index of the loopback device in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// Netlink socket in the namespace of its opening.
#[derive(Debug)]
pub(crate) struct Netlink(Socket);

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    pub(crate) fn set_up(&mut self, device: u32) -> io::Result<()> {
        let message = LinkMessageBuilder::<LinkUnspec>::new().index(device).up().build();
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the queue length of a device. (The older `ioctl` is unavailable in user namespaces.)
    pub(crate) fn set_queue(&mut self, device: u32, packets: u32) -> io::Result<()> {
        let message = LinkMessageBuilder::<LinkUnspec>::new().index(device).txqueuelen(packets).build();
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    pub(crate) fn add_ipv4(&mut self, device: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let message = AddressMessageBuilder::<Ipv4Addr>::new().index(device).address(address, prefix).build();
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub(crate) fn add_ipv6(&mut self, device: u32, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
        let message = AddressMessageBuilder::<Ipv6Addr>::new().index(device).address(address, prefix).build();
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a default route.
    pub(crate) fn add_default_ipv4(&mut self, device: u32, gateway: Ipv4Addr) -> io::Result<()> {
        let message = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(device).gateway(gateway).build();
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), message.into());
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            _ => Err(io::Error::other("the kernel's answer is no acknowledgement")),
        }
    }
}
