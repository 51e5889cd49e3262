//! Tests: connections over loopback, through a socket that sees every datagram.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

use clap::Parser;
use dfcp::{PeerKey, Policy};
use dfcp_secure::StaticKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket as Socket;

use super::*;
use crate::args::listen_at_port;
use crate::cli::{Cli, Command};

/// Loopback address that no other program uses. On Linux, which has all of 127.0.0.0/8, it depends on the process id.
/// Each test needs its own ports; ports below 32768 are outside the ephemeral range.
pub(super) fn own_loopback(port: u16) -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = if cfg!(target_os = "linux") { [127, 64 | (high & 63), middle, low] } else { [127, 0, 0, 1] };
    (own, port).into()
}

/// Length of the test data: several blocks, the last one of odd length.
const BYTES: usize = 300_001;

fn path(more: &[&str]) -> PathArgs {
    let cli = Cli::try_parse_from([&["dfcp", "send", "file", "host:1"], more].concat()).unwrap();
    let Command::Send(send) = cli.command else { panic!("not send") };
    send.path
}

/// Forwards a client's datagrams from `near` via `far` to `to`, and the answers back. `on_datagram` receives the
/// direction and size of each datagram.
async fn pass(near: &Socket, far: &Socket, to: SocketAddr, mut on_datagram: impl FnMut(usize, usize)) {
    let (mut forth, mut back, mut client) = ([0; 2048], [0; 2048], None);
    loop {
        tokio::select! {
            got = near.recv_from(&mut forth) => {
                let (bytes, from) = got.unwrap();
                client = Some(from);
                on_datagram(0, bytes);
                far.send_to(&forth[..bytes], to).await.unwrap();
            }
            got = far.recv_from(&mut back) => {
                let (bytes, _) = got.unwrap();
                on_datagram(1, bytes);
                // The client's address is known after its first datagram.
                if let Some(client) = client {
                    near.send_to(&back[..bytes], client).await.unwrap();
                }
            }
        }
    }
}

/// Largest UDP payload in each direction while [`BYTES`] travel there and back.
async fn largest(ip: IpAddr, here: &PathArgs, there: &PathArgs) -> [usize; 2] {
    let sealed = here.insecure_flag().is_none();
    let config = |seed, peer| {
        let credentials = Credentials { key: Some(StaticKey::from_seed(&[seed; 32])), peer, ..Credentials::default() };
        if sealed { Config::sealed(credentials) } else { Config::danger_unsealed() }
    };
    let any = SocketAddr::new(ip, 0);
    let listener =
        Listener::bind(any, within_mtu(with_settings(config(1, PeerKey::Any), there).unwrap(), there, any)).unwrap();
    let to = listener.local_addr().unwrap();
    let (near, far) = (Socket::bind(any).await.unwrap(), Socket::bind(any).await.unwrap());
    let between = near.local_addr().unwrap();
    let echo = async {
        let (mut reader, mut writer) = tokio::io::split(listener.accept().await.unwrap());
        let mut data = vec![0; BYTES];
        reader.read_exact(&mut data).await.unwrap();
        writer.write_all(&data).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let client = async {
        let config = within_mtu(with_settings(config(2, PeerKey::Any), here).unwrap(), here, between);
        let mut stream = Stream::connect(between, config).await.unwrap();
        let data: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
        stream.write_all(&data).await.unwrap();
        let mut back = vec![0; BYTES];
        stream.read_exact(&mut back).await.unwrap();
        assert!(back == data);
        stream.shutdown().await.unwrap();
    };
    let mut most = [0; 2];
    let watch = pass(&near, &far, to, |way, bytes| most[way] = most[way].max(bytes));
    tokio::select! {
        _ = async { tokio::join!(echo, client) } => {}
        () = watch => {}
    }
    most
}

#[tokio::test]
async fn no_datagram_is_larger_than_the_path_takes_whichever_side_knows() {
    let addresses: [(IpAddr, usize); 2] = [([127, 0, 0, 1].into(), 28), (Ipv6Addr::LOCALHOST.into(), 48)];
    for (ip, overhead_bytes) in addresses {
        if UdpSocket::bind((ip, 0)).is_err() {
            continue; // a machine without this version of IP
        }
        for unsealed in [&[][..], &["--insecure-plaintext"]] {
            let (small, default) = (path(&[&["--mtu", "1280"], unsealed].concat()), path(unsealed));
            for (here, there) in [(&small, &small), (&small, &default), (&default, &small)] {
                let packets = largest(ip, here, there).await.map(|bytes| bytes + overhead_bytes);
                // Four bytes are reserved for a stream id, which stream 0 lacks.
                assert_eq!(packets, [1276; 2], "{ip} {unsealed:?}: full packets, and none is longer");
            }
        }
    }
}

#[test]
fn bounds_without_an_automatic_rate_are_refused() {
    let given = |args: &[&str]| with_settings(Config::danger_unsealed(), &path(args)).map(|config| config.rate);
    for flag in ["--max-rate", "--min-rate"] {
        for args in [&["--rate", "9mbit", flag, "5mbit"][..], &["--rate", "line", flag, "1mbit"]] {
            let refusal = given(args).expect_err("nothing would keep to it").to_string();
            assert!(refusal.contains(flag) && refusal.contains("--rate auto"), "{refusal}");
        }
    }
    let rate = given(&["--rate", "auto:low", "--max-rate", "5mbit", "--min-rate", "1mbit"]).unwrap();
    assert_eq!(rate, Rate::Auto { policy: Policy::Low, max_bps: Some(5_000_000), min_bps: Some(1_000_000) });
}

#[test]
fn what_a_peer_may_send_is_declared() {
    let declared = |args: &[&str]| with_settings(Config::danger_unsealed(), &path(args)).unwrap().receive_rate_max_bps;
    assert_eq!((declared(&[]), declared(&["--max-receive-rate", "7mbit"])), (0, 7_000_000));
}

#[test]
fn symbols_follow_from_carrier_ip_version_and_sealing() {
    let (v4, v6): (SocketAddr, SocketAddr) = (([192, 0, 2, 1], 1).into(), (Ipv6Addr::LOCALHOST, 1).into());
    let mapped: SocketAddr = (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xc000, 0x201), 1).into();
    let symbol = |more: &[&str], config: Config, address| within_mtu(config, &path(more), address).symbol_size;
    let sealed = || Config::sealed(Credentials::default());
    for (more, address, in_seal, plain) in [
        (&["--mtu", "1280"][..], v4, 1204, 1220),
        (&["--mtu", "1280"], mapped, 1204, 1220),
        (&["--mtu", "1280"], v6, 1184, 1200),
        (&["--mtu", "1280", "--carrier", "raw-ip"], v4, 1212, 1228),
        (&["--mtu", "1280", "--carrier", "raw-ip"], v6, 1192, 1208),
        (&["--mtu", "1491"], v4, 1415, 1420),
        // Default of the library, without `--mtu`.
        (&[], v4, 1420, 1420),
        (&[], v6, 1404, 1420),
    ] {
        assert_eq!(symbol(more, sealed(), address), in_seal, "{more:?} {address}");
        assert_eq!(symbol(more, Config::danger_unsealed(), address), plain, "{more:?} {address}");
    }
}

