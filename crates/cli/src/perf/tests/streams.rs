//! Tests: measurements over many streams of one connection, on loopback.

use std::time::Duration;

use dfcp::{Config, Listener, PeerKey, Rate, Stream, StreamLimits};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::{Service, kind};
use dfcp_framing::limits::PERF_STREAMS_MAX;
use dfcp_framing::perf::{Count, Request, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::{client, request, run, serve};
use crate::session_error::SessionError;

/// Connects two ends, each of which may open as many streams as a measurement can have.
pub(super) async fn connection() -> (Stream, Stream) {
    let streams = StreamLimits { bidirectional: 0, one_way: PERF_STREAMS_MAX.into() };
    let config = Config::sealed(PeerKey::Any).with_rate(Rate::Fixed { rate_bps: 200_000_000 }).with_streams(streams);
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), config.clone()).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(Stream::connect(address, config), listener.accept());
    (client.unwrap(), server.unwrap())
}

#[test]
fn both_sides_agree_on_what_arrived_over_streams_in_either_direction() {
    for reverse in [false, true] {
        for (streams, bytes) in [(2, 0), (1, 1), (8, 1_000_001), (PERF_STREAMS_MAX, 3_000_000)] {
            let request = Request { streams, ..request(reverse, bytes) };
            let (client, server) = run(async {
                let (here, there) = connection().await;
                tokio::join!(client::session(here, &request, |_| {}), serve(there))
            });
            let (asked, served) = server.unwrap();
            assert_eq!(asked, request);
            let client = client.unwrap();
            assert_eq!((client.bytes, served.bytes), (bytes, bytes), "reverse {reverse}, {streams} streams");
            let path = client.path.unwrap();
            assert!(path.bytes_acknowledged >= bytes, "reverse {reverse}, {streams} streams: {path:?}");
        }
    }
}

#[test]
fn a_measurement_over_streams_ends_when_its_time_is_up() {
    for reverse in [false, true] {
        let duration = Duration::from_millis(700);
        let request = Request { duration, streams: 5, bytes_max: None, ..request(reverse, 0) };
        let mut interim = 0;
        let (client, server) = run(async {
            let (here, there) = connection().await;
            tokio::join!(client::session(here, &request, |_| interim += 1), serve(there))
        });
        let (client, server) = (client.unwrap(), server.unwrap().1);
        assert_eq!((client.bytes, client.seconds), (server.bytes, 0.7), "reverse {reverse}");
        assert!(client.bytes > 1_000_000 && interim > 0, "reverse {reverse}: {client:?}");
    }
}

#[test]
fn a_connection_without_streams_is_told_so() {
    let asked = Request { streams: 2, ..request(false, 1000) };
    let (client, server) = run(async {
        let (here, _there) = duplex(1000);
        let client = client::session(here, &asked, |_| {}).await;
        let (mut here, there) = duplex(1000);
        let mut opening = Service::Perf.preamble().to_vec();
        asked.encode(&mut opening);
        here.write_all(&opening).await.unwrap();
        (client, serve(there).await)
    });
    assert!(matches!(client, Err(SessionError::Unsuited(_))), "{client:?}");
    assert!(matches!(server, Err(SessionError::Unsuited(_))), "{server:?}");
}

/// Cases: data on the first stream, a reset stream, a missing stream, and one too many.
#[test]
fn a_client_that_does_not_keep_to_its_streams_is_an_error() {
    for misdeed in ["data", "reset", "gone", "more"] {
        let asked = Request { streams: 2, ..request(false, 1000) };
        let server = run(async {
            let (mut here, there) = connection().await;
            let session = here.session().unwrap();
            let client = async {
                let mut opening = Service::Perf.preamble().to_vec();
                asked.encode(&mut opening);
                here.write_all(&opening).await?;
                here.flush().await?;
                here.read_exact(&mut [0; 8]).await?;
                let mut stream = session.open_one_way().await?;
                match misdeed {
                    "data" => here.write_all(&[kind::DATA, 0, 0, 0, 1, 7]).await?,
                    "reset" => {
                        stream.write_all(b"data").await?;
                        stream.reset(3);
                        session.open_one_way().await?.shutdown().await?;
                    }
                    "more" => {
                        let mut two = [session.open_one_way().await?, session.open_one_way().await?];
                        for stream in two.iter_mut().chain([&mut stream]) {
                            stream.write_all(b"data").await?;
                        }
                        here.flush().await?;
                        return here.read_to_end(&mut Vec::new()).await;
                    }
                    _ => {
                        // The first stream can end only after the others have.
                        stream.shutdown().await?;
                        here.shutdown().await?;
                    }
                }
                here.flush().await?;
                here.read_to_end(&mut Vec::new()).await
            };
            // The client's result varies; only the server must detect the fault.
            tokio::join!(serve(there), client).0
        });
        assert!(server.is_err(), "{misdeed}: {server:?}");
        let is_surplus = matches!(server, Err(SessionError::Protocol(ProtocolError::TooManyStreams)));
        assert_eq!(is_surplus, misdeed == "more", "{misdeed}: {server:?}");
    }
}

#[test]
fn a_server_that_counts_more_than_all_streams_have_is_not_believed() {
    let asked = Request { streams: 3, ..request(false, 1000) };
    let client = run(async {
        let (here, mut there) = connection().await;
        let _session = there.session().unwrap();
        let server = async {
            let mut claim = Service::Perf.preamble().to_vec();
            Count { stage: Stage::Running, bytes: 1001, elapsed_us: 1 }.encode(&mut claim);
            there.write_all(&claim).await.unwrap();
            let _ended = there.read_to_end(&mut Vec::new()).await;
        };
        tokio::join!(client::session(here, &asked, |_| {}), server).0
    });
    assert!(matches!(client, Err(SessionError::Protocol(_))), "{client:?}");
}
