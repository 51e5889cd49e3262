use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use dfcp_files::refuse;
use dfcp_files::transport::{DataDatagrams, FoundRate, Losses, PathSample, Phase, Transport, Wasted};
use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::ToSender;
use dfcp_framing::frame::{HEADER_BYTES, Service, kind};
use dfcp_framing::perf::{Count, Direction, Request, Stage};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, WriteHalf, duplex};
use tokio::sync::mpsc;

use super::server::Outcome;
use super::{Measured, client, intervals, server};
use crate::args::Parameters;
use crate::connection_text::rate_advice;
use crate::limits::PERF_AHEAD_BYTES_MIN;
use crate::path_frame::{decode_path, encode_path};
use crate::session_error::SessionError;

mod bidir;
mod messages;
mod parameters;
mod streams;

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Runs a server that was started without `--set`.
async fn serve<T: Transport>(connection: T) -> Result<(Request, Measured), SessionError> {
    server::session(connection, &Parameters::default()).await.map(data_of)
}

fn data_of(served: Outcome) -> (Request, Measured) {
    let Outcome::Data(request, measured) = served else { panic!("{served:?}") };
    (request, *measured)
}

/// Request whose limit of bytes is reached long before its duration.
fn request(reverse: bool, bytes: u64) -> Request {
    let (direction, duration) = (Direction::of(reverse), Duration::from_secs(3600));
    Request { direction, raw: false, streams: 0, duration, bytes_max: Some(bytes) }
}

#[test]
fn both_sides_agree_on_what_arrived_in_either_direction() {
    for (reverse, raw) in [(false, false), (false, true), (true, false), (true, true)] {
        for bytes in [0, 1, 262_144, 1_000_001] {
            let (here, there) = duplex(10_000);
            let request = Request { raw, ..request(reverse, bytes) };
            let (client, server) = run(async { tokio::join!(client::session(here, &request, |_| {}), serve(there)) });
            let (asked, served) = server.unwrap();
            assert_eq!(asked, request);
            assert_eq!(client.unwrap().bytes, bytes, "reverse {reverse}, raw {raw}");
            assert_eq!(served.bytes, bytes, "reverse {reverse}, raw {raw}");
        }
    }
}

#[test]
fn a_peer_that_dies_is_an_error_on_both_sides() {
    let request = request(false, 1000);
    let mut opening = Service::Perf.preamble().to_vec();
    request.encode(&mut opening);
    run(async {
        for cut in 0..=opening.len() {
            let (mut here, there) = duplex(10_000);
            here.write_all(&opening[..cut]).await.unwrap();
            drop(here);
            assert!(serve(there).await.is_err(), "cut at {cut}");
        }
        let (here, mut there) = duplex(10_000);
        let respond = async {
            there.write_all(&Service::Perf.preamble()).await.unwrap();
            let mut heard = Vec::new();
            there.read_to_end(&mut heard).await.unwrap();
            drop(there);
        };
        let (client, ()) = tokio::join!(client::session(here, &request, |_| {}), respond);
        assert!(matches!(client, Err(SessionError::PeerClosed)), "{client:?}");
    });
}

#[test]
fn a_server_which_claims_other_bytes_is_not_believed() {
    let request = request(false, 1000);
    let (here, mut there) = duplex(10_000);
    let respond = async {
        let mut heard = Vec::new();
        there.write_all(&Service::Perf.preamble()).await.unwrap();
        there.read_to_end(&mut heard).await.unwrap();
        let mut claim = Vec::new();
        Count { stage: Stage::Ended, bytes: 999, elapsed_us: 1 }.encode(&mut claim);
        there.write_all(&claim).await.unwrap();
    };
    let (client, ()) = run(async { tokio::join!(client::session(here, &request, |_| {}), respond) });
    assert!(matches!(client, Err(SessionError::Protocol(_))), "{client:?}");
}

