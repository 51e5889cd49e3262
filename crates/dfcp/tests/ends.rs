//! Tests every future of the API against every kind of session end: none waits for ever, and each returns the
//! documented result.
//!
//! Each future is first polled once and dropped, like by `select!` and `timeout`, which must change nothing.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[expect(dead_code, reason = "the other test binaries need more of it")]
mod support;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::iter;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dfcp::{
    Config, ConnectError, Deadline, Endpoint, Listener, MessageError, Rate, Session, Stream, StreamError, StreamLimits,
    blocking,
};
use support::{local, modern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Time after an end, longer than the idle timeout of these tests, after which a waiting future counts as waiting for
/// ever.
const NEVER: Duration = Duration::from_secs(20);

/// Kind of end of a session with waiting futures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The peer's application drops its streams, and closes the session.
    PeerCloses,
    /// The peer's application drops everything without closing.
    PeerDrops,
    PeerAborts,
    /// This side closes the session, and the peer later.
    WeClose,
    WeAbort,
    /// The peer vanishes without sending anything.
    Silence,
    /// The runtime of this side's endpoint ends.
    DriverGone,
}

fn config(end: End) -> Config {
    let streams = StreamLimits { bidirectional: 3, one_way: 1 };
    let config = modern().with_streams(streams).with_messages(true).with_time_wait(Duration::from_millis(10));
    if end == End::Silence { config.with_idle_timeout(Duration::from_millis(400)) } else { config }
}

/// Both ends of a session, each driven by its own thread.
struct Scene {
    us: Session,
    /// Dropping it ends the runtime of this side's endpoint.
    driver: oneshot::Sender<()>,
    /// Sends the kind of end to the peer.
    ends: oneshot::Sender<End>,
    threads: [JoinHandle<()>; 2],
}

/// The peer: holds incoming streams without reading them, until it gets the kind of end.
fn peer(
    config: Config,
    (address, accepted): (oneshot::Sender<SocketAddr>, oneshot::Sender<()>),
    ends: oneshot::Receiver<End>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime.block_on(async {
        let listener = Listener::bind(local(), config).unwrap();
        address.send(listener.local_addr().unwrap()).unwrap();
        let session = listener.accept_session().await.unwrap();
        accepted.send(()).unwrap();
        let mut end = pin!(ends);
        let (mut streams, mut readers) = (Vec::new(), Vec::new());
        let end = loop {
            tokio::select! {
                Some(stream) = session.accept_stream() => streams.push(stream),
                Some(reader) = session.accept_one_way() => readers.push(reader),
                end = &mut end => break end.unwrap(),
            }
        };
        match end {
            End::PeerCloses | End::WeClose => {
                streams.clear();
                session.close().await.unwrap();
            }
            End::PeerAborts => session.abort_with(7),
            End::PeerDrops | End::WeAbort => {}
            End::Silence | End::DriverGone => return Some((session, streams, readers)),
        }
        drop((session, streams, readers));
        listener.endpoint().wait_idle().await;
        None
    });
    // Without its runtime the endpoint sends nothing, so dropping the handles afterwards does not notify the other
    // side.
    runtime.shutdown_background();
    drop(left);
}

impl Scene {
    async fn begin(end: End) -> Self {
        let ((to_us, address), (accepts, accepted)) = (oneshot::channel(), oneshot::channel());
        let ((ends, to_peer), (to_scene, ours)) = (oneshot::channel(), oneshot::channel());
        let named = |name: &str| thread::Builder::new().name(format!("{name}, {end:?}"));
        let peer = named("peer").spawn(move || peer(config(end), (to_us, accepts), to_peer)).unwrap();
        let (driver, driven) = oneshot::channel::<()>();
        let driving = named("our driver").spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // A rate so low that unsent data outlasts the test.
                let config = config(end).with_rate(Rate::Fixed { rate_bps: 1_000_000 });
                to_scene.send(Session::connect(address.await.unwrap(), config).await.unwrap()).unwrap();
                assert!(driven.await.is_err(), "it is dropped, not sent");
            });
            runtime.shutdown_background();
        });
        let driving = driving.unwrap();
        let us = ours.await.unwrap();
        accepted.await.unwrap();
        Self { us, driver, ends, threads: [peer, driving] }
    }

    /// Waits until both sides are over, without any handle of this side.
    async fn finish(self) {
        drop((self.us, self.ends));
        let [peer, driving] = self.threads;
        join(peer).await;
        drop(self.driver);
        join(driving).await;
    }
}

