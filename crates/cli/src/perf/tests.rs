use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::wire::{Count, Request, decode_path, encode_path};
use super::{Measured, client, server};
use crate::transfer::error::{Failure, FailureCode, TransferError};
use crate::transfer::frame::{HEADER_BYTES, Service};
use crate::transfer::receive::refuse;
use crate::transport::PathSample;

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Ends by its bytes, far before its duration.
fn request(reverse: bool, bytes: u64) -> Request {
    Request { reverse, duration: Duration::from_secs(3600), bytes_max: Some(bytes) }
}

#[test]
fn both_sides_agree_on_what_arrived_in_either_direction() {
    for reverse in [false, true] {
        for bytes in [0, 1, 262_144, 1_000_001] {
            let (here, there) = duplex(10_000);
            let request = request(reverse, bytes);
            let (client, server) =
                run(async { tokio::join!(client::session(here, &request, |_| {}), server::session(there)) });
            let (asked, served) = server.unwrap();
            assert_eq!(asked, request);
            assert_eq!(client.unwrap().bytes, bytes, "reverse {reverse}");
            assert_eq!(served.bytes, bytes, "reverse {reverse}");
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
            assert!(server::session(there).await.is_err(), "cut at {cut}");
        }
        let (here, mut there) = duplex(10_000);
        let respond = async {
            there.write_all(&Service::Perf.preamble()).await.unwrap();
            let mut heard = Vec::new();
            there.read_to_end(&mut heard).await.unwrap();
            drop(there);
        };
        let (client, ()) = tokio::join!(client::session(here, &request, |_| {}), respond);
        assert!(matches!(client, Err(TransferError::PeerClosed)), "{client:?}");
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
        Count { is_final: true, bytes: 999, elapsed_us: 1 }.encode(&mut claim);
        there.write_all(&claim).await.unwrap();
    };
    let (client, ()) = run(async { tokio::join!(client::session(here, &request, |_| {}), respond) });
    assert!(matches!(client, Err(TransferError::Protocol(_))), "{client:?}");
}

#[test]
fn a_busy_server_says_so() {
    let (here, there) = duplex(1000);
    let request = request(false, 1_000_000);
    let busy = refuse(there, Service::Perf, Failure::new(FailureCode::Busy, "busy"));
    let (client, ()) = run(async { tokio::join!(client::session(here, &request, |_| {}), busy) });
    assert!(matches!(&client, Err(TransferError::Refused(why)) if why == "busy"), "{client:?}");
}

#[test]
fn requests_out_of_range_are_refused() {
    for duration in [Duration::from_secs(86_401), Duration::from_secs(u64::MAX / 1000)] {
        let mut bytes = Vec::new();
        Request { reverse: true, duration, bytes_max: None }.encode(&mut bytes);
        assert!(Request::decode(&bytes[HEADER_BYTES..]).is_err());
    }
}

#[test]
fn goodput_counts_bits_over_the_receivers_time() {
    let whole = Measured { bytes: 3_000_000, seconds: 2.0, path: None };
    let before = Measured { bytes: 1_000_000, seconds: 1.0, path: None };
    assert_eq!(whole.goodput_bps(), 12e6);
    assert_eq!(whole.since(&before).goodput_bps(), 16e6);
    assert_eq!(Measured::default().goodput_bps(), 0.0);
}

proptest! {
    #[test]
    fn frames_survive_the_wire(reverse: bool, ms in 1u64..86_400_000, bytes in proptest::option::of(0..u64::MAX), is_final: bool, elapsed_us: u64) {
        let request = Request { reverse, duration: Duration::from_millis(ms), bytes_max: bytes };
        let mut out = Vec::new();
        request.encode(&mut out);
        prop_assert_eq!(Request::decode(&out[HEADER_BYTES..]).unwrap(), request);
        let count = Count { is_final, bytes: ms, elapsed_us };
        out.clear();
        count.encode(&mut out);
        prop_assert_eq!(Count::decode(&out[HEADER_BYTES..]).unwrap(), count);
        let path = PathSample { loss: 0.25, rtt_ms: Some(12.5), datagrams_sent: ms, datagrams_repair: 1, ip_bytes_sent: 2 };
        out.clear();
        encode_path(&path, &mut out);
        prop_assert_eq!(decode_path(&out[HEADER_BYTES..]).unwrap(), path);
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = (Request::decode(&body), Count::decode(&body), decode_path(&body));
    }
}
