//! Packets through a network, with their arrival times.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use dfcp_kernel::guest::network::Network;
use dfcp_sim::Node;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// IP and UDP headers, bytes.
pub(crate) const HEADERS_BYTES: usize = 28;
/// Socket buffer large enough for every burst of the checks.
const BUFFER_BYTES: usize = 64 << 20;
/// Silence after which no more packets are expected.
const SILENCE: Duration = Duration::from_secs(20);

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    /// Time since the start of the sender.
    pub(crate) after: Duration,
    /// Number of the packet.
    pub(crate) number: u32,
    /// Bytes of the IP packet.
    pub(crate) ip_bytes: usize,
}

/// A sender's and a receiver's socket.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) sender: UdpSocket,
    pub(crate) receiver: UdpSocket,
}

impl Pair {
    pub(crate) fn new(network: &Network, (sender, receiver): (Node, Node)) -> Self {
        let sender = socket(network, sender);
        let receiver = socket(network, receiver);
        receiver.set_read_timeout(Some(SILENCE)).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        Self { sender, receiver }
    }

    /// Sends packet `number` of `ip_bytes`, including its IP header.
    pub(crate) fn send(&self, number: u32, ip_bytes: usize) {
        let mut payload = vec![0; ip_bytes - HEADERS_BYTES];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        self.sender.send(&payload).unwrap();
    }

    /// Receives packets until a long silence; times are since `start`.
    pub(crate) fn receive(&self, start: Instant) -> Vec<Arrival> {
        let mut buffer = vec![0; 1 << 16];
        let mut arrivals = Vec::new();
        while let Ok(length) = self.receiver.recv(&mut buffer) {
            let number = u32::from_be_bytes(*buffer.first_chunk().unwrap());
            arrivals.push(Arrival { after: start.elapsed(), number, ip_bytes: length + HEADERS_BYTES });
        }
        arrivals
    }

    /// Sends `packets` at once and returns the arrivals.
    pub(crate) fn burst(&self, packets: u32, ip_bytes: usize) -> Vec<Arrival> {
        let start = Instant::now();
        (0..packets).for_each(|number| self.send(number, ip_bytes));
        self.receive(start)
    }

    /// Sends a packet every `pace`, while another thread receives.
    pub(crate) fn stream(&self, packets: u32, ip_bytes: usize, pace: Duration) -> Vec<Arrival> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive(start));
            for number in 0..packets {
                let due = pace * number;
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                self.send(number, ip_bytes);
            }
            receiver.join().unwrap()
        })
    }
}

fn socket(network: &Network, node: Node) -> UdpSocket {
    let make = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_recv_buffer_size(BUFFER_BYTES).unwrap();
        socket.set_send_buffer_size(BUFFER_BYTES).unwrap();
        let address = SocketAddr::from((network.address(node), 0));
        socket.bind(&SockAddr::from(address)).unwrap();
        UdpSocket::from(socket)
    };
    network.enter(node, make).unwrap()
}
