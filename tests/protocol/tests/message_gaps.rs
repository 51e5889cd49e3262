//! Tests of messages whose rate times deadline is many times the number of ids that a receiver remembers: delivery never stops
//! ([message-8]).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_proto::{Deadline, Rate};
use dfcp_protocol_tests::messages::{Losses, MessagesConfig, Outcome, run};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Small messages over a path with enough capacity. Data and reports are lost with the probability `share`.
fn config(per_second: u32, within: Duration, share: f64, lasting: Duration) -> MessagesConfig {
    let every = Duration::from_secs(1) / per_second;
    MessagesConfig {
        path_bps: 1_000_000_000,
        rate: Rate::Fixed { rate_bps: 900_000_000 },
        losses: Losses::Independent(share),
        both_ways: true,
        bytes: 200,
        every,
        deadline: Deadline::within(within),
        within,
        warm_up: Duration::from_secs(1),
        count: (lasting.as_nanos() / every.as_nanos()) as u64,
        closes: true,
        ..MessagesConfig::default()
    }
}

/// Runs the case, and checks that delivery never stops, neither during the messages nor at the end, and that no symbol is sent for a
/// forgotten message.
fn check(config: MessagesConfig) -> Outcome {
    let outcome = run(config).unwrap();
    let rtt = config.delay * 2;
    let told = format!(
        "{} of {} in time, a gap of {:?}, closed after {:?}, {} refused, {} dropped by the receiver, {:?}: {config:?}",
        outcome.in_time,
        outcome.messages,
        outcome.longest_gap,
        outcome.closed_after,
        outcome.refused,
        outcome.receiver.segments_dropped,
        outcome.sender.messages_sent,
    );
    assert!(outcome.longest_gap <= (rtt * 4).max(Duration::from_millis(100)), "{told}");
    assert!(outcome.closed_after.is_some_and(|after| after <= (rtt * 10).max(Duration::from_millis(500))), "{told}");
    assert_eq!((outcome.refused, outcome.receiver.segments_dropped, outcome.delivered_late), (0, 0, 0), "{told}");
    outcome
}

/// Checks that at most a thousandth misses its deadline, with no more redundancy than the losses require.
fn check_target(config: MessagesConfig, share: f64) {
    let outcome = check(config);
    let missed_max = 0.001 + 3.0 * (0.001 / config.count as f64).sqrt();
    let overhead_max = share / (1.0 - share) + 0.01;
    assert!(outcome.missed() <= missed_max, "{} missed: {config:?}", outcome.missed());
    assert!(outcome.overhead() <= overhead_max, "{} more datagrams: {config:?}", outcome.overhead());
}

/// Regression test: delivery stopped for seconds, because an abandoned message blocked all messages at least 8192 ids
/// younger until its deadline.
#[test]
fn what_was_given_up_holds_nothing_back() {
    for (per_second, within_s, share, lasting_s) in [(2_000, 20, 0.1, 12), (3_000, 5, 0.05, 8), (6_000, 2, 0.05, 4)] {
        let (within, lasting) = (Duration::from_secs(within_s), Duration::from_secs(lasting_s));
        check_target(config(per_second, within, share, lasting), share);
    }
}

#[test]
fn a_deadline_that_a_million_messages_share_is_no_wait() {
    for (per_second, within_s, lasting_ms) in
        [(10_000, 1, 3_000), (10_000, 10, 3_000), (5_000, 200, 4_000), (50_000, 20, 1_500)]
    {
        let (within, lasting) = (Duration::from_secs(within_s), Duration::from_millis(lasting_ms));
        check_target(config(per_second, within, 0.1, lasting), 0.1);
    }
}

/// A window of ids lasts less than a round trip here: repair symbols are then sent in advance, and ids advance with reports.
#[test]
fn more_messages_in_a_round_trip_than_a_window_has_go_on() {
    let delay = Duration::from_millis(100);
    let fast = MessagesConfig { delay, ..config(60_000, Duration::from_secs(10), 0.02, Duration::from_secs(2)) };
    let outcome = run(fast).unwrap();
    let told = format!("a gap of {:?}, {} in time, {} refused", outcome.longest_gap, outcome.in_time, outcome.refused);
    assert!(outcome.longest_gap <= delay * 8, "{told}");
    // At most 8192 messages fit into a round trip of 200 ms plus the delay of a report: about 35 000 per second, for 2
    // s.
    assert!(outcome.in_time > 2 * 35_000 && outcome.receiver.segments_dropped == 0, "{told}");
    let begun_and_missed = outcome.messages - outcome.refused - outcome.in_time;
    assert!(begun_and_missed <= outcome.messages / 300, "{told}");
}

/// Bursts affect both directions. After the last message the peer is probed, and missing symbols are repaired long
/// before the deadline. (If probes are lost, too, they are up to 1 s apart.)
#[test]
fn an_outage_while_the_last_messages_are_under_way_is_no_wait_for_their_deadlines() {
    for seed in 1..=10 {
        let losses = Losses::Bursts { share: 0.19, mean: Duration::from_millis(48) };
        let delay = Duration::from_millis(12);
        let (within, lasting) = (Duration::from_secs(60), Duration::from_millis(500));
        let config = MessagesConfig { losses, delay, seed, ..config(3_000, within, 0.0, lasting) };
        let outcome = run(config).unwrap();
        let slowest = outcome.latencies_us.last().map(|&us| Duration::from_micros(us.into()));
        let told = format!("seed {seed}: {slowest:?}, {:?}", outcome.closed_after);
        assert!(slowest.is_some_and(|took| took < Duration::from_secs(8)), "{told}");
        assert!(outcome.closed_after.is_some_and(|after| after < Duration::from_secs(8)), "{told}");
    }
}

/// The receiver has its reserve, and none of the shared memory. Regression test: each of these messages was repeated endlessly after 256
/// younger ones had arrived.
#[test]
fn what_is_reliable_comes_also_where_the_receiver_has_no_memory() {
    for share in [0.01, 0.2] {
        let (within, lasting) = (Duration::from_secs(10), Duration::from_secs(2));
        let deadline = Deadline::RELIABLE;
        let config =
            MessagesConfig { deadline, memory_bytes_max: Some(1_000_000), ..config(10_000, within, share, lasting) };
        let outcome = run(config).unwrap();
        let told = format!(
            "{} of {} came, closed after {:?}, {} refused, {} dropped by the receiver",
            outcome.in_time, outcome.messages, outcome.closed_after, outcome.refused, outcome.receiver.segments_dropped
        );
        assert_eq!(outcome.in_time + outcome.refused, outcome.messages, "{told}");
        assert!(outcome.refused == 0 && outcome.closed_after.is_some(), "{told}");
    }
}

#[test]
fn whatever_the_path_and_the_messages_none_stand_still() {
    for seed in 0..12 {
        check(drawn(seed));
    }
}

/// A path, with messages within its capacity.
fn drawn(seed: u64) -> MessagesConfig {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut drawn = |least: f64, most: f64| least * (most / least).powf(random.random_range(0.0..1.0));
    let per_second = drawn(500.0, 40_000.0);
    let delay = Duration::from_secs_f64(drawn(0.001, 0.15));
    let within = delay + Duration::from_secs_f64(drawn(0.05, 200.0));
    let bytes = drawn(16.0, 40e6 / per_second) as usize;
    let share = drawn(0.001, 0.25);
    let lasting = Duration::from_secs_f64((30_000.0 / per_second).clamp(1.0, 8.0));
    MessagesConfig { bytes, delay, seed, ..config(per_second as u32, within, share, lasting) }
}
