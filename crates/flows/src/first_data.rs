//! Departure and arrival times of a flow's first data packets, for any transport.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use dfcp_lab::HANDSHAKE_BYTES_MAX;
use dfcp_sim::Node;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::flow::{Ends, Hosts, Told};

/// Protocol number that receives packets of all protocols, including outgoing ones (`linux/if_ether.h`).
const ETH_P_ALL: u16 = 3;

/// Records the times of the flow's first data packets at both hosts.
pub(crate) fn watch(ends: &Ends<'_, impl Hosts>) -> Result<(), String> {
    watch_at(ends, ends.sender, |told| &told.first_sent_ns)?;
    watch_at(ends, ends.receiver, |told| &told.first_received_ns)
}

fn watch_at(ends: &Ends<'_, impl Hosts>, host: Node, time: fn(&Told) -> &Cell<Option<u64>>) -> Result<(), String> {
    let socket = ends.at(host, "a watch of packets", socket)?;
    let (told, sender) = (Rc::clone(&ends.told), ends.surroundings.hosts.address(ends.sender).octets());
    ends.run(async move {
        // Read the IPv4 header only: with `TRUNC`, the returned length is that of the whole packet.
        let mut header = [0; 20];
        loop {
            let receive = || Ok(recv(&socket, &mut header, RecvFlags::TRUNC)?);
            let (_, packet_bytes) = socket.async_io(Interest::READABLE, receive).await?;
            if packet_bytes > HANDSHAKE_BYTES_MAX as usize && header[12..16] == sender {
                told.note(time(&told));
                return Ok::<_, io::Error>(());
            }
        }
    });
    Ok(())
}

/// Opens a packet socket, and registers it with the runtime in the type of a UDP socket.
fn socket() -> io::Result<UdpSocket> {
    let protocol = Protocol::from(i32::from(ETH_P_ALL.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}
