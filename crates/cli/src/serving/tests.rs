//! Tests: accept loop over in-memory connections.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use dfcp_files::Seal;
use dfcp_files::reading::{read_frame, read_preamble};
use dfcp_framing::files::ToSender;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::admission::Ways;
use crate::admission::codes::News;
use crate::admission::tests::{HASH, Sealed, admission, codes, connection, key, other, ways};
use crate::audit::tests::Disk;
use crate::identity::{AuthorizedList, ConfigDir};
use crate::limits::{OPENING_MAX, PAIRING_WRONG_MAX, SESSION_SILENCE_MAX, UNADMITTED_MAX};
use crate::pairing::{Code, pair_as_sender};

/// In-memory connection from an address.
pub(crate) struct From(Sealed, IpAddr);

impl Transport for From {
    fn peer_address(&self) -> Option<IpAddr> {
        Some(self.1)
    }

    fn seal(&self) -> Option<Seal> {
        self.0.seal()
    }
}

impl AsyncRead for From {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for From {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Acceptor of the connections in the channel; it never fails.
pub(crate) struct Door(mpsc::UnboundedReceiver<From>);

impl Acceptor for Door {
    type Connection = From;

    async fn accept(&mut self) -> io::Result<(From, String)> {
        match self.0.recv().await {
            Some(from) => {
                let peer = from.1.to_string();
                Ok((from, peer))
            }
            None => std::future::pending().await,
        }
    }
}

/// Callers of the listener.
pub(crate) struct Street(mpsc::UnboundedSender<From>);

impl Street {
    pub(crate) fn new() -> (Self, Door) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Door(receiver))
    }

    /// Connects from 192.0.2.`host` with the key of `seed`.
    pub(crate) fn connect(&self, host: u8, seed: u8) -> DuplexStream {
        let (ours, theirs) = connection(Some(key(seed)));
        assert!(self.0.send(From(theirs, [192, 0, 2, host].into())).is_ok());
        ours
    }

    pub(crate) async fn try_code(&self, code: &Code) -> (DuplexStream, bool) {
        let mut ours = self.connect(9, 2);
        let paired = pair_as_sender(&mut ours, code, &HASH).await.is_ok();
        (ours, paired)
    }
}

const SERVING: Serving =
    Serving { service: Service::Files, peers_max: 16, once: false, returns_max: Duration::ZERO, json: true };

/// Runs [`serve`] without a stop request.
async fn serve_all<F, S>(
    door: Door,
    serving: Serving,
    admission: Option<Admission>,
    session: F,
) -> io::Result<ServingEnd>
where
    F: Fn(Opening<From>, String) -> S,
    S: Future + Send + 'static,
    S::Output: Into<SessionEnd>,
{
    let monitor = Monitor::new(Service::Files, None);
    serve(door, serving, admission, &monitor, &Stop::never(), |opening, it| session(opening, it.peer().to_owned()))
        .await
}

pub(crate) fn last_code(told: &Mutex<Vec<News>>) -> Code {
    codes(told).last().unwrap().0.clone()
}

/// Runs all tasks that do not wait for time.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn who_guesses_codes_until_there_are_none_ends_nobodys_session() {
    let (street, door) = Street::new();
    let (admission, told) = admission(Ways { codes: true, authorized: Arc::default(), ..ways() });
    let may_end = Arc::new(Notify::new());
    let (ended, mut log) = mpsc::unbounded_channel();
    let session = {
        let may_end = Arc::clone(&may_end);
        move |mut opening: Opening<From>, _| {
            let (may_end, ended) = (Arc::clone(&may_end), ended.clone());
            async move {
                may_end.notified().await;
                assert!(ended.send(opening.read_u8().await.ok()).is_ok());
                true
            }
        }
    };
    let mut serving = tokio::spawn(serve_all(door, SERVING, Some(admission), session));
    let (mut transfer, paired) = street.try_code(&last_code(&told)).await;
    assert!(paired);
    settle().await;
    for _ in 0..PAIRING_WRONG_MAX {
        assert!(!street.try_code(&other(&last_code(&told))).await.1);
    }
    assert_eq!(told.lock().unwrap().last(), Some(&News::Closed));
    assert!(!street.try_code(&last_code(&told)).await.1, "nobody enters any more");
    // This timeout is long after the strangers' rejection.
    assert!(tokio::time::timeout(Duration::from_secs(3600), &mut serving).await.is_err(), "the transfer goes on");
    transfer.write_u8(42).await.unwrap();
    may_end.notify_one();
    let error = serving.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("too many wrong codes"), "{error}");
    assert_eq!(log.try_recv(), Ok(Some(42)), "it ended by itself, on a living connection");
}

