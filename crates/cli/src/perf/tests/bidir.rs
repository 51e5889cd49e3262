//! Tests: bidirectional measurements, and hostile peers in memory on a paused clock.

use std::time::Duration;

use dfcp_files::limits::{RECEIVER_SILENCE_MAX, SENDER_SILENCE_MAX};
use dfcp_files::transport::Streams;
use dfcp_files::transport::memory::{self, Memory};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::limits::{DATA_BYTES_MAX, PERF_STREAMS_MAX};
use tokio::time::{Instant, sleep};

use super::streams::connection;
use super::*;
use crate::limits::{PERF_OVERTIME_MAX, PERF_TAIL_MAX};
use crate::perf::Side;
use crate::perf::bidir::Both;
use crate::perf::bidir::shown::{self, BothIntervals};
use crate::session_error::SessionError;

fn both(streams: u16, bytes: u64) -> Request {
    Request { direction: Direction::Both, streams, ..request(false, bytes) }
}

async fn serve_both<T: Transport>(connection: T) -> Result<Both, SessionError> {
    let served = server::session(connection, &Parameters::default()).await?;
    let Outcome::Both(_, both) = served else { panic!("{served:?}") };
    Ok(*both)
}

#[test]
fn both_sides_agree_on_what_arrived_both_ways() {
    for (streams, bytes) in [(1, 0), (1, 1), (2, 700_000), (8, 1_000_001), (PERF_STREAMS_MAX, 3_000_000)] {
        let request = both(streams, bytes);
        let (client, server) = run(async {
            let (here, there) = connection().await;
            tokio::join!(client::both_session(here, &request, |_| {}), serve_both(there))
        });
        let (client, server) = (client.unwrap(), server.unwrap());
        for [here, there] in [[client.to_server, server.to_server], [client.to_client, server.to_client]] {
            assert_eq!((here.bytes, there.bytes), (bytes, bytes), "{streams} streams");
            assert_eq!(here.seconds, there.seconds, "{streams} streams");
            assert!(here.path.unwrap().bytes_acknowledged >= bytes, "{streams} streams: {here:?}");
        }
    }
}

#[test]
fn both_directions_end_when_their_time_is_up() {
    let request = Request { duration: Duration::from_millis(700), bytes_max: None, ..both(3, 0) };
    let mut heard = Vec::new();
    let (client, server) = run(async {
        let (here, there) = connection().await;
        tokio::join!(client::both_session(here, &request, |both| heard.push(*both)), serve_both(there))
    });
    let (client, server) = (client.unwrap(), server.unwrap());
    for [here, there] in [[client.to_server, server.to_server], [client.to_client, server.to_client]] {
        assert_eq!((here.bytes, here.seconds), (there.bytes, 0.7));
        assert!(here.bytes > 1_000_000 && here.path.is_some(), "{here:?}");
    }
    let is_growing =
        heard.is_sorted_by_key(|both| both.to_server.bytes) && heard.is_sorted_by_key(|both| both.to_client.bytes);
    assert!(is_growing && heard.len() > 1, "{heard:?}");
}

#[test]
fn a_direction_ends_before_the_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let client = runtime.block_on(async {
        let (here, there) = memory::connection_both_ways(1, 1 << 20);
        let request = Request { duration: Duration::from_secs(20), ..both(1, 1000) };
        // The peer takes ten seconds for its data; this side sends its own data at once.
        let slow = async {
            let mut peer = Peer::new(there);
            peer.say(&Service::Perf.preamble()).await;
            let mut stream = peer.beside.open().await.unwrap().unwrap();
            peer.take(1000).await;
            peer.count(Count { stage: Stage::Running, bytes: 1000, elapsed_us: 1 }).await;
            peer.hear_end().await;
            peer.count(Count { stage: Stage::Ended, bytes: 1000, elapsed_us: 1 }).await;
            for _ in 0..9 {
                stream.write_all(&[7; 100]).await.unwrap();
                sleep(Duration::from_secs(1)).await;
            }
            // The end arrives between two reports.
            stream.write_all(&[7; 100]).await.unwrap();
            sleep(Duration::from_millis(600)).await;
            stream.shutdown().await.unwrap();
            peer.say(&END).await;
            peer.stay().await;
        };
        let mut intervals = BothIntervals::default();
        let mut lines = Vec::new();
        let measure = client::both_session(here, &request, |both| lines.extend(intervals.advance(both)));
        let (client, ()) = tokio::join!(measure, slow);
        assert_eq!(lines.iter().filter(|line| line.starts_with("to client")).count(), 9, "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("nothing heard")), "{lines:?}");
        client.unwrap()
    });
    assert_eq!((client.to_server.bytes, client.to_client.bytes), (1000, 1000));
    assert_eq!(client.to_client.seconds.round(), 9.0);
}