#[tokio::test]
async fn a_port_alone_listens_for_both_versions_of_ip_and_a_name_on_its_address() {
    let unsealed = path(&["--insecure-plaintext"]);
    for (place, hosts) in [("0", &["127.0.0.1", "[::1]"][..]), (":0", &["127.0.0.1"]), ("localhost:0", &["localhost"])]
    {
        let mut server = listen(&listen_at_port(place).unwrap(), &unsealed, None).await.unwrap();
        let local = server.local_address().unwrap();
        for host in hosts {
            if host.starts_with('[') && local.is_ipv4() {
                continue; // a machine without IPv6
            }
            let to = format!("{host}:{}", local.port());
            let nobody = HostArgs::default();
            let (connected, accepted) = tokio::join!(connect(&to, &unsealed, &nobody), server.accept());
            assert!(connected.is_ok() && accepted.is_ok(), "{place}: {to}");
        }
    }
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    let error = listen(&listen_at_port(&taken.to_string()).unwrap(), &unsealed, None).await.unwrap_err();
    assert!(error.to_string().contains("choose another --listen"), "{error}");
}

/// Attack: during a transfer, every datagram of the sender is answered by ICMP "port unreachable".
#[tokio::test]
async fn refusals_do_not_end_what_is_open() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = || with_settings(Config::danger_unsealed(), &path(&[])).unwrap();
    let listener = Listener::bind(any, config()).unwrap();
    let to = listener.local_addr().unwrap();
    let between = own_loopback(20_432);
    let (near, far) = (Socket::bind(between).await.unwrap(), Socket::bind(any).await.unwrap());
    let (mut client, mut server) = tokio::select! {
        (client, server) = async { tokio::join!(Stream::connect(between, config()), listener.accept()) } => {
            (client.unwrap(), server.unwrap())
        }
        () = pass(&near, &far, to, |_, _| ()) => unreachable!(),
    };
    let data: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    let send = async {
        client.write_all(&data).await.unwrap();
        client.shutdown().await.unwrap();
    };
    let receive = async {
        let mut received = Vec::new();
        server.read_to_end(&mut received).await.unwrap();
        received
    };
    let refuse_and_pass = async {
        // The port is closed now: the system answers every datagram by ICMP, which a socket can receive.
        drop(near);
        for _ in 0..20 {
            let asking = Socket::bind(any).await.unwrap();
            asking.connect(between).await.unwrap();
            asking.send(&[0]).await.unwrap();
            assert_eq!(asking.recv(&mut [0; 1]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
        pass(&Socket::bind(between).await.unwrap(), &far, to, |_, _| ()).await;
    };
    tokio::select! {
        ((), received) = async { tokio::join!(send, receive) } => assert!(received == data),
        () = refuse_and_pass => unreachable!(),
    }
}

/// The DSCP of `--dscp` is in the header of the first datagram.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn packets_have_the_code_point_of_the_flag() {
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    let silent = UdpSocket::bind(own_loopback(20_910)).unwrap();
    socket2::SockRef::from(&silent).set_recv_tos_v4(true).unwrap();
    silent.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let here = path(&["--dscp", "AF41"]);
    let config = with_settings(Config::sealed(PeerKey::Any), &here).unwrap();
    let to = silent.local_addr().unwrap();
    let calling = tokio::spawn(async move { Stream::connect(to, config).await });
    let tos = tokio::task::spawn_blocking(move || {
        let (mut space, mut buffer) = (nix::cmsg_space!(i32), [0; 2_048]);
        let mut slices = [io::IoSliceMut::new(&mut buffer)];
        let fd = silent.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut space), MsgFlags::empty()).unwrap();
        message.cmsgs().unwrap().find_map(|told| match told {
            ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
            _ => None,
        })
    });
    assert_eq!(tos.await.unwrap(), Some(34 << 2));
    calling.abort();
}
