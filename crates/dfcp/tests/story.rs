//! Tests of the log about connections: targets `dfcp::session` and `dfcp::endpoint`, level DEBUG.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use dfcp::{Config, Listener, Rate, Session, Stream, StreamLimits};
use support::{local, modern, read_hash, write_pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

/// Forwards datagrams between `server` and the host that sends first. From the 50th datagram to the server on, which is
/// after the handshake, every fourth one is lost.
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

/// Log of this thread, on which both endpoints are tasks.
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
    /// Logs events of this thread until the guard is dropped.
    fn begin(filter: &str) -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Waits for `count` lines of totals: the driver logs only after it has served a connection.
    async fn until_totals(&self, count: usize) -> String {
        while self.text().matches(" totals ").count() < count {
            tokio::task::yield_now().await;
        }
        self.text()
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn a_transfer_with_loss_can_be_followed_from_the_call_to_the_totals() {
    const BYTES: u64 = 3_000_000;
    let (log, _guard) = Log::begin("dfcp::session=debug,dfcp::endpoint=debug");
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
    let text = log.until_totals(2).await;
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

/// Connects both ends of a session that permit `limit` streams of each kind.
async fn session_pair(limit: u32) -> (Session, Session) {
    let config: Config =
        modern().with_rate(Rate::Line).with_streams(StreamLimits { bidirectional: limit, one_way: limit });
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(Session::connect(address, config), listener.accept_session());
    (client.unwrap(), server.unwrap())
}

/// Sums a field over the lines about streams.
fn sum(text: &str, field: &str) -> u64 {
    let sums = text.lines().filter_map(|line| line.split_once(": streams ")?.1.split_once(&format!(" {field}=")));
    sums.map(|(_, after)| after.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn a_thousand_streams_are_told_in_sums() {
    const STREAMS: u64 = 1_000;
    let (log, _guard) = Log::begin("dfcp::session=debug");
    let (client, server) = session_pair(8).await;
    let writing = async {
        let writers: Vec<_> = (0..STREAMS)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let mut stream = client.open_one_way().await.unwrap();
                    stream.write_all(b"short").await.unwrap();
                    stream.shutdown().await.unwrap();
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        client.close().await.unwrap();
    };
    let reading = async {
        while let Some(mut stream) = server.accept_one_way().await {
            assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 5);
        }
        server.close().await.unwrap();
    };
    tokio::join!(writing, reading);
    let text = log.until_totals(2).await;
    let sums = ["opened", "delivered", "opened_by_peer", "read_to_end"].map(|field| sum(&text, field));
    assert_eq!(sums, [STREAMS; 4], "{text}");
    assert!(sum(&text, "without_credit") > 0, "eight streams at a time are permitted: {text}");
    assert!((text.lines().count() as u64) < STREAMS / 10, "nothing is told stream by stream: {text}");
}

#[tokio::test]
async fn at_the_level_trace_each_stream_has_lines_of_its_own() {
    let (log, _guard) = Log::begin("dfcp::session=trace");
    let (client, server) = session_pair(1).await;
    let mut ours = client.open_stream().await.unwrap();
    ours.write_all(b"?").await.unwrap();
    ours.flush().await.unwrap();
    let mut theirs = server.accept_stream().await.unwrap();
    theirs.read_exact(&mut [0]).await.unwrap();
    theirs.reset(70);
    theirs.stop_sending(71);
    theirs.reset(72);
    assert!(ours.read(&mut [0]).await.is_err());
    while ours.write(b"!").await.is_ok() {
        tokio::task::yield_now().await;
    }
    // The stream limit is raised when both ends have dropped the stream.
    drop((ours, theirs));
    let mut one_way = client.open_one_way().await.unwrap();
    one_way.write_all(b"!").await.unwrap();
    drop(one_way);
    tokio::join!(async { client.close().await.unwrap() }, async { server.close().await.unwrap() });
    let text = log.until_totals(2).await;
    let count = |what: &str| text.lines().filter(|line| line.contains(what) && line.contains(" TRACE ")).count();
    let id = |what: &str| format!("stream={what}");
    let first = id("4 kind=Bidirectional");
    assert_eq!(count(&first), 6, "{text}");
    for (what, code) in [
        (": stream opened connection=", ""),
        (": stream opened by the peer connection=", ""),
        (": stream reset connection=", " code=70"),
        (": stream reset by the peer connection=", " code=70"),
        (": stream stopped: the peer is told to send no more connection=", " code=71"),
        (": stream stopped by the peer, which wants no more of it connection=", " code=71"),
    ] {
        let told = text.lines().filter(|line| line.contains(what) && line.ends_with(&format!("{first}{code}"))).count();
        assert_eq!(told, 1, "{what}: {text}");
    }
    let one_way = id("2 kind=OneWay");
    assert_eq!(count(&format!("{one_way} code=0")), 1, "its writer has let go of it: {text}");
    assert_eq!(count("code=72"), 0, "the first end stands: {text}");
}
