//! Test that the TCP models agree with ns-3 at points of `data/ns3_reference.csv` without random loss. It is a second
//! reference besides the kernel (`kernel.rs`), and also covers the occupancy of the queue.
//!
//! Points with random loss are excluded, because ns-3 is faster than Linux there. When ns-3 leaves a recovery, its
//! window grows by everything newly acknowledged, even if it had been selectively acknowledged before
//! (`TcpSocketBase::ProcessAck`).

mod dumbbell;

use dumbbell::reference::{Point, points};

#[test]
fn goodput_and_queue_without_loss() {
    // Only rows with 100 Mbit/s are used, so that each takes half a second. Their buffers hold 1/20 to 4
    // bandwidth-delay products.
    let rows: Vec<Point> = points()
        .into_iter()
        .filter(|point| point.loss == 0.0 && point.bottleneck_bps == 100_000_000 && point.rtt_ms.len() == 1)
        .filter(|point| [(10, 100), (50, 42), (200, 50)].contains(&(point.rtt_ms[0] as u64, point.buffer_packets)))
        .collect();
    assert_eq!(rows.len(), 6);
    for point in rows {
        // The sawtooth of the window lasts at most a second here, so a quarter of the time suffices.
        let (duration_s, warmup_s) =
            if point.rtt_ms[0] <= 10.0 { (20.0, 8.0) } else { (point.duration_s, point.warmup_s) };
        let outcome = point.run_with(point.config(), point.seed, duration_s, warmup_s);
        let ratio = outcome.goodput_mbps / point.goodput_mbps;
        assert!((0.9..=1.1).contains(&ratio), "{ratio:.3} of ns-3's goodput: {point:?} {outcome:?}");
        // The mean occupancies may differ by 7 % of the buffer.
        assert!((outcome.queue_share - point.queue_share).abs() < 0.07, "{point:?} {outcome:?}");
    }
}

#[test]
fn a_longer_path_gets_less_of_a_shared_queue() {
    for point in points().into_iter().filter(|point| point.tag == "two_flows_rtt") {
        let outcome = point.run();
        assert!((outcome.goodput_mbps / point.goodput_mbps - 1.0).abs() < 0.01, "{point:?} {outcome:?}");
        // The path with an RTT of 100 ms gets a few per cent of the rate, as in ns-3.
        let (here, there) = (outcome.flows_mbps[1], point.flows_mbps[1]);
        assert!(here > there / 2.0 && here < there * 2.0, "{point:?} {outcome:?}");
    }
}
