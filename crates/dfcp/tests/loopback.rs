//! Streams over real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dfcp::classic::{Parameter, ParameterError};
use dfcp::{Accept, Carrier, Config, ConnectError, ConnectionError, Endpoint, Listener, Rate, State, Stream};
use support::{Pattern, local, modern, read_hash, write_pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn line() -> Config {
    modern().with_rate(Rate::Line)
}

/// Connects both ends of a connection.
async fn pair(config: Config) -> (Stream, Stream) {
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(Stream::connect(address, config), listener.accept());
    (client.unwrap(), server.unwrap())
}

/// Both directions at the same time, as fast as the machine permits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_data_both_ways_arrives_as_it_was_sent() {
    const BYTES: u64 = 64 << 20;
    let (client, server) = pair(line()).await;
    let side = |stream: Stream, own: u64| async move {
        let (mut reader, mut writer) = stream.into_split();
        let writing = tokio::spawn(async move {
            let hash = write_pattern(&mut writer, own, BYTES).await.unwrap();
            writer.shutdown().await.unwrap();
            hash
        });
        let received = read_hash(&mut reader).await.unwrap();
        (writing.await.unwrap(), received)
    };
    let (ours, theirs) = tokio::join!(tokio::spawn(side(client, 1)), tokio::spawn(side(server, 2)));
    let ((sent_1, received_2), (sent_2, received_1)) = (ours.unwrap(), theirs.unwrap());
    assert_eq!((received_1, received_2), ((BYTES, sent_1), (BYTES, sent_2)));
}

