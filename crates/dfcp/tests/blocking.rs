//! Tests of the blocking API.

use std::io::{self, Read, Write};
use std::thread;

use dfcp::blocking::{Listener, Stream};
use dfcp::{Config, PeerKey, State};

fn modern() -> Config {
    Config::sealed(PeerKey::Any)
}

#[test]
fn a_round_trip_without_async() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), modern()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let stream = listener.accept().unwrap();
        drop(listener);
        let (mut reader, mut writer) = stream.into_split();
        let bytes = io::copy(&mut reader, &mut writer).unwrap();
        writer.shutdown().unwrap();
        bytes
    });
    let mut client = Stream::connect(address, modern()).unwrap();
    let sent: Vec<u8> = (0..400_000_u32).map(|i| (i % 251) as u8).collect();
    client.write_all(&sent).unwrap();
    client.flush().unwrap();
    client.shutdown().unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received == sent);
    assert_eq!(server.join().unwrap(), 400_000);
    assert_eq!((client.state(), client.stats().stream_bytes_read), (State::TimeWait, 400_000));
}

#[test]
fn dropping_without_shutdown_resets_the_peer() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), modern()).unwrap();
    let client = Stream::connect(listener.local_addr().unwrap(), modern()).unwrap();
    let mut server = listener.accept().unwrap();
    drop(client);
    assert_eq!(server.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

/// A thread that runs async tasks may use the blocking API, at the price of blocking the tasks.
#[tokio::test]
async fn it_works_within_a_runtime() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), modern()).unwrap();
    let mut client = Stream::connect(listener.local_addr().unwrap(), modern()).unwrap();
    let mut server = listener.accept().unwrap();
    client.write_all(b"ping").unwrap();
    client.flush().unwrap();
    let mut received = [0; 4];
    server.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"ping");
}
