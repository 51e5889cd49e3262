//! Checks of port changes of a host.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dfcp_kernel::guest::network::Network;
use tokio::net::UdpSocket;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::{Check, dumbbell, link, ms, near, plain, us};
use crate::traffic::Pair;

pub(super) const CHECKS: &[Check] = &[("behind a nat which forgets, ports are others and packets as early", new_ports)];

/// Silence after which no more packets are expected.
const SILENCE: Duration = Duration::from_secs(1);
/// Bytes of IP packets.
const PACKET_BYTES: usize = 1_500;
const PAYLOAD_BYTES: usize = PACKET_BYTES - 28;

fn new_ports() {
    let layout = dumbbell(link(100_000_000, ms(3), 1000), 2, plain(ms(4)));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut network = Network::build(&layout, 1).unwrap();
        let (sender, _) = layout.hosts[0];
        assert!(network.rebind(sender).is_err(), "there is no NAT");
        network.add_nat(sender).unwrap();
        let [pair, other] = [0, 1].map(|flow| Sockets::new(Pair::new(&network, layout.hosts[flow])));
        let (own, others) = (pair.sender.local_addr().unwrap(), other.sender.local_addr().unwrap());
        let mut seen = vec![own];
        for round in 0..3 {
            if round > 0 {
                network.rebind(sender).unwrap();
            }
            let from = pair.burst(20).await;
            assert_eq!(from.ip(), own.ip());
            assert_eq!(seen.contains(&from), round == 0, "{from} after {seen:?}");
            for &old in seen.iter().filter(|&&old| old != from) {
                assert!(!pair.answers(old).await, "{old} is forgotten");
            }
            assert!(pair.answers(from).await);
            seen.push(from);
            assert_eq!(other.burst(1).await, others, "another host keeps its ports");
            assert!(other.answers(others).await);
        }
    });
}

struct Sockets {
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Sockets {
    fn new(pair: Pair) -> Self {
        let [sender, receiver] = [pair.sender, pair.receiver].map(|socket| {
            socket.set_nonblocking(true).unwrap();
            UdpSocket::from_std(socket).unwrap()
        });
        Self { sender, receiver }
    }

    /// Sends `packets` packets at once, and checks that all arrive in order and in time. Returns their source.
    async fn burst(&self, packets: u8) -> SocketAddr {
        let start = Instant::now();
        for number in 0..packets {
            self.sender.send(&[number; PAYLOAD_BYTES]).await.unwrap();
        }
        let mut source = None;
        for number in 0..packets {
            let mut packet = [0; PACKET_BYTES];
            let (bytes, from) = timeout(SILENCE, self.receiver.recv_from(&mut packet)).await.unwrap().unwrap();
            assert_eq!(packet[..bytes], [number; PAYLOAD_BYTES]);
            assert_eq!(*source.get_or_insert(from), from);
            near("a packet", start.elapsed(), ms(5) + us(120) * (u32::from(number) + 1), us(20));
        }
        source.unwrap()
    }

    /// True if a packet from the receiver to `to` arrives at the sender in time.
    async fn answers(&self, to: SocketAddr) -> bool {
        let start = Instant::now();
        self.receiver.send_to(&[7; PAYLOAD_BYTES], to).await.unwrap();
        let mut packet = [0; PACKET_BYTES];
        let Ok(received) = timeout(SILENCE, self.sender.recv(&mut packet)).await else { return false };
        assert_eq!(packet[..received.unwrap()], [7; PAYLOAD_BYTES]);
        near("an answer", start.elapsed(), ms(5) + us(120), us(20));
        true
    }
}
