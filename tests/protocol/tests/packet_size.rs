//! Tests of packet size discovery over paths of many sizes, with random loss, and with a size that shrinks (`spec/protocol.md` §10.1).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Config, ConnectionError, Deadline, Policy, Rate, Stats};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;
/// Bytes of UDP and IPv4 headers.
const HEADER_BYTES: usize = 28;
const START: Time = Time::from_s(1);

/// A transfer of `bytes` at 20 Mbit/s over a round trip of 50 ms.
fn pair(seed: u64, loss: f64, bytes: u64) -> Pair {
    with_config(seed, loss, bytes, sealed())
}

fn with_config(seed: u64, loss: f64, bytes: u64, config: Config) -> Pair {
    let link = LinkConfig::default().with_delay(Duration::from_millis(25)).with_loss(Loss::bernoulli(loss));
    let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
    let client = config.clone().with_rate(Rate::Fixed { rate_bps: 20 * MBIT });
    Pair::over(seed, path, (client, Job::send(bytes)), (config, Job::send(0))).unwrap()
}

/// Limits the packet size of the path over time to `mtu`, in both directions, without notice to the ends.
fn limit(pair: &mut Pair, mut mtu: impl FnMut(Time) -> usize + 'static) {
    pair.tap = Box::new(move |now, packet| {
        let passes = packet.bytes.len() + HEADER_BYTES <= mtu(now);
        if passes { vec![packet] } else { Vec::new() }
    });
}

fn stats(pair: &Pair) -> Stats {
    pair.client.stats()
}

/// Largest size of encrypted packets in this connection.
const FULL_BYTES: u16 = 1_496;

#[test]
fn every_width_is_found_and_the_transfer_completes() {
    for (mtu, least) in [(1_280, 1_280), (1_400, 1_400), (1_420, 1_420), (1_492, 1_492), (1_500, FULL_BYTES)] {
        for loss in [0.0, 0.2, 0.3] {
            for seed in 0..3 {
                let mut pair = pair(seed, loss, 6_000_000);
                limit(&mut pair, move |_| mtu);
                pair.run(Time::from_s(60)).unwrap_or_else(|error| panic!("{mtu} {loss} {seed}: {error:#}"));
                let found = usize::from(stats(&pair).packet_bytes);
                assert!(found <= mtu && found >= least.into(), "{found} at {mtu}, loss {loss}, seed {seed}");
                assert_eq!(stats(&pair).black_holes, 0, "{mtu} {loss} {seed}");
            }
        }
    }
}

/// Longest time without new data for the reader, from `from` to the end of the transfer.
fn longest_gap(pair: &mut Pair, from: Time, limit: Time) -> Duration {
    pair.run_until(from);
    let (mut gap, mut last) = (Duration::ZERO, (pair.now, pair.server.stats().stream_bytes_read));
    while pair.server.read_to_end == 0 {
        assert!(pair.now < limit, "not done: {}", pair.describe());
        pair.run_until(pair.now + Duration::from_millis(1));
        let read = pair.server.stats().stream_bytes_read;
        gap = gap.max(pair.now.since(last.0));
        if read > last.1 {
            last = (pair.now, read);
        }
    }
    gap
}

#[test]
fn a_path_which_becomes_narrower_goes_on_by_parts_of_symbols() {
    let gap_max = Duration::from_secs(1) + Duration::from_millis(50) * 6;
    for loss in [0.0, 0.2] {
        for seed in 0..12 {
            let mut pair = pair(seed, loss, 10_000_000);
            let shrinks_at = START + Duration::from_millis(1_500 + 37 * seed);
            limit(&mut pair, move |now| if now < shrinks_at { 1_500 } else { 1_280 });
            pair.run_until(shrinks_at);
            assert_eq!(stats(&pair).packet_bytes, FULL_BYTES);
            let gap = longest_gap(&mut pair, shrinks_at, Time::from_s(60));
            assert!(gap <= gap_max, "{gap:?} at loss {loss}, seed {seed}");
            assert_eq!((stats(&pair).packet_bytes, stats(&pair).black_holes), (1_280, 1), "{loss} {seed}");
        }
    }
}

/// Tests [message-4]. Such a message was never complete, and the session never ended.
#[test]
fn a_reliable_message_comes_over_a_path_which_becomes_narrower() {
    for (loss, seed) in [0.0, 0.2].into_iter().flat_map(|loss| (0..4).map(move |seed| (loss, seed))) {
        let mut pair = with_config(seed, loss, 10_000_000, sealed().with_messages(true));
        let shrinks_at = START + Duration::from_millis(1_500 + 37 * seed);
        limit(&mut pair, move |now| if now < shrinks_at { 1_500 } else { 1_280 });
        pair.run_until(shrinks_at);
        assert_eq!(stats(&pair).packet_bytes, FULL_BYTES);
        let now = pair.now;
        let mut messages = pair.client.connection_mut().unwrap().messages().unwrap();
        messages.send(now, &[7; 60_000], Deadline::RELIABLE).unwrap();
        pair.run(Time::from_s(60)).unwrap_or_else(|error| panic!("loss {loss}, seed {seed}: {error:#}"));
        assert_eq!((stats(&pair).packet_bytes, stats(&pair).messages_sent.complete), (1_280, 1), "{loss} {seed}");
    }
}

