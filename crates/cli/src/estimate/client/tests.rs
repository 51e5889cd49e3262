//! Server and client over loopback. Timeouts only end a failing test.

use std::sync::atomic::{AtomicU64, Ordering};

use dfcp_estimate::probing::{Change, ServerConfig};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::server::{Counts, Event, serve};
use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// Server on its own port, and its events.
async fn server(config: ServerConfig) -> (SocketAddr, mpsc::UnboundedReceiver<Event>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (address, (tell, events)) = (socket.local_addr().unwrap(), mpsc::unbounded_channel());
    tokio::spawn(async move {
        serve(&socket, config, &Stop::never(), &Counts::default(), |event| tell.send(event).unwrap()).await.unwrap();
    });
    (address, events)
}

async fn connected(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(to).await.unwrap();
    socket
}

#[tokio::test]
async fn test_packets_come_until_the_client_has_enough() {
    let (address, mut events) = server(ServerConfig::default()).await;
    let socket = connected(address).await;
    let counted = AtomicU64::new(0);
    let count = || Ok(counted.fetch_add(60, Ordering::Relaxed));
    let config = Config::new(Duration::from_millis(10));
    let stop = Stop::never();
    let measured = measure(&socket, config, Duration::from_millis(300), &count, &stop, |_, _| {});
    let json = timeout(PATIENCE, measured).await.unwrap().unwrap().to_json();
    assert!(json["probes"]["arrived"].as_u64().unwrap() > 1, "{json}");
    assert!(counted.load(Ordering::Relaxed) > 60, "the counter is read");
    let client = socket.local_addr().unwrap();
    let began = Event::Changed(client, Change::Began(Duration::from_millis(10)));
    for expected in [began, Event::Changed(client, Change::Ended)] {
        assert_eq!(timeout(PATIENCE, events.recv()).await.unwrap(), Some(expected));
    }
}

#[tokio::test]
async fn an_interruption_ends_it_with_a_result() {
    let (address, mut events) = server(ServerConfig::default()).await;
    let socket = connected(address).await;
    let (ask, stop) = Stop::new();
    let config = Config::new(Duration::from_millis(10));
    let ended = async {
        let began = timeout(PATIENCE, events.recv()).await.unwrap();
        assert!(matches!(began, Some(Event::Changed(_, Change::Began(_)))));
        ask.send(true).unwrap();
    };
    let measured = measure(&socket, config, PATIENCE * 10, &|| Ok(0), &stop, |_, _| {});
    let (measured, ()) = tokio::join!(timeout(PATIENCE, measured), ended);
    assert!(measured.unwrap().unwrap().check().is_err(), "there was no busy period");
}

#[tokio::test]
async fn refusals_and_failures_say_what_to_do() {
    let (address, _events) = server(ServerConfig { clients_max: 0, ..ServerConfig::default() }).await;
    let run = async |to: SocketAddr, interval_ms, count: Count<'_>| {
        let config = Config::new(Duration::from_millis(interval_ms));
        let socket = connected(to).await;
        let stop = Stop::never();
        let measured = measure(&socket, config, PATIENCE, count, &stop, |_, _| {});
        timeout(PATIENCE, measured).await.unwrap().unwrap_err().to_string()
    };
    assert!(run(address, 10, &|| Ok(0)).await.contains("--max-clients"));
    assert!(run(address, 5, &|| Ok(0)).await.contains("--interval"));
    let gone = run(address, 10, &|| bail!("the interface is gone")).await;
    assert_eq!(gone, "the interface is gone");
    if cfg!(target_os = "linux") {
        // Find an unused port: bind one, and close its socket.
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(run(closed, 10, &|| Ok(0)).await.contains("nothing listens there"));
    }
}
