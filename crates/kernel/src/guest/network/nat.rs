//! NAT in front of a host, in user space, because a guest's kernel has no netfilter.
//!
//! Two tap devices are at the host's end of its access link, with a task that forwards the frames of each:
//!
//! ```text
//!         host                 ether
//! out:    tbf ── queue ──────► redirect ► tap, task ► redirect ► netem ──►
//! in:     sockets ◄ tap, task ◄ redirect ◄────────────────────── netem ◄──
//! ```
//!
//! A packet gets its new port when it leaves the host's queue, and packets to the old ports are dropped once the NAT has forgotten them.
//! Sockets wait for their device as without a NAT, and the tasks take no virtual time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use dfcp_emu::HostNat;
use dfcp_sim::Node;
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::device::Mac;
use super::error::{Asked, NetworkError};
use super::namespace::Namespace;
use super::netlink::Refusal;
use super::qdisc::ETHERNET_BYTES;
use super::{Network, wire};
use crate::limits::{NAT_FRAME_BYTES_MAX, NAT_QUEUE_PACKETS};

/// NATs of a network.
#[derive(Debug, Default)]
pub(super) struct Nats {
    /// NATs of the hosts, by node.
    hosts: BTreeMap<usize, Arc<HostNat>>,
    /// Tasks that forward packets; each ends only with an error.
    tasks: JoinSet<NetworkError>,
}

impl Network {
    /// Adds a NAT in front of a host with one link. Requires a tokio runtime with a `LocalSet`.
    ///
    /// # Errors
    /// Fails if the node does not have exactly one link, or the kernel refuses.
    pub fn add_nat(&mut self, host: Node) -> Result<(), NetworkError> {
        let node = host.index();
        let mut edges = self.wires.iter().enumerate().filter(|(_, wire)| wire.from == node).map(|(edge, _)| edge);
        let (Some(edge), None) = (edges.next(), edges.next()) else {
            return Err(NetworkError::layout(format!("node {node} needs exactly one link to be behind a NAT")));
        };
        let outward = self.put_tap_outward(edge)?;
        let inward = self.put_tap_inward(edge)?;
        let nat = Arc::new(HostNat::default());
        let sends = Arc::clone(&nat);
        let send = move |packet: &mut [u8]| {
            sends.send(packet);
            true
        };
        let delivers = Arc::clone(&nat);
        let deliver = move |packet: &mut [u8]| delivers.deliver(packet);
        self.nats.tasks.spawn_local(async move { failed(node, carry(outward, send).await) });
        self.nats.tasks.spawn_local(async move { failed(node, carry(inward, deliver).await) });
        self.nats.hosts.insert(node, nat);
        Ok(())
    }

    /// Makes the NAT of a host forget its mappings: the host gets new ports, and packets to the old ones are lost.
    ///
    /// # Errors
    /// Fails if there is no NAT.
    pub fn rebind(&self, host: Node) -> Result<(), NetworkError> {
        let none = || NetworkError::layout(format!("node {} is not behind a NAT", host.index()));
        self.nats.hosts.get(&host.index()).ok_or_else(none)?.forget();
        Ok(())
    }

    /// Waits until a NAT fails; forever if none fails.
    pub(crate) async fn nat_failed(&mut self) -> NetworkError {
        match self.nats.tasks.join_next().await {
            Some(Ok(error)) => error,
            Some(Err(error)) => NetworkError::system("the task of a NAT has ended", io::Error::other(error)),
            None => std::future::pending().await,
        }
    }

    /// Inserts a tap between the queue of an edge that starts at a host and its netem.
    fn put_tap_outward(&mut self, edge: usize) -> Result<Tap, NetworkError> {
        let what = || format!("cannot put a NAT behind edge {edge}");
        let tap = self.ether.enter(&self.home, || open(&format!("n{edge}"), None));
        let (tap, index) = tap.and_then(|opened| opened).map_err(|error| NetworkError::system(what(), error))?;
        let netlink = &mut self.ether.netlink;
        let enters = wire::device(wire::back(edge));
        let mut join = || -> Result<(), Refusal> {
            netlink.set_up(index)?;
            netlink.redirect(index, wire::device(edge))?;
            netlink.end_redirect(enters)?;
            netlink.redirect(enters, index)
        };
        join().asked(what)?;
        Ok(tap)
    }

    /// Inserts a tap between a host's sockets and its device, where packets of the reverse direction arrive.
    fn put_tap_inward(&mut self, edge: usize) -> Result<Tap, NetworkError> {
        let what = || format!("cannot put a NAT in front of edge {edge}");
        let namespace: &mut Namespace = &mut self.nodes[self.wires[edge].from];
        // Frames carry the MAC address of the edge's device.
        let tap = namespace.enter(&self.home, || open(&format!("n{edge}"), Some(wire::mac(edge))));
        let (tap, index) = tap.and_then(|opened| opened).map_err(|error| NetworkError::system(what(), error))?;
        let netlink = &mut namespace.netlink;
        let mut join = || -> Result<(), Refusal> {
            netlink.set_up(index)?;
            netlink.redirect(wire::device(edge), index)
        };
        join().asked(what)?;
        Ok(tap)
    }
}

fn failed(node: usize, error: io::Error) -> NetworkError {
    NetworkError::system(format!("the NAT in front of node {node} has failed"), error)
}

/// A tap device.
struct Tap {
    device: SyncDevice,
    /// File of the device, opened again for asynchronous reading.
    frames: pipe::Receiver,
}

/// Creates a tap device in the thread's namespace; it is down. Returns its index as well.
fn open(name: &str, mac: Option<Mac>) -> io::Result<(Tap, u32)> {
    let builder = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).with(|builder| {
        builder.tx_queue_len(NAT_QUEUE_PACKETS);
        if let Some(mac) = mac {
            builder.mac_addr(mac);
        }
    });
    let device = builder.build_sync()?;
    device.set_nonblocking(true)?;
    let index = device.if_index()?;
    let frames = pipe::Receiver::from_owned_fd_unchecked(device.as_fd().try_clone_to_owned()?)?;
    Ok((Tap { device, frames }, index))
}

/// Forwards frames through a tap device if `translate` accepts their IP packet; returns on an error.
async fn carry(tap: Tap, translate: impl Fn(&mut [u8]) -> bool) -> io::Error {
    let mut buffer = vec![0; NAT_FRAME_BYTES_MAX];
    loop {
        if let Err(error) = carry_one(&tap, &mut buffer, &translate).await {
            return error;
        }
    }
}

async fn carry_one(tap: &Tap, buffer: &mut [u8], translate: &impl Fn(&mut [u8]) -> bool) -> io::Result<()> {
    tap.frames.readable().await?;
    let frame = match tap.frames.try_read(buffer) {
        Ok(bytes) => &mut buffer[..bytes],
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error),
    };
    // Links carry only IP, because neighbours are static.
    let passes = frame.get_mut(ETHERNET_BYTES as usize..).is_some_and(translate);
    if passes {
        rustix::io::write(&tap.device, frame)?;
    }
    Ok(())
}