/// Joins a thread. A thread that never ends fails the test instead of blocking the runtime's end.
async fn join(thread: JoinHandle<()>) {
    let ending = async {
        while !thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(NEVER, ending).await.unwrap_or_else(|_| panic!("{:?} never ends", thread.thread().name()));
    thread.join().unwrap();
}

/// Describes the result of a future: `ok`, or the error.
fn told<T>(result: io::Result<T>) -> String {
    result.map_or_else(
        |error| StreamError::of(&error).map_or_else(|| format!("{:?}", error.kind()), |error| format!("{error:?}")),
        |_| "ok".to_owned(),
    )
}

/// Describes the result of `stopped`: the code, `None`, or the error.
fn told_stopped(result: io::Result<Option<u32>>) -> String {
    result.map_or_else(|error| told::<()>(Err(error)), |code| format!("{code:?}"))
}

fn told_option<T>(result: Option<T>) -> String {
    if result.is_some() { "some" } else { "none" }.to_owned()
}

/// Polls a future once, asserts that it is pending, and drops it.
fn cancel<T>(future: impl Future<Output = T>) {
    let poll = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "it ends before anything does");
}

/// Writes until the send buffer is full.
fn fill(stream: &mut (impl tokio::io::AsyncWrite + Unpin)) {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(written) = Pin::new(&mut *stream).poll_write(&mut cx, &[7; 1 << 16]) {
        written.unwrap();
    }
}

/// Waiting futures, by name.
struct Waiting {
    tasks: Vec<(&'static str, tokio::task::JoinHandle<String>)>,
    begun: Arc<AtomicUsize>,
}

impl Waiting {
    /// Starts a task that waits for `future`.
    fn begin<F: Future<Output = String> + Send + 'static>(
        &mut self,
        name: &'static str,
        future: impl FnOnce() -> F + Send + 'static,
    ) {
        let begun = Arc::clone(&self.begun);
        let task = async move {
            begun.fetch_add(1, Ordering::Relaxed);
            future().await
        };
        self.tasks.push((name, tokio::spawn(task)));
    }

