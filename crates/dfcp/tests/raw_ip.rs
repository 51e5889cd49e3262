//! Tests of the raw IP carrier on loopback, where every raw socket receives every datagram, including its own.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed helper is a failed test, a skipped one says so"
)]

mod support;

use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use dfcp::{Accept, Carrier, Config, ConnectError, ConnectionError, Endpoint, Listener, Rate, Stream};
use dfcp_wire::classic::Segment;
use dfcp_wire::{DATAGRAM_BYTES_MAX, Ports, Unverified};
use support::{Pattern, modern, read_hash, write_pattern};
use tokio::io::AsyncWriteExt;

fn ipv4() -> SocketAddr {
    support::local()
}

fn ipv6() -> SocketAddr {
    (Ipv6Addr::LOCALHOST, 0).into()
}

/// Set in the copy of this program that runs in its own network namespace.
const IN_NAMESPACE: &str = "DFCP_TEST_IN_NAMESPACE";
/// Set by the user to skip these tests where neither the privilege nor a user namespace is available.
const SKIP: &str = "DFCP_TEST_SKIP_RAW_IP";

/// Returns the usable loopback addresses. Without the privilege for raw sockets the result is empty, and the calling
/// test runs as a separate program in a user namespace, where it has the privilege: a test that does nothing must not
/// pass.
async fn addresses() -> Vec<SocketAddr> {
    let (mut usable, mut is_denied) = (Vec::new(), false);
    for address in [ipv4(), ipv6()] {
        match Endpoint::bind_over(Carrier::RAW_IP, address, None) {
            Ok(_) => usable.push(address),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                assert!(error.to_string().contains("setcap cap_net_raw+ep"), "{error}");
                is_denied = true;
            }
            Err(error) => println!("skipped on {address}: {error}"),
        }
    }
    if is_denied {
        run_in_namespace();
    } else {
        assert!(!usable.is_empty() || !cfg!(target_os = "linux"), "raw IP works nowhere on this machine");
    }
    usable
}

fn run_in_namespace() {
    if std::env::var_os(SKIP).is_some() {
        println!("skipped: {SKIP} is set");
        return;
    }
    assert!(std::env::var_os(IN_NAMESPACE).is_none(), "the user namespace does not give CAP_NET_RAW");
    let program = std::env::current_exe().unwrap();
    let thread = std::thread::current();
    // If one thread runs all tests, its name is not the test's, and the copy runs all tests.
    let only = thread.name().filter(|name| *name != "main").map(|name| [name, "--exact"]);
    let ended = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(program)
        .args(only.into_iter().flatten())
        .env(IN_NAMESPACE, "1")
        .status();
    assert!(
        ended.as_ref().is_ok_and(ExitStatus::success),
        "{ended:?}: it failed there, or raw IP cannot be tried here: that needs CAP_NET_RAW, or a user namespace (`unshare` of \
         util-linux, `ip` of iproute2); {SKIP}=1 leaves these tests out"
    );
}

/// Configuration of the classic profile with a rate: each raw socket would otherwise receive the whole flood.
fn classic(rate_bps: u64) -> Config {
    Config::danger_classic().with_rate(Rate::Fixed { rate_bps })
}