/// Half of all datagrams are lost in each direction, without a size limit: for 12 seconds no packet size is mistaken for one that does not
/// pass.
#[test]
fn random_loss_is_no_black_hole() {
    for seed in 0..40 {
        let mut pair = pair(seed, 0.5, u64::MAX);
        pair.run_until(START + Duration::from_secs(12));
        let seen = stats(&pair);
        assert_eq!((seen.packet_bytes, seen.black_holes), (FULL_BYTES, 0), "seed {seed}");
    }
}

#[test]
fn an_outage_of_everything_ends_at_the_full_size() {
    for (seed, outage_ms) in (0..4).flat_map(|seed| [100, 400, 3_000].map(|ms| (seed, ms))) {
        let mut pair = pair(seed, 0.05, 20_000_000);
        let dark = START + Duration::from_secs(2)..START + Duration::from_millis(2_000 + outage_ms);
        limit(&mut pair, move |now| if dark.contains(&now) { 0 } else { 1_500 });
        pair.run(Time::from_s(90)).unwrap();
        assert_eq!(stats(&pair).packet_bytes, FULL_BYTES, "outage of {outage_ms} ms, seed {seed}");
    }
}

/// Both ends send at full speed, so that small reports and large data are mixed in both directions.
#[test]
fn a_path_which_becomes_narrower_goes_on_in_both_directions() {
    for seed in 0..4 {
        let link = LinkConfig::default().with_delay(Duration::from_millis(25)).with_loss(Loss::bernoulli(0.2));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
        let end = || (sealed().with_rate(Rate::Fixed { rate_bps: 20 * MBIT }), Job::send(6_000_000));
        let mut pair = Pair::over(seed, path, end(), end()).unwrap();
        let shrinks_at = START + Duration::from_millis(1_200);
        limit(&mut pair, move |now| if now < shrinks_at { 1_500 } else { 1_400 });
        pair.run(Time::from_s(60)).unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        for node in [&pair.client, &pair.server] {
            assert_eq!((node.stats().packet_bytes, node.stats().black_holes), (1_400, 1), "seed {seed}");
        }
    }
}

/// The handshake and all reports fit the smallest assumed path, including reports of an end that never sends data.
#[test]
fn nothing_but_probes_is_larger_than_what_is_proven() {
    let mut pair = pair(3, 0.3, 3_000_000);
    let largest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = std::rc::Rc::clone(&largest);
    pair.tap = Box::new(move |_, packet| {
        let bytes = packet.bytes.len() + HEADER_BYTES;
        if packet.from == dfcp_testkit::server_address() {
            seen.set(seen.get().max(bytes));
        }
        if bytes <= 1_280 { vec![packet] } else { Vec::new() }
    });
    pair.run(Time::from_s(60)).unwrap();
    assert!(largest.get() <= 1_280, "{} bytes from an end without data", largest.get());
}

/// Without discovery at either end, all packets have the configured size from the first datagram on, and no probe is sent.
#[test]
fn discovery_can_be_switched_off_by_either_end() {
    for (client, server) in [(false, true), (true, false)] {
        let rate = Rate::Fixed { rate_bps: 100 * MBIT };
        let config = |discovers| sealed().with_rate(rate).with_packet_size_discovery(discovers);
        let link = LinkConfig::default().with_delay(Duration::from_millis(5));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
        let mut pair =
            Pair::over(1, path, (config(client), Job::send(1_000_000)), (config(server), Job::send(0))).unwrap();
        pair.run(Time::from_s(60)).unwrap();
        let symbols = stats(&pair).sent.total();
        // With the smallest packets the transfer would take 831.
        assert!(symbols < 730, "{symbols}");
        assert_eq!(stats(&pair).packet_bytes, FULL_BYTES, "{client} {server}");
    }
}

/// After the first second a path of 1500 bytes delivers as much as one with full packet sizes from the start, to 1 %.
#[test]
fn on_a_wide_path_discovery_costs_nothing_after_a_second() {
    for rate_bps in [2 * MBIT, 20 * MBIT, 100 * MBIT] {
        let [with, without] = [true, false].map(|discovers| {
            let link = LinkConfig::default().with_delay(Duration::from_millis(25));
            let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
            let config = sealed().with_packet_size_discovery(discovers);
            let client = config.clone().with_rate(Rate::Fixed { rate_bps });
            let mut pair = Pair::over(1, path, (client, Job::send(u64::MAX)), (config, Job::send(0))).unwrap();
            pair.run_until(START + Duration::from_secs(1));
            let before = pair.server.stats().stream_bytes_read;
            pair.run_until(START + Duration::from_secs(5));
            (pair.server.stats().stream_bytes_read - before) as f64
        });
        assert!(with >= 0.99 * without, "{rate_bps} bit/s: {with} bytes with, {without} without");
    }
}

