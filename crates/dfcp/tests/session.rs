//! Sessions with many streams over real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use dfcp::{
    Config, ConnectionError, Endpoint, Listener, Priority, Rate, Session, Stream, StreamError, StreamLimits, WriteHalf,
};
use support::{Pattern, local, modern, read_hash, write_pattern};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

const SOON: Duration = Duration::from_millis(50);

fn with_streams(bidirectional: u32, one_way: u32) -> Config {
    modern().with_rate(Rate::Line).with_streams(StreamLimits { bidirectional, one_way })
}

/// Connects both ends of a session.
async fn pair(config: Config) -> (Session, Session) {
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(Session::connect(address, config), listener.accept_session());
    (client.unwrap(), server.unwrap())
}

/// Opens a stream, and waits until the other end has it: one byte has been read.
async fn stream_pair(opener: &Session, acceptor: &Session) -> (Stream, Stream) {
    let mut ours = opener.open_stream().await.unwrap();
    ours.write_all(b"!").await.unwrap();
    ours.flush().await.unwrap();
    let mut theirs = acceptor.accept_stream().await.unwrap();
    theirs.read_exact(&mut [0]).await.unwrap();
    (ours, theirs)
}

fn code_of<T: std::fmt::Debug>(result: io::Result<T>) -> StreamError {
    let error = result.unwrap_err();
    StreamError::of(&error).unwrap_or_else(|| panic!("not of a stream: {error:?}"))
}