    /// Returns once each task has been polled and waits: all tasks share this thread.
    async fn settled(&self) {
        while self.begun.load(Ordering::Relaxed) < self.tasks.len() {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the results of the named tasks.
    async fn ended(&mut self, names: &[&str]) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::new();
        for (name, task) in &mut self.tasks {
            if names.contains(name) {
                let end = timeout(NEVER, task).await.unwrap_or_else(|_| panic!("{name} never ends"));
                all.insert(*name, end.unwrap());
            }
        }
        all
    }

    fn waits(&self, name: &str) -> bool {
        self.tasks.iter().any(|(other, task)| *other == name && !task.is_finished())
    }
}

const OPENING: [&str; 2] = ["open_one_way", "open_stream"];
const ACCEPTING: [&str; 2] = ["accept_one_way", "accept_stream"];
const OF_STREAMS: [&str; 4] = ["read", "shutdown", "stopped", "write"];
const OF_SESSION: [&str; 2] = ["changed", "closed"];

/// Starts all kinds of waits on a session whose peer permits three bidirectional streams and a one-way one.
async fn wait_for_all(us: &Session) -> Waiting {
    let mut waiting = Waiting { tasks: Vec::new(), begun: Arc::default() };
    let [mut read, mut write, mut shut] = [(); 3].map(|()| None);
    for slot in [&mut read, &mut write, &mut shut] {
        *slot = Some(us.open_stream().await.unwrap());
    }
    let mut held = us.open_one_way().await.unwrap();
    fill(&mut held);
    let (mut read, mut write, mut shut) = (read.unwrap(), write.unwrap(), shut.unwrap());
    waiting.begin("read", || async move {
        cancel(read.read_u8());
        told(read.read_u8().await)
    });
    cancel(write.stopped());
    let stopped = write.stopped();
    waiting.begin("stopped", || async move { told_stopped(stopped.await) });
    waiting.begin("write", || async move {
        fill(&mut write);
        loop {
            if let error @ Err(_) = write.write(&[7; 1 << 16]).await {
                return told(error);
            }
        }
    });
    waiting.begin("shutdown", || async move {
        fill(&mut shut);
        cancel(shut.shutdown());
        told(shut.shutdown().await)
    });
    let it = us.clone();
    waiting.begin("open_stream", || async move {
        cancel(it.open_stream());
        told(it.open_stream().await)
    });
    let it = us.clone();
    waiting.begin("open_one_way", || async move {
        cancel(it.open_one_way());
        let opened = told(it.open_one_way().await);
        drop(held);
        opened
    });
    let it = us.clone();
    waiting.begin("accept_stream", || async move {
        cancel(it.accept_stream());
        told_option(it.accept_stream().await)
    });
    let it = us.clone();
    waiting.begin("accept_one_way", || async move {
        cancel(it.accept_one_way());
        told_option(it.accept_one_way().await)
    });
    let it = us.clone();
    waiting.begin("receive_message", || async move {
        cancel(it.receive_message());
        told_option(it.receive_message().await)
    });
    let it = us.clone();
    waiting.begin("closed", || async move {
        cancel(it.closed());
        it.closed().await.map_or_else(|| "none".to_owned(), |error| format!("{error:?}"))
    });
    let mut watch = us.watch_path();
    waiting.begin("changed", || async move {
        while watch.changed().await.is_some() {}
        "none".to_owned()
    });
    waiting.settled().await;
    waiting
}

/// Returns the expected results of all calls on a session that was ended by an error of this kind.
fn by_error(kind: &str, error: &str) -> BTreeMap<&'static str, String> {
    let mut all: BTreeMap<_, _> = OF_STREAMS.into_iter().chain(OPENING).map(|name| (name, kind.to_owned())).collect();
    all.extend(ACCEPTING.map(|name| (name, "none".to_owned())));
    all.extend([("receive_message", "none".to_owned()), ("changed", "none".to_owned()), ("closed", error.to_owned())]);
    all
}

fn all_names() -> Vec<&'static str> {
    by_error("", "").into_keys().collect()
}

#[tokio::test]
async fn an_end_by_an_error_ends_every_future_with_it() {
    for (end, kind, error) in [
        (End::PeerDrops, "ConnectionReset", "Reset"),
        (End::PeerAborts, "ConnectionReset", "EndedByPeer { error: 7 }"),
        (End::WeAbort, "ConnectionAborted", "Aborted"),
        (End::Silence, "TimedOut", "TimedOut"),
        (End::DriverGone, "ConnectionAborted", "Aborted"),
    ] {
        let mut scene = Scene::begin(end).await;
        let mut waiting = wait_for_all(&scene.us).await;
        match end {
            End::WeAbort => scene.us.abort(),
            End::DriverGone => scene.driver = oneshot::channel().0,
            _ => {}
        }
        std::mem::replace(&mut scene.ends, oneshot::channel().0).send(end).unwrap();
        assert_eq!(waiting.ended(&all_names()).await, by_error(kind, error), "{end:?}");
        // Later calls return the same error immediately.
        let us = scene.us.clone();
        assert_eq!(told(timeout(NEVER, us.open_stream()).await.unwrap()), kind, "{end:?}");
        assert_eq!(told(timeout(NEVER, us.close()).await.unwrap()), kind, "{end:?}");
        assert!(timeout(NEVER, us.accept_stream()).await.unwrap().is_none());
        assert!(timeout(NEVER, us.receive_message()).await.unwrap().is_none());
        assert_eq!(us.send_message(b"late", Deadline::within(NEVER)), Err(MessageError::Ended), "{end:?}");
        drop(us);
        scene.finish().await;
    }
}

fn assert_ends(of: BTreeMap<&'static str, String>, expected: &[(&'static str, &str)]) {
    assert_eq!(of, expected.iter().map(|&(name, how)| (name, how.to_owned())).collect());
}

const STREAMS_GIVEN_UP: [(&str, &str); 4] = [
    ("read", "Reset { code: 0 }"),
    ("write", "Stopped { code: 0 }"),
    ("shutdown", "Stopped { code: 0 }"),
    ("stopped", "Some(0)"),
];
const NONE_ACCEPTED: [(&str, &str); 2] = [("accept_stream", "none"), ("accept_one_way", "none")];

