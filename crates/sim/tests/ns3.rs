//! Agreement with ns-3 at points of `data/ns3_reference.csv`. The example `ns3` runs them all.
//!
//! Without loss all points agree within 10 %, most within 1 %. With loss ns-3 is faster than Linux, and NewReno there
//! faster than ours, most of all where windows are small (a LAN at 10 % loss: 8 and 16 Mbit/s against 5). A large part of
//! it is that ns-3 lets the window grow, on leaving a recovery, by everything between the old acknowledgement and the
//! new, selectively acknowledged before or not (`TcpSocketBase::ProcessAck`): with the same put into our models for a
//! try, every point with loss, the LAN's too, came to between 0.74 and 1.32 of ns-3's. We do not copy it. So here, goodput
//! has to be within 25 % of ns-3's or between it and the kernel's, and the LAN, of which there is no measurement with the
//! kernel, is left to the example.

mod dumbbell;

use dumbbell::reference::{Point, points};

/// Goodput of the Linux 6.18 kernel in Mbit/s, at 200 Mbit/s and 10 ms: algorithm, loss, goodput.
const KERNEL: [(&str, f64, f64); 6] = [
    ("cubic", 0.001, 36.0),
    ("cubic", 0.01, 10.0),
    ("cubic", 0.1, 1.3),
    ("linuxreno", 0.001, 36.0),
    ("linuxreno", 0.01, 12.0),
    ("linuxreno", 0.1, 1.8),
];

#[test]
fn goodput_and_queue_without_loss() {
    // 100 Mbit/s, so that a row takes half a second; the buffer is a twentieth of the path's product to four times it.
    let rows: Vec<Point> = points()
        .into_iter()
        .filter(|point| point.loss == 0.0 && point.bottleneck_bps == 100_000_000 && point.rtt_ms.len() == 1)
        .filter(|point| {
            [(1, 2), (10, 100), (50, 42), (200, 50)].contains(&(point.rtt_ms[0] as u64, point.buffer_packets))
        })
        .collect();
    assert_eq!(rows.len(), 8);
    for point in rows {
        // Where a sawtooth takes a second or less, a quarter of the time will do.
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
fn goodput_with_loss() {
    for (tcp, loss, kernel_mbps) in KERNEL {
        let rows: Vec<Point> = points()
            .into_iter()
            .filter(|point| point.tcp == tcp && point.loss == loss && point.rtt_ms == [10.0])
            .filter(|point| point.bottleneck_bps == 100_000_000)
            .collect();
        assert_eq!(rows.len(), 3);
        let reference = rows.iter().map(|point| point.goodput_mbps).sum::<f64>() / 3.0;
        // The less loss, the longer a run takes and the fewer do.
        let runs = if loss < 0.01 { &rows[..1] } else { &rows[..] };
        let here = runs.iter().map(|point| point.run().goodput_mbps).sum::<f64>() / runs.len() as f64;
        let near = (0.75..=1.25).contains(&(here / reference));
        let between = (kernel_mbps.min(reference)..=kernel_mbps.max(reference)).contains(&here);
        assert!(near || between, "{tcp} at {loss}: {here:.2} here, {reference:.2} ns-3, {kernel_mbps} kernel");
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
