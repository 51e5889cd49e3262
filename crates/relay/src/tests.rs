//! Tests on loopback sockets. Timeouts only end failing tests; no assertion depends on durations.

use std::net::Ipv4Addr;
use std::time::Duration;

use dfcp_netem::{Loss, QueueLimit};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::*;

/// Timeout of a failing test.
const PATIENCE: Duration = Duration::from_secs(20);
/// Datagrams in flight at a time: few enough for any socket buffer.
const WINDOW: usize = 16;
const MS: Duration = Duration::from_millis(1);

fn localhost() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A relay between a client and a server.
struct Path {
    relay: Relay,
    client: UdpSocket,
    server: UdpSocket,
}

impl Path {
    async fn new(forward: LinkConfig, backward: LinkConfig) -> Self {
        let server = UdpSocket::bind(localhost()).await.unwrap();
        let to = server.local_addr().unwrap();
        let config =
            RelayConfig { forward, backward, ..RelayConfig::symmetric(localhost(), to, LinkConfig::default(), 1) };
        let relay = Relay::start(config).await.unwrap();
        Self { client: connect(&relay).await, relay, server }
    }

    /// Waits until `done` holds for the counters, and returns them.
    async fn stats_when(&self, done: impl Fn(&RelayStats) -> bool) -> RelayStats {
        timeout(PATIENCE, async {
            loop {
                let stats = self.relay.stats();
                if done(&stats) {
                    return stats;
                }
                tokio::time::sleep(MS).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("still waiting at {:?}", self.relay.stats()))
    }
}

async fn connect(relay: &Relay) -> UdpSocket {
    let client = UdpSocket::bind(localhost()).await.unwrap();
    client.connect(relay.local_addr()).await.unwrap();
    client
}

async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65_536];
    let (length, from) = timeout(PATIENCE, socket.recv_from(&mut buffer)).await.unwrap().unwrap();
    buffer.truncate(length);
    (buffer, from)
}

/// Returns a distinct payload for each number, of 0 to 1448 bytes.
fn payload(number: usize) -> Vec<u8> {
    let length = [1448, 1448, 1448, 700, 1448, 9, 0, 1448][number % 8];
    (0..length).map(|index| (index * 31 + number * 7 + (index >> 8)) as u8).collect()
}

/// ECN marks of a session's datagrams pass a relay, although GSO and GRO join datagrams on their way.
#[tokio::test]
async fn marks_pass_both_ways() {
    let config = dfcp::Config::sealed(dfcp::PeerKey::Any).with_ecn(true);
    let server = dfcp::Listener::bind(localhost(), config.clone()).unwrap();
    let link = LinkConfig::default();
    let to = server.local_addr().unwrap();
    let config_of_relay = RelayConfig::symmetric(localhost(), to, link, 1);
    let relay = Relay::start(config_of_relay).await.unwrap();
    let both = async { tokio::join!(dfcp::Stream::connect(relay.local_addr(), config), server.accept()) };
    let (client, server) = timeout(PATIENCE, both).await.unwrap();
    let echo = async |mut stream: dfcp::Stream| {
        tokio::io::AsyncWriteExt::write_all(&mut stream, &[7; 3_000_000]).await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut Vec::new()).await.unwrap();
        stream.stats()
    };
    let both = async { tokio::join!(echo(client.unwrap()), echo(server.unwrap())) };
    let (client, server) = timeout(PATIENCE, both).await.unwrap();
    for stats in [client, server] {
        // Handshake segments sent before the keys exist do not count as the session's.
        let unmarked = stats.segments_received - stats.segments_dropped - stats.ecn_received.ect;
        assert!(stats.ecn_received.ect > 2_000 && unmarked < 10, "{unmarked} unmarked beside {:?}", stats.ecn_received);
    }
}

#[tokio::test]
async fn a_perfect_relay_is_not_noticed() {
    let path = Path::new(LinkConfig::default(), LinkConfig::default()).await;
    for window in 0..8 {
        let numbers = window * WINDOW..(window + 1) * WINDOW;
        for number in numbers.clone() {
            path.client.send(&payload(number)).await.unwrap();
        }
        for number in numbers.clone() {
            let (bytes, from) = receive(&path.server).await;
            assert_eq!(bytes, payload(number), "number {number} up");
            path.server.send_to(&bytes, from).await.unwrap();
        }
        for number in numbers {
            assert_eq!(receive(&path.client).await.0, payload(number), "number {number} down");
        }
    }
    let stats = path.stats_when(|stats| stats.backward.forwarded.packets == 128).await;
    let bytes = (0..128).map(|number| payload(number).len() as u64 + 28).sum();
    let all = Datagrams { packets: 128, bytes };
    let expected = DirectionStats { received: all, forwarded: all, ..DirectionStats::default() };
    assert_eq!((stats.forward, stats.backward), (expected, expected));
    assert_eq!((stats.clients, stats.clients_total, stats.refused_packets, stats.stray_packets), (1, 1, 0, 0));
}

