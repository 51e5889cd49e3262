//! Connecting to names and lists of addresses, over loopback.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use dfcp::{
    Config, ConnectError, ConnectionError, Listener, PeerKey, Session, StaticKey, Stream, StreamLimits, blocking,
};
use support::{local, modern, read_hash, write_pattern};
use tokio::io::AsyncWriteExt;

/// Binds a listener to the first address of `localhost`. Returns it with its name and port.
fn by_name(config: Config) -> (Listener, String) {
    let own = "localhost:0".to_socket_addrs().unwrap().next().unwrap();
    let listener = Listener::bind(own, config).unwrap();
    let name = format!("localhost:{}", listener.local_addr().unwrap().port());
    (listener, name)
}

/// Binds a socket that answers nothing.
fn silent() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(local()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn was_called(socket: &UdpSocket) -> bool {
    match socket.recv(&mut [0; 2_000]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            false
        }
    }
}

fn key() -> StaticKey {
    StaticKey::from_seed(&[9; 32])
}

#[tokio::test]
async fn a_name_is_looked_up() {
    let (listener, name) = by_name(modern());
    let (client, server) = tokio::join!(Stream::connect(name.as_str(), modern()), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let sent = write_pattern(&mut client, 1, 100_000).await.unwrap();
    let (shut, received) = tokio::join!(client.shutdown(), read_hash(&mut server));
    shut.unwrap();
    assert_eq!(received.unwrap(), (100_000, sent));

    let (session, accepted) = tokio::join!(Session::connect(name, modern()), listener.accept_session());
    let (session, accepted) = (session.unwrap(), accepted.unwrap());
    let (ours, theirs) = tokio::join!(session.close(), accepted.close());
    ours.unwrap();
    theirs.unwrap();
}

#[test]
fn the_blocking_twins_look_names_up_too() {
    let own = "localhost:0".to_socket_addrs().unwrap().next().unwrap();
    let streams = StreamLimits { bidirectional: 1, one_way: 0 };
    let listener = blocking::Listener::bind(own, modern().with_streams(streams)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        listener.accept().unwrap().shutdown().unwrap();
        listener.accept_session().unwrap().close().unwrap();
    });
    let mut stream = blocking::Stream::connect(("localhost", port), modern()).unwrap();
    stream.shutdown().unwrap();
    blocking::Session::connect(format!("localhost:{port}"), modern()).unwrap().close().unwrap();
    serving.join().unwrap();
}

/// An address needs no name lookup, and hence no runtime.
#[test]
fn an_address_needs_no_runtime() {
    let listener = blocking::Listener::bind(local(), modern()).unwrap();
    let connecting = Stream::connect(listener.local_addr().unwrap(), modern());
    let stream = wait_without_runtime(connecting).unwrap();
    assert_eq!(stream.remote_addr(), listener.local_addr().unwrap());
}

/// Waits for a future on this thread, like an executor other than tokio.
fn wait_without_runtime<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn a_silent_address_takes_its_part_of_the_time_and_the_next_one_is_called() {
    let (silent, dead) = silent();
    let listener = Listener::bind(local(), modern()).unwrap();
    let addresses = [dead, listener.local_addr().unwrap()];
    let config = modern().with_connect_timeout(Duration::from_secs(6));
    let (client, server) = tokio::join!(Stream::connect(&addresses[..], config), listener.accept());
    assert_eq!(client.unwrap().remote_addr(), addresses[1]);
    server.unwrap();
    assert!(was_called(&silent));
}

#[tokio::test]
async fn an_address_that_refuses_leads_to_the_next_at_once() {
    let modern_only = Listener::bind(local(), modern()).unwrap();
    let classic = Listener::bind(local(), Config::danger_classic()).unwrap();
    let addresses = [modern_only.local_addr().unwrap(), classic.local_addr().unwrap()];
    let connecting = Stream::connect(&addresses[..], Config::danger_classic());
    let (client, server) = tokio::join!(connecting, classic.accept());
    assert_eq!(client.unwrap().remote_addr(), addresses[1]);
    server.unwrap();

    let error = Stream::connect(&[addresses[0]; 3][..], Config::danger_classic()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Connection(ConnectionError::Refused)), "{error:?}");
}

#[tokio::test]
async fn the_connect_timeout_is_that_of_all_addresses_together() {
    let (sockets, addresses): (Vec<_>, Vec<_>) = (0..3).map(|_| silent()).unzip();
    let config = modern().with_connect_timeout(Duration::from_secs(1));
    let error = Stream::connect(&addresses[..], config).await.unwrap_err();
    assert!(matches!(error, ConnectError::Connection(ConnectionError::HandshakeTimeout { .. })), "{error:?}");
    // The last address may remain untried, depending on the speed of the machine.
    assert!(sockets[..2].iter().all(was_called));
}

#[tokio::test]
async fn without_an_address_there_is_an_error() {
    let none: &[SocketAddr] = &[];
    let error = io::Error::from(Stream::connect(none, modern()).await.unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "there is no address to connect to: the name or the list has none");
    assert!(matches!(Session::connect(none, modern()).await, Err(ConnectError::Io(_))));
    assert!(matches!(blocking::Stream::connect(none, modern()), Err(ConnectError::Io(_))));
    // A name without a port is an error, too.
    assert!(matches!(Stream::connect("localhost", modern()).await, Err(ConnectError::Io(_))));
}

/// The first address shows a key other than the expected one. The client must not go on to the next address.
#[tokio::test]
async fn a_wrong_key_ends_the_call() {
    let listener = Listener::bind(local(), Config::server(key())).unwrap();
    let (other, beyond) = silent();
    let addresses = [listener.local_addr().unwrap(), beyond];
    let expected = StaticKey::from_seed(&[10; 32]).public();
    // The outcome is the same for a client that asks for the key (known fingerprint) and for one that encrypts to it
    // (known key).
    let (asking, knowing) = tokio::join!(
        Stream::connect(&addresses[..], Config::sealed(PeerKey::Fingerprint(expected.fingerprint()))),
        Stream::connect(&addresses[..], Config::sealed(PeerKey::Known(expected))),
    );
    for error in [asking.unwrap_err(), knowing.unwrap_err()] {
        match error {
            ConnectError::Connection(ConnectionError::UnexpectedKey(shown)) => {
                assert_eq!(shown, key().public().fingerprint());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!was_called(&other));
}

#[tokio::test]
async fn a_server_that_does_not_admit_the_client_ends_the_call() {
    let stranger = StaticKey::from_seed(&[11; 32]).public();
    let config = Config::sealed(PeerKey::Known(stranger)).with_key(key());
    let listener = Listener::bind(local(), config).unwrap();
    let (other, beyond) = silent();
    let addresses = [listener.local_addr().unwrap(), beyond];
    let client = Config::client(key().public()).with_key(StaticKey::from_seed(&[12; 32]));
    let error = Session::connect(&addresses[..], client).await.unwrap_err();
    assert!(matches!(error, ConnectError::Connection(ConnectionError::NotAdmitted)), "{error:?}");
    assert!(!was_called(&other));
}

#[tokio::test]
async fn a_connect_by_list_which_is_dropped_calls_no_further_address() {
    let ((first, dead), (second, beyond)) = (silent(), silent());
    let called = async {
        while !was_called(&first) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let addresses = [dead, beyond];
    tokio::select! {
        outcome = Stream::connect(&addresses[..], modern()) => panic!("{outcome:?}"),
        () = called => {}
    }
    assert!(!was_called(&second));
}