/// Length of encrypted control segments, by which they are recognised: a probe's answer has no payload.
const ANSWER_BYTES: usize = 40;

/// A peer that never answers probes, or answers them forever, slows itself down, and draws no more than an eighth of the traffic in probes.
#[test]
fn a_peer_which_withholds_answers_gets_its_bytes_in_small_packets() {
    let mut pair = pair(5, 0.0, 10_000_000);
    let probes = std::rc::Rc::new(std::cell::Cell::new((0_usize, 0_usize)));
    let counted = std::rc::Rc::clone(&probes);
    pair.tap = Box::new(move |now, packet| {
        let bytes = packet.bytes.len() + HEADER_BYTES;
        if packet.from == dfcp_testkit::client_address() {
            let (large, all) = counted.get();
            counted.set((large + if bytes > 1_280 { bytes } else { 0 }, all + bytes));
        } else if packet.bytes.len() == ANSWER_BYTES && now < START + Duration::from_secs(3) {
            // Drop answers to probes. After 3 s, acknowledgements of the end have the same length, and pass.
            return Vec::new();
        }
        vec![packet]
    });
    pair.run(Time::from_s(60)).unwrap();
    let (large, all) = probes.get();
    assert_eq!(stats(&pair).packet_bytes, 1_280);
    assert!(large > 0 && large * 8 <= all, "{large} of {all} bytes were probes");
}

#[test]
fn an_automatic_rate_finds_the_size_too() {
    for mtu in [1_280, 1_400, 1_500] {
        let link = LinkConfig::default().with_delay(Duration::from_millis(25)).with_rate_bps(20 * MBIT);
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
        let mut pair = Pair::over(
            1,
            path,
            (sealed().with_rate(Rate::auto(Policy::Fair)), Job::send(6_000_000)),
            (sealed(), Job::send(0)),
        )
        .unwrap();
        limit(&mut pair, move |_| mtu);
        pair.run(Time::from_s(60)).unwrap_or_else(|error| panic!("{mtu}: {error:#}"));
        assert_eq!(usize::from(stats(&pair).packet_bytes), mtu.min(FULL_BYTES.into()), "{mtu}");
    }
}

/// A tunnel of 1200 bytes: the handshake passes, and data does not. Both ends report the reason, whichever end sends
/// data.
#[test]
fn a_path_that_is_narrower_than_any_packet_is_named() {
    for (up, down) in [(5_000_000, 0), (0, 5_000_000), (2_400, 0)] {
        for (seed, loss, by_s) in [(3, 0.0, 16), (3, 0.2, 16), (4, 0.2, 40), (5, 0.2, 40), (6, 0.2, 40), (7, 0.3, 40)] {
            if up == 2_400 && seed != 3 {
                continue;
            }
            let link = LinkConfig::default().with_delay(Duration::from_millis(25)).with_loss(Loss::bernoulli(loss));
            let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
            let config = || sealed().with_rate(Rate::Fixed { rate_bps: 20 * MBIT });
            let mut pair = Pair::over(seed, path, (config(), Job::send(up)), (config(), Job::send(down))).unwrap();
            limit(&mut pair, |_| 1_200);
            pair.run_until(Time::from_s(by_s));
            for node in [&pair.client, &pair.server] {
                let expected = [Some(ConnectionError::PathTooNarrow)];
                assert_eq!(node.ended, expected, "seed {seed}: {up} up, {down} down, {loss} lost");
            }
        }
    }
}

/// A path of the base size is never reported as too narrow, at any loss and after any outage.
#[test]
fn neither_loss_nor_an_outage_makes_a_path_too_narrow() {
    for seed in 0..8 {
        for loss in [0.1, 0.3, 0.5] {
            let mut pair = pair(seed, loss, 3_000_000);
            let outage = Time::from_s(2)..Time::from_s(12);
            limit(&mut pair, move |now| if outage.contains(&now) { 0 } else { 1_280 });
            let ended = pair.run(Time::from_s(300));
            assert!(ended.is_ok(), "seed {seed}, {loss} lost: {ended:?}");
        }
    }
}

/// A flapping route: a path that has passed packets of the base size gets ten seconds to do so again.
#[test]
fn a_path_that_becomes_too_narrow_is_named_if_it_stays_so() {
    for (narrow_s, survives) in [(6, true), (40, false)] {
        let mut pair = pair(5, 0.05, 6_000_000);
        let narrow = Time::from_s(2)..Time::from_s(2 + narrow_s);
        limit(&mut pair, move |now| if narrow.contains(&now) { 1_200 } else { 1_500 });
        pair.run_until(Time::from_s(2 + narrow_s));
        let expected = if survives { Vec::new() } else { vec![Some(ConnectionError::PathTooNarrow)] };
        assert_eq!(pair.client.ended, expected, "narrow for {narrow_s} s");
        if survives {
            pair.run(Time::from_s(60)).unwrap();
        }
    }
}