#[tokio::test]
async fn the_peers_close_ends_what_waits_for_the_peer_and_ours_the_rest() {
    let mut scene = Scene::begin(End::PeerCloses).await;
    let mut waiting = wait_for_all(&scene.us).await;
    std::mem::replace(&mut scene.ends, oneshot::channel().0).send(End::PeerCloses).unwrap();
    assert_ends(waiting.ended(&OF_STREAMS).await, &STREAMS_GIVEN_UP);
    assert_ends(waiting.ended(&ACCEPTING).await, &NONE_ACCEPTED);
    assert_ends(waiting.ended(&["receive_message"]).await, &[("receive_message", "none")]);
    // The peer may have raised its stream limit before it closed.
    for (name, opened) in waiting.ended(&OPENING).await {
        assert!(["ok", "SessionClosed"].contains(&opened.as_str()), "{name}: {opened}");
    }
    assert!(OF_SESSION.iter().all(|name| waiting.waits(name)), "this side has not closed");
    timeout(NEVER, scene.us.close()).await.unwrap().unwrap();
    assert_ends(waiting.ended(&OF_SESSION).await, &[("closed", "none"), ("changed", "none")]);
    scene.finish().await;
}

#[tokio::test]
async fn our_close_ends_what_this_side_begins_and_the_peers_the_rest() {
    let mut scene = Scene::begin(End::WeClose).await;
    let mut waiting = wait_for_all(&scene.us).await;
    let it = scene.us.clone();
    waiting.begin("close", || async move {
        cancel(it.close());
        told(it.close().await)
    });
    assert_ends(waiting.ended(&ACCEPTING).await, &NONE_ACCEPTED);
    assert_ends(waiting.ended(&OPENING).await, &OPENING.map(|name| (name, "SessionClosed")));
    let goes_on = OF_STREAMS.into_iter().chain(OF_SESSION).chain(["receive_message", "close"]);
    goes_on.for_each(|name| assert!(waiting.waits(name), "{name}"));
    std::mem::replace(&mut scene.ends, oneshot::channel().0).send(End::WeClose).unwrap();
    assert_ends(waiting.ended(&OF_STREAMS).await, &STREAMS_GIVEN_UP);
    let rest = ["close", "closed", "changed", "receive_message"];
    assert_ends(
        waiting.ended(&rest).await,
        &[("close", "ok"), ("closed", "none"), ("changed", "none"), ("receive_message", "none")],
    );
    scene.finish().await;
}

/// Connects both ends of a session, on the test's runtime.
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

/// Writes until the peer stops the stream. Returns the error.
async fn write_until_stopped(writer: &mut (impl tokio::io::AsyncWrite + Unpin)) -> String {
    let writing = async {
        loop {
            if let error @ Err(_) = writer.write(&[7; 1 << 16]).await {
                return told(error);
            }
        }
    };
    timeout(NEVER, writing).await.expect("it writes to nobody for ever")
}