#[test]
fn a_connection_without_streams_cannot_have_both_directions() {
    let asked = both(1, 1000);
    let (client, server) = run(async {
        let (here, _there) = duplex(1000);
        let client = client::both_session(here, &asked, |_| {}).await;
        let (mut here, there) = duplex(1000);
        let mut opening = Service::Perf.preamble().to_vec();
        asked.encode(&mut opening);
        here.write_all(&opening).await.unwrap();
        (client, serve_both(there).await)
    });
    assert!(client.unwrap_err().to_string().contains("leave --bidir away"));
    assert!(matches!(server, Err(SessionError::Unsuited(_))), "{server:?}");
}

#[test]
fn a_busy_server_says_so_before_any_data() {
    let (here, there) = memory::connection_both_ways(0, 10_000);
    let busy = refuse(there, Service::Perf, Failure::new(FailureCode::Busy, "busy"));
    let request = both(1, 1000);
    let (client, ()) = run(async { tokio::join!(client::both_session(here, &request, |_| {}), busy) });
    assert!(matches!(&client, Err(SessionError::Refused(why)) if why.sentence == "busy"), "{client:?}");
}

const END: [u8; 9] = [kind::END, 0, 0, 0, 4, 0, 0, 0, 0];

/// Peer end of a connection that violates the protocol.
struct Peer {
    first: Memory,
    beside: Arc<dyn Streams>,
}

impl Peer {
    fn new(first: Memory) -> Self {
        let beside = first.streams().unwrap();
        Self { first, beside }
    }

    /// Sends bytes; ignores errors, as the victim may have ended already.
    async fn say(&mut self, bytes: &[u8]) {
        let _ = self.first.write_all(bytes).await;
    }

    async fn count(&mut self, count: Count) {
        let mut bytes = Vec::new();
        count.encode(&mut bytes);
        self.say(&bytes).await;
    }

    /// Reads all data of the victim's stream.
    async fn take(&mut self, bytes: usize) {
        let mut stream = self.beside.accept().await.unwrap();
        let mut data = Vec::new();
        stream.read_to_end(&mut data).await.unwrap();
        assert_eq!(data.len(), bytes);
    }

    /// Reads up to the victim's END.
    async fn hear_end(&mut self) {
        let mut heard = Vec::new();
        while !heard.ends_with(&END) {
            heard.push(self.first.read_u8().await.unwrap());
        }
    }

    /// Reads until the victim has ended.
    async fn stay(&mut self) {
        let _ = self.first.read_to_end(&mut Vec::new()).await;
    }
}

/// Runs a side whose peer opens correctly and then attacks; returns the outcome and duration.
fn attacked(
    side: Side,
    request: Request,
    attack: impl AsyncFnOnce(&mut Peer),
) -> (Result<Both, SessionError>, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (here, there) = memory::connection_both_ways(4, 100_000);
        let mut peer = Peer::new(there);
        let mut opening = Service::Perf.preamble().to_vec();
        if side == Side::Server {
            request.encode(&mut opening);
        }
        peer.say(&opening).await;
        let started = Instant::now();
        let victim = async {
            match side {
                Side::Client => client::both_session(here, &request, |_| {}).await,
                Side::Server => serve_both(here).await,
            }
        };
        let attack = async {
            attack(&mut peer).await;
            drop(peer);
        };
        let (victim, ()) = tokio::join!(victim, attack);
        (victim, started.elapsed())
    })
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