#[test]
fn a_busy_server_says_so() {
    for (reverse, raw) in [(false, false), (false, true), (true, false), (true, true)] {
        let (here, there) = duplex(1000);
        let request = Request { raw, ..request(reverse, 1_000_000) };
        let busy = refuse(there, Service::Perf, Failure::new(FailureCode::Busy, "busy"));
        let (client, ()) = run(async { tokio::join!(client::session(here, &request, |_| {}), busy) });
        assert!(matches!(&client, Err(SessionError::Refused(why)) if why.sentence == "busy"), "{client:?}");
    }
}

#[test]
fn goodput_counts_bits_over_the_receivers_time() {
    let whole = Measured { bytes: 3_000_000, seconds: 2.0, ..Measured::default() };
    let before = Measured { bytes: 1_000_000, seconds: 1.0, ..Measured::default() };
    assert_eq!(whole.goodput_bps(), 12e6);
    assert_eq!(whole.since(&before).goodput_bps(), 16e6);
    assert_eq!(Measured::default().goodput_bps(), 0.0);
}

#[test]
fn intervals_count_their_own_time_and_add_up_to_the_total() {
    // Totals at the end of each second; the third one delivered nothing.
    let at = |second: u64, sent: u64| Measured {
        bytes: 1000 * sent,
        seconds: second as f64,
        path: Some(PathSample {
            rtt_ms: Some(10.0 + second as f64),
            datagrams_sent: sent,
            data_datagrams: DataDatagrams { source: sent - sent / 10, repair: sent / 10, ..DataDatagrams::default() },
            wasted: Wasted { late: sent / 100, ..Wasted::default() },
            ip_bytes_sent: 1500 * sent,
            bytes_acknowledged: 1000 * sent,
            found: Some(FoundRate { datagrams_judged: sent, datagrams_lost: sent / 20, ..FoundRate::default() }),
            ..PathSample::default()
        }),
        ..Measured::default()
    };
    let counts = [at(1, 1000), at(2, 4000), at(3, 4000), at(4, 4500)];
    let mut intervals = intervals::Intervals::default();
    let cut = counts.iter().take(3).filter_map(|count| intervals.advance(count)).count();
    assert_eq!((cut, intervals.finish(&counts[3]).is_some()), (3, true));
    let object = client::summary("peer", &request(false, 1), &counts[3].whole(), &intervals);

    let of = |pointer: &str| -> Vec<f64> {
        let figure = |interval: &serde_json::Value| interval.pointer(pointer).and_then(serde_json::Value::as_f64);
        object["intervals"].as_array().unwrap().iter().map(|interval| figure(interval).unwrap_or(-1.0)).collect()
    };
    assert_eq!(of("/start_s"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(of("/path/rtt_ms"), [11.0, 12.0, 13.0, 14.0]);
    assert_eq!(of("/waste/late"), [10.0, 30.0, -1.0, 5.0]);
    assert_eq!(of("/overhead"), [0.5, 0.5, -1.0, 0.5]);
    assert_eq!(of("/losses/path"), [0.05, 0.05, -1.0, 0.05]);
    for count in
        ["datagrams_sent", "data_datagrams/repair", "ip_bytes_sent", "bytes_acknowledged", "found/datagrams_lost"]
    {
        let total = object.pointer(&format!("/total/path/{count}")).unwrap().as_f64().unwrap();
        let parts = of(&format!("/path/{count}"));
        assert_eq!((parts.iter().sum::<f64>(), parts[2]), (total, 0.0), "{count}");
    }
    assert_eq!((of("/bytes"), &object["bytes"]), (vec![1e6, 3e6, 0.0, 5e5], &4_500_000.into()));
}

/// Runs a client whose server sends `claims` before it has received any data.
fn believed(claims: &[Count]) -> Result<Measured, SessionError> {
    let request = request(false, 1000);
    let (here, mut there) = duplex(100);
    let respond = async {
        let mut says = Service::Perf.preamble().to_vec();
        claims.iter().for_each(|claim| claim.encode(&mut says));
        there.write_all(&says).await.unwrap();
        let mut heard = Vec::new();
        there.read_to_end(&mut heard).await.unwrap();
    };
    let (client, ()) = run(async { tokio::join!(client::session(here, &request, |_| {}), respond) });
    client
}

#[test]
fn nobody_receives_more_than_was_sent() {
    let more = 10_000_000;
    for stage in [Stage::Running, Stage::Ended, Stage::TimeUp] {
        let client = believed(&[Count { stage, bytes: more, elapsed_us: 1 }]);
        assert!(matches!(client, Err(SessionError::Protocol(_))), "{stage:?}: {client:?}");
    }
}

#[test]
fn counts_do_not_shrink_and_do_not_outlast_the_measurement() {
    let count = |bytes, elapsed_us| Count { stage: Stage::Running, bytes, elapsed_us };
    let second = Duration::from_secs(1);
    let request = Request { duration: second, ..request(false, 1000) };
    for (claims, is_possible) in [
        ([count(1000, 1), count(1000, 1_000_000)], true),
        ([count(1000, 1), count(999, 2)], false),
        ([count(0, 0), count(0, 1_000_001)], false),
    ] {
        let (here, mut there) = duplex(10_000);
        let respond = async {
            there.write_all(&Service::Perf.preamble()).await.unwrap();
            let mut heard = Vec::new();
            there.read_to_end(&mut heard).await.unwrap();
            let mut says = Vec::new();
            claims
                .iter()
                .chain([&Count { stage: Stage::Ended, ..claims[1] }])
                .for_each(|claim| claim.encode(&mut says));
            // A client that has detected the lie stops reading.
            let _ = there.write_all(&says).await;
        };
        let (client, ()) = run(async { tokio::join!(client::session(here, &request, |_| {}), respond) });
        match client {
            Ok(measured) => assert!(is_possible && measured.bytes == 1000, "{claims:?}: {measured:?}"),
            Err(error) => assert!(!is_possible && matches!(error, SessionError::Protocol(_)), "{claims:?}: {error}"),
        }
    }
}

/// Writing end of a path that takes a block of 10 kB every 10 ms (8 Mbit/s) from an unlimited send buffer, and
/// acknowledges it immediately, on a paused clock.
struct Slow {
    reader: DuplexStream,
    buffer: mpsc::UnboundedSender<Vec<u8>>,
    state: Arc<SlowState>,
}

#[derive(Default)]
struct SlowState {
    written_bytes: AtomicU64,
    acknowledged_bytes: AtomicU64,
    ahead_bytes_max: AtomicU64,
}

impl Slow {
    const BLOCK_BYTES: usize = 10_000;
    /// Rate that the path was measured to carry.
    const CARRIED_BPS: u64 = 4_963_000;
    const RATE_BPS: f64 = 8e6;

    /// Creates the end, a transport for its peer, and the shared state.
    fn new() -> (Self, DuplexStream, Arc<SlowState>) {
        let (reader, there) = duplex(1_000_000);
        let (reader, writer) = tokio::io::split(reader);
        let (buffer, blocks) = mpsc::unbounded_channel();
        let state = Arc::new(SlowState::default());
        tokio::spawn(Self::drain(blocks, writer, Arc::clone(&state)));
        let (pipe_in, pipe_out) = duplex(1_000_000);
        tokio::spawn(async move {
            let (mut reader, mut pipe_in) = (reader, pipe_in);
            tokio::io::copy(&mut reader, &mut pipe_in).await
        });
        (Self { reader: pipe_out, buffer, state: Arc::clone(&state) }, there, state)
    }

    async fn drain(
        mut writes: mpsc::UnboundedReceiver<Vec<u8>>,
        mut path: WriteHalf<DuplexStream>,
        state: Arc<SlowState>,
    ) {
        let mut free_at = tokio::time::Instant::now();
        while let Some(write) = writes.recv().await {
            for block in write.chunks(Self::BLOCK_BYTES) {
                // Add up exact times, so that timer errors do not accumulate.
                free_at = free_at.max(tokio::time::Instant::now() - Duration::from_millis(2));
                free_at += Duration::from_secs_f64(8.0 * block.len() as f64 / Self::RATE_BPS);
                tokio::time::sleep_until(free_at).await;
                path.write_all(block).await.unwrap();
                state.acknowledged_bytes.fetch_add(block.len() as u64, Ordering::Relaxed);
            }
        }
        path.shutdown().await.unwrap();
    }
}

impl AsyncRead for Slow {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Slow {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.buffer.send(buf.to_vec()).unwrap();
        let state = &self.state;
        let written_bytes = state.written_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed) + buf.len() as u64;
        let ahead_bytes = written_bytes - state.acknowledged_bytes.load(Ordering::Relaxed);
        state.ahead_bytes_max.fetch_max(ahead_bytes, Ordering::Relaxed);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Dropping the only sender lets the drain end after the last block.
        self.buffer = mpsc::unbounded_channel().0;
        let [written, acknowledged] = [&self.state.written_bytes, &self.state.acknowledged_bytes];
        if written.load(Ordering::Relaxed) == acknowledged.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let waker = cx.waker().clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            waker.wake();
        });
        Poll::Pending
    }
}