/// With keys only, an empty list keeps the listener running: the list may be repaired.
#[tokio::test(start_paused = true)]
async fn a_list_which_names_nobody_for_a_while_ends_no_listener() {
    let (street, door) = Street::new();
    let folder = tempfile::tempdir().unwrap();
    let directory = ConfigDir::at(&folder.path().join("dfcp")).unwrap();
    directory.create().unwrap();
    let (file, friends) = (tempfile::NamedTempFile::new_in(directory.path()).unwrap(), format!("{}\n", key(1)));
    let write = |content: &str| std::fs::write(file.path(), content).unwrap();
    write(&friends);
    let authorized = Arc::new(AuthorizedList::open(file.path(), true).unwrap());
    let (admission, _) = admission(Ways { authorized, ..ways() });
    let (entered, mut log) = mpsc::unbounded_channel();
    let may_end = Arc::new(Notify::new());
    let session = {
        let may_end = Arc::clone(&may_end);
        move |opening: Opening<From>, _| {
            let may_end = Arc::clone(&may_end);
            assert!(entered.send(()).is_ok());
            async move {
                may_end.notified().await;
                drop(opening);
                true
            }
        }
    };
    let serving = tokio::spawn(serve_all(door, SERVING, Some(admission), session));
    for trouble in ["# nobody\n", "nonsense\n", ""] {
        let mut friend = street.connect(1, 1);
        friend.write_all(&Service::Files.preamble()).await.unwrap();
        settle().await;
        assert_eq!(log.try_recv(), Ok(()), "admitted before {trouble:?}");
        write(trouble);
        // At the end of a session, the loop checks that peers can still be admitted.
        may_end.notify_one();
        settle().await;
        assert!(!serving.is_finished(), "{trouble:?} is no end");
        write(&friends);
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn one_silent_host_turns_nobody_away() {
    let (street, door) = Street::new();
    // The key of seed 1 is authorized.
    let (admission, _) = admission(ways());
    let (entered, mut log) = mpsc::unbounded_channel();
    let session = move |_, peer: String| {
        assert!(entered.send(peer).is_ok());
        std::future::ready(true)
    };
    let serving = tokio::spawn(serve_all(door, SERVING, Some(admission), session));
    let mut silent: Vec<_> = (0..UNADMITTED_MAX).map(|_| street.connect(1, 2)).collect();
    settle().await;
    let mut honest: Vec<_> = (2..12).map(|host| street.connect(host, 1)).collect();
    settle().await;
    for ours in &mut honest {
        ours.write_all(&Service::Files.preamble()).await.unwrap();
    }
    settle().await;
    let mut peers: Vec<String> = std::iter::from_fn(|| log.try_recv().ok()).collect();
    peers.sort_by_key(|peer| peer.rsplit('.').next().and_then(|last| last.parse::<u8>().ok()));
    let expected: Vec<String> = (2..12).map(|host| format!("192.0.2.{host}")).collect();
    assert_eq!(peers, expected);
    // The silent host's oldest connections were displaced; the others stay.
    for (i, ours) in silent.iter_mut().enumerate() {
        let gone = tokio::time::timeout(Duration::from_millis(1), ours.read_u8()).await.is_ok();
        assert_eq!(gone, i < honest.len(), "{i}");
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn when_every_place_is_in_use_a_newcomer_is_told() {
    let (street, door) = Street::new();
    let (admission, _) = admission(Ways { codes: true, ..ways() });
    let serving = tokio::spawn(serve_all(door, SERVING, Some(admission), |_, _| std::future::ready(true)));
    // Each connection has its own address and is in the middle of a pairing.
    let mut busy: Vec<_> = (0..UNADMITTED_MAX).map(|host| street.connect(host as u8, 2)).collect();
    for ours in &mut busy {
        ours.write_all(b"DFCPK\x01\x01\x00").await.unwrap();
    }
    settle().await;
    let mut newcomer = street.connect(200, 1);
    read_preamble(&mut newcomer, Service::Files).await.unwrap();
    let mut body = Vec::new();
    let kind = read_frame(&mut newcomer, &mut body).await.unwrap().unwrap();
    let ToSender::Refused(failure) = ToSender::decode(kind, &body).unwrap() else { panic!("not refused") };
    assert_eq!(failure.code, FailureCode::Busy);
    // A silent connection times out, which frees its place.
    tokio::time::sleep(OPENING_MAX * 2).await;
    let mut later = street.connect(200, 2);
    later.write_all(&Service::Files.preamble()).await.unwrap();
    read_preamble(&mut later, Service::Files).await.unwrap();
    let kind = read_frame(&mut later, &mut body).await.unwrap().unwrap();
    let ToSender::Refused(failure) = ToSender::decode(kind, &body).unwrap() else { panic!("not refused") };
    assert_eq!(failure.code, FailureCode::NotAdmitted, "looked at, and not turned away unseen");
    serving.abort();
}

#[tokio::test]
async fn past_the_refusals_a_connection_is_dropped_without_a_word() {
    let mut refusals = Refusals::new(Service::Files, Monitor::new(Service::Files, None));
    let mut all = Vec::new();
    for _ in 0..=REFUSALS_MAX {
        let (ours, Sealed(stream, _)) = connection(Some(key(1)));
        refusals.turn_away(stream, "somebody", Cause::Busy);
        all.push(ours);
    }
    assert_eq!(refusals.tasks.len(), REFUSALS_MAX);
    while refusals.tasks.join_next().await.is_some() {}
    for (i, ours) in all.iter_mut().enumerate() {
        assert_eq!(read_preamble(ours, Service::Files).await.is_ok(), i < REFUSALS_MAX, "{i}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_peers_than_are_served_at_once_are_told() {
    let (street, door) = Street::new();
    let one = Serving { peers_max: 1, ..SERVING };
    let session = |held: Opening<From>, _| async move {
        std::future::pending::<()>().await;
        drop(held);
        true
    };
    let serving = tokio::spawn(serve_all(door, one, None, session));
    let mut served = street.connect(1, 1);
    settle().await;
    let mut further = street.connect(2, 1);
    read_preamble(&mut further, Service::Files).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), served.read_u8()).await.is_err(), "nothing is said to it yet");
    serving.abort();
}

/// Regression test: sessions of a vanished sender held their places for half a minute.
#[tokio::test(start_paused = true)]
async fn a_key_with_many_sessions_leaves_places_to_others() {
    let (street, door) = Street::new();
    let session = |mut held: Opening<From>, _| async move {
        held.write_all(b"in").await.unwrap();
        std::future::pending::<()>().await;
        true
    };
    let serving = tokio::spawn(serve_all(door, SERVING, None, session));
    let mut held = Vec::new();
    let mut is_served = async |seed| {
        let mut peer = street.connect(seed, seed);
        peer.write_all(&Service::Files.preamble()).await.unwrap();
        let mut first = [0; 2];
        peer.read_exact(&mut first).await.unwrap();
        held.push(peer);
        first == *b"in"
    };
    for number in 0..16 {
        assert_eq!(is_served(1).await, number < 12, "{number}");
    }
    assert!(is_served(2).await);
    serving.abort();
}

/// Without a writable audit log, peers are refused and get the reason.
#[tokio::test(start_paused = true)]
async fn nobody_is_let_in_while_the_audit_log_cannot_be_written() {
    let (street, door) = Street::new();
    let disk = Disk::with_room(0);
    let monitor = Monitor::new(Service::Files, Some(disk.log()));
    let (admission, _) = admission(ways());
    let serving = tokio::spawn(async move {
        let session = |_, _| std::future::ready(true);
        serve(door, SERVING, Some(admission), &monitor, &Stop::never(), session).await
    });
    let mut refused = street.connect(1, 1);
    refused.write_all(&Service::Files.preamble()).await.unwrap();
    read_preamble(&mut refused, Service::Files).await.unwrap();
    let mut body = Vec::new();
    let kind = read_frame(&mut refused, &mut body).await.unwrap().unwrap();
    let ToSender::Refused(failure) = ToSender::decode(kind, &body).unwrap() else { panic!("not refused") };
    assert_eq!(failure.code, FailureCode::Busy);
    assert!(failure.to_string().contains("log"), "{failure}");
    disk.set_room(1 << 20);
    let mut welcome = street.connect(2, 1);
    welcome.write_all(&Service::Files.preamble()).await.unwrap();
    settle().await;
    serving.abort();
    let events: Vec<_> = disk.lines().into_iter().map(|line| line.unwrap()["event"].clone()).collect();
    assert_eq!(events, ["lines_lost", "session_start", "session_end"], "the refusal could not be written");
}

/// Session that stays silent, or that receives datagrams all the time. It ends when it is displaced, or with outcome
/// `end` after a second.
async fn watched(mut held: Opening<From>, told: Session, is_silent: bool, end: Option<SessionEnd>) -> SessionEnd {
    held.write_all(b"in").await.unwrap();
    told.note_silence(Duration::ZERO);
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    let mut left = 4;
    loop {
        tokio::select! {
            () = told.displaced() => return SessionEnd::Left,
            _ = ticks.tick() => {
                if !is_silent {
                    told.note_silence(Duration::ZERO);
                }
                left -= 1;
                if let Some(end) = end.filter(|_| left == 0) {
                    return end;
                }
            }
        }
    }
}

/// Returns true if the peer is served, false if it is refused as busy.
async fn is_served(peer: &mut DuplexStream) -> bool {
    let mut first = [0; 2];
    peer.read_exact(&mut first).await.unwrap();
    &first == b"in"
}

#[tokio::test(start_paused = true)]
async fn a_key_takes_over_the_place_of_its_own_silent_session_and_no_others() {
    for (is_silent, seed, expected) in [(true, 1, true), (false, 1, false), (true, 2, false)] {
        let (street, door) = Street::new();
        let one = Serving { peers_max: 1, ..SERVING };
        let monitor = Monitor::new(Service::Files, None);
        let serving = tokio::spawn(async move {
            serve(door, one, None, &monitor, &Stop::never(), |held, told| watched(held, told, is_silent, None)).await
        });
        let mut first = street.connect(1, 1);
        assert!(is_served(&mut first).await);
        let mut soon = street.connect(1, 1);
        assert!(!is_served(&mut soon).await, "it was heard a moment ago");
        tokio::time::sleep(SESSION_SILENCE_MAX).await;
        let mut again = street.connect(3, seed);
        assert_eq!(is_served(&mut again).await, expected, "{is_silent} {seed}");
        settle().await;
        let is_over = tokio::time::timeout(Duration::from_secs(1), first.read_u8()).await.is_ok();
        assert_eq!(is_over, expected, "the old session ends only then");
        // The place was transferred, not duplicated.
        let mut further = street.connect(4, 3);
        assert!(!is_served(&mut further).await);
        serving.abort();
    }
}

/// Serves one peer, whose sessions end as `ends` lists. `come` has the time (s) and the key seed of each connection.
/// Returns the result, its time in seconds, and true for each connection that was served.
async fn serve_one(ends: &'static [SessionEnd], come: &[(u64, u8)]) -> (bool, u64, Vec<bool>) {
    let (street, door) = Street::new();
    let one = Serving { once: true, returns_max: Duration::from_secs(100), ..SERVING };
    let monitor = Monitor::new(Service::Files, None);
    let began = Instant::now();
    let number = Arc::new(Mutex::new(0));
    let serving = tokio::spawn(async move {
        serve(door, one, None, &monitor, &Stop::never(), move |held, told| {
            let mut number = number.lock().unwrap();
            let end = ends[*number];
            *number += 1;
            watched(held, told, false, Some(end))
        })
        .await
    });
    let mut served = Vec::new();
    for (at, seed) in come {
        sleep_until(began + Duration::from_secs(*at)).await;
        let mut peer = street.connect(*seed, *seed);
        served.push(is_served(&mut peer).await);
        // Keep the connection open: the answer may still be in flight.
        tokio::spawn(async move { peer.read_to_end(&mut Vec::new()).await });
    }
    let ServingEnd::Once(outcome) = serving.await.unwrap().unwrap() else { panic!("stopped") };
    (outcome, began.elapsed().as_secs(), served)
}

#[tokio::test(start_paused = true)]
async fn a_server_of_one_peer_waits_for_that_and_for_nobody_else() {
    use SessionEnd::{Complete, Incomplete, Left, Lost};
    let (outcome, seconds, served) = serve_one(&[Lost, Complete], &[(0, 1), (10, 2), (80, 1)]).await;
    assert_eq!((outcome, served), (true, vec![true, false, true]));
    assert!(seconds <= 82, "{seconds}");
    let (outcome, seconds, _) = serve_one(&[Lost], &[(0, 1)]).await;
    assert!(!outcome && (100..=102).contains(&seconds), "{seconds}");
    let (outcome, seconds, _) = serve_one(&[Left], &[(0, 1)]).await;
    assert!(!outcome && (3..=5).contains(&seconds), "{seconds}");
    for end in [Incomplete, Complete] {
        let ends: &'static [SessionEnd] = if end == Complete { &[Complete] } else { &[Incomplete] };
        let (outcome, seconds, _) = serve_one(ends, &[(0, 1)]).await;
        assert_eq!((outcome, seconds <= 2), (end == Complete, true));
    }
}

/// Stops a listener and returns its result. Sessions end on the stop request, complete or not (`Some`), or have ended
/// before (`None`).
async fn stopped_with(ends: &[Option<bool>]) -> ServingEnd {
    let (street, door) = Street::new();
    let (ask, stop) = Stop::new();
    let monitor = Monitor::new(Service::Files, None);
    let (ends, heard) = (Arc::new(Mutex::new(ends.to_vec())), stop.clone());
    let connections = ends.lock().unwrap().len();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let session = move |_: Opening<From>, _| {
        let (end, stop, count) = (ends.lock().unwrap().pop().unwrap(), heard.clone(), Arc::clone(&count));
        async move {
            match end {
                // This session ends before the stop.
                None => {
                    count.fetch_add(1, Ordering::SeqCst);
                    false
                }
                Some(is_complete) => {
                    count.fetch_add(1, Ordering::SeqCst);
                    stop.requested().await;
                    is_complete
                }
            }
        }
    };
    let serving = tokio::spawn(async move { serve(door, SERVING, None, &monitor, &stop, session).await });
    let _held: Vec<_> = (0..connections).map(|it| street.connect(u8::try_from(it).unwrap(), 1)).collect();
    while begun.load(Ordering::SeqCst) < connections {
        settle().await;
    }
    ask.send(true).unwrap();
    serving.await.unwrap().unwrap()
}

async fn assert_stopped_with(ends: &[Option<bool>], under_way: usize) {
    assert_eq!(stopped_with(ends).await, ServingEnd::Stopped { under_way }, "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_is_stopped_knows_how_many_it_was_serving() {
    assert_stopped_with(&[], 0).await;
    // Only incomplete sessions count: earlier failures were reported, and complete sessions were not interrupted.
    assert_stopped_with(&[None, None], 0).await;
    assert_stopped_with(&[Some(true)], 0).await;
    assert_stopped_with(&[Some(false)], 1).await;
    assert_stopped_with(&[Some(false), Some(true), Some(false), None], 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_that_hear_of_the_end_before_their_listener_count_as_interrupted() {
    for _ in 0..100 {
        assert_stopped_with(&[Some(false), Some(true)], 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_for_one_that_is_stopped_has_not_done_its_work() {
    let once = Serving { once: true, ..SERVING };
    for (comes, is_complete, served) in [
        (false, false, ServingEnd::Stopped { under_way: 0 }),
        (true, false, ServingEnd::Stopped { under_way: 1 }),
        (true, true, ServingEnd::Once(true)),
    ] {
        let (street, door) = Street::new();
        let (ask, stop) = Stop::new();
        let (monitor, heard) = (Monitor::new(Service::Files, None), stop.clone());
        let session = move |_: Opening<From>, _| {
            let stop = heard.clone();
            async move {
                stop.requested().await;
                is_complete
            }
        };
        let serving = tokio::spawn(async move { serve(door, once, None, &monitor, &stop, session).await });
        let _held = comes.then(|| street.connect(1, 1));
        settle().await;
        ask.send(true).unwrap();
        assert_eq!(serving.await.unwrap().unwrap(), served);
    }
}