#[test]
fn a_peer_that_counts_what_cannot_be_is_not_believed() {
    let count = |stage, bytes, elapsed_us| Count { stage, bytes, elapsed_us };
    let hour_us = 3_600_000_000;
    for (what, claims) in [
        ("more than was sent", &[count(Stage::Running, 1001, 1)][..]),
        ("more when the time is up", &[count(Stage::TimeUp, 1001, hour_us)]),
        ("an end without all", &[count(Stage::Ended, 999, 1)]),
        ("an end with more", &[count(Stage::Ended, 1001, 1)]),
        ("fewer than before", &[count(Stage::Running, 1000, 1), count(Stage::Running, 999, 2)]),
        ("longer than it lasts", &[count(Stage::Running, 0, hour_us + 1)]),
        ("years", &[count(Stage::Running, 0, u64::MAX)]),
    ] {
        for side in SIDES {
            let (victim, _) = attacked(side, both(1, 1000), async |peer| {
                peer.take(1000).await;
                for &claim in claims {
                    peer.count(claim).await;
                }
                peer.stay().await;
            });
            let is_found = matches!(victim, Err(SessionError::Protocol(ProtocolError::Summary)));
            assert!(is_found, "{what}, {side:?}: {victim:?}");
        }
    }
}

#[test]
fn an_end_is_not_counted_before_it() {
    for side in SIDES {
        // The peer claims the end of the data after it has read 100 bytes, while more follows.
        let (victim, _) = attacked(side, both(1, 1_000_000), async |peer| {
            let mut stream = peer.beside.accept().await.unwrap();
            stream.read_exact(&mut [0; 100]).await.unwrap();
            peer.count(Count { stage: Stage::Ended, bytes: 131_072, elapsed_us: 1 }).await;
            peer.stay().await;
        });
        assert!(matches!(victim, Err(SessionError::Protocol(ProtocolError::Summary))), "{side:?}: {victim:?}");
    }
}

#[test]
fn frames_where_none_are_allowed_are_refused() {
    let mut report = Vec::new();
    Count { stage: Stage::TimeUp, bytes: 0, elapsed_us: 1 }.encode(&mut report);
    let mut path = Vec::new();
    encode_path(&PathSample::default(), &mut path);
    let mut again = Vec::new();
    both(1, 1).encode(&mut again);
    let too_long = [&[kind::DATA][..], &(DATA_BYTES_MAX as u32 + 1).to_be_bytes()].concat();
    for (what, says, sides) in [
        ("data on the first stream", vec![kind::DATA, 0, 0, 0, 1, 7], &SIDES[..]),
        ("a count behind the last", [&report[..], &report].concat(), &SIDES),
        ("two ends", [END, END].concat(), &SIDES),
        ("figures of a client", path.clone(), &[Side::Server]),
        ("figures behind the end", [&END[..], &path].concat(), &SIDES),
        ("figures cut short", vec![kind::PERF_PATH, 0, 0, 0, 1, 0], &[Side::Client]),
        ("a second request", again, &SIDES),
        ("an unknown frame", vec![0x99, 0, 0, 0, 0], &SIDES),
        ("a count cut short", vec![kind::PERF_REPORT, 0, 0, 0, 1, 0], &SIDES),
        ("a frame beyond its limit", too_long, &SIDES),
    ] {
        for &side in sides {
            let (victim, took) = attacked(side, both(1, 1000), async |peer| {
                peer.say(&says).await;
                peer.stay().await;
            });
            assert!(matches!(victim, Err(SessionError::Protocol(_))), "{what}, {side:?}: {victim:?}");
            // The side fails immediately, or after the grace period for the peer's reason.
            assert!(took <= Duration::from_secs(3), "{what}, {side:?}: {took:?}");
        }
    }
}