/// Echoes all bytes until the peer has ended its half.
async fn echo(mut stream: Stream) {
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// Writes a pattern to an echo server, and checks the echo.
async fn check_echo(mut stream: Stream, seed: u64, bytes: u64) {
    let sent = write_pattern(&mut stream, seed, bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(read_hash(&mut stream).await.unwrap(), (bytes, sent), "seed {seed}");
}

#[tokio::test]
async fn streams_cross_in_both_profiles_and_ip_versions() {
    for address in addresses().await {
        for config in [modern(), classic(50_000_000)] {
            let listener = Listener::bind_over(Carrier::RAW_IP, address, config.clone()).unwrap();
            let to = listener.local_addr().unwrap();
            assert_ne!(to.port(), 0);
            let (client, server) = tokio::join!(Stream::connect_over(Carrier::RAW_IP, to, config), listener.accept());
            let (client, server) = (client.unwrap(), server.unwrap());
            assert_eq!((client.carrier(), server.carrier()), (Carrier::RAW_IP, Carrier::RAW_IP));
            assert_eq!(client.remote_addr(), to);
            assert_eq!(server.remote_addr(), SocketAddr::new(address.ip(), client.local_addr().port()));
            tokio::join!(echo(server), check_echo(client, 1, 400_000));
        }
    }
}

#[tokio::test]
async fn marked_datagrams_are_counted_at_the_other_end() {
    for address in addresses().await {
        let listener = Listener::bind_over(Carrier::RAW_IP, address, modern()).unwrap();
        let (to, config) = (listener.local_addr().unwrap(), modern().with_ecn(true));
        let (client, server) = tokio::join!(Stream::connect_over(Carrier::RAW_IP, to, config), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        let reading = tokio::spawn(async move {
            read_hash(&mut server).await.unwrap();
            server.shutdown().await.unwrap();
            server.stats().ecn_received
        });
        write_pattern(&mut client, 1, 100_000).await.unwrap();
        client.shutdown().await.unwrap();
        let received = reading.await.unwrap();
        assert!(received.ect > 60 && received.ce == 0, "{address}: {received:?}");
    }
}

/// Connections from a shared socket and from separate sockets, to two listeners: every socket receives all datagrams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_to_two_listeners_do_not_mix() {
    const EACH: u64 = 25;
    for address in addresses().await {
        let accept = || Accept { modern: Some(modern()), classic: Some(classic(5_000_000)), ..Accept::default() };
        let listeners = [0, 1].map(|_| Listener::bind_over(Carrier::RAW_IP, address, accept()).unwrap());
        let ports = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        assert_ne!(ports[0], ports[1]);
        let servers = listeners.map(|listener| {
            tokio::spawn(async move {
                let mut echoes = tokio::task::JoinSet::new();
                for _ in 0..2 * EACH {
                    echoes.spawn(echo(listener.accept().await.unwrap()));
                }
                echoes.join_all().await;
            })
        });
        let shared = Endpoint::bind_over(Carrier::RAW_IP, address, None).unwrap();
        let mut clients = tokio::task::JoinSet::new();
        for seed in 0..4 * EACH {
            let (to, shared) = (ports[(seed % 2) as usize], shared.clone());
            clients.spawn(async move {
                // Every tenth connection has its own socket. Few are classic.
                let config = if seed % 25 == 10 { classic(5_000_000) } else { modern() };
                let stream = match seed % 10 {
                    0 => Stream::connect_over(Carrier::RAW_IP, to, config).await,
                    _ => shared.connect(to, config).await,
                };
                check_echo(stream.unwrap(), seed, 10_000 + seed).await;
            });
        }
        clients.join_all().await;
        for server in servers {
            server.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_port_is_given_out_once_and_protocol_numbers_are_apart() {
    for address in addresses().await {
        let listener = Listener::bind_over(Carrier::RAW_IP, address, modern()).unwrap();
        let to = listener.local_addr().unwrap();
        let second = Listener::bind_over(Carrier::RAW_IP, to, modern()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse, "{second}");
        let other = Carrier::RawIp { protocol: 254 };
        let config = modern().with_idle_timeout(Duration::from_millis(200));
        let error = Stream::connect_over(other, to, config).await.unwrap_err();
        assert!(matches!(error, ConnectError::Connection(ConnectionError::HandshakeTimeout { .. })), "{error:?}");
        drop(listener);
    }
}

#[tokio::test]
async fn what_cannot_be_carried_is_said() {
    let tcp = Carrier::RawIp { protocol: 6 };
    let error = Listener::bind_over(tcp, ipv4(), modern()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    if addresses().await.contains(&ipv6()) {
        let endpoint = Endpoint::bind_over(Carrier::RAW_IP, ipv6(), None).unwrap();
        let error = endpoint.connect("127.0.0.1:9".parse().unwrap(), modern()).await.unwrap_err();
        assert!(error.to_string().contains("IPv4"), "{error}");
    }
}

#[tokio::test]
async fn the_blocking_twin_has_it_too() {
    for address in addresses().await {
        let exchange = move || {
            use std::io::{Read, Write};
            let listener = dfcp::blocking::Listener::bind_over(Carrier::RAW_IP, address, modern()).unwrap();
            let to = listener.local_addr().unwrap();
            let mut client = dfcp::blocking::Stream::connect_over(Carrier::RAW_IP, to, modern()).unwrap();
            let mut server = listener.accept().unwrap();
            client.write_all(b"all of it").unwrap();
            client.shutdown().unwrap();
            let mut received = Vec::new();
            server.read_to_end(&mut received).unwrap();
            assert_eq!((received.as_slice(), server.carrier()), (&b"all of it"[..], Carrier::RAW_IP));
        };
        tokio::task::spawn_blocking(exchange).await.unwrap();
    }
}

/// Opens a raw socket of its own for crafted packets. With `with_header`, the caller writes the IPv4 header, too.
fn stranger(address: SocketAddr, with_header: bool) -> UdpSocket {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::RAW, Some(253.into())).unwrap();
    if with_header {
        socket.set_header_included_v4(true).unwrap();
    }
    socket.bind(&SocketAddr::new(address.ip(), 0).into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.into()
}

/// Returns an IPv4 packet to loopback with `option_words` words of no-operation options. The kernel fills in the
/// remaining fields.
fn ipv4_packet(option_words: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    (packet[0], packet[8], packet[9]) = (0x45 + option_words, 64, 253);
    packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[127, 0, 0, 1]);
    packet.extend(std::iter::repeat_n(1, 4 * usize::from(option_words)));
    packet.extend_from_slice(payload);
    packet
}

/// Returns random bytes. Every second result begins like a segment of either profile, with the flags of a SYN or of
/// data.
fn junk(pattern: &mut Pattern, port: u16) -> Vec<u8> {
    let dice = pattern.take(4);
    let length = usize::from(u16::from_be_bytes([dice[0], dice[1]])) % 2_200;
    let mut bytes = pattern.take(length);
    if dice[2] & 1 == 1 && length >= 24 {
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[12] = if dice[2] & 2 == 0 { 0x60 } else { 0x68 };
        bytes[13] = if dice[2] & 4 == 0 { 0x02 } else { 0x00 };
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_datagrams_disturb_nothing() {
    const SEED: u64 = 11;
    for address in addresses().await {
        let accept = Accept { modern: Some(modern()), classic: Some(classic(50_000_000)), ..Accept::default() };
        let listener = Listener::bind_over(Carrier::RAW_IP, address, accept).unwrap();
        let to = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            for _ in 0..2 {
                echo(listener.accept().await.unwrap()).await;
            }
        });
        let hostile = tokio::task::spawn_blocking(move || {
            let mut pattern = Pattern::new(SEED);
            let (plain, crafted) = (stranger(to, false), address.is_ipv4().then(|| stranger(to, true)));
            let nowhere = SocketAddr::new(to.ip(), 0);
            for round in 0..3_000_u32 {
                let bytes = junk(&mut pattern, to.port());
                // An error by a full queue does not matter.
                let _sent = match &crafted {
                    Some(crafted) if round % 2 == 0 => {
                        crafted.send_to(&ipv4_packet((round / 2 % 11) as u8, &bytes), nowhere)
                    }
                    _ => plain.send_to(&bytes, nowhere),
                };
            }
        });
        for (seed, config) in [(1, modern()), (2, classic(50_000_000))] {
            check_echo(Stream::connect_over(Carrier::RAW_IP, to, config).await.unwrap(), seed, 300_000).await;
        }
        hostile.await.unwrap();
        server.await.unwrap();
    }
}

/// A segment after IP options is processed like one without options.
#[tokio::test]
async fn a_segment_behind_ip_options_is_answered_and_one_for_another_port_is_not() {
    for address in addresses().await {
        let listener = Listener::bind_over(Carrier::RAW_IP, address, modern()).unwrap();
        let to = listener.local_addr().unwrap();
        let answers = tokio::task::spawn_blocking(move || {
            let stranger = stranger(to, address.is_ipv4());
            // The SYN is classic, which this listener refuses with an RST that echoes S1 to S3. The first SYN is for
            // another port.
            for (port, mark) in [(1, 100), (to.port(), 200)] {
                let segment = syn(port, mark);
                let packet = if address.is_ipv4() { ipv4_packet(3, &segment) } else { segment };
                stranger.send_to(&packet, SocketAddr::new(to.ip(), 0)).unwrap();
            }
            first_answer(&stranger, address.is_ipv4())
        });
        assert_eq!(answers.await.unwrap(), 200);
    }
}

/// Port of the test's raw socket, outside of the system's ephemeral range.
const STRANGER: u16 = 77;

fn syn(port: u16, mark: u32) -> Vec<u8> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let syn = Segment::Syn { initial: [mark; 3] };
    let length = syn.begin(Ports { source: STRANGER, destination: port }, &mut out).finish();
    out[..length].to_vec()
}

/// Returns S1 of the first RST to the test's raw socket.
fn first_answer(stranger: &UdpSocket, has_header: bool) -> u32 {
    let mut buffer = [0; 2_048];
    loop {
        let (length, _) = stranger.recv_from(&mut buffer).unwrap();
        let start = if has_header { usize::from(buffer[0] & 15) * 4 } else { 0 };
        let segment = &buffer[start..length];
        let Ok(Unverified::Classic(header)) = Unverified::read(segment) else { continue };
        let Ok(received) = header.verify(segment) else { continue };
        if let Segment::Reset { echo: [mark, ..] } = received.segment
            && header.ports().destination == STRANGER
        {
            return mark;
        }
    }
}

#[tokio::test]
async fn a_socket_at_another_address_takes_the_place_and_keeps_the_port() {
    for address in addresses().await {
        let config = modern().with_rate(Rate::Fixed { rate_bps: 30_000_000 });
        let listener = Listener::bind_over(Carrier::RAW_IP, address, config.clone()).unwrap();
        let to = listener.local_addr().unwrap();
        let endpoint = Endpoint::bind_over(Carrier::RAW_IP, address, None).unwrap();
        let port = endpoint.local_addr().port();
        let (client, server) = tokio::join!(endpoint.connect(to, config), listener.accept());
        let (client, server) = (client.unwrap(), server.unwrap());
        let other: SocketAddr = if address.is_ipv4() { ([127, 0, 0, 2], 0).into() } else { address };
        let rebinding = async {
            for turn in 0..4 {
                tokio::time::sleep(Duration::from_millis(30)).await;
                endpoint.rebind_to(if turn % 2 == 0 { other } else { address }).unwrap();
                assert_eq!(endpoint.local_addr().port(), port);
            }
        };
        let ours = UdpSocket::bind(address).unwrap();
        let error = endpoint.rebind(ours).unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains("rebind_to"), "{error}");
        let error = endpoint.rebind_to(SocketAddr::new(address.ip(), port ^ 1)).unwrap_err();
        assert!(error.to_string().contains(&format!("keeps its port, {port}")), "{error}");
        tokio::join!(echo(server), check_echo(client, 1, 500_000), rebinding);
    }
}

/// The TOS is read from the headers by a raw socket, which receives every packet of the protocol.
#[tokio::test]
async fn packets_have_the_code_point_of_their_configuration() {
    if !addresses().await.contains(&ipv4()) {
        return;
    }
    let protocol = socket2::Protocol::from(253);
    let witness = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(protocol)).unwrap();
    witness.set_nonblocking(true).unwrap();
    let listener = Listener::bind_over(Carrier::RAW_IP, ([127, 0, 0, 1], 0).into(), modern()).unwrap();
    let config = modern().with_dscp(Some(dfcp::Dscp::EF)).with_ecn(true);
    // An address from which no other test sends.
    let endpoint = Endpoint::bind_over(Carrier::RAW_IP, ([127, 0, 0, 77], 0).into(), None).unwrap();
    let (client, server) = tokio::join!(endpoint.connect(listener.local_addr().unwrap(), config), listener.accept());
    tokio::join!(echo(server.unwrap()), check_echo(client.unwrap(), 2, 20_000));
    let (mut buffer, mut bytes) = ([0; 2_048], std::collections::BTreeSet::new());
    while let Ok(length) = io::Read::read(&mut &witness, &mut buffer) {
        if length >= 20 && buffer[12..16] == [127, 0, 0, 77] {
            bytes.insert(buffer[1]);
        }
    }
    assert!(bytes.contains(&(46 << 2 | 2)) && bytes.iter().all(|byte| byte >> 2 == 46), "{bytes:?}");
}