impl Transport for Slow {
    fn path_sample(&self) -> Option<PathSample> {
        let bytes_acknowledged = self.state.acknowledged_bytes.load(Ordering::Relaxed);
        Some(PathSample {
            incoming_loss: None,
            loss: Some(0.0),
            rtt_ms: Some(10.0),
            data_datagrams: DataDatagrams { source: bytes_acknowledged / 1000, ..DataDatagrams::default() },
            wasted: Wasted { late: bytes_acknowledged / 10_000, ..Wasted::default() },
            ip_bytes_sent: bytes_acknowledged + bytes_acknowledged / 4,
            bytes_acknowledged,
            carried_rate_bps: Some(Self::CARRIED_BPS),
            ..PathSample::default()
        })
    }
}

#[test]
fn a_measurement_lasts_its_duration_and_counts_what_came_within() {
    for (reverse, raw, seconds) in
        [(false, false, 1), (false, false, 7), (true, false, 7), (false, true, 7), (true, true, 7)]
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (client, server, state, took) = runtime.block_on(async {
            let (slow, other, state) = Slow::new();
            let (direction, duration) = (Direction::of(reverse), Duration::from_secs(seconds));
            let request = Request { direction, raw, streams: 0, duration, bytes_max: None };
            let started = tokio::time::Instant::now();
            let (client, server) = if reverse {
                tokio::join!(client::session(other, &request, |_| {}), serve(slow))
            } else {
                tokio::join!(client::session(slow, &request, |_| {}), serve(other))
            };
            (client.unwrap(), server.unwrap().1, state, started.elapsed())
        });
        let case = format!("reverse {reverse}, raw {raw}, {seconds} s: {client:?}");
        // Raw mode has no frame for the server's statistics.
        let path = if reverse && raw { server.path.filter(|_| client.path.is_none()) } else { client.path };
        let carried_bps = path.and_then(|path| path.carried_rate_bps);
        assert_eq!(carried_bps, Some(Slow::CARRIED_BPS), "{case}: whichever end sends, the client is told");
        assert_eq!((client.bytes, client.seconds), (server.bytes, seconds as f64), "{case}");
        // The first block starts the clock and is counted.
        let expected_bps = Slow::RATE_BPS + 8.0 * Slow::BLOCK_BYTES as f64 / seconds as f64;
        assert!((client.goodput_bps() / expected_bps - 1.0).abs() < 0.01, "{case}");
        // With little data in flight, the end follows soon, and the statistics cover everything sent.
        let written_bytes = state.written_bytes.load(Ordering::Relaxed);
        assert!(state.ahead_bytes_max.load(Ordering::Relaxed) <= PERF_AHEAD_BYTES_MIN + 70_000, "{case}");
        assert!(took < Duration::from_secs(seconds + 2), "{case} took {took:?}");
        let path = path.unwrap();
        assert!(written_bytes - path.bytes_acknowledged < 1000, "{case}: of {written_bytes}");
        assert!((path.overhead().unwrap() - 0.25).abs() < 1e-3, "{case}");
        assert!((path.waste().unwrap().share - 0.1).abs() < 1e-3, "{case}");
    }
}

