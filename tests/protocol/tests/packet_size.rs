//! Packet size discovery over paths of many widths, which lose at random, and which become narrower (`spec/protocol.md` §10.1).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss};
use dfcp_proto::{Config, Rate, Stats};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;
/// Headers of UDP over IPv4, below ours.
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

/// Makes the path carry no larger packets than `mtu` says at each time, in both directions. Nobody is told.
fn limit(pair: &mut Pair, mut mtu: impl FnMut(Time) -> usize + 'static) {
    pair.tap = Box::new(move |now, packet| {
        let passes = packet.bytes.len() + HEADER_BYTES <= mtu(now);
        if passes { vec![packet] } else { Vec::new() }
    });
}

fn stats(pair: &Pair) -> Stats {
    pair.client.stats()
}

/// The largest size that sealed packets of this connection have.
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

/// The time for which nothing new could be read, at the longest, from `from` until the transfer is over.
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
            println!("{loss} {seed} {gap:?} {:?}", stats(&pair).black_holes);
            assert!(gap <= gap_max, "{gap:?} at loss {loss}, seed {seed}");
            assert_eq!((stats(&pair).packet_bytes, stats(&pair).black_holes), (1_280, 1), "{loss} {seed}");
        }
    }
}