/// ECN marks survive the way through IP headers, GSO and GRO.
#[tokio::test]
async fn marked_datagrams_are_counted_at_the_other_end() {
    for address in [local(), (std::net::Ipv6Addr::LOCALHOST, 0).into()] {
        let listener = Listener::bind(address, modern()).unwrap();
        let to = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(Stream::connect(to, line().with_ecn(true)), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        let reading = tokio::spawn(async move {
            read_hash(&mut server).await.unwrap();
            server.shutdown().await.unwrap();
            server.stats().ecn_received
        });
        write_pattern(&mut client, 1, 4_000_000).await.unwrap();
        client.shutdown().await.unwrap();
        let (received, stats) = (reading.await.unwrap(), client.stats());
        assert!(received.ect >= stats.blocks_acknowledged && received.ce == 0, "{address}: {received:?}");
        assert!(stats.ecn_reported.ect >= received.ect / 2, "{address}: {received:?}, told {:?}", stats.ecn_reported);
        assert_eq!(stats.ecn_received, Default::default(), "{address}: the other end has not asked for marks");
    }
}

/// In the single-threaded runtime, all tasks must make progress.
#[tokio::test]
async fn a_hundred_connections_share_one_socket() {
    let listener = Listener::bind(local(), modern()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut tasks = Vec::new();
        for _ in 0..100 {
            let mut stream = listener.accept().await.unwrap();
            tasks.push(tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(&mut stream);
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                stream.shutdown().await.unwrap();
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let clients: Vec<_> = (0..100_u64)
        .map(|seed| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let mut stream = endpoint.connect(address, modern()).await.unwrap();
                let sent = write_pattern(&mut stream, seed, 20_000 + seed).await.unwrap();
                stream.shutdown().await.unwrap();
                assert_eq!(read_hash(&mut stream).await.unwrap(), (20_000 + seed, sent), "seed {seed}");
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    server.await.unwrap();
}

/// More connections than may send at a time, all of which would fill the line; and as many others that have data to
/// write but do not write in their turn.
#[tokio::test]
async fn connections_which_take_turns_all_get_there_past_those_which_stall() {
    const STREAMS: u64 = 80;
    const BYTES: u64 = 1_000_000;
    let listener = Listener::bind(local(), line()).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok(mut stream) = listener.accept().await {
            tokio::spawn(async move {
                let (_, hash) = read_hash(&mut stream).await?;
                stream.write_all(hash.as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let clients: Vec<_> = (0..STREAMS)
        .map(|seed| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let mut stream = endpoint.connect(address, line()).await.unwrap();
                if seed % 2 == 0 {
                    let data = vec![0; 1 << 20];
                    while timeout(Duration::ZERO, stream.write(&data)).await.is_ok() {}
                    return Some(stream);
                }
                let sent = write_pattern(&mut stream, seed, BYTES).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut received = Vec::new();
                stream.read_to_end(&mut received).await.unwrap();
                assert_eq!(received, sent.as_bytes(), "seed {seed}");
                None
            })
        })
        .collect();
    let mut stalled = Vec::new();
    for client in clients {
        stalled.extend(client.await.unwrap());
    }
    assert_eq!(stalled.len() as u64, STREAMS / 2);
}

#[tokio::test]
async fn a_classic_connection_carries_data() {
    // Classic floods the path by default, so the test sets a rate; a short stream suffices.
    let config = Config::danger_classic().with_rate(Rate::Fixed { rate_bps: 50_000_000 });
    let (mut client, mut server) = pair(config).await;
    let sent = write_pattern(&mut client, 3, 150_000).await.unwrap();
    let (shut, received) = tokio::join!(client.shutdown(), read_hash(&mut server));
    shut.unwrap();
    assert_eq!(received.unwrap(), (150_000, sent));
    assert_eq!(client.parameters().get(Parameter::OutgoingSegments).unwrap(), client.stats().segments_sent);
}

/// Default behaviour of the thesis: no pacing, round robin over the window until each block is acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_connection_floods_at_line_rate() {
    let config = Config::danger_classic();
    assert_eq!(config.rate, Rate::Line);
    let (mut client, mut server) = pair(config).await;
    let sent = write_pattern(&mut client, 4, 2_000_000).await.unwrap();
    let (shut, received) = tokio::join!(client.shutdown(), read_hash(&mut server));
    shut.unwrap();
    assert_eq!(received.unwrap(), (2_000_000, sent));
}

#[tokio::test]
async fn a_vanished_peer_becomes_an_error() {
    let config = modern().with_idle_timeout(Duration::from_millis(300));
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    // The peer's whole runtime ends without sending anything, as if its process were killed.
    let (send, receive) = tokio::sync::oneshot::channel();
    let peer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(Stream::connect(address, config)).unwrap();
        runtime.block_on(async { receive.await.unwrap() });
        runtime.shutdown_background();
        stream
    });
    let mut stream = listener.accept().await.unwrap();
    send.send(()).unwrap();
    let error = stream.read(&mut [0; 16]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), ConnectionError::TimedOut.to_string());
    let source = error.get_ref().and_then(|source| source.downcast_ref::<ConnectionError>());
    assert_eq!(source, Some(&ConnectionError::TimedOut));
    assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(stream.closed().await, Some(ConnectionError::TimedOut));

    // On the side whose runtime is gone, no future may wait for ever.
    let mut orphan = tokio::task::spawn_blocking(move || peer.join().unwrap()).await.unwrap();
    assert_eq!(orphan.read(&mut [0; 16]).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn nobody_listening_is_a_timeout_and_a_wrong_profile_is_refused() {
    let silent = std::net::UdpSocket::bind(local()).unwrap();
    let config = modern().with_idle_timeout(Duration::from_millis(200));
    let error = Stream::connect(silent.local_addr().unwrap(), config).await.unwrap_err();
    assert!(matches!(error, ConnectError::Connection(ConnectionError::HandshakeTimeout { .. })), "{error:?}");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);

    let listener = Listener::bind(local(), modern()).unwrap();
    let error = Stream::connect(listener.local_addr().unwrap(), Config::danger_classic()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Connection(ConnectionError::Refused)), "{error:?}");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_configuration_without_sense_is_rejected() {
    let wrong = modern().with_symbol_size(1);
    assert_eq!(Listener::bind(local(), wrong.clone()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let error = Stream::connect("127.0.0.1:9", wrong).await.unwrap_err();
    assert!(matches!(error, ConnectError::Rejected(_)), "{error:?}");
    let lonely = Endpoint::bind(local(), None).unwrap();
    assert!(lonely.accept().await.is_none());
}

/// Repeatedly cancelled reads and writes: no byte is lost or duplicated.
#[tokio::test]
async fn cancelled_reads_and_writes_lose_nothing() {
    const BYTES: usize = 3_000_000;
    let config = line().with_send_buffer_bytes(100_000);
    let (mut client, mut server) = pair(config).await;
    let writing = tokio::spawn(async move {
        let data = Pattern::new(9).take(BYTES);
        let mut written = 0;
        while written < BYTES {
            tokio::select! {
                biased;
                count = client.write(&data[written..BYTES.min(written + 7_777)]) => written += count.unwrap(),
                () = tokio::task::yield_now() => {}
            }
        }
        client.shutdown().await.unwrap();
        (client, data)
    });
    let mut received = Vec::new();
    let mut buffer = vec![0; 4_321];
    let mut cancelled = 0_u64;
    loop {
        tokio::select! {
            biased;
            count = server.read(&mut buffer) => match count.unwrap() {
                0 => break,
                count => received.extend_from_slice(&buffer[..count]),
            },
            () = tokio::task::yield_now() => cancelled += 1,
        }
    }
    let (_client, data) = writing.await.unwrap();
    assert!(cancelled > 0);
    assert!(received == data, "{} of {} bytes", received.len(), data.len());
}

#[tokio::test]
async fn dropping_without_shutdown_resets_the_peer() {
    let (mut client, mut server) = pair(modern()).await;
    client.write_all(b"half a mess").await.unwrap();
    client.flush().await.unwrap();
    let mut start = [0; 11];
    server.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"half a mess");
    drop(client);
    assert_eq!(server.read(&mut [0; 16]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(server.shutdown().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn after_shutdown_the_endpoint_finishes_alone() {
    let config = modern().with_time_wait(Duration::from_millis(50));
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let mut client = endpoint.connect(listener.local_addr().unwrap(), config).await.unwrap();
    let mut server = listener.accept().await.unwrap();
    client.write_all(b"all of it").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(client.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(client.state(), State::FinWait2);
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"all of it");
    server.shutdown().await.unwrap();
    assert_eq!(server.closed().await, None);
    endpoint.wait_idle().await;
    listener.endpoint().wait_idle().await;
}

#[tokio::test]
async fn who_goes_on_sending_to_a_dropped_stream_is_told() {
    let (mut client, mut server) = pair(modern()).await;
    client.shutdown().await.unwrap();
    drop(client);
    let error = loop {
        match server.write(&[1; 1000]).await {
            Ok(_) => server.flush().await.unwrap_or_default(),
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_aborted_connection_says_so_on_both_sides() {
    let (mut client, mut server) = pair(modern()).await;
    client.abort();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(server.read(&mut [0; 1]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn dropping_the_listener_resets_what_waits_and_spares_what_runs() {
    let listener = Listener::bind(local(), modern()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut first = Stream::connect(address, modern()).await.unwrap();
    let mut accepted = listener.accept().await.unwrap();
    let mut waiting = Stream::connect(address, modern()).await.unwrap();
    drop(listener);
    assert_eq!(waiting.read(&mut [0; 1]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    first.write_all(b"still here").await.unwrap();
    first.shutdown().await.unwrap();
    let mut received = Vec::new();
    accepted.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"still here");
}

#[tokio::test]
async fn ipv6_and_parameters() {
    let accept = Accept { modern: Some(modern()), ..Accept::default() };
    let Ok(listener) = Listener::bind_with("[::1]:0".parse().unwrap(), accept) else {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let mut client = Stream::connect(listener.local_addr().unwrap(), modern()).await.unwrap();
    let mut server = listener.accept().await.unwrap();
    assert_eq!(server.remote_addr().port(), client.local_addr().port());
    client.parameters().set(Parameter::WindowSize, 1000).unwrap();
    assert_eq!(client.parameters().get(Parameter::Maxtokens), Err(ParameterError::ClassicOnly("Maxtokens")));
    client.parameters().set(Parameter::Maxtokens, 100_000).unwrap_err();
    client.parameters().set(Parameter::AcksSent, 1).unwrap_err();
    client.set_rate(Rate::Fixed { rate_bps: 200_000_000 }).unwrap();
    let sent = write_pattern(&mut client, 5, 500_000).await.unwrap();
    let (shut, received) = tokio::join!(client.shutdown(), read_hash(&mut server));
    shut.unwrap();
    assert_eq!(received.unwrap(), (500_000, sent));
    assert_eq!(server.stats().stream_bytes_read, 500_000);
}

#[tokio::test]
async fn both_profiles_cross_ipv6() {
    let classic = Config::danger_classic().with_rate(Rate::Fixed { rate_bps: 50_000_000 });
    for config in [modern(), classic] {
        let Ok(listener) = Listener::bind("[::1]:0".parse().unwrap(), config.clone()) else {
            println!("skipped: this machine has no IPv6 loopback");
            return;
        };
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(Stream::connect(address, config), listener.accept());
        let (mut from, mut to) = (client.unwrap(), server.unwrap());
        assert_eq!(to.remote_addr(), SocketAddr::new(address.ip(), from.local_addr().port()));
        for seed in [6, 7] {
            let sent = write_pattern(&mut from, seed, 150_000).await.unwrap();
            let (shut, received) = tokio::join!(from.shutdown(), read_hash(&mut to));
            shut.unwrap();
            assert_eq!(received.unwrap(), (150_000, sent));
            std::mem::swap(&mut from, &mut to);
        }
    }
}

/// `ACCEPT_BACKLOG_MAX`: connections beyond the backlog are reset, and the others wait without a time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_which_nobody_accepts_are_reset_beyond_the_backlog() {
    const BACKLOG: usize = 1_024;
    const TOO_MANY: usize = 8;
    let accept = Accept { connections_per_address_max: 2 * BACKLOG, ..Accept::from(modern()) };
    let listener = Listener::bind_with(local(), accept).unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..BACKLOG + TOO_MANY {
        // A reset may arrive during the handshake or after it.
        match endpoint.connect(address, modern()).await {
            Ok(mut stream) => reads.spawn(async move { stream.read(&mut [0]).await.map(|bytes| (bytes, stream)) }),
            Err(error) => reads.spawn(async move { Err(error.into()) }),
        };
    }
    for _ in 0..TOO_MANY {
        let error = reads.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }
    let mut accepted = Vec::new();
    for _ in 0..BACKLOG {
        let mut stream = listener.accept().await.unwrap();
        stream.write_all(&[7]).await.unwrap();
        stream.flush().await.unwrap();
        accepted.push(stream);
    }
    for _ in 0..BACKLOG {
        assert_eq!(reads.join_next().await.unwrap().unwrap().unwrap().0, 1);
    }
}

/// An endpoint bound in a single-threaded runtime is a task of that runtime, and ends with it.
#[test]
fn an_endpoint_whose_runtime_has_ended_says_so_instead_of_waiting() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime().block_on(async { Listener::bind(local(), modern()).unwrap() });
    let endpoint = runtime().block_on(async { Endpoint::bind(local(), None).unwrap() });
    let error = runtime().block_on(endpoint.connect(listener.local_addr().unwrap(), modern())).unwrap_err();
    assert!(matches!(error, ConnectError::Connection(ConnectionError::Aborted)), "{error}");
    assert_eq!(runtime().block_on(listener.accept()).unwrap_err().kind(), io::ErrorKind::NotConnected);
    runtime().block_on(endpoint.wait_idle());
}

thread_local! {
    static NOW: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
    /// Number of clock readings, and number of those that read the system's clock.
    static READINGS: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

fn read_once_after_each_wait() -> Instant {
    let now = NOW.get().unwrap_or_else(Instant::now);
    let (asked, read) = READINGS.get();
    READINGS.set((asked + 1, read + u64::from(NOW.get().is_none())));
    NOW.set(Some(now));
    now
}

#[test]
fn an_endpoint_goes_by_the_clock_that_it_is_given() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().on_thread_unpark(|| NOW.set(None)).build().unwrap();
    runtime.block_on(async {
        let bind = |accept| Endpoint::bind_with_clock(Carrier::Udp, local(), accept, read_once_after_each_wait);
        let (server, caller) = (bind(Some(line().into())).unwrap(), bind(None).unwrap());
        let (ours, theirs) = tokio::join!(caller.connect(server.local_addr(), line()), server.accept());
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        let sending = async {
            let hash = write_pattern(&mut ours, 1, 4 << 20).await.unwrap();
            ours.shutdown().await.unwrap();
            hash
        };
        let (sent, received) = tokio::join!(sending, read_hash(&mut theirs));
        assert_eq!(received.unwrap(), (4 << 20, sent));
    });
    let (asked, read) = READINGS.get();
    assert!(read > 0 && asked >= 2 * read, "asked {asked} times, read the system's clock {read} times");
}

/// A server's totals include current and ended connections, each counted once.
#[tokio::test]
async fn an_endpoint_sums_up_connections_that_are_there_and_that_are_over() {
    const BYTES: u64 = 100_000;
    let server = Endpoint::bind(local(), Some(modern().into())).unwrap();
    assert_eq!(server.totals(), dfcp::Totals::default());
    let mut before = server.totals();
    for number in 1..=2 {
        let (client, accepted) = tokio::join!(Stream::connect(server.local_addr(), line()), server.accept());
        let (mut client, mut accepted) = (client.unwrap(), accepted.unwrap());
        let (written, read) = tokio::join!(
            async {
                write_pattern(&mut client, 1, BYTES).await.unwrap();
                client.shutdown().await
            },
            async {
                read_hash(&mut accepted).await.unwrap();
                accepted.shutdown().await
            }
        );
        written.and(read).unwrap();
        let there = server.totals();
        assert_eq!((there.established, there.stream_bytes_read), (number, number * BYTES));
        assert!(
            there.bytes_received >= before.bytes_received + BYTES && there.received.useful > before.received.useful
        );
        assert_eq!(server.connection_stats().len(), server.stats().connections);
        drop((client, accepted));
        timeout(Duration::from_secs(60), server.wait_idle()).await.unwrap();
        let over = server.totals();
        assert_eq!((over.established, over.stream_bytes_read), (number, number * BYTES));
        assert!(over.bytes_received >= there.bytes_received && server.connection_stats().is_empty());
        before = over;
    }
}