#[test]
fn a_peer_that_opens_more_streams_than_agreed_is_refused() {
    for side in SIDES {
        let (victim, _) = attacked(side, both(2, 1000), async |peer| {
            let mut streams = Vec::new();
            for _ in 0..3 {
                streams.push(peer.beside.open().await.unwrap().unwrap());
            }
            peer.stay().await;
        });
        let is_found = matches!(victim, Err(SessionError::Protocol(ProtocolError::TooManyStreams)));
        assert!(is_found, "{side:?}: {victim:?}");
    }
}

/// Cases: silence or an endless count on the first stream; no data stream, or an empty one.
#[test]
fn a_peer_without_data_is_not_waited_for_for_ever() {
    let request = Request { duration: Duration::from_secs(1), ..both(1, 1_000_000) };
    for (side, opens, counts) in SIDES.into_iter().flat_map(|side| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(opens, counts)| (side, opens, counts))
    }) {
        let (victim, took) = attacked(side, request, async |peer| {
            let _stream = if opens { peer.beside.open().await.unwrap() } else { None };
            let endless = async {
                while counts && peer.first.write_all(&running()).await.is_ok() {
                    sleep(Duration::from_millis(250)).await;
                }
                peer.stay().await;
            };
            endless.await;
        });
        assert!(matches!(victim, Err(SessionError::Silent { .. })), "{side:?} {opens} {counts}: {victim:?}");
        let most = request.duration + PERF_OVERTIME_MAX + RECEIVER_SILENCE_MAX + Duration::from_secs(3);
        assert!(took <= most, "{side:?} {opens} {counts}: {took:?}");
    }
}

fn running() -> Vec<u8> {
    let mut bytes = Vec::new();
    Count::default().encode(&mut bytes);
    bytes
}

#[test]
fn a_peer_that_has_counted_all_and_sends_nothing_is_not_waited_for_for_ever() {
    for side in SIDES {
        let (victim, took) = attacked(side, both(1, 1000), async |peer| {
            peer.take(1000).await;
            peer.count(Count { stage: Stage::TimeUp, bytes: 1000, elapsed_us: 1 }).await;
            peer.stay().await;
        });
        assert!(matches!(victim, Err(SessionError::Silent { .. })), "{side:?}: {victim:?}");
        assert!(took <= SENDER_SILENCE_MAX + Duration::from_secs(3), "{side:?}: {took:?}");
    }
}

#[test]
fn a_peer_without_an_end_changes_no_count() {
    let request = Request { duration: Duration::from_secs(1), ..both(1, 1000) };
    for side in SIDES {
        let (victim, took) = attacked(side, request, async |peer| {
            let mut stream = peer.beside.open().await.unwrap().unwrap();
            stream.write_all(&[7; 900]).await.unwrap();
            peer.take(1000).await;
            peer.hear_end().await;
            peer.count(Count { stage: Stage::Ended, bytes: 1000, elapsed_us: 1 }).await;
            // Data after the end is not counted.
            sleep(Duration::from_secs(2)).await;
            stream.write_all(&[7; 900]).await.unwrap();
            peer.stay().await;
        });
        let victim = victim.unwrap();
        let sent_and_received = match side {
            Side::Client => (victim.to_server.bytes, victim.to_client.bytes),
            Side::Server => (victim.to_client.bytes, victim.to_server.bytes),
        };
        assert_eq!(sent_and_received, (1000, 900), "{side:?}");
        assert!(took <= Duration::from_secs(1) + PERF_TAIL_MAX + Duration::from_millis(500), "{side:?}: {took:?}");
    }
}

#[test]
fn a_peer_that_stops_half_way_is_an_error() {
    for side in SIDES {
        for stop in ["at once", "inside a frame", "inside its data", "first stream only", "reset"] {
            let (victim, took) = attacked(side, both(1, 1000), async |peer| {
                let mut stream = peer.beside.open().await.unwrap().unwrap();
                match stop {
                    "inside a frame" => peer.say(&running()[..7]).await,
                    "inside its data" => {
                        stream.write_all(&[7; 500]).await.unwrap();
                        peer.say(&running()).await;
                    }
                    "first stream only" => {
                        peer.say(&running()).await;
                        peer.first.shutdown().await.unwrap();
                        peer.stay().await;
                    }
                    "reset" => {
                        stream.write_all(&[7; 500]).await.unwrap();
                        drop(stream);
                        peer.stay().await;
                    }
                    _ => {}
                }
            });
            let is_broken = matches!(victim, Err(SessionError::PeerClosed | SessionError::Connection(_)));
            assert!(is_broken, "{stop}, {side:?}: {victim:?}");
            assert!(took <= Duration::from_secs(3), "{stop}, {side:?}: {took:?}");
        }
    }
}