#[test]
fn a_measurement_which_is_over_does_not_wait_for_a_source_without_end() {
    let (direction, duration) = (Direction::ToClient, Duration::from_secs(1));
    let request = Request { direction, raw: false, streams: 0, duration, bytes_max: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (here, mut there) = duplex(1000);
        let endless = async {
            there.write_all(&Service::Perf.preamble()).await.unwrap();
            let frame = [&[kind::DATA, 0, 0, 0, 100][..], &[7; 100]].concat();
            while there.write_all(&frame).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let (client, ()) = tokio::join!(client::session(here, &request, |_| {}), endless);
        let measured = client.unwrap();
        assert_eq!(measured.seconds, 1.0);
        assert!((10_000..=10_100).contains(&measured.bytes), "{measured:?}");
    });
}

#[test]
fn a_client_of_another_version_can_read_which_one_is_spoken() {
    let (mut here, there) = duplex(1000);
    let mut opening = Service::Perf.preamble();
    opening[5] = 1;
    let (server, heard) = run(async {
        here.write_all(&opening).await.unwrap();
        let mut heard = Vec::new();
        let (server, read) = tokio::join!(serve(there), here.read_to_end(&mut heard));
        read.unwrap();
        (server, heard)
    });
    assert!(matches!(server, Err(SessionError::Protocol(_))), "{server:?}");
    assert_eq!(heard, Service::Perf.preamble());
}

