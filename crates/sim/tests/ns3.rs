//! Test of agreement with ns-3, a second reference besides the kernel (`kernel.rs`), without random loss, at points of
//! `data/ns3_reference.csv`. It adds the queue's occupancy.
//!
//! With random loss ns-3 is faster than Linux: on leaving a recovery, its window grows by everything newly acknowledged, selectively
//! acknowledged before or not (`TcpSocketBase::ProcessAck`). So these points are excluded.

mod dumbbell;

use dumbbell::reference::{Point, points};

#[test]
fn goodput_and_queue_without_loss() {
    // 100 Mbit/s, so that a row takes half a second; the buffer is 1/20 to 4 bandwidth-delay products.
    let rows: Vec<Point> = points()
        .into_iter()
        .filter(|point| point.loss == 0.0 && point.bottleneck_bps == 100_000_000 && point.rtt_ms.len() == 1)
        .filter(|point| [(10, 100), (50, 42), (200, 50)].contains(&(point.rtt_ms[0] as u64, point.buffer_packets)))
        .collect();
    assert_eq!(rows.len(), 6);
    for point in rows {
        // With a sawtooth of at most a second, a quarter of the time suffices.
        let (duration_s, warmup_s) =
            if point.rtt_ms[0] <= 10.0 { (20.0, 8.0) } else { (point.duration_s, point.warmup_s) };
        let outcome = point.run_with(point.config(), point.seed, duration_s, warmup_s);
        let ratio = outcome.goodput_mbps / point.goodput_mbps;
        assert!((0.9..=1.1).contains(&ratio), "{ratio:.3} of ns-3's goodput: {point:?} {outcome:?}");
        // Mean occupancy within 7 % of the buffer.
        assert!((outcome.queue_share - point.queue_share).abs() < 0.07, "{point:?} {outcome:?}");
    }
}

#[test]
fn a_longer_path_gets_less_of_a_shared_queue() {
    for point in points().into_iter().filter(|point| point.tag == "two_flows_rtt") {
        let outcome = point.run();
        assert!((outcome.goodput_mbps / point.goodput_mbps - 1.0).abs() < 0.01, "{point:?} {outcome:?}");
        // The path of 100 ms gets a few per cent, as in ns-3.
        let (here, there) = (outcome.flows_mbps[1], point.flows_mbps[1]);
        assert!(here > there / 2.0 && here < there * 2.0, "{point:?} {outcome:?}");
    }
}