async fn write_until_stopped(to: &mut (impl AsyncWrite + Unpin)) -> StreamError {
    let error = loop {
        if let Err(error) = to.write(&[1; 10_000]).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    StreamError::of(&error).unwrap()
}

/// Returns a listener whose sessions read one-way streams, and discard the bytes.
fn sink(config: Config) -> Listener {
    let listener = Listener::bind(local(), config).unwrap();
    let accepting = listener.clone();
    tokio::spawn(async move {
        while let Ok(session) = accepting.accept_session().await {
            tokio::spawn(async move {
                while let Some(mut reader) = session.accept_one_way().await {
                    tokio::spawn(async move {
                        let mut buffer = vec![0; 1 << 16];
                        while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
                    });
                }
            });
        }
    });
    listener
}

/// Writes until an error, and counts the bytes.
async fn write_endlessly(mut writer: WriteHalf, written: Arc<AtomicU64>) {
    let data = vec![0; 1 << 20];
    while let Ok(count) = writer.write(&data).await {
        written.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Returns the bytes written by each of `streams` streams in each of `sessions` sessions with one peer, after `bytes`
/// in all. Each session has one further stream, whose application has filled the buffer and does not return.
async fn bytes_by_session(sessions: usize, streams: usize, bytes: u64, is_one_task: bool) -> Vec<Vec<u64>> {
    let listener = sink(with_streams(0, streams as u32 + 1));
    let endpoint = Endpoint::bind(local(), None).unwrap();
    let (mut tasks, mut counts, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sessions {
        let remote = listener.local_addr().unwrap();
        let session = endpoint.connect_session(remote, with_streams(0, 0)).await.unwrap();
        let mut stalled = session.open_one_way().await.unwrap();
        // Poll directly: `timeout` would let the endpoint run and make room.
        while poll_fn(|cx| Poll::Ready(Pin::new(&mut stalled).poll_write(cx, &[0; 1 << 16]))).await.is_ready() {}
        idle.push(stalled);
        let of_session: Vec<_> = (0..streams).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let mut writing: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        for count in &of_session {
            writing.push(Box::pin(write_endlessly(session.open_one_way().await.unwrap(), Arc::clone(count))));
        }
        if is_one_task {
            tasks.push(tokio::spawn(poll_fn(move |cx| {
                writing.iter_mut().for_each(|it| _ = it.as_mut().poll(cx));
                Poll::Pending
            })));
        } else {
            tasks.extend(writing.into_iter().map(tokio::spawn));
        }
        counts.push(of_session);
    }
    let now = || counts.iter().map(|it| it.iter().map(|count| count.load(Ordering::Relaxed)).collect()).collect();
    loop {
        let seen: Vec<Vec<u64>> = now();
        if seen.iter().flatten().sum::<u64>() >= bytes {
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// More sessions than may send at a time. Once each stream has its own task, and once one task polls all streams in
/// fixed order: the stream polled first must not take its session's whole turn.
#[tokio::test]
async fn sessions_take_turns_and_so_do_the_streams_in_them() {
    for is_one_task in [false, true] {
        let (sessions, streams, bytes) = (24, 4, 200_000_000);
        let written = bytes_by_session(sessions, streams, bytes, is_one_task).await;
        let mean = bytes / (sessions * streams) as u64;
        assert!(written.iter().flatten().all(|&count| count > mean / 2), "{is_one_task}, mean {mean}: {written:?}");
    }
}

/// Sends a pattern and reads another one. Returns length and hash of both.
async fn converse(stream: Stream, own: u64, bytes: u64) -> ((u64, blake3::Hash), (u64, blake3::Hash)) {
    let (mut reader, mut writer) = stream.into_split();
    let writing = tokio::spawn(async move {
        let hash = write_pattern(&mut writer, own, bytes).await.unwrap();
        writer.shutdown().await.unwrap();
        hash
    });
    let received = read_hash(&mut reader).await.unwrap();
    ((bytes, writing.await.unwrap()), received)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_both_ways_arrive_as_they_were_sent() {
    const STREAMS: u64 = 40;
    let bytes = |index: u64| 10_000 + index * 31_000;
    let (client, server) = pair(with_streams(16, 0)).await;
    let side = |session: Session, opener: u64| async move {
        let accepting = tokio::spawn({
            let session = session.clone();
            async move {
                let mut accepted = Vec::new();
                for _ in 0..STREAMS {
                    let mut stream = session.accept_stream().await.unwrap();
                    accepted.push(tokio::spawn(async move {
                        // The first byte is the index of the stream.
                        let index = u64::from(stream.read_u8().await.unwrap());
                        (index, converse(stream, 1_000 + opener + index, bytes(index)).await)
                    }));
                }
                let mut all = Vec::new();
                for stream in accepted {
                    all.push(stream.await.unwrap());
                }
                all.sort_by_key(|(index, _)| *index);
                all
            }
        });
        let opened: Vec<_> = (0..STREAMS)
            .map(|index| {
                let session = session.clone();
                tokio::spawn(async move {
                    let mut stream = session.open_stream().await.unwrap();
                    stream.write_u8(index as u8).await.unwrap();
                    (index, converse(stream, opener + index, bytes(index)).await)
                })
            })
            .collect();
        let mut all = Vec::new();
        for stream in opened {
            all.push(stream.await.unwrap());
        }
        let accepted = accepting.await.unwrap();
        session.close().await.unwrap();
        (all, accepted)
    };
    let (client, server) = tokio::join!(tokio::spawn(side(client, 0)), tokio::spawn(side(server, 500)));
    let ((client_opened, client_accepted), (server_opened, server_accepted)) = (client.unwrap(), server.unwrap());
    let turned = |all: Vec<_>| -> Vec<_> { all.into_iter().map(|(index, (sent, got))| (index, (got, sent))).collect() };
    assert_eq!(client_opened, turned(server_accepted));
    assert_eq!(server_opened, turned(client_accepted));
}

#[tokio::test]
async fn one_way_streams_carry_data_one_way() {
    let (client, server) = pair(with_streams(0, 4)).await;
    let writing = tokio::spawn(async move {
        let mut hashes = Vec::new();
        for seed in 0..20 {
            let mut writer = client.open_one_way().await.unwrap();
            writer.set_priority(Priority { urgency: 1, ..Priority::default() });
            hashes.push(write_pattern(&mut writer, seed, 50_000).await.unwrap());
            writer.shutdown().await.unwrap();
        }
        client.close().await.unwrap();
        hashes
    });
    let mut hashes = Vec::new();
    while let Some(mut reader) = server.accept_one_way().await {
        hashes.push(read_hash(&mut reader).await.unwrap().1);
    }
    server.close().await.unwrap();
    assert_eq!(hashes, writing.await.unwrap());
}

#[tokio::test]
async fn opening_waits_for_credit_and_is_cancel_safe() {
    let (client, server) = pair(with_streams(2, 0)).await;
    let first = stream_pair(&client, &server).await;
    let second = stream_pair(&client, &server).await;
    for _ in 0..3 {
        timeout(SOON, client.open_stream()).await.unwrap_err();
    }
    // A stream that has ended in both directions, and is read to its end, makes room for one stream.
    let (mut ours, mut theirs) = first;
    let end = async {
        ours.shutdown().await.unwrap();
        assert_eq!(theirs.read(&mut [0; 9]).await.unwrap(), 0);
        theirs.shutdown().await.unwrap();
        assert_eq!(ours.read(&mut [0; 9]).await.unwrap(), 0);
        assert_eq!(ours.read(&mut [0; 9]).await.unwrap(), 0, "the end can be read again");
    };
    let ((), third) = tokio::join!(end, stream_pair(&client, &server));
    timeout(SOON, client.open_stream()).await.unwrap_err();
    drop((second, third));
    // Dropped streams make room, too.
    let _more = (stream_pair(&client, &server).await, stream_pair(&client, &server).await);
}

#[tokio::test]
async fn accepting_is_cancel_safe() {
    let (client, server) = pair(with_streams(9, 9)).await;
    for seed in 0..20 {
        assert!(timeout(Duration::from_millis(1), server.accept_stream()).await.is_err());
        let (mut ours, mut theirs) = stream_pair(&client, &server).await;
        let ((), received) = tokio::join!(
            async {
                write_pattern(&mut ours, seed, 1_000).await.unwrap();
                ours.shutdown().await.unwrap();
            },
            read_hash(&mut theirs)
        );
        assert_eq!(received.unwrap().1, blake3::hash(&Pattern::new(seed).take(1_000)));
        theirs.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_kind_of_streams_which_the_peer_never_takes_is_an_error_at_once() {
    let (client, _server) = pair(with_streams(0, 1)).await;
    let result = timeout(Duration::from_secs(5), client.open_stream()).await.unwrap();
    assert_eq!(result.as_ref().unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert_eq!(code_of(result), StreamError::NotTaken);
    client.open_one_way().await.unwrap();
}

#[tokio::test]
async fn codes_of_reset_and_stop_arrive() {
    let (client, server) = pair(with_streams(9, 9)).await;
    let (mut ours, mut theirs) = stream_pair(&client, &server).await;
    ours.reset(17);
    assert_eq!(code_of(ours.write(b"x").await), StreamError::EndedHere);
    assert_eq!(code_of(ours.shutdown().await), StreamError::EndedHere);
    for _ in 0..2 {
        assert_eq!(code_of(theirs.read(&mut [0; 9]).await), StreamError::Reset { code: 17 });
    }
    // The other direction goes on until it is stopped.
    theirs.write_all(b"well").await.unwrap();
    theirs.flush().await.unwrap();
    ours.read_exact(&mut [0; 4]).await.unwrap();
    ours.stop_sending(18);
    assert_eq!(code_of(ours.read(&mut [0; 9]).await), StreamError::EndedHere);
    assert_eq!(write_until_stopped(&mut theirs).await, StreamError::Stopped { code: 18 });
    assert_eq!(code_of(theirs.shutdown().await), StreamError::Stopped { code: 18 });

    // Resets and stops wake waiting tasks.
    let (ours, mut theirs) = stream_pair(&client, &server).await;
    let (read, ()) = tokio::join!(theirs.read_u8(), async { ours.reset(19) });
    assert_eq!(code_of(read), StreamError::Reset { code: 19 });

    let mut writer = client.open_one_way().await.unwrap();
    writer.write_all(b"one way").await.unwrap();
    writer.flush().await.unwrap();
    let reader = server.accept_one_way().await.unwrap();
    reader.stop_sending(20);
    // Shut down only after the stop has arrived. An earlier shutdown might succeed, as the peer might first prove all
    // bytes.
    assert_eq!(write_until_stopped(&mut writer).await, StreamError::Stopped { code: 20 });
    assert_eq!(code_of(writer.shutdown().await), StreamError::Stopped { code: 20 });
}

#[tokio::test]
async fn dropping_a_stream_ends_it_alone() {
    let (client, server) = pair(with_streams(9, 0)).await;
    let (mut kept, mut kept_there) = stream_pair(&client, &server).await;
    let (ours, mut theirs) = stream_pair(&client, &server).await;
    drop(ours);
    assert_eq!(code_of(theirs.read(&mut [0; 9]).await), StreamError::Reset { code: 0 });
    assert_eq!(code_of(theirs.shutdown().await), StreamError::Stopped { code: 0 });

    // After shutdown, a dropped half is still delivered, even without the other half.
    let (ours, mut theirs) = stream_pair(&client, &server).await;
    let (reader, mut writer) = ours.into_split();
    drop(reader);
    let sent = write_pattern(&mut writer, 5, 300_000).await.unwrap();
    tokio::select! {
        biased;
        result = writer.shutdown() => panic!("delivered before anything was sent: {result:?}"),
        () = std::future::ready(()) => {}
    }
    drop(writer);
    assert_eq!(read_hash(&mut theirs).await.unwrap(), (300_000, sent));

    kept.write_all(b"still here").await.unwrap();
    kept.shutdown().await.unwrap();
    let mut received = String::new();
    kept_there.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "still here");
}

#[tokio::test]
async fn a_stream_outlives_the_handle_of_its_session_and_the_last_handle_ends_it() {
    let (client, server) = pair(with_streams(9, 0)).await;
    let (mut ours, mut theirs) = stream_pair(&client, &server).await;
    drop(client);
    ours.write_all(b"without it").await.unwrap();
    ours.flush().await.unwrap();
    theirs.read_exact(&mut [0; 10]).await.unwrap();
    drop(ours);
    assert_eq!(theirs.read(&mut [0; 9]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(server.accept_stream().await.is_none());
    assert_eq!(server.open_stream().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(server.close().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(server.closed().await.is_some());
}

#[tokio::test]
async fn close_waits_for_streams_and_for_the_peer() {
    let (client, server) = pair(with_streams(9, 0)).await;
    let (mut ours, mut theirs) = stream_pair(&client, &server).await;
    timeout(SOON, client.close()).await.unwrap_err();
    assert_eq!(code_of(client.open_stream().await), StreamError::SessionClosed);
    assert!(client.accept_stream().await.is_none());
    assert!(timeout(SOON, server.accept_stream()).await.is_err(), "a stream of the client's is still open");
    let sent = write_pattern(&mut ours, 6, 3_000_000).await.unwrap();
    let ((), received) = tokio::join!(async { ours.shutdown().await.unwrap() }, read_hash(&mut theirs));
    assert_eq!(received.unwrap(), (3_000_000, sent));
    // Only now does the server accept, learn of the close, write its last bytes, and close, too.
    assert!(server.accept_stream().await.is_none());
    timeout(SOON, client.close()).await.unwrap_err();
    let sent = write_pattern(&mut theirs, 7, 100_000).await.unwrap();
    let ((), received) = tokio::join!(async { theirs.shutdown().await.unwrap() }, read_hash(&mut ours));
    assert_eq!(received.unwrap(), (100_000, sent));
    let (client, server) = tokio::join!(client.close(), server.close());
    client.unwrap();
    server.unwrap();
}

#[tokio::test]
async fn a_close_which_is_dropped_has_begun_and_can_be_waited_for_again() {
    let (client, server) = pair(with_streams(9, 9).with_time_wait(Duration::from_millis(10))).await;
    let mut writer = client.open_one_way().await.unwrap();
    let sent = write_pattern(&mut writer, 3, 200_000).await.unwrap();
    timeout(Duration::ZERO, client.close()).await.expect_err("the peer has not closed it");
    assert_eq!(code_of(client.open_stream().await), StreamError::SessionClosed);
    // Open streams go on to their own ends.
    let reading = async { read_hash(&mut server.accept_one_way().await.unwrap()).await.unwrap() };
    let (shut, received) = tokio::join!(writer.shutdown(), reading);
    shut.unwrap();
    assert_eq!(received, (200_000, sent));
    // The peer sees the end, and no error, although no future waits for the close any more.
    assert!(server.accept_stream().await.is_none());
    for _ in 0..3 {
        timeout(Duration::ZERO, client.close()).await.expect_err("nor has it now");
    }
    let (ours, theirs) = tokio::join!(client.close(), server.close());
    ours.unwrap();
    theirs.unwrap();
    client.close().await.unwrap();
    assert_eq!((client.closed().await, server.closed().await), (None, None));
}

#[tokio::test]
async fn what_the_peer_opens_after_close_is_refused_and_holds_nothing_up() {
    let (client, server) = pair(with_streams(9, 9)).await;
    // One stream already waits to be accepted; another follows later.
    let mut early = server.open_stream().await.unwrap();
    early.write_all(b"hello?").await.unwrap();
    early.flush().await.unwrap();
    let closing = tokio::spawn(async move { client.close().await });
    let mut buffer = [0; 9];
    assert_eq!(code_of(early.read(&mut buffer).await), StreamError::Reset { code: 0 });
    assert_eq!(code_of(early.shutdown().await), StreamError::Stopped { code: 0 });
    assert!(server.accept_stream().await.is_none());
    let mut late = server.open_one_way().await.unwrap();
    assert_eq!(write_until_stopped(&mut late).await, StreamError::Stopped { code: 0 });
    server.close().await.unwrap();
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn others_can_be_opened_beside_the_first_stream() {
    let listener = Listener::bind(local(), with_streams(9, 9)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = async {
        let mut control = Stream::connect(address, with_streams(9, 9)).await.unwrap();
        assert_eq!(control.read_u8().await.unwrap(), 1);
        let mut bulk = control.session().unwrap().open_one_way().await.unwrap();
        let hash = write_pattern(&mut bulk, 8, 700_000).await.unwrap();
        bulk.shutdown().await.unwrap();
        control.write_all(hash.as_bytes()).await.unwrap();
        control.shutdown().await.unwrap();
        assert_eq!(control.read(&mut [0]).await.unwrap(), 0);
    };
    let server = async {
        let mut control = listener.accept().await.unwrap();
        let session = control.session().unwrap();
        control.write_u8(1).await.unwrap();
        control.flush().await.unwrap();
        let received = read_hash(&mut session.accept_one_way().await.unwrap()).await.unwrap();
        let mut hash = Vec::new();
        control.read_to_end(&mut hash).await.unwrap();
        assert_eq!((received.0, received.1.as_bytes().as_slice()), (700_000, hash.as_slice()));
        assert!(session.accept_stream().await.is_none(), "the first stream has ended, and so the session");
        session.close().await.unwrap();
    };
    tokio::join!(client, server);
}

#[tokio::test]
async fn a_session_and_a_peer_with_one_stream_do_not_pretend_to_understand_each_other() {
    let listener = Listener::bind(local(), with_streams(9, 9)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut stream = Stream::connect(address, modern()).await.unwrap();
    let session = listener.accept_session().await.unwrap();
    stream.write_all(b"to nobody").await.unwrap();
    assert_eq!(stream.shutdown().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(session.accept_stream().await.is_none());
    assert_eq!(session.close().await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);

    let session = Session::connect(address, modern()).await.unwrap();
    let mut ours = session.open_stream().await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    assert_eq!(write_until_stopped(&mut ours).await, StreamError::Stopped { code: 0 });
    assert_eq!(code_of(ours.read(&mut [0]).await), StreamError::Reset { code: 0 });
    let ((), shut) = tokio::join!(async { session.close().await.unwrap() }, stream.shutdown());
    shut.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);

    let classic = Config::danger_classic();
    let error = Session::connect(address, classic).await.unwrap_err();
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn an_abort_with_a_code_tells_the_peer_on_every_stream() {
    let (client, server) = pair(with_streams(1, 0)).await;
    let (_ours, mut theirs) = stream_pair(&client, &server).await;
    client.abort_with(4711);
    let error = theirs.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(server.closed().await, Some(ConnectionError::EndedByPeer { error: 4711 }));
    assert_eq!(client.closed().await, Some(ConnectionError::Aborted));
}

#[tokio::test]
async fn close_waits_for_messages_under_way() {
    let config = modern().with_messages(true);
    let listener = Listener::bind(local(), config.clone()).unwrap();
    let to = listener.local_addr().unwrap();
    // At this rate all messages take half a second.
    let slow = config.with_rate(Rate::Fixed { rate_bps: 1_500_000 });
    let (sending, receiving) = tokio::join!(Session::connect(to, slow), listener.accept_session());
    let (sending, receiving) = (sending.unwrap(), receiving.unwrap());
    let taking = tokio::spawn(async move {
        // Once the peer has ended, no further message may arrive.
        assert!(receiving.accept_stream().await.is_none());
        receiving.close().await.unwrap();
        let mut count = 0;
        while receiving.receive_message().await.is_some() {
            count += 1;
        }
        count
    });
    for _ in 0..80 {
        sending.send_message(&[7; 1_000], dfcp::Deadline::within(Duration::from_secs(20))).unwrap();
    }
    sending.close().await.unwrap();
    assert_eq!(taking.await.unwrap(), 80);
}
