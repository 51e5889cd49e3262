//! Tests of dropped futures (reads and writes: `loopback.rs`), connect timeouts, and path watches.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io;
use std::time::Duration;

use dfcp::{Config, ConnectError, ConnectionError, Endpoint, Listener, Rate, Stream, blocking};
use support::{local, modern, read_hash, write_pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;

async fn pair(config: Config) -> (Stream, Stream) {
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(Stream::connect(address, config), listener.accept());
    (client.unwrap(), server.unwrap())
}

/// Polls the future once. Returns its output if it is ready, else drops it.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    timeout(Duration::ZERO, future).await.ok()
}

#[tokio::test]
async fn a_shutdown_which_is_dropped_has_begun_and_can_be_waited_for_again() {
    let (mut client, mut server) = pair(modern()).await;
    let sent = write_pattern(&mut client, 5, 200_000).await.unwrap();
    assert!(at_once(client.shutdown()).await.is_none(), "the peer cannot have confirmed yet");
    assert_eq!(client.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let (shut, received) = tokio::join!(client.shutdown(), read_hash(&mut server));
    shut.unwrap();
    assert_eq!(received.unwrap(), (200_000, sent));
}

#[tokio::test]
async fn accepts_which_are_dropped_lose_no_connection() {
    let listener = Listener::bind(local(), modern()).unwrap();
    let address = listener.local_addr().unwrap();
    let client = Endpoint::bind(local(), None).unwrap();
    let calling = async {
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(client.connect(address, modern()).await.unwrap());
        }
        streams
    };
    let accepting = async {
        let (mut streams, mut dropped) = (Vec::new(), 0);
        while streams.len() < 20 {
            tokio::select! {
                biased;
                stream = listener.accept() => streams.push(stream.unwrap()),
                // Drop the future as soon as it waits. The number of drops depends only on the order of tasks.
                () = tokio::task::yield_now() => dropped += 1,
            }
        }
        dropped
    };
    let (streams, dropped) = tokio::join!(calling, accepting);
    assert!(streams.len() == 20 && dropped > 0, "{dropped} dropped");
}

#[tokio::test]
async fn a_connect_which_is_dropped_leaves_nothing_behind() {
    let silent = UdpSocket::bind(local()).await.unwrap();
    let endpoint = Endpoint::bind(local(), None).unwrap();
    assert!(at_once(endpoint.connect(silent.local_addr().unwrap(), modern())).await.is_none());
    endpoint.wait_idle().await;
    assert_eq!(endpoint.stats().connections, 0);
}

/// [open-6]
#[tokio::test]
async fn an_attempt_ends_with_its_timeout_and_says_how_long_that_was() {
    let silent = UdpSocket::bind(local()).await.unwrap();
    let silent = silent.local_addr().unwrap();
    for config in [modern(), Config::danger_unsealed(), Config::danger_classic()] {
        let config = config.with_connect_timeout(Duration::from_millis(120));
        let error = Stream::connect(silent, config).await.unwrap_err();
        let after = match error {
            ConnectError::Connection(ConnectionError::HandshakeTimeout { after }) => after,
            ref other => panic!("{other:?}"),
        };
        assert!(after >= Duration::from_millis(120) && after < Duration::from_secs(20), "{after:?}");
        let error = io::Error::from(error);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().starts_with(&format!("the peer did not answer within {after:.1?}; ")), "{error}");
    }
    let error = Stream::connect(silent, modern().with_connect_timeout(Duration::from_millis(1))).await.unwrap_err();
    let sentence = "connect_timeout in ms is 1; it must lie between 10 and 86400000";
    assert_eq!(error.to_string(), sentence);
}

