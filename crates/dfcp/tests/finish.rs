//! Tests of `finish` and `stopped`: ending a stream without a wait, and waiting for the end.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[expect(dead_code, reason = "the other test binaries need more of it")]
mod support;

use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use dfcp::{Config, Listener, Opener, Session, Stream, StreamError, StreamId, StreamKind, StreamLimits, blocking};
use support::{local, modern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Timeout that exceeds every wait of these tests.
const NEVER: Duration = Duration::from_secs(20);

fn many() -> Config {
    modern().with_streams(StreamLimits { bidirectional: 100, one_way: 100 }).with_time_wait(Duration::from_millis(10))
}

/// Forwards datagrams between a client and a server. Those to the client pass only while the gate is open.
struct Gate {
    address: SocketAddr,
    open: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Gate {
    fn before(server: SocketAddr) -> Self {
        let (front, back) = (UdpSocket::bind(local()).unwrap(), UdpSocket::bind(local()).unwrap());
        back.connect(server).unwrap();
        let gate =
            Self { address: front.local_addr().unwrap(), open: Arc::new(AtomicBool::new(true)), ended: Arc::default() };
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        }
        let (open, ended) = (Arc::clone(&gate.open), Arc::clone(&gate.ended));
        thread::spawn(move || {
            let (mut client, mut buffer) = (None, [0; 1 << 16]);
            while !ended.load(Ordering::Relaxed) {
                while let Ok((length, from)) = front.recv_from(&mut buffer) {
                    client = Some(from);
                    back.send(&buffer[..length]).unwrap();
                    front.set_nonblocking(true).unwrap();
                }
                front.set_nonblocking(false).unwrap();
                back.set_nonblocking(true).unwrap();
                while let (Ok(length), Some(client)) = (back.recv(&mut buffer), client) {
                    if open.load(Ordering::Relaxed) {
                        front.send_to(&buffer[..length], client).unwrap();
                    }
                }
            }
        });
        gate
    }

    fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn is_pending<T>(future: impl Future<Output = T>) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

async fn pair(config: Config) -> (Session, Session) {
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(Session::connect(address, config), listener.accept_session());
    (client.unwrap(), server.unwrap())
}

async fn stream_pair(opener: &Session, acceptor: &Session) -> (Stream, Stream) {
    let mut ours = opener.open_stream().await.unwrap();
    ours.write_all(b"!").await.unwrap();
    ours.flush().await.unwrap();
    let mut theirs = acceptor.accept_stream().await.unwrap();
    theirs.read_exact(&mut [0]).await.unwrap();
    (ours, theirs)
}

async fn stopped(stream: &Stream) -> std::io::Result<Option<u32>> {
    timeout(NEVER, stream.stopped()).await.expect("it waits for ever")
}

fn stream_error(result: std::io::Result<Option<u32>>) -> Option<StreamError> {
    StreamError::of(&result.unwrap_err())
}

/// No datagram comes back during the writes. If any stream needed a round trip, the test would wait for ever.
#[tokio::test]
async fn streams_that_are_finished_cost_no_round_trip_each() {
    let listener = Listener::bind(local(), many()).unwrap();
    let gate = Gate::before(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(Session::connect(gate.address, many()), listener.accept_session());
    let (client, server) = (client.unwrap(), server.unwrap());
    gate.set_open(false);
    let writing = async {
        for number in 0..50_u8 {
            let mut stream = client.open_one_way().await.unwrap();
            stream.write_all(&[number; 1_000]).await.unwrap();
            stream.finish().unwrap();
        }
    };
    timeout(NEVER, writing).await.expect("a stream waits for an answer");
    let mut waits = client.open_one_way().await.unwrap();
    waits.write_all(&[200]).await.unwrap();
    assert!(is_pending(waits.shutdown()), "shutdown waits, as it always has");
    gate.set_open(true);
    let reading = tokio::spawn(async move {
        let mut numbers = Vec::new();
        while let Some(mut reader) = server.accept_one_way().await {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).await.unwrap();
            numbers.push((bytes[0], bytes.len()));
        }
        server.close().await.unwrap();
        numbers
    });
    timeout(NEVER, waits.shutdown()).await.unwrap().unwrap();
    timeout(NEVER, client.close()).await.unwrap().unwrap();
    let mut numbers = reading.await.unwrap();
    numbers.sort_unstable();
    let expected: Vec<_> = (0..50).map(|number| (number, 1_000)).chain([(200, 1)]).collect();
    assert_eq!(numbers, expected);
}

#[tokio::test]
async fn a_connection_that_is_finished_and_dropped_is_delivered() {
    let listener = Listener::bind(local(), many()).unwrap();
    let address = listener.local_addr().unwrap();
    let reading = tokio::spawn(async move {
        let mut bytes = Vec::new();
        let mut stream = listener.accept().await.unwrap();
        stream.read_to_end(&mut bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        bytes.len()
    });
    let mut stream = Stream::connect(address, many()).await.unwrap();
    assert_eq!(stream.id(), StreamId::FIRST);
    stream.write_all(&[7; 300_000]).await.unwrap();
    let delivered = stream.stopped();
    stream.finish().unwrap();
    stream.finish().unwrap();
    assert_eq!(stream.write(b"late").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    drop(stream);
    assert_eq!(timeout(NEVER, delivered).await.unwrap().unwrap(), None, "it outlives the stream");
    assert_eq!(reading.await.unwrap(), 300_000);
}

#[tokio::test]
async fn the_wait_for_the_end_tells_how_it_came() {
    let (us, peer) = pair(many()).await;
    // The peer stops the stream while this side writes.
    let (mut ours, theirs) = stream_pair(&us, &peer).await;
    let early = ours.stopped();
    assert!(is_pending(ours.stopped()), "nothing has ended");
    theirs.stop_sending(7);
    assert_eq!(timeout(NEVER, early).await.unwrap().unwrap(), Some(7));
    assert_eq!(stopped(&ours).await.unwrap(), Some(7), "whoever asks later is told at once");
    ours.finish().expect("that the peer wants no more is no error");
    assert_eq!(stopped(&ours).await.unwrap(), Some(7));
    assert_eq!(StreamError::of(&ours.shutdown().await.unwrap_err()), Some(StreamError::Stopped { code: 7 }));
    // The peer drops the stream.
    let (ours, theirs) = stream_pair(&us, &peer).await;
    drop(theirs);
    assert_eq!(stopped(&ours).await.unwrap(), Some(0));
    // The peer has all bytes, read or not.
    let (mut ours, theirs) = stream_pair(&us, &peer).await;
    ours.write_all(b"unread").await.unwrap();
    ours.finish().unwrap();
    assert_eq!(stopped(&ours).await.unwrap(), None);
    theirs.stop_sending(9);
    assert_eq!(stopped(&ours).await.unwrap(), None, "too late to change anything");
    // This side gives up the stream: by a reset, and by a drop.
    let (mut ours, _theirs) = stream_pair(&us, &peer).await;
    let early = ours.stopped();
    ours.reset(3);
    assert_eq!(stream_error(timeout(NEVER, early).await.unwrap()), Some(StreamError::EndedHere));
    assert_eq!(stream_error(stopped(&ours).await), Some(StreamError::EndedHere));
    assert_eq!(StreamError::of(&ours.finish().unwrap_err()), Some(StreamError::EndedHere));
    let (ours, _theirs) = stream_pair(&us, &peer).await;
    let early = ours.stopped();
    drop(ours);
    assert_eq!(stream_error(timeout(NEVER, early).await.unwrap()), Some(StreamError::EndedHere));
    let (ours, theirs) = stream_pair(&us, &peer).await;
    let (early, (_reader, writer)) = (ours.stopped(), ours.into_split());
    drop(writer);
    assert_eq!(stream_error(timeout(NEVER, early).await.unwrap()), Some(StreamError::EndedHere));
    drop(theirs);
    // The connection ends.
    let (mut ours, _theirs) = stream_pair(&us, &peer).await;
    let early = ours.stopped();
    peer.abort_with(4);
    assert_eq!(timeout(NEVER, early).await.unwrap().unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(stopped(&ours).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(ours.finish().unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "it can not be delivered");
}

/// A task gives up its work as soon as the peer stops the stream that is being written.
#[tokio::test]
async fn the_wait_goes_on_beside_writes() {
    let (us, peer) = pair(many()).await;
    let (mut ours, theirs) = stream_pair(&us, &peer).await;
    let mut end = pin!(ours.stopped());
    let mut rounds = 0;
    let code = loop {
        tokio::select! {
            biased;
            code = &mut end => break code.unwrap(),
            _ = ours.write(&[0; 100]) => rounds += 1,
        }
        if rounds == 3 {
            theirs.stop_sending(5);
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(code, Some(5));
}

/// The peer stops and resets all streams at the highest rate: every wait must end once, with the first code.
#[tokio::test]
async fn a_storm_of_stops_ends_every_wait_once() {
    let (us, peer) = pair(many()).await;
    let stopping = tokio::spawn(async move {
        while let Some(stream) = peer.accept_stream().await {
            stream.stop_sending(stream.id().to_word());
            stream.stop_sending(1_000_000);
            stream.reset(2);
        }
    });
    for _ in 0..400 {
        let mut stream = us.open_stream().await.unwrap();
        let id = stream.id().to_word();
        let (first, second) = (stream.stopped(), stream.stopped());
        // The write may fail: the peer may have stopped the stream already.
        let _may_be_stopped = stream.write_all(&[1; 100]).await;
        let _may_be_stopped = stream.flush().await;
        let code = timeout(NEVER, first).await.expect("it waits for ever").unwrap();
        assert_eq!(code, timeout(NEVER, second).await.unwrap().unwrap());
        assert_eq!(code, Some(id), "the first code stands");
    }
    us.abort();
    stopping.await.unwrap();
}

#[tokio::test]
async fn both_ends_call_a_stream_the_same() {
    let (us, peer) = pair(many()).await;
    for index in 0..3 {
        let (ours, theirs) = stream_pair(&us, &peer).await;
        assert_eq!(ours.id(), theirs.id());
        // Index 0 is the session's first stream.
        assert_eq!(Some(ours.id()), StreamId::new(Opener::Initiator, StreamKind::Bidirectional, index + 1));
        let (reader, writer) = theirs.into_split();
        assert_eq!((reader.id(), writer.id()), (ours.id(), ours.id()));
        let mut ours = peer.open_one_way().await.unwrap();
        ours.write_all(&[1]).await.unwrap();
        ours.finish().unwrap();
        let theirs = us.accept_one_way().await.unwrap();
        assert_eq!(ours.id(), theirs.id());
        assert_eq!(Some(ours.id()), StreamId::new(Opener::Acceptor, StreamKind::OneWay, index));
        assert_eq!(ours.id().to_string(), ours.id().to_word().to_string());
    }
}

#[test]
fn the_blocking_twin_does_the_same() {
    let listener = blocking::Listener::bind(local(), many()).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let session = listener.accept_session().unwrap();
        let mut ids = Vec::new();
        while let Some(mut reader) = session.accept_one_way() {
            std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
            ids.push(reader.id());
        }
        session.close().unwrap();
        ids
    });
    let session = blocking::Session::connect(address, many()).unwrap();
    let mut ids = Vec::new();
    for _ in 0..10 {
        let mut writer = session.open_one_way().unwrap();
        std::io::Write::write_all(&mut writer, &[1; 2_000]).unwrap();
        writer.finish().unwrap();
        if ids.is_empty() {
            assert_eq!(writer.stopped().unwrap(), None);
        }
        ids.push(writer.id());
    }
    session.close().unwrap();
    assert_eq!(serving.join().unwrap(), ids);
}

/// Counters of a stream beside another one, on both ends, and after each direction has ended.
#[tokio::test]
async fn a_stream_counts_what_it_does_and_nothing_of_others() {
    let (us, peer) = pair(many()).await;
    let (mut other, mut other_there) = stream_pair(&us, &peer).await;
    let (mut ours, mut theirs) = stream_pair(&us, &peer).await;
    ours.write_all(&[7; 99_999]).await.unwrap();
    ours.finish().unwrap();
    other.write_all(&[7; 5_000]).await.unwrap();
    other.flush().await.unwrap();
    other_there.read_exact(&mut [0; 5_000]).await.unwrap();
    let mut read = Vec::new();
    theirs.read_to_end(&mut read).await.unwrap();
    assert_eq!(stopped(&ours).await.unwrap(), None);
    theirs.write_all(&[1; 10]).await.unwrap();
    theirs.shutdown().await.unwrap();
    ours.read_to_end(&mut read).await.unwrap();
    let (here, there) = (ours.stream_stats(), theirs.stream_stats());
    assert_eq!((here.bytes_written, here.bytes_acknowledged, here.bytes_read), (100_000, 100_000, 10));
    assert_eq!((there.bytes_written, there.bytes_acknowledged, there.bytes_read), (10, 10, 100_000));
    assert_eq!((here.blocks_acknowledged, here.blocks_decoded), (there.blocks_decoded, there.blocks_acknowledged));
    assert!(here.sent.total() >= there.symbols_useful && there.symbols_useful >= 70, "{here:?} {there:?}");
    assert_eq!((there.sent.source, here.symbols_useful), (1, 1));
    let (other, other_there) = (other.stream_stats(), other_there.stream_stats());
    assert_eq!((other.bytes_written, other_there.bytes_read), (5_001, 5_001));
    let whole = us.stats();
    assert_eq!(whole.sent.total(), here.sent.total() + other.sent.total());
    assert_eq!(whole.stream_bytes_read, 10);
}

#[tokio::test]
async fn the_only_stream_of_either_profile_counts_as_its_connection() {
    for config in [modern(), Config::danger_classic()] {
        let listener = Listener::bind(local(), config.clone()).unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(Stream::connect(address, config), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        client.write_all(&[7; 70_000]).await.unwrap();
        client.finish().unwrap();
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        assert_eq!(stopped(&client).await.unwrap(), None);
        let (here, there) = (client.stream_stats(), server.stream_stats());
        assert_eq!((here.bytes_written, here.bytes_acknowledged, there.bytes_read), (70_000, 70_000, 70_000));
        assert_eq!((here.sent, there.symbols_useful), (client.stats().sent, server.stats().received.useful));
    }
}

/// A connection's first stream ends with its connection, and cannot be stopped.
#[tokio::test]
async fn the_wait_for_the_only_stream_ends_with_its_connection() {
    type Ending = fn(Stream, Stream);
    let endings: [(&str, Ending, std::io::ErrorKind); 4] = [
        ("we abort", |ours, _| ours.abort(), std::io::ErrorKind::ConnectionAborted),
        ("we drop it", |ours, _| drop(ours), std::io::ErrorKind::ConnectionAborted),
        ("we reset it", |ours, _| ours.reset(4), std::io::ErrorKind::ConnectionAborted),
        (
            "the peer drops it",
            |ours, theirs| drop((theirs, std::mem::ManuallyDrop::new(ours))),
            std::io::ErrorKind::ConnectionReset,
        ),
    ];
    for (what, end, kind) in endings {
        let listener = Listener::bind(local(), many()).unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(Stream::connect(address, many()), listener.accept());
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        theirs.stop_sending(3);
        let waiting = ours.stopped();
        assert!(is_pending(ours.stopped()), "{what}");
        end(ours, theirs);
        let ended = timeout(NEVER, waiting).await.unwrap_or_else(|_| panic!("{what}: it waits for ever"));
        assert_eq!(ended.unwrap_err().kind(), kind, "{what}");
    }
}
