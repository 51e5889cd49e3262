//! What the log tells of connections: `dfcp::session` and `dfcp::endpoint`, at the level DEBUG.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use dfcp::{Listener, Stream};
use support::{local, modern, read_hash, write_pattern};
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

/// Passes datagrams on between whoever sends first and `server`; of those to the server each fourth is lost, except for the
/// handshake's.
async fn lossy_path(server: SocketAddr) -> SocketAddr {
    let (outside, inside) = (UdpSocket::bind(local()).await.unwrap(), UdpSocket::bind(local()).await.unwrap());
    inside.connect(server).await.unwrap();
    let address = outside.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut there, mut back) = ([0; 2048], [0; 2048]);
        let (mut client, mut count) = (None, 0_u32);
        loop {
            tokio::select! {
                received = outside.recv_from(&mut there) => {
                    let (length, from) = received.unwrap();
                    client = Some(from);
                    count += 1;
                    if count < 50 || !count.is_multiple_of(4) {
                        inside.send(&there[..length]).await.unwrap();
                    }
                }
                received = inside.recv(&mut back) => {
                    outside.send_to(&back[..received.unwrap()], client.unwrap()).await.unwrap();
                }
            }
        }
    });
    address
}

/// What has been logged on this thread, on which both endpoints are tasks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn a_transfer_with_loss_can_be_followed_from_the_call_to_the_totals() {
    const BYTES: u64 = 3_000_000;
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("dfcp::session=debug,dfcp::endpoint=debug")
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let listener = Listener::bind(local(), modern()).unwrap();
    let path = lossy_path(listener.local_addr().unwrap()).await;
    let (client, server) = tokio::join!(Stream::connect(path, modern()), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let sending = async {
        let sent = write_pattern(&mut client, 1, BYTES).await.unwrap();
        client.shutdown().await.unwrap();
        (sent, read_hash(&mut client).await.unwrap().0)
    };
    let receiving = async {
        let received = read_hash(&mut server).await.unwrap();
        server.shutdown().await.unwrap();
        received
    };
    let ((sent, answered), received) = tokio::join!(sending, receiving);
    assert_eq!((received, answered), ((BYTES, sent), 0));
    let later_rounds = client.stats().later_rounds;
    assert!(later_rounds > 0, "a fourth was lost");
    // Both ends of the connection are here; the driver tells what is new when it has served a connection.
    while log.text().matches(" totals ").count() < 2 {
        tokio::task::yield_now().await;
    }
    let text = log.text();
    let of = |what: &str| text.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    let client_name = of(" called connection=")[0].split("connection=").nth(1).unwrap().split(' ').next().unwrap();
    let server_name = of(" called by a peer ")[0].split("connection=").nth(1).unwrap().split(' ').next().unwrap();
    assert_ne!(client_name, server_name);
    for what in ["keys agreed", "connected", "our half has ended", "totals"] {
        let lines = of(&format!(": {what}"));
        let whose = |name| lines.iter().filter(|line| line.contains(name)).count();
        assert_eq!((whose(client_name), whose(server_name)), (1, 1), "{what}: {text}");
    }
    let totals = of(": totals ").into_iter().find(|line| line.contains(client_name)).unwrap();
    assert!(totals.contains(&format!("stream_bytes_sent={BYTES} ")), "{totals}");
    assert!(totals.contains(&format!("later_rounds={later_rounds} ")), "{totals}");
    assert!(text.lines().all(|line| line.contains(" DEBUG dfcp::session: ")), "{text}");
    assert!(text.lines().count() < 40, "nothing is told datagram by datagram: {text}");
}
