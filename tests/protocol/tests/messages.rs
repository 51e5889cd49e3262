//! Tests of messages with deadlines over a lossy path: in time, with few datagrams, and without harm to streams.

use std::time::Duration;

use dfcp_proto::{Deadline, Policy, Rate};
use dfcp_protocol_tests::messages::{Losses, MessagesConfig, Outcome, run};
use dfcp_sim::messages::{Bound, Least};

/// Path and messages of the table: interval in µs, deadline beyond the one-way delay in ms.
fn config(losses: Losses, every_us: u64, beyond_ms: u64) -> MessagesConfig {
    let within = Duration::from_millis(25 + beyond_ms);
    let every = Duration::from_micros(every_us);
    MessagesConfig { losses, every, deadline: Deadline::within(within), within, ..MessagesConfig::default() }
}

/// Checks that at most the permitted share plus three standard errors is missed, with no more datagrams than the bound permits.
fn check(config: MessagesConfig, outcome: &Outcome) {
    // A failed group loses about four messages at once.
    let missed_max = 0.001 + 3.0 * (0.004 / config.count as f64).sqrt();
    let replay = format!("{config:?}: {:.5} missed, {:.4} datagrams more", outcome.missed(), outcome.overhead());
    assert!(outcome.missed() <= missed_max, "{replay}");
    assert_eq!(outcome.delivered_late, 0, "{replay}");
    let bound = Bound {
        losses: config.losses,
        spacing_s: config.every.as_secs_f64(),
        beyond_s: config.within.as_secs_f64() - 0.025,
        rtt_s: 0.05,
        datagram_s: 0.000_12,
        lost_max: 0.001,
    };
    let Least::Datagrams(least) = bound.least() else { panic!("{replay}: it cannot be done") };
    // 0.05 for chance, because there are few messages.
    assert!(outcome.overhead() <= 1.25 * (least - 1.0) + 0.05, "{replay}, {least} at least");
}

#[test]
fn without_time_for_a_report_repair_symbols_over_neighbours_suffice() {
    for (share, every_us) in [(0.01, 4_000), (0.05, 400), (0.2, 4_000)] {
        let config = MessagesConfig { count: 12_000, ..config(Losses::Independent(share), every_us, 10) };
        check(config, &run(config).unwrap());
    }
}

#[test]
fn with_time_for_reports_little_more_is_sent_than_is_lost() {
    for (share, every_us, beyond_ms) in [(0.05, 4_000, 60), (0.01, 400, 130), (0.2, 4_000, 130)] {
        let config = MessagesConfig { count: 12_000, ..config(Losses::Independent(share), every_us, beyond_ms) };
        check(config, &run(config).unwrap());
    }
}

#[test]
fn bursts_do_not_take_all_that_is_sent_for_a_message() {
    let losses = Losses::Bursts { share: 0.05, mean: Duration::from_millis(20) };
    let config = MessagesConfig { count: 20_000, ..config(losses, 4_000, 130) };
    let outcome = run(config).unwrap();
    // 20 000 messages meet only 160 bursts, so the missed share varies.
    assert!(outcome.missed() < 0.004 && outcome.overhead() < 0.2, "{} {}", outcome.missed(), outcome.overhead());
    assert!(outcome.sender.messages_sent.burst > Duration::from_millis(8), "{:?}", outcome.sender.messages_sent);
}

#[test]
fn reports_that_are_lost_cost_datagrams_and_no_deadline() {
    let config = MessagesConfig { both_ways: true, count: 12_000, ..config(Losses::Independent(0.2), 4_000, 130) };
    check(config, &run(config).unwrap());
}

#[test]
fn the_two_ends_count_alike_whatever_their_clocks_show() {
    for drift_ppm in [0, 100, -100] {
        let config = MessagesConfig { drift_ppm, count: 8_000, ..config(Losses::Independent(0.05), 4_000, 60) };
        let outcome = run(config).unwrap();
        let seen = outcome.receiver.messages_received;
        // The sum includes messages before the counted ones. The receiver judges lateness by a clock with an error of
        // 2.4 ms.
        assert_eq!(seen.in_time + seen.late + seen.lost, outcome.sender.messages_sent.begun, "{drift_ppm}: {seen:?}");
        assert!(outcome.missed() < 0.003, "{drift_ppm}: {} missed, {seen:?}", outcome.missed());
        assert_eq!(outcome.in_time as usize, outcome.latencies_us.len());
    }
}

#[test]
fn beside_a_stream_at_an_automatic_rate_both_get_what_is_theirs() {
    // One round of 50 ms is possible, if the stream's queue does not consume that time.
    let auto = MessagesConfig {
        rate: Rate::auto(Policy::Fair),
        bulk: true,
        count: 12_000,
        ..config(Losses::Independent(0.05), 4_000, 60)
    };
    let outcome = run(auto).unwrap();
    check(auto, &outcome);
    // The messages' packets leave this part of 95 % of the path, without the headers of the stream's packets.
    let messages_bps = (1.0 + outcome.overhead()) * 250.0 * 1_420.0 * 8.0;
    let rest_bps = 0.95 * (100e6 - messages_bps) * 1_420.0 / 1_492.0;
    let bulk_bps = outcome.bulk_bytes as f64 * 8.0 / outcome.took.as_secs_f64();
    assert!((0.95..1.02).contains(&(bulk_bps / rest_bps)), "{bulk_bps} of {rest_bps}");
}

#[test]
fn a_path_that_stands_still_costs_what_it_delays_and_no_more() {
    // One stall per second; the first falls into the handshake.
    for stall_ms in [50, 300] {
        let stalls = MessagesConfig {
            stall: Duration::from_millis(stall_ms),
            count: 5_000,
            warm_up: Duration::ZERO,
            ..config(Losses::Independent(0.0), 4_000, 10)
        };
        let outcome = run(stalls).unwrap();
        // Missed are messages due in the stall, up to 10 ms before its end, and those in the round trip until its end
        // is known.
        let most = (stall_ms as f64 - 10.0 + 60.0) / 1e3;
        assert!(outcome.missed() < most, "{stall_ms} ms: {} of {most}", outcome.missed());
    }
}

#[test]
fn few_messages_alone_find_room_at_an_automatic_rate() {
    for (share, every_us, beyond_ms) in [(0.05, 4_000, 10), (0.05, 400, 60), (0.2, 4_000, 130)] {
        let config = MessagesConfig {
            rate: Rate::auto(Policy::Fair),
            count: 12_000,
            ..config(Losses::Independent(share), every_us, beyond_ms)
        };
        check(config, &run(config).unwrap());
    }
}

#[test]
fn a_storm_of_messages_starves_no_stream() {
    let storm = MessagesConfig {
        rate: Rate::Fixed { rate_bps: 20_000_000 },
        bulk: true,
        count: 20_000,
        warm_up: Duration::from_secs(2),
        ..config(Losses::Independent(0.0), 100, 130)
    };
    let outcome = run(storm).unwrap();
    let bulk_bps = outcome.bulk_bytes as f64 * 8.0 / outcome.took.as_secs_f64();
    assert!((1.6e6..2.4e6).contains(&bulk_bps), "a tenth of the rate is the stream's: {bulk_bps}");
    // Messages of 105 Mbit/s were handed over.
    let sent = outcome.sender.messages_sent;
    assert!(sent.expired_unsent > 10_000 && sent.begun > 2_000, "{sent:?}");
}
