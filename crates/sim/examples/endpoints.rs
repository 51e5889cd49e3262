//! Example: cost of TCP sender and receiver per data segment. Instead of a network there is a ring of segments, some of
//! which are lost.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for developers, which takes the time"
)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use dfcp_sim::tcp::{Config, Congestion, Receiver, Segment, Sender};
use dfcp_time::Time;

fn main() {
    println!("{:<11} {:>8} {:>8} {:>12} {:>9}", "", "window", "loss 1/", "ns/segment", "recoveries");
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Bbr1] {
        for window in [100, 10_000, 100_000] {
            for lose_every in [0, 10_000, 100, 10] {
                run(congestion, window, lose_every);
            }
        }
    }
}

/// Runs with `window` segments in flight. In each step one segment arrives, and the response to it is processed.
fn run(congestion: Congestion, window: u32, lose_every: u64) {
    // The cost of a loss grows with the window, so fewer segments are simulated with losses.
    let segments = if lose_every == 0 { 3_000_000 } else { 100_000.max(4 * u64::from(window)) };
    let limit = window * 1448;
    let mut config = Config { max_window_bytes: limit, initial_window_segments: window, ..Config::modern(congestion) };
    // Keep the window constant, so that exactly this size is measured.
    config.initial_ssthresh_segments = Some(1);
    let mut sender = Sender::new(config, None, 1).unwrap();
    let mut receiver = Receiver::new(config).unwrap();
    let mut forward: VecDeque<Segment> = VecDeque::new();
    let mut now = Time::ZERO;
    let mut sent = 0u64;
    let mut start = Instant::now();
    let mut warm = 0;
    while sent < segments + warm {
        while let Some(segment) = sender.poll_transmit(now) {
            sent += 1;
            if !sent.is_multiple_of(lose_every) {
                forward.push_back(segment);
            }
        }
        if warm == 0 && sent > u64::from(window) {
            warm = sent;
            start = Instant::now();
        }
        now += Duration::from_micros(12);
        match forward.pop_front() {
            Some(segment) => receiver.on_segment(now, &segment),
            None => {
                let next = [sender.next_timeout(), receiver.next_timeout()].into_iter().flatten().min();
                now = now.max(next.unwrap());
            }
        }
        receiver.handle_timeout(now);
        while let Some(ack) = receiver.poll_transmit(now) {
            sender.on_segment(now, &ack);
        }
        sender.handle_timeout(now);
    }
    let ns = start.elapsed().as_nanos() as f64 / segments as f64;
    let recoveries = sender.stats().recoveries;
    println!("{:<11} {window:>8} {lose_every:>8} {ns:>12.0} {recoveries:>9}", format!("{congestion:?}"));
}