#[tokio::test]
async fn the_path_can_be_watched_until_the_connection_is_over() {
    let config = modern().with_rate(Rate::Fixed { rate_bps: 40_000_000 }).with_time_wait(Duration::from_millis(10));
    let (mut client, mut server) = pair(config).await;
    let mut watch = client.watch_path();
    let at_first = watch.changed().await.unwrap();
    assert_eq!((at_first.rate_bps, watch.latest()), (Some(40_000_000), at_first));
    assert!(at_first.rtt.is_some(), "the handshake took a while");
    assert!(at_once(watch.changed()).await.is_none(), "nothing happens");
    client.set_rate(Rate::Fixed { rate_bps: 30_000_000 }).unwrap();
    assert_eq!(watch.changed().await.unwrap().rate_bps, Some(30_000_000), "and it is not kept back");
    client.set_rate(Rate::Line).unwrap();
    assert_eq!(watch.changed().await.unwrap().rate_bps, None);
    let watching = tokio::spawn(async move {
        let mut seen = 0;
        while watch.changed().await.is_some() {
            seen += 1;
        }
        (seen, watch.latest())
    });
    let transfer = async {
        write_pattern(&mut client, 1, 3_000_000).await.unwrap();
        client.shutdown().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let echo = async {
        read_hash(&mut server).await.unwrap();
        server.shutdown().await.unwrap();
    };
    tokio::join!(transfer, echo);
    assert_eq!(client.closed().await, None);
    let (seen, last) = watching.await.unwrap();
    assert!(seen > 0 && last.arrival_rate_bps > 0, "{seen} times, {last:?}");
    assert_eq!(client.watch_path().changed().await, Some(last), "what there is, once");
    assert_eq!(client.watch_path().latest(), last);
}

#[test]
fn the_blocking_twin_knows_identities_watches_and_endpoints() {
    let key = dfcp::generate_key().unwrap();
    let (public, own) = (key.public(), dfcp::generate_key().unwrap());
    let server = blocking::Endpoint::bind(local(), Some(Config::server(key).into())).unwrap();
    let caller = blocking::Endpoint::bind(local(), None).unwrap();
    let config = Config::client(public).with_key(own.clone()).with_time_wait(Duration::from_millis(10));
    let client = caller.connect(server.local_addr(), config).unwrap();
    let accepted = server.accept().unwrap();
    assert_eq!(client.identity().unwrap().peer, Some(public));
    assert_eq!(accepted.identity().unwrap().peer, Some(own.public()));
    let mut watch = client.watch_path();
    assert_eq!(watch.changed().unwrap().rate_bps, Some(100_000_000));
    client.set_rate(Rate::Fixed { rate_bps: 5_000_000 }).unwrap();
    assert_eq!(watch.changed().unwrap().rate_bps, Some(5_000_000));
    assert_eq!((caller.stats().connections, server.stats().connections), (1, 1));
    drop((client, accepted));
    caller.wait_idle();
    assert_eq!((caller.stats().connections, watch.changed()), (0, None));
}

/// The loop has no time limit, as the speed of this machine is unknown.
#[tokio::test]
async fn what_was_found_of_a_path_is_told_once_it_is_proven() {
    let key = dfcp::generate_key().unwrap();
    let public = key.public();
    let cap_bps = 40_000_000;
    let server = Config::server(key).with_receive_rate_max_bps(cap_bps);
    let listener = Listener::bind(local(), server).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(Stream::connect(address, Config::client(public)), listener.accept());
    let (mut client, mut accepted) = (client.unwrap(), accepted.unwrap());
    assert_eq!(client.path_hint(), None);
    let reading = tokio::spawn(async move { tokio::io::copy(&mut accepted, &mut tokio::io::sink()).await });
    let hint = loop {
        client.write_all(&[7; 50_000]).await.unwrap();
        if let Some(hint) = client.path_hint() {
            break hint;
        }
    };
    assert!(hint.rate_bps > 0 && hint.rate_bps <= cap_bps + cap_bps / 10, "no more than was proven: {hint:?}");
    drop(client);
    let _ended = reading.await;
}
