//! Tests of sockets made by the application, and of rebinds, over loopback.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use dfcp::{
    Accept, Carrier, Config, ConnectError, ConnectionError, Endpoint, Listener, Session, Stream, StreamLimits, blocking,
};
use socket2::{Domain, Protocol, Socket, Type};
use support::{local, modern, read_hash, write_pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Timeout that exceeds every wait of these tests.
const NEVER: Duration = Duration::from_secs(30);

fn any_v6() -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, 0).into()
}

fn config() -> Config {
    let streams = StreamLimits { bidirectional: 10, one_way: 10 };
    modern().with_streams(streams).with_time_wait(Duration::from_millis(10))
}

/// Binds a UDP socket without any further setting.
fn bound(address: SocketAddr) -> UdpSocket {
    UdpSocket::bind(address).unwrap()
}

fn bound_v6(only_v6: bool) -> UdpSocket {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).unwrap();
    socket.set_only_v6(only_v6).unwrap();
    socket.bind(&any_v6().into()).unwrap();
    socket.into()
}

fn reusing(address: SocketAddr) -> UdpSocket {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.into()
}

/// Connects a session. Returns the client's endpoint on socket `client`, its session, the server's session, and the
/// listener.
async fn pair(client: UdpSocket, config: Config) -> (Endpoint, Session, Session, Listener) {
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let endpoint = Endpoint::with_socket(client, None).unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(endpoint.connect_session(address, config), listener.accept_session());
    (endpoint, ours.unwrap(), theirs.unwrap(), listener)
}

/// Opens a stream, and returns both ends.
async fn stream_pair(opener: &Session, acceptor: &Session) -> (Stream, Stream) {
    let mut ours = opener.open_stream().await.unwrap();
    ours.write_all(b"!").await.unwrap();
    ours.flush().await.unwrap();
    let mut theirs = acceptor.accept_stream().await.unwrap();
    theirs.read_exact(&mut [0]).await.unwrap();
    (ours, theirs)
}

async fn close(one: Session, other: Session) {
    let closed = tokio::join!(timeout(NEVER, one.close()), timeout(NEVER, other.close()));
    assert!(matches!(closed, (Ok(Ok(())), Ok(Ok(())))), "{closed:?}");
}

/// Sends `bytes` of a pattern from one end to the other, and checks them.
async fn transfer(mut from: Stream, mut to: Stream, bytes: u64) {
    let sending = async {
        let hash = write_pattern(&mut from, 7, bytes).await?;
        from.shutdown().await?;
        io::Result::Ok(hash)
    };
    let (sent, received) = tokio::join!(timeout(NEVER, sending), timeout(NEVER, read_hash(&mut to)));
    assert_eq!(received.expect("it comes").unwrap(), (bytes, sent.expect("it goes").unwrap()));
}

#[tokio::test]
async fn a_socket_keeps_what_it_is_set_to() {
    let socket = bound(local());
    let view = socket2::SockRef::from(&socket);
    view.set_recv_buffer_size(100_000).unwrap();
    view.set_ttl_v4(33).unwrap();
    let (address, granted) = (socket.local_addr().unwrap(), view.recv_buffer_size().unwrap());
    let other = socket.try_clone().unwrap();
    let (endpoint, ours, theirs, _listener) = pair(socket, config()).await;
    assert_eq!((endpoint.local_addr(), ours.local_addr(), theirs.remote_addr()), (address, address, address));
    let view = socket2::SockRef::from(&other);
    assert_eq!((view.recv_buffer_size().unwrap(), view.ttl_v4().unwrap()), (granted, 33));
    let (from, to) = stream_pair(&ours, &theirs).await;
    transfer(from, to, 1_000_000).await;
    close(ours, theirs).await;
}