#[test]
fn a_peer_that_says_why_it_stops_is_heard() {
    let (victim, _) = attacked(Side::Client, both(1, 1000), async |peer| {
        let mut refusal = Vec::new();
        ToSender::Refused(Failure::new(FailureCode::Stopped, "stopped")).encode(&mut refusal);
        // The broken data stream must not be the reported reason.
        drop(peer.beside.open().await.unwrap());
        sleep(Duration::from_millis(1)).await;
        peer.say(&refusal).await;
    });
    assert!(matches!(&victim, Err(SessionError::Refused(why)) if why.sentence == "stopped"), "{victim:?}");
}

fn at(seconds: f64, bytes: u64) -> Measured {
    Measured { bytes, seconds, ..Measured::default() }
}

#[test]
fn each_interval_has_a_line_for_each_direction_in_the_same_order() {
    let mut intervals = BothIntervals::default();
    let now = |to_server: f64, to_client: f64| Both {
        to_server: at(to_server, 1_000_000),
        to_client: at(to_client, 1_000_000),
    };
    // The counts to the server lag by a round trip, and at one point (2.75, 4.0) by more than an interval.
    let lines: Vec<_> =
        [(0.75, 1.0), (1.0, 1.0), (1.75, 2.0), (2.0, 2.0), (2.75, 3.0), (2.75, 3.0), (2.75, 4.0), (4.0, 4.0)]
            .into_iter()
            .map(|(to_server, to_client)| intervals.advance(&now(to_server, to_client)).len())
            .collect();
    assert_eq!(lines, [0, 2, 0, 2, 0, 1, 0, 2]);
    let names: Vec<_> = intervals.finish(&now(4.5, 4.75)).iter().map(|line| line[..9].to_owned()).collect();
    assert_eq!(names, ["to server", "to client"]);
}

#[test]
fn json_has_the_figures_of_one_direction_for_each() {
    let mut intervals = BothIntervals::default();
    let path = Some(PathSample { datagrams_sent: 7, ..PathSample::default() });
    let first = Both { to_server: at(1.0, 1000), to_client: at(1.0, 5000) };
    intervals.advance(&first);
    let end = Both { to_server: at(2.0, 3000), to_client: Measured { path, ..at(1.5, 6000) } };
    intervals.finish(&end);
    let object = shown::summary("peer", &both(3, 1), &end, &intervals);
    assert_eq!((&object["bidir"], &object["streams"], &object["peer"]), (&true.into(), &3.into(), &"peer".into()));
    let of = |direction: &str| {
        let object = &object[direction];
        let bytes: Vec<_> =
            object["intervals"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).collect();
        (
            bytes,
            object["bytes"].as_u64().unwrap(),
            object["seconds"].as_f64().unwrap(),
            object["goodput_bps"].as_f64().unwrap(),
        )
    };
    assert_eq!(of("to_server"), (vec![1000, 2000], 3000, 2.0, 12_000.0));
    assert_eq!(of("to_client"), (vec![5000, 1000], 6000, 1.5, 32_000.0));
    assert_eq!(object["to_client"]["total"]["path"]["datagrams_sent"], 7);
    // One-way measurements have the same JSON members.
    let mut one = intervals::Intervals::default();
    one.advance(&first.to_server);
    one.finish(&end.to_server);
    let one = client::summary("peer", &request(false, 1), &end.to_server, &one);
    for (name, value) in object["to_server"].as_object().unwrap() {
        assert_eq!(&one[name], value, "{name}");
    }
}