#[test]
fn an_empty_data_frame_is_no_data() {
    let (mut here, there) = duplex(1000);
    let mut opening = Service::Perf.preamble().to_vec();
    request(false, 1000).encode(&mut opening);
    opening.extend([kind::DATA, 0, 0, 0, 0]);
    let server = run(async {
        here.write_all(&opening).await.unwrap();
        serve(there).await
    });
    assert!(matches!(server, Err(SessionError::Protocol(_))), "{server:?}");
}

#[test]
fn lines_say_what_is_known() {
    let path = Some(PathSample::default());
    let unknown = Measured { bytes: 3_000_000, seconds: 2.0, path, ..Measured::default() };
    assert_eq!(unknown.describe(true), "3.00 MB  12.0 Mbit/s  rtt –  loss –");
    let path = PathSample {
        incoming_loss: None,
        loss: Some(0.1),
        rtt_ms: Some(50.04),
        data_datagrams: DataDatagrams { source: 2000, ..DataDatagrams::default() },
        wasted: Wasted { late: 8, ..Wasted::default() },
        ip_bytes_sent: 5_000_000,
        bytes_acknowledged: 4_000_000,
        ..PathSample::default()
    };
    let known = Measured { path: Some(path), ..unknown };
    assert_eq!(known.describe(true), "3.00 MB  12.0 Mbit/s  rtt 50.0 ms  loss 10.0 %  overhead 25.0 %  waste 0.4 %");
    assert!(!known.describe(false).contains("waste"));
    let found = |lost| {
        Some(FoundRate {
            phase: Phase::Steady,
            rate_bps: 12_500_000,
            datagrams_judged: 10 * lost,
            datagrams_lost: 3 * lost,
            datagrams_lost_in_queue: lost,
            ..FoundRate::default()
        })
    };
    let at = |lost| Measured { path: Some(PathSample { queue_ms: Some(3.21), found: found(lost), ..path }), ..known };
    let line = "3.00 MB  12.0 Mbit/s  rate 12.5 Mbit/s  rtt 50.0 ms  queue 3.2 ms  loss 20.0 % + 10.0 % own";
    assert_eq!(at(7).whole().describe(false), line);
    let part = Measured { bytes: 3_000_000, ..at(70).since(&Measured { seconds: 1.0, ..at(70) }) };
    assert_eq!(part.losses, None, "nothing was judged meanwhile");
    assert_eq!(at(70).since(&at(7)).losses, Some(Losses { path: 0.2, own: 0.1 }));
    let little = PathSample { ip_bytes_sent: 5, bytes_acknowledged: 4, ..path };
    assert!(!Measured { path: Some(little), ..known }.describe(true).contains("overhead"));
}