#[tokio::test]
async fn what_is_no_bound_udp_socket_is_refused_with_a_sentence() {
    let of = |socket: Socket| UdpSocket::from(socket);
    let new = |domain, kind| Socket::new(domain, kind, None).unwrap();
    let connected = bound(local());
    connected.connect(bound(local()).local_addr().unwrap()).unwrap();
    let tcp = of(Socket::from(TcpListener::bind(local()).unwrap()));
    for (what, socket, sentence) in [
        ("a TCP listener", tcp, "no UDP socket"),
        ("a TCP socket that is not bound", of(new(Domain::IPV4, Type::STREAM)), "no UDP socket"),
        ("a UNIX socket", of(new(Domain::UNIX, Type::DGRAM)), "no UDP socket"),
        ("not bound", of(new(Domain::IPV4, Type::DGRAM)), "not bound"),
        ("not bound, IPv6", of(new(Domain::IPV6, Type::DGRAM)), "not bound"),
        ("connected", connected, "connected"),
    ] {
        let clone = || socket.try_clone().unwrap();
        let error = Endpoint::with_socket(clone(), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{what}: {error}");
        assert!(error.to_string().contains(sentence), "{what}: {error}");
        let error = blocking::Endpoint::with_socket(clone(), None).unwrap_err();
        assert!(error.to_string().contains(sentence), "{what}: {error}");
        let error = Listener::with_socket(clone(), config()).unwrap_err();
        assert!(error.to_string().contains(sentence), "{what}: {error}");
    }
}

#[tokio::test]
async fn an_address_that_a_socket_does_not_reach_is_refused_at_once() {
    let v4 = Endpoint::with_socket(bound(local()), None).unwrap();
    let only_v6 = Endpoint::with_socket(bound_v6(true), None).unwrap();
    for (endpoint, remote) in [(v4, (Ipv6Addr::LOCALHOST, 9).into()), (only_v6, (Ipv4Addr::LOCALHOST, 9).into())] {
        match endpoint.connect(remote, config()).await {
            Err(ConnectError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}"),
            other => panic!("{other:?}"),
        }
        endpoint.wait_idle().await;
    }
}

#[tokio::test]
async fn buffers_of_a_few_datagrams_carry_everything() {
    let tiny = || {
        let socket = bound(local());
        let view = socket2::SockRef::from(&socket);
        view.set_recv_buffer_size(1).unwrap();
        view.set_send_buffer_size(1).unwrap();
        socket
    };
    let listener = Listener::with_socket(tiny(), config()).unwrap();
    let endpoint = Endpoint::with_socket(tiny(), None).unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(endpoint.connect_session(address, config()), listener.accept_session());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    let (from, to) = stream_pair(&ours, &theirs).await;
    transfer(from, to, 100_000).await;
    let (to, from) = stream_pair(&ours, &theirs).await;
    transfer(from, to, 100_000).await;
    close(ours, theirs).await;
}

/// Rebinds every 50 ms until `work` is done. Returns the number of rebinds.
async fn rebinding(rebind: impl Fn(), work: impl Future<Output = ()>) -> usize {
    let mut work = std::pin::pin!(work);
    let mut count = 0;
    loop {
        tokio::select! {
            () = &mut work => return count,
            () = sleep(Duration::from_millis(50)) => {
                rebind();
                count += 1;
            }
        }
    }
}

#[tokio::test]
async fn transfers_go_on_over_a_socket_that_changes_every_50_ms() {
    // A low rate makes the transfer take some time.
    let config = config().with_rate(dfcp::Rate::Fixed { rate_bps: 30_000_000 });
    let (endpoint, ours, theirs, listener) = pair(bound(local()), config).await;
    let server = listener.endpoint().clone();
    let (from, to) = stream_pair(&ours, &theirs).await;
    let (back_to, back_from) = stream_pair(&ours, &theirs).await;
    let both = async {
        tokio::join!(transfer(from, to, 3_000_000), transfer(back_from, back_to, 3_000_000));
    };
    let count = rebinding(|| endpoint.rebind(bound(local())).unwrap(), both).await;
    assert!(count > 5, "{count}");
    // The other end can rebind, too.
    let (from, to) = stream_pair(&ours, &theirs).await;
    let count = rebinding(|| server.rebind_to(local()).unwrap(), transfer(from, to, 3_000_000)).await;
    assert!(count > 5, "{count}");
    close(ours, theirs).await;
}

/// [path-6]: a client that only reads has no data to send, but must notify its peer of the new address.
#[tokio::test]
async fn a_peer_hears_of_a_new_address_from_an_end_that_only_reads() {
    let silent = config().with_keep_alive(None);
    let (endpoint, ours, theirs, _listener) = pair(bound(local()), silent).await;
    let (mut reader, mut writer) = stream_pair(&ours, &theirs).await;
    // Wait until no acknowledgement is pending.
    sleep(Duration::from_millis(500)).await;
    endpoint.rebind(bound(local())).unwrap();
    let new = endpoint.local_addr();
    let moved = async {
        while theirs.remote_addr() != new {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(NEVER, moved).await.expect("the peer never hears of it");
    assert_eq!((ours.local_addr(), theirs.stats().path_changes), (new, 1));
    writer.write_all(b"news").await.unwrap();
    writer.flush().await.unwrap();
    let mut news = [0; 4];
    timeout(NEVER, reader.read_exact(&mut news)).await.unwrap().unwrap();
    assert_eq!(&news, b"news");
    drop((reader, writer));
    close(ours, theirs).await;
}

/// Datagrams on their way to the old socket are not lost.
#[tokio::test]
async fn what_comes_to_the_old_address_is_still_heard() {
    let (endpoint, ours, theirs, _listener) = pair(bound(local()), config()).await;
    let (mut reader, mut writer) = stream_pair(&ours, &theirs).await;
    writer.write_all(&[7; 10_000]).await.unwrap();
    writer.flush().await.unwrap();
    // The data waits in the old socket, or will arrive there, since neither endpoint has run.
    endpoint.rebind(bound(local())).unwrap();
    let mut rest = [0; 10_000];
    timeout(NEVER, reader.read_exact(&mut rest)).await.unwrap().unwrap();
    // One missing datagram is normal: the sender skips one number in 128.
    let lost = ours.stats().datagrams_missing;
    assert!(lost <= 1, "{lost} datagrams were lost");
    drop((reader, writer));
    close(ours, theirs).await;
}

#[tokio::test]
async fn what_cannot_take_the_socket_s_place_leaves_everything_as_it_was() {
    let (endpoint, ours, theirs, listener) = pair(bound(local()), config()).await;
    let (mut from, to) = stream_pair(&ours, &theirs).await;
    let before = endpoint.local_addr();
    from.write_all(&[1; 1]).await.unwrap();
    let connected = bound(local());
    connected.connect(listener.local_addr().unwrap()).unwrap();
    let unbound = UdpSocket::from(Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap());
    for (socket, sentence) in [(connected, "connected"), (unbound, "not bound"), (bound_v6(true), "does not reach")] {
        let error = endpoint.rebind(socket).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
    let used = bound(local());
    let error = endpoint.rebind_to(used.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
    assert_eq!((endpoint.local_addr(), ours.local_addr()), (before, before));
    let mut to = to;
    from.write_all(&[2; 9]).await.unwrap();
    from.flush().await.unwrap();
    to.read_exact(&mut [0; 10]).await.unwrap();
    assert_eq!((theirs.remote_addr(), theirs.stats().path_changes), (before, 0));
    drop((from, to));
    close(ours, theirs).await;
}

#[tokio::test]
async fn a_connection_can_be_opened_from_a_socket_that_has_just_come() {
    let listener = Listener::bind(local(), config()).unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = Endpoint::with_socket(bound(local()), None).unwrap();
    for _ in 0..3 {
        endpoint.rebind(bound(local())).unwrap();
        let (ours, theirs) = tokio::join!(endpoint.connect_session(address, config()), listener.accept_session());
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(theirs.remote_addr(), endpoint.local_addr());
        let (from, to) = stream_pair(&ours, &theirs).await;
        transfer(from, to, 1_000).await;
        close(ours, theirs).await;
    }
}

/// A rebind after any number of the handshake's datagrams.
#[tokio::test]
async fn a_connection_that_is_being_opened_goes_on_from_another_socket() {
    for (yields, profile) in (0..24).map(|step| (step / 2, step % 2)) {
        let config = if profile == 0 { config() } else { Config::danger_unsealed().with_streams(config().streams) };
        let listener = Listener::bind(local(), config.clone()).unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = Endpoint::with_socket(bound(local()), None).unwrap();
        let calling = {
            let endpoint = endpoint.clone();
            let config = config.clone();
            tokio::spawn(async move { endpoint.connect_session(address, config).await })
        };
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        endpoint.rebind(bound(local())).unwrap();
        let ours = timeout(NEVER, calling).await.expect("it never connects").unwrap();
        let ours = ours.unwrap_or_else(|error| panic!("{yields} yields: {error}"));
        let theirs = timeout(NEVER, listener.accept_session()).await.expect("nothing comes").unwrap();
        if profile == 0 {
            let (from, to) = stream_pair(&ours, &theirs).await;
            transfer(from, to, 1_000).await;
            close(ours, theirs).await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_being_closed_ends_in_order_over_another_socket() {
    for yields in 0..8 {
        let (endpoint, ours, theirs, _listener) = pair(bound(local()), config()).await;
        let closing = tokio::spawn(async move { ours.close().await });
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        endpoint.rebind(bound(local())).unwrap();
        timeout(NEVER, theirs.close()).await.unwrap().unwrap();
        timeout(NEVER, closing).await.unwrap().unwrap().unwrap();
        timeout(NEVER, endpoint.wait_idle()).await.expect("it is never over");
    }
}

#[tokio::test]
async fn a_socket_of_the_other_ip_version_serves_the_peers_that_it_reaches() {
    // The server's socket is dual-stack.
    let listener = Listener::bind(any_v6(), config()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = Endpoint::with_socket(bound(local()), None).unwrap();
    let calling = endpoint.connect_session((Ipv4Addr::LOCALHOST, port).into(), config());
    let (ours, theirs) = tokio::join!(calling, listener.accept_session());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert!(theirs.remote_addr().is_ipv4());
    let (from, to) = stream_pair(&ours, &theirs).await;
    let to_v6 = async {
        sleep(Duration::from_millis(5)).await;
        endpoint.rebind(bound_v6(false)).unwrap();
    };
    tokio::join!(transfer(from, to, 2_000_000), to_v6);
    let (from, to) = stream_pair(&theirs, &ours).await;
    endpoint.rebind(bound(local())).unwrap();
    transfer(from, to, 500_000).await;
    // The server, too, returns to an IPv4 socket, for its IPv4 peer.
    listener.endpoint().rebind_to((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (from, to) = stream_pair(&ours, &theirs).await;
    transfer(from, to, 500_000).await;
    close(ours, theirs).await;
}

#[tokio::test]
async fn a_socket_that_leaves_a_peer_behind_is_refused() {
    let listener = Listener::bind((Ipv6Addr::LOCALHOST, 0).into(), config()).unwrap();
    let endpoint = Endpoint::bind((Ipv6Addr::LOCALHOST, 0).into(), None).unwrap();
    let calling = endpoint.connect_session(listener.local_addr().unwrap(), config());
    let (ours, theirs) = tokio::join!(calling, listener.accept_session());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    let error = endpoint.rebind(bound(local())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("1 live connection"), "{error}");
    let (from, to) = stream_pair(&ours, &theirs).await;
    transfer(from, to, 10_000).await;
    close(ours, theirs).await;
    endpoint.wait_idle().await;
    endpoint.rebind(bound(local())).expect("nobody is left behind");
}

/// Plaintext connections do not follow an address change, as anyone could claim to be the peer: the peer keeps sending
/// to the old address.
#[tokio::test]
async fn connections_without_seals_do_not_move_and_end_by_their_idle_timeout() {
    for config in [Config::danger_unsealed(), Config::danger_classic()] {
        let config = config.with_idle_timeout(Duration::from_millis(300));
        let listener = Listener::bind(local(), config.clone()).unwrap();
        let endpoint = Endpoint::bind(local(), None).unwrap();
        let calling = endpoint.connect(listener.local_addr().unwrap(), config);
        let (ours, theirs) = tokio::join!(calling, listener.accept());
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        // Rebind twice, as the previous socket is still read after a rebind.
        endpoint.rebind(bound(local())).unwrap();
        tokio::task::yield_now().await;
        endpoint.rebind(bound(local())).unwrap();
        let ended = timeout(NEVER, async { tokio::join!(ours.closed(), theirs.closed()) }).await.unwrap();
        assert_eq!(ended.0, Some(ConnectionError::TimedOut), "{ended:?}");
    }
}

/// The system delivers all datagrams from one peer address to one of the endpoints that share a port. After the peer
/// has moved, that may be another endpoint.
#[tokio::test]
async fn datagrams_that_come_to_another_endpoint_of_the_same_port_are_lost() {
    let config =
        config().with_idle_timeout(Duration::from_millis(400)).with_keep_alive(Some(Duration::from_millis(100)));
    let first = Listener::with_socket(reusing(local()), config.clone()).unwrap();
    let address = first.local_addr().unwrap();
    let second = Listener::with_socket(reusing(address), config.clone()).unwrap();
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let serving = |listener: Listener| async move {
        let session = listener.accept_session().await.unwrap();
        while let Some(mut stream) = session.accept_stream().await {
            let mut question = String::new();
            if stream.read_to_string(&mut question).await.is_ok() {
                // The write fails if the peer is gone.
                let _may_fail = stream.write_all(question.as_bytes()).await;
                let _may_fail = stream.finish();
            }
        }
    };
    for listener in [first, second] {
        tokio::spawn(serving(listener));
    }
    let session = endpoint.connect_session(address, config).await.unwrap();
    let ask = || async {
        let mut stream = session.open_stream().await?;
        stream.write_all(b"there?").await?;
        stream.finish()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert_eq!(answer, "there?");
        io::Result::Ok(())
    };
    timeout(NEVER, ask()).await.unwrap().unwrap();
    let lost = async {
        for _ in 0..64 {
            endpoint.rebind(bound(local())).unwrap();
            if let Err(error) = ask().await {
                return error;
            }
        }
        panic!("64 addresses came to the same endpoint");
    };
    let error = timeout(NEVER, lost).await.expect("nobody tells that it is lost");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    assert_eq!(session.closed().await, Some(ConnectionError::TimedOut));
}

#[test]
fn the_blocking_twin_brings_and_changes_sockets_too() {
    let listener = blocking::Listener::with_socket(bound(local()), config()).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let mut stream = listener.accept().unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        stream.shutdown().unwrap();
        (bytes.len(), stream.stats().path_changes)
    });
    let endpoint = blocking::Endpoint::with_socket(bound(local()), None).unwrap();
    let slow = config().with_rate(dfcp::Rate::Fixed { rate_bps: 20_000_000 });
    let mut stream = endpoint.connect(address, slow).unwrap();
    for _ in 0..10 {
        stream.write_all(&[7; 100_000]).unwrap();
        endpoint.rebind(bound(local())).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    endpoint.rebind_to(local()).unwrap();
    while stream.local_addr() != endpoint.local_addr() {
        thread::sleep(Duration::from_millis(1));
    }
    stream.shutdown().unwrap();
    let (bytes, path_changes) = serving.join().unwrap();
    assert!(bytes == 1_000_000 && path_changes > 0, "{bytes} bytes, {path_changes} changes");
}

/// The endpoint has lost its driver, so that a new socket would never be used.
#[test]
fn an_endpoint_whose_runtime_has_ended_takes_no_socket() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let endpoint = runtime.block_on(async { Endpoint::bind(local(), None).unwrap() });
    drop(runtime);
    let error = endpoint.rebind(bound(local())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
}

#[tokio::test]
async fn accepting_goes_on_over_a_new_socket_and_for_a_while_over_the_one_before() {
    let accept = Accept { modern: Some(config()), ..Accept::default() };
    let endpoint = Endpoint::with_socket(bound(local()), Some(accept)).unwrap();
    let old = endpoint.local_addr();
    endpoint.rebind(bound(local())).unwrap();
    for address in [endpoint.local_addr(), old] {
        let calling = Session::connect(address, config());
        let both = async { tokio::join!(calling, endpoint.accept_session()) };
        let (ours, theirs) = timeout(NEVER, both).await.expect("nothing is accepted");
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        let (from, to) = stream_pair(&ours, &theirs).await;
        transfer(from, to, 10_000).await;
        close(ours, theirs).await;
    }
    assert_eq!(endpoint.carrier(), Carrier::Udp);
}

/// While both sockets are read, it does not matter to which one the system delivers. This also holds for plaintext.
#[tokio::test]
async fn a_socket_that_shares_the_port_takes_over_without_a_move() {
    for config in [config(), Config::danger_unsealed().with_streams(config().streams)] {
        let config = config.with_rate(dfcp::Rate::Fixed { rate_bps: 30_000_000 });
        let (endpoint, ours, theirs, _listener) = pair(reusing(local()), config).await;
        let address = endpoint.local_addr();
        let (from, to) = stream_pair(&ours, &theirs).await;
        let count = rebinding(|| endpoint.rebind(reusing(address)).unwrap(), transfer(from, to, 1_000_000)).await;
        let (from, to) = stream_pair(&theirs, &ours).await;
        endpoint.rebind(reusing(address)).unwrap();
        transfer(from, to, 100_000).await;
        assert_eq!((ours.local_addr(), theirs.stats().path_changes), (address, 0), "{count} times");
        ours.abort();
    }
}
