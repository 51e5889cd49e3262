//! Tests: pipes over loopback. Timeouts only end a failing test.

use std::sync::Arc;
use std::time::Duration;

use dfcp::Stream;
use dfcp_framing::frame::{Service, kind, with_header};
use dfcp_framing::messages::{Came, Sent, Worth};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::answers::InFrom;
use super::carry::{Carried, Carrying};
use super::local::Local;
use super::{Order, caller, server};
use crate::session_error::SessionError;
use crate::stop::Stop;
use crate::testing::pair;

/// Timeout of a failing test.
const PATIENCE: Duration = Duration::from_secs(30);
const LONG: Worth = Worth { within: Duration::from_secs(20), target_ppm: 999_000 };

fn carrying(worth: Worth) -> Carrying {
    Carrying { worth, order: Order::Kept, json: false, peer: "there".to_owned() }
}

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

async fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    buffer.truncate(length);
    buffer
}

/// Serving end, which delivers to `output`.
fn serve(there: Stream, output: &UdpSocket, stop: Stop) -> impl Future<Output = Result<Carried, SessionError>> + use<> {
    let output = output.local_addr().unwrap().to_string();
    async move { server::session(there, ("here", &output), (Order::Kept, false), stop).await }
}

#[tokio::test]
async fn datagrams_go_through_whole_and_answers_come_back() {
    let (here, there) = pair(true).await;
    let (program, player) = (socket().await, socket().await);
    let local = Arc::new(Local::listen("127.0.0.1:0", None).await.unwrap());
    program.connect(local.address().unwrap()).await.unwrap();
    let (ask, stop) = Stop::new();
    let served = tokio::spawn(serve(there, &player, Stop::never()));
    let called = tokio::spawn({
        let local = Arc::clone(&local);
        async move { caller::session(here, local, &carrying(LONG), stop).await }
    });
    let of_length = |length: usize| -> Vec<u8> { (0..length).map(|n| (n * 7 + length) as u8).collect() };
    let mut way_back = None;
    for length in [0, 1, 1_316, 9_000, 65_507] {
        program.send(&of_length(length)).await.unwrap();
        let mut buffer = vec![0; 70_000];
        let (got, from) = timeout(PATIENCE, player.recv_from(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(buffer[..got], of_length(length), "{length} bytes");
        player.send_to(&of_length(length + 1), from).await.unwrap_or_default();
        way_back = Some(from);
        if length < 65_507 {
            assert_eq!(receive(&program).await, of_length(length + 1), "the answer of {} bytes", length + 1);
        }
    }
    // A stranger that finds the port is ignored.
    socket().await.send_to(b"from a stranger", way_back.unwrap()).await.unwrap();
    player.send_to(b"last", way_back.unwrap()).await.unwrap();
    assert_eq!(receive(&program).await, b"last");
    ask.send(true).unwrap();
    let (called, served) = (called.await.unwrap().unwrap(), served.await.unwrap().unwrap());
    for (sent, received) in [(called.sent, served.received), (served.sent, called.received)] {
        assert_eq!((sent.offered, sent.in_time, sent.lost), (5, 5, Some(0)), "{sent:?}");
        assert_eq!((received.offered, received.in_time, received.bytes), (5, 5, sent.bytes));
    }
}

#[tokio::test]
async fn answers_stay_with_the_source_whatever_strangers_send() {
    let (here, there) = pair(true).await;
    let (program, stranger, player) = (socket().await, socket().await, socket().await);
    let local = Arc::new(Local::listen("127.0.0.1:0", None).await.unwrap());
    let (address, (ask, stop)) = (local.address().unwrap(), Stop::new());
    let served = tokio::spawn(serve(there, &player, Stop::never()));
    let called = tokio::spawn(async move { caller::session(here, local, &carrying(LONG), stop).await });
    program.send_to(b"play", address).await.unwrap();
    let mut buffer = [0; 100];
    let (_, way_back) = timeout(PATIENCE, player.recv_from(&mut buffer)).await.unwrap().unwrap();
    // Simulate a forged datagram with the stranger's source address.
    stranger.send_to(b"x", address).await.unwrap();
    assert_eq!(receive(&player).await, b"x", "it is carried");
    for number in 0..100_u8 {
        player.send_to(&[number; 1_200], way_back).await.unwrap();
        assert_eq!(receive(&program).await, [number; 1_200]);
    }
    let nothing = stranger.try_recv(&mut buffer).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    ask.send(true).unwrap();
    assert_eq!(called.await.unwrap().unwrap().received.in_time, 100);
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn only_the_named_source_is_heard() {
    let (here, there) = pair(true).await;
    let (program, stranger, player) = (socket().await, socket().await, socket().await);
    let only = InFrom::Port(program.local_addr().unwrap());
    let local = Arc::new(Local::listen("127.0.0.1:0", Some(only)).await.unwrap());
    let (address, (ask, stop)) = (local.address().unwrap(), Stop::new());
    let served = tokio::spawn(serve(there, &player, Stop::never()));
    let called = tokio::spawn(async move { caller::session(here, local, &carrying(LONG), stop).await });
    stranger.send_to(b"x", address).await.unwrap();
    program.send_to(b"play", address).await.unwrap();
    assert_eq!(receive(&player).await, b"play");
    ask.send(true).unwrap();
    assert_eq!(called.await.unwrap().unwrap().sent.offered, 1);
    served.await.unwrap().unwrap();
    // Datagrams of a source of the other IP version can never arrive.
    let never = Local::listen("127.0.0.1:0", Some(InFrom::Address("2001:db8::1".parse().unwrap()))).await;
    assert!(never.unwrap_err().to_string().contains("--in-from"));
}

#[tokio::test]
async fn a_served_end_that_is_stopped_ends_both_in_order() {
    let (here, there) = pair(true).await;
    let (local, player) = (Arc::new(Local::listen("127.0.0.1:0", None).await.unwrap()), socket().await);
    let (ask, stop) = Stop::new();
    let served = tokio::spawn(serve(there, &player, stop));
    let called = tokio::spawn(async move { caller::session(here, local, &carrying(LONG), Stop::never()).await });
    ask.send(true).unwrap();
    assert_eq!(served.await.unwrap().unwrap().sent.offered, 0);
    assert!(called.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_caller_which_lies_is_turned_away() {
    let open = |body: &[u8]| {
        let mut bytes = Service::Pipe.preamble().to_vec();
        with_header(kind::PIPE_OPEN, &mut bytes, |out| out.extend_from_slice(body));
        bytes
    };
    let years = open(&[&(u64::MAX).to_be_bytes()[..], &999_000_u32.to_be_bytes()].concat());
    let nothing = open(&[&0_u64.to_be_bytes()[..], &999_000_u32.to_be_bytes()].concat());
    let surely = open(&[&1_000_u64.to_be_bytes()[..], &1_000_000_u32.to_be_bytes()].concat());
    let mut more_than_sent = Service::Pipe.preamble().to_vec();
    LONG.encode_pipe(&mut more_than_sent);
    let mut unasked = more_than_sent.clone();
    Came { in_time: 1, ..Came::default() }.encode(&mut more_than_sent);
    with_header(kind::DATA, &mut unasked, |out| out.push(1));
    for (bytes, what) in [
        (years, "a lifetime of years"),
        (nothing, "a lifetime of nothing"),
        (surely, "all of them"),
        (more_than_sent, "what was never sent"),
        (unasked, "a frame of another service"),
        (Service::Files.preamble().to_vec(), "another service"),
    ] {
        let (mut here, there) = pair(true).await;
        let player = socket().await;
        let served = tokio::spawn(serve(there, &player, Stop::never()));
        here.write_all(&bytes).await.unwrap();
        here.flush().await.unwrap();
        let error = timeout(PATIENCE, served).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error, SessionError::Protocol(_)), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_peer_that_is_gone_is_an_error_and_not_an_end() {
    let (here, mut there) = pair(true).await;
    let local = Arc::new(Local::listen("127.0.0.1:0", None).await.unwrap());
    let called = tokio::spawn(async move { caller::session(here, local, &carrying(LONG), Stop::never()).await });
    let mut opening = [0; 8];
    there.read_exact(&mut opening).await.unwrap();
    there.write_all(&Service::Pipe.preamble()).await.unwrap();
    let mut never_said = Vec::new();
    Sent { offered: 1, begun: 1, ..Sent::default() }.encode(&mut never_said);
    there.write_all(&never_said).await.unwrap();
    there.flush().await.unwrap();
    drop(there);
    let error = timeout(PATIENCE, called).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, SessionError::Connection(_) | SessionError::PeerClosed), "{error}");
}
