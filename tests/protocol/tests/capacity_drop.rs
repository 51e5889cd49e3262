//! Tests of a path whose rate falls far below the sender's: the remaining capacity reaches the application (`spec/protocol.md`, \[plan-1\]
//! and \[plan-5\]).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_proto::{Rate, Traffic};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;
/// Longest permitted gap in delivery, besides three round trips, if the sender's estimate can cover the loss.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The same limit if the circuit breaker must act first, which observes for 3 s and tests for one.
const BREAKER: Duration = Duration::from_secs(4);
const BUFFER_PACKETS: usize = 50;
/// Bytes of a full IP packet, and its application bytes.
const PACKET_BYTES: f64 = 1488.0;
const SYMBOL_BYTES: f64 = 1420.0;
/// Length of each of the two measured intervals.
const MEASURED: Duration = Duration::from_secs(8);
/// Minimum goodput after the drop, as a share of the path's capacity.
const SHARE_MIN: f64 = 0.8;
/// Minimum share in the first interval. On the slowest path a block of 256 symbols takes 2 s: of 48 runs, two or three
/// deliver a block in the second interval that the other runs deliver in the first (shares of 0.76 and 1.12 instead of
/// 0.80 and 1.07).
const FIRST_SHARE_MIN: f64 = 0.75;
/// Minimum share for low-latency traffic, whose loss estimate decays slowly, so that it repairs too much during the
/// measurement.
const SHARE_MIN_LOW_LATENCY: f64 = 0.75;

/// A sender at a fixed rate, on a path whose capacity suddenly falls, in both directions.
#[derive(Clone, Copy, Debug)]
struct CapacityDrop {
    sender_bps: u64,
    before_bps: u64,
    after_bps: u64,
    base_rtt: Duration,
    traffic: Traffic,
}

/// Delivery to the application after the drop.
#[derive(Debug)]
struct Delivery {
    /// Longest time after the drop without new data for the application.
    gap: Duration,
    /// Bytes read in the 8 s after the longest permitted gap, as a share of the path's capacity.
    first_share: f64,
    /// Bytes read in the next 8 s, as the same share.
    second_share: f64,
}

impl CapacityDrop {
    /// Round-trip time with a full buffer of the bottleneck.
    fn full_rtt(self) -> Duration {
        let buffer_bits = (BUFFER_PACKETS + 1) as f64 * PACKET_BYTES * 8.0;
        self.base_rtt + Duration::from_secs_f64(buffer_bits / self.after_bps as f64)
    }

    /// Runs the case. The path is not random; `step` shifts the drop relative to the sender's rounds.
    fn run(self, step: u64, gap_max: Duration) -> Delivery {
        let link = LinkConfig::default()
            .with_rate_bps(self.before_bps)
            .with_delay(self.base_rtt / 2)
            .with_queue(QueueLimit::packets(BUFFER_PACKETS));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
        let client = sealed().with_rate(Rate::Fixed { rate_bps: self.sender_bps }).with_traffic(self.traffic);
        let mut pair = Pair::over(1, path, (client, Job::send(u64::MAX)), (sealed(), Job::send(0))).unwrap();
        let dropped_at = Time::from_s(3) + Duration::from_micros(step * 23_456);
        pair.run_until(dropped_at);
        pair.path.set_rate_bps(pair.now, self.after_bps).unwrap();
        let read_at = |pair: &Pair| pair.server.stats().stream_bytes_read;
        let (mut gap, mut last) = (Duration::ZERO, (pair.now, read_at(&pair)));
        let mut read_until = |pair: &mut Pair, until: Time| {
            while pair.now < until {
                pair.run_until(pair.now + Duration::from_millis(1));
                if read_at(pair) > last.1 {
                    last = (pair.now, read_at(pair));
                }
                gap = gap.max(pair.now.since(last.0));
            }
            last.1
        };
        let [begin, middle, end] =
            [0, 1, 2].map(|times| read_until(&mut pair, dropped_at + gap_max + MEASURED * times));
        let carried_bits = self.after_bps as f64 * MEASURED.as_secs_f64() * SYMBOL_BYTES / PACKET_BYTES;
        let share = |bytes: u64| bytes as f64 * 8.0 / carried_bits;
        Delivery { gap, first_share: share(middle - begin), second_share: share(end - middle) }
    }

    /// Checks that delivery resumes after at most `within` plus three round trips, and then uses the path's capacity.
    fn check(self, within: Duration) {
        let gap_max = within + self.full_rtt() * 3;
        let second_share_min = match self.traffic {
            Traffic::Bulk => SHARE_MIN,
            Traffic::LowLatency => SHARE_MIN_LOW_LATENCY,
        };
        for step in 0..4 {
            let seen = self.run(step, gap_max);
            let shares_met = seen.first_share >= FIRST_SHARE_MIN && seen.second_share >= second_share_min;
            assert!(
                seen.gap <= gap_max && shares_met,
                "step {step} of {self:?}: {seen:?}, at most {gap_max:?} allowed"
            );
        }
    }
}

fn sixty_to_five(base_rtt_ms: u64) -> CapacityDrop {
    CapacityDrop {
        sender_bps: 50 * MBIT,
        before_bps: 60 * MBIT,
        after_bps: 5 * MBIT,
        base_rtt: Duration::from_millis(base_rtt_ms),
        traffic: Traffic::Bulk,
    }
}

fn hundred_to_three(base_rtt_ms: u64) -> CapacityDrop {
    CapacityDrop { sender_bps: 80 * MBIT, before_bps: 100 * MBIT, after_bps: 3 * MBIT, ..sixty_to_five(base_rtt_ms) }
}

#[test]
fn a_path_which_falls_from_60_to_5_mbit_goes_on_delivering() {
    [10, 50, 200].map(sixty_to_five).into_iter().for_each(|drop| drop.check(AT_ONCE));
}

#[test]
fn a_path_which_falls_from_100_to_3_mbit_goes_on_delivering() {
    [10, 50, 200].map(hundred_to_three).into_iter().for_each(|drop| drop.check(AT_ONCE));
}

/// The path loses more than a sender's estimate can cover, so the circuit breaker has to act first.
#[test]
fn a_path_which_keeps_a_fiftieth_of_the_rate_delivers_once_the_circuit_breaker_has_acted() {
    [10, 200]
        .map(|rtt_ms| CapacityDrop { after_bps: 3 * MBIT / 2, ..hundred_to_three(rtt_ms) })
        .into_iter()
        .for_each(|drop| drop.check(BREAKER));
}

#[test]
fn low_latency_traffic_goes_on_too() {
    [sixty_to_five(50), hundred_to_three(50)]
        .map(|drop| CapacityDrop { traffic: Traffic::LowLatency, ..drop })
        .into_iter()
        .for_each(|drop| drop.check(AT_ONCE));
}