/// Measurements in both directions whose peer falls silent after the first second.
#[test]
fn a_measurement_says_that_nothing_is_heard() {
    for reverse in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let lines = runtime.block_on(async {
            let (here, mut there) = duplex(1 << 20);
            let request = Request { duration: Duration::from_secs(60), ..request(reverse, 50_000) };
            let peer = async {
                there.write_all(&Service::Perf.preamble()).await.unwrap();
                let mut bytes = [&[kind::DATA, 0, 0, 0, 100][..], &[7; 100]].concat();
                if !reverse {
                    bytes.clear();
                    Count { stage: Stage::Running, bytes: 0, elapsed_us: 1_000_000 }.encode(&mut bytes);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                there.write_all(&bytes).await.unwrap();
                tokio::time::sleep(Duration::from_secs(6)).await;
                drop(there);
            };
            let (mut intervals, mut lines) = (intervals::Intervals::default(), Vec::new());
            let measure = client::session(here, &request, |measured| lines.extend(intervals.advance(measured)));
            let (measured, ()) = tokio::join!(measure, peer);
            assert!(measured.is_err());
            lines
        });
        let silent: Vec<_> = lines.iter().filter_map(|line| line.split_once("nothing heard for ")).collect();
        let seconds: Vec<_> = silent.iter().map(|(_, seconds)| *seconds).collect();
        assert!(seconds.starts_with(&["3 s", "4 s"]) || seconds.starts_with(&["3 s", "5 s"]), "{lines:?}");
    }
}

proptest! {
    #[test]
    fn figures_of_a_path_survive_the_wire(
        loss in proptest::option::of(Just(0.25)),
        rtt_ms in proptest::option::of(Just(12.5)),
        numbers: [u64; 10],
        carried_rate_bps in proptest::option::of(1_u64..),
        queue_ms in proptest::option::of(Just(3.25)),
        found in proptest::option::of((0_u32..3, any::<[u64; 4]>(), proptest::option::of(1_u64..))),
    ) {
        let [source, repair, proactive, probe, dependent, late, refused, datagrams_sent, ip_bytes_sent, bytes_acknowledged] = numbers;
        let path = PathSample {
            incoming_loss: None,
            loss,
            rtt_ms,
            datagrams_sent,
            data_datagrams: DataDatagrams { source, repair, proactive, probe },
            wasted: Wasted { dependent, late, refused },
            ip_bytes_sent,
            bytes_acknowledged,
            carried_rate_bps,
            queue_ms,
            found: found.map(|(phase, [rate_bps, datagrams_judged, datagrams_lost, datagrams_lost_in_queue], capacity_bps)| FoundRate {
                phase: Phase::from_number(phase).unwrap(),
                rate_bps,
                capacity_bps,
                target_queue_ms: 1.5,
                path_loss: 0.125,
                datagrams_judged,
                datagrams_lost,
                datagrams_lost_in_queue,
            }),
            marks: None,
            packet_bytes: None,
        };
        let mut out = Vec::new();
        encode_path(&path, &mut out);
        let decoded = decode_path(&out[HEADER_BYTES..]).unwrap();
        prop_assert_eq!(decoded, path);
        // Nonsense from a peer is displayed without overflow.
        let _shown = Measured { bytes: 1, seconds: 1.0, path: Some(decoded), ..Measured::default() }.whole().describe(true);
        prop_assert_eq!(rate_advice(&decoded).is_some(), carried_rate_bps.is_some());
        prop_assert!(decoded.waste().is_none_or(|waste| (0.0..=1.0).contains(&waste.share)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode_path(&body);
    }
}
