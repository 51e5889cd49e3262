//! Tests of unreachable addresses: closed port, no route, or port 0.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use dfcp::{Config, ConnectError, Endpoint, PeerKey, Session, Stream};

/// Handshake timeout, which none of these attempts may reach.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(25);

fn config() -> Config {
    Config::sealed(PeerKey::Any).with_connect_timeout(CONNECT_TIMEOUT)
}

/// Returns kind and text of a failed attempt's error, which must come from the system and not from the handshake
/// timeout.
fn refusal<T>(outcome: Result<T, ConnectError>) -> (ErrorKind, String) {
    match outcome {
        Err(ConnectError::Io(error)) => (error.kind(), error.to_string()),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("nobody is there"),
    }
}

/// Returns a loopback address with a closed port, unless the system gives it to another socket.
fn closed() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn closed_ports_are_known() {
    let (kind, sentence) = refusal(Session::connect(closed(), config()).await);
    assert!(
        kind == ErrorKind::ConnectionRefused && sentence.starts_with("nothing listens at 127.0.0.1:"),
        "{sentence}"
    );
    assert_eq!(refusal(Stream::connect(closed(), config()).await).0, ErrorKind::ConnectionRefused);
    // From a dual-stack socket, which a machine without IPv6 lacks.
    if let Ok(endpoint) = Endpoint::bind("[::]:0".parse().unwrap(), None) {
        let (kind, sentence) = refusal(endpoint.connect(closed(), config()).await);
        assert!(kind == ErrorKind::ConnectionRefused && sentence.contains(" 127.0.0.1:"), "{sentence}");
    }
}

#[tokio::test]
async fn a_closed_port_ends_an_attempt_as_what_it_is() {
    closed_ports_are_known().await;
}

/// In a multi-threaded runtime the endpoint has its own thread.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_port_ends_an_attempt_in_a_runtime_of_several_threads() {
    closed_ports_are_known().await;
}

#[tokio::test]
async fn an_address_without_a_way_to_it_and_port_0_are_refused_at_once() {
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let (_, sentence) = refusal(endpoint.connect("192.0.2.1:9".parse().unwrap(), config()).await);
    assert!(sentence.starts_with("this machine has no way to 192.0.2.1 "), "{sentence}");
    let (kind, sentence) = refusal(Session::connect("127.0.0.1:0", config()).await);
    assert!(kind == ErrorKind::InvalidInput && sentence.starts_with("port 0 cannot be called"), "{sentence}");
    assert_eq!(endpoint.stats().connections, 0);
}