#[tokio::test]
async fn nothing_survives_certain_loss() {
    let path = Path::new(LinkConfig::default().with_loss(Loss::bernoulli(1.0)), LinkConfig::default()).await;
    for number in 0..WINDOW {
        path.client.send(&payload(number)).await.unwrap();
    }
    let stats = path.stats_when(|stats| stats.forward.received.packets == WINDOW as u64).await;
    assert_eq!(stats.forward.lost, stats.forward.received);
    assert_eq!(stats.forward.forwarded, Datagrams::default());
    assert!(path.server.try_recv(&mut [0; 2000]).is_err());
}

#[tokio::test]
async fn the_way_back_has_its_own_link() {
    let path = Path::new(LinkConfig::default(), LinkConfig::default().with_loss(Loss::bernoulli(1.0))).await;
    path.client.send(b"ping").await.unwrap();
    let (_, from) = receive(&path.server).await;
    path.server.send_to(b"pong", from).await.unwrap();
    let stats = path.stats_when(|stats| stats.backward.received.packets == 1).await;
    assert_eq!((stats.forward.forwarded.packets, stats.backward.lost.packets), (1, 1));
}

#[tokio::test]
async fn certain_corruption_flips_one_bit() {
    let path = Path::new(LinkConfig::default().with_corrupt(1.0), LinkConfig::default()).await;
    for number in 0..5 {
        let sent = payload(number);
        path.client.send(&sent).await.unwrap();
        let (received, _) = receive(&path.server).await;
        assert_eq!(received.len(), sent.len());
        let flipped: u32 = sent.iter().zip(&received).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(flipped, 1, "number {number}");
    }
    assert_eq!(path.stats_when(|stats| stats.forward.forwarded.packets == 5).await.forward.corrupted.packets, 5);
}

#[tokio::test]
async fn delay_jitter_and_a_bottleneck_keep_order_and_content() {
    let link = LinkConfig::default().with_delay(3 * MS).with_jitter(5 * MS).with_rate_bps(50_000_000);
    let path = Path::new(link, LinkConfig::default()).await;
    for window in 0..4 {
        for number in window * WINDOW..(window + 1) * WINDOW {
            path.client.send(&payload(number)).await.unwrap();
        }
        for number in window * WINDOW..(window + 1) * WINDOW {
            assert_eq!(receive(&path.server).await.0, payload(number), "number {number}");
        }
    }
}

#[tokio::test]
async fn nothing_arrives_before_its_delay() {
    let path = Path::new(LinkConfig::default().with_delay(30 * MS), LinkConfig::default()).await;
    let sent = std::time::Instant::now();
    path.client.send(b"early?").await.unwrap();
    receive(&path.server).await;
    assert!(sent.elapsed() >= 30 * MS);
}

#[tokio::test]
async fn duplicates_arrive_twice() {
    let path = Path::new(LinkConfig::default().with_duplicate(1.0), LinkConfig::default()).await;
    path.client.send(b"twice").await.unwrap();
    assert_eq!(receive(&path.server).await.0, b"twice");
    assert_eq!(receive(&path.server).await.0, b"twice");
    let stats = path.stats_when(|stats| stats.forward.forwarded.packets == 2).await;
    assert_eq!((stats.forward.received.packets, stats.forward.duplicated.packets), (1, 1));
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_them() {
    // At 1 bit/s a packet takes 22 minutes: the first is being sent, the second waits in the queue, the others are
    // dropped.
    let link = LinkConfig::default().with_rate_bps(1).with_queue(QueueLimit::packets(1));
    let path = Path::new(link, LinkConfig::default()).await;
    for _ in 0..10 {
        path.client.send(&[0; 137]).await.unwrap();
    }
    let stats = path.stats_when(|stats| stats.forward.received.packets == 10).await.forward;
    assert_eq!((stats.queue_drops.packets, stats.on_the_way.packets), (8, 2));
}

#[tokio::test]
async fn replies_find_their_client() {
    let path = Path::new(LinkConfig::default(), LinkConfig::default()).await;
    let clients = [connect(&path.relay).await, connect(&path.relay).await, connect(&path.relay).await];
    for (number, client) in clients.iter().enumerate() {
        client.send(&[number as u8]).await.unwrap();
    }
    for _ in &clients {
        let (bytes, from) = receive(&path.server).await;
        path.server.send_to(&[bytes[0] + 100], from).await.unwrap();
    }
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(receive(client).await.0, [number as u8 + 100]);
    }
    assert_eq!(path.relay.stats().clients_total, 3);
}