#[tokio::test]
async fn messages_that_came_are_received_before_the_end_is() {
    let (us, peer) = pair(config(End::PeerCloses)).await;
    for number in 0..10 {
        peer.send_message(&[number], Deadline::within(NEVER)).unwrap();
    }
    let closing = tokio::spawn(async move { peer.close().await });
    let receiving = async {
        let mut count = 0;
        while us.receive_message().await.is_some() {
            count += 1;
        }
        count
    };
    assert_eq!(timeout(NEVER, receiving).await.expect("it waits after the peer's close"), 10);
    assert!(us.receive_message().await.is_none(), "nor does anything come later");
    us.close().await.unwrap();
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_peer_that_has_closed_is_asked_for_no_more_streams() {
    let (us, peer) = pair(config(End::PeerCloses)).await;
    let mut ours = us.open_one_way().await.unwrap();
    ours.write_all(b"held").await.unwrap();
    ours.flush().await.unwrap();
    let held = peer.accept_one_way().await.unwrap();
    cancel(us.open_one_way());
    let closing = tokio::spawn(async move { peer.close().await });
    let opened = timeout(NEVER, us.open_one_way()).await.expect("it waits for what never comes");
    assert_eq!(told(opened), "SessionClosed");
    drop((held, ours));
    us.close().await.unwrap();
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn without_messages_on_both_ends_none_is_waited_for() {
    let (us, peer) = pair(modern()).await;
    assert!(timeout(NEVER, us.receive_message()).await.expect("it waits").is_none());
    assert_eq!(peer.send_message(b"one", Deadline::within(NEVER)), Err(MessageError::NotTaken));
}

/// A dropped half ends even if the other half of its stream lives, so that no task waits for it.
#[tokio::test]
async fn a_half_of_a_stream_which_is_dropped_ends_without_the_other() {
    let (us, peer) = pair(config(End::PeerCloses)).await;
    let (mut ours, theirs) = stream_pair(&us, &peer).await;
    let (reader, mut writer) = theirs.into_split();
    drop(reader);
    assert_eq!(write_until_stopped(&mut ours).await, "Stopped { code: 0 }");
    writer.write_all(b"the other goes on").await.unwrap();
    writer.shutdown().await.unwrap();
    let mut received = String::new();
    ours.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "the other goes on");
    drop((ours, writer));

    let (mut ours, theirs) = stream_pair(&us, &peer).await;
    let (mut reader, writer) = theirs.into_split();
    drop(writer);
    assert_eq!(told(timeout(NEVER, ours.read_u8()).await.expect("its writer is gone")), "Reset { code: 0 }");
    ours.write_all(b"nor does this one").await.unwrap();
    ours.shutdown().await.unwrap();
    received.clear();
    reader.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "nor does this one");
    let closing = tokio::join!(timeout(NEVER, us.close()), timeout(NEVER, peer.close()));
    assert!(matches!(closing, (Ok(Ok(())), Ok(Ok(())))), "{closing:?}");
}

/// A session of which only a stream handle is left cannot accept streams: new writers of the peer must be stopped.
#[tokio::test]
async fn what_nobody_can_accept_any_more_is_refused() {
    let (us, peer) = pair(config(End::PeerCloses)).await;
    let (ours, mut theirs) = stream_pair(&us, &peer).await;
    let mut early = us.open_one_way().await.unwrap();
    fill(&mut early);
    drop(peer);
    assert_eq!(write_until_stopped(&mut early).await, "Stopped { code: 0 }");
    drop(early);
    let mut late = us.open_stream().await.unwrap();
    assert_eq!(write_until_stopped(&mut late).await, "Stopped { code: 0 }");
    drop((ours, late));
    let closing = tokio::spawn(async move { us.close().await });
    let mut rest = Vec::new();
    assert_eq!(told(theirs.read_to_end(&mut rest).await), "Reset { code: 0 }");
    drop(theirs);
    // The peer has dropped all handles without closing.
    let closed = timeout(NEVER, closing).await.expect("it waits for a reader that is gone").unwrap();
    assert_eq!(told(closed), "ConnectionReset");
}

#[tokio::test]
async fn a_session_that_a_stream_gives_again_accepts_what_the_peer_opens() {
    let (us, peer) = pair(config(End::PeerCloses)).await;
    let (ours, _theirs) = stream_pair(&us, &peer).await;
    drop(us);
    let us = ours.session().unwrap();
    let mut opened = peer.open_stream().await.unwrap();
    opened.write_all(b"hello").await.unwrap();
    opened.flush().await.unwrap();
    assert!(us.accept_stream().await.is_some(), "the session lives, and somebody accepts");
}