#[tokio::test]
async fn only_the_target_reaches_a_client() {
    let path = Path::new(LinkConfig::default(), LinkConfig::default()).await;
    path.client.send(b"hello").await.unwrap();
    let (_, upstream) = receive(&path.server).await;
    let stranger = UdpSocket::bind(localhost()).await.unwrap();
    let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream.port()));
    stranger.send_to(b"let me in", upstream).await.unwrap();
    path.stats_when(|stats| stats.stray_packets == 1).await;
    path.server.send_to(b"welcome", upstream).await.unwrap();
    assert_eq!(receive(&path.client).await.0, b"welcome");
}

#[tokio::test]
async fn dropping_the_relay_frees_its_address() {
    let path = Path::new(LinkConfig::default(), LinkConfig::default()).await;
    let addr = path.relay.local_addr();
    drop(path.relay);
    timeout(PATIENCE, async {
        while UdpSocket::bind(addr).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_impossible_link_is_refused() {
    let link = LinkConfig::default().with_loss(Loss::bernoulli(1.5));
    let error = Relay::start(RelayConfig::symmetric(localhost(), localhost(), link, 0)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("probability"), "{error}");
}

/// Returns the numbers of the packets, among 64, that survive 30 % loss on the forward path.
async fn survivors(seed: u64) -> Vec<u8> {
    let server = UdpSocket::bind(localhost()).await.unwrap();
    let link = LinkConfig::default().with_loss(Loss::bernoulli(0.3));
    let config = RelayConfig::symmetric(localhost(), server.local_addr().unwrap(), link, seed);
    let relay = Relay::start(config).await.unwrap();
    let path = Path { client: connect(&relay).await, relay, server };
    let mut survivors = Vec::new();
    for sent in 1..=64u64 {
        path.client.send(&[sent as u8]).await.unwrap();
        let accounted = |stats: &RelayStats| stats.forward.forwarded.packets + stats.forward.lost.packets == sent;
        let stats = path.stats_when(accounted).await;
        if stats.forward.forwarded.packets > survivors.len() as u64 {
            survivors.push(receive(&path.server).await.0[0]);
        }
    }
    survivors
}

#[tokio::test]
async fn a_seed_repeats_the_losses() {
    let (first, again, other) = (survivors(7).await, survivors(7).await, survivors(8).await);
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[tokio::test]
async fn a_client_which_gets_another_port_is_answered_there_and_not_at_the_old_one() {
    let server = UdpSocket::bind(localhost()).await.unwrap();
    let to = server.local_addr().unwrap();
    let schedule = Schedule::default().with_rebind(200 * MS);
    let config = RelayConfig { schedule, ..RelayConfig::symmetric(localhost(), to, LinkConfig::default(), 1) };
    let relay = Relay::start(config).await.unwrap();
    let client = connect(&relay).await;
    client.send(b"first").await.unwrap();
    let (_, old) = receive(&server).await;
    // Send until the port changes. The number of datagrams depends on the machine; the result does not.
    let new = loop {
        client.send(b"again").await.unwrap();
        let (_, from) = receive(&server).await;
        if from != old {
            break from;
        }
        tokio::time::sleep(10 * MS).await;
    };
    server.send_to(b"to the old port", old).await.unwrap();
    server.send_to(b"to the new port", new).await.unwrap();
    assert_eq!(receive(&client).await.0, b"to the new port");
    let stats = Path { relay, client, server }.stats_when(|stats| stats.backward.forwarded.packets > 0).await;
    assert_eq!((stats.backward.received.packets, stats.clients, stats.clients_total), (1, 1, 1));
}

#[tokio::test]
async fn an_outage_counts_from_the_first_datagram_on() {
    let server = UdpSocket::bind(localhost()).await.unwrap();
    let to = server.local_addr().unwrap();
    // The outage starts with the first datagram, and outlasts the test.
    let schedule = Schedule::default().with_outage(Duration::ZERO, Duration::from_secs(3_600));
    let config = RelayConfig { schedule, ..RelayConfig::symmetric(localhost(), to, LinkConfig::default(), 1) };
    let relay = Relay::start(config).await.unwrap();
    let path = Path { client: connect(&relay).await, relay, server };
    path.client.send(b"before it is known").await.unwrap();
    path.stats_when(|stats| stats.forward.received.packets == 1).await;
    path.client.send(b"in the outage").await.unwrap();
    let stats = path.stats_when(|stats| stats.forward.received.packets == 2).await;
    assert!(stats.forward.blackout_drops.packets >= 1, "{stats:?}");
}