#[tokio::test]
async fn what_waits_for_an_endpoint_ends_with_what_drives_it() {
    let silent = std::net::UdpSocket::bind(local()).unwrap();
    let address = silent.local_addr().unwrap();
    let (to_test, bound) = oneshot::channel();
    let (driver, driven) = oneshot::channel::<()>();
    let driving = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            to_test.send(Endpoint::bind(local(), Some(config(End::Silence).into())).unwrap()).unwrap();
            assert!(driven.await.is_err());
        });
    });
    let endpoint = bound.await.unwrap();
    let mut waiting = Waiting { tasks: Vec::new(), begun: Arc::default() };
    let connected =
        |result: Result<Session, ConnectError>| result.map_or_else(|error| format!("{error:?}"), |_| "ok".into());
    let it = endpoint.clone();
    waiting.begin("connect", move || async move {
        cancel(it.connect_session(address, modern()));
        connected(it.connect_session(address, modern()).await)
    });
    let it = endpoint.clone();
    waiting.begin("accept", || async move {
        cancel(it.accept());
        told_option(it.accept().await)
    });
    let it = endpoint.clone();
    waiting.begin("accept_session", || async move {
        cancel(it.accept_session());
        told_option(it.accept_session().await)
    });
    waiting.begin("wait_idle", || async move {
        endpoint.wait_idle().await;
        "ok".to_owned()
    });
    waiting.settled().await;
    drop(driver);
    assert_ends(
        waiting.ended(&["connect", "accept", "accept_session", "wait_idle"]).await,
        &[("connect", "Connection(Aborted)"), ("accept", "none"), ("accept_session", "none"), ("wait_idle", "ok")],
    );
    join(driving).await;
}

/// Starts calls that wait in their own threads. Returns their results.
fn blocking_calls(us: &blocking::Session) -> mpsc::Receiver<(&'static str, String)> {
    type Call = Box<dyn FnOnce(blocking::Session) -> String + Send>;
    let [mut read, mut write, mut shut] = [(); 3].map(|()| us.open_stream().unwrap());
    let held = us.open_one_way().unwrap();
    let calls: [(&'static str, Call); 11] = [
        ("read", Box::new(move |_| told(read.read(&mut [0; 9])))),
        (
            "write",
            Box::new(move |_| told(iter::repeat_with(|| write.write(&[7; 1 << 16])).find(Result::is_err).unwrap())),
        ),
        ("shutdown", Box::new(move |_| told(shut.write_all(&[7; 1 << 20]).and_then(|()| shut.shutdown())))),
        ("open_stream", Box::new(|us| told(us.open_stream()))),
        ("open_one_way", Box::new(|us| told(us.open_one_way()))),
        ("stopped", Box::new(move |_| told_stopped(held.stopped()))),
        ("accept_stream", Box::new(|us| told_option(us.accept_stream()))),
        ("accept_one_way", Box::new(|us| told_option(us.accept_one_way()))),
        ("receive_message", Box::new(|us| told_option(us.receive_message()))),
        ("closed", Box::new(|us| us.closed().map_or_else(|| "none".to_owned(), |error| format!("{error:?}")))),
        (
            "changed",
            Box::new(|us| {
                let mut watch = us.watch_path();
                while watch.changed().is_some() {}
                "none".to_owned()
            }),
        ),
    ];
    let (sender, receiver) = mpsc::channel();
    for (name, call) in calls {
        let (us, sender) = (us.clone(), sender.clone());
        thread::spawn(move || sender.send((name, call(us))));
    }
    receiver
}

#[test]
fn an_end_by_an_error_ends_every_blocking_call_with_it() {
    for (end, kind, error) in [
        (End::PeerDrops, "ConnectionReset", "Reset"),
        (End::PeerAborts, "ConnectionReset", "EndedByPeer { error: 7 }"),
        (End::WeAbort, "ConnectionAborted", "Aborted"),
        (End::Silence, "TimedOut", "TimedOut"),
    ] {
        let ((to_us, address), (accepts, accepted)) = (oneshot::channel(), oneshot::channel());
        let (ends, to_peer) = oneshot::channel();
        let peer = thread::spawn(move || peer(config(end), (to_us, accepts), to_peer));
        let address = address.blocking_recv().unwrap();
        let slow = config(end).with_rate(Rate::Fixed { rate_bps: 1_000_000 });
        let us = blocking::Session::connect(address, slow).unwrap();
        accepted.blocking_recv().unwrap();
        let calls = blocking_calls(&us);
        if end == End::WeAbort {
            us.abort();
        }
        ends.send(end).unwrap();
        let ended: BTreeMap<_, _> = iter::from_fn(|| calls.recv_timeout(NEVER).ok()).collect();
        assert_eq!(ended, by_error(kind, error), "{end:?}");
        assert_eq!((told(us.close()), us.accept_stream().is_none()), (kind.to_owned(), true), "{end:?}");
        drop(us);
        peer.join().unwrap();
    }
}
