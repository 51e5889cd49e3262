//! Tests of the limits on a sender without a congestion window (`spec/protocol.md`, “Silence” and “Circuit breaker”).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{Config, ConnectionError, PeerMisbehaved, Rate};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, rewrites, sealed};
use dfcp_time::Time;
use dfcp_wire::Flags;

fn link(rate_bps: u64, one_way_ms: u64, loss: f64) -> LinkConfig {
    LinkConfig::default()
        .with_rate_bps(rate_bps)
        .with_delay(Duration::from_millis(one_way_ms))
        .with_queue(QueueLimit::packets(500))
        .with_loss(Loss::bernoulli(loss))
}

fn pair(seed: u64, forward: LinkConfig, backward: LinkConfig, client: Config) -> Pair {
    let path = LinksConfig { forward, backward, interface_bps: 1_000_000_000 };
    Pair::over(seed, path, (client, Job::send(u64::MAX)), (Config::danger_unsealed(), Job::send(0))).unwrap()
}

fn at_rate(rate_bps: u64) -> Config {
    Config::danger_unsealed().with_rate(Rate::Fixed { rate_bps })
}

/// Rates offered by the client (IP bytes) and read by the server's application, from `from_s` to `to_s`, Mbit/s.
fn measured(pair: &mut Pair, from_s: u64, to_s: u64) -> (f64, f64) {
    pair.run_until(Time::from_s(from_s));
    let before = (pair.client.stats(), pair.server.stats());
    pair.run_until(Time::from_s(to_s));
    let after = (pair.client.stats(), pair.server.stats());
    let datagrams = after.0.segments_sent - before.0.segments_sent;
    let offered_bytes = after.0.bytes_sent - before.0.bytes_sent + datagrams * 28;
    let read_bytes = after.1.stream_bytes_read - before.1.stream_bytes_read;
    let mbit = |bytes: u64| (bytes * 8) as f64 / ((to_s - from_s) as f64 * 1e6);
    (mbit(offered_bytes), mbit(read_bytes))
}

#[test]
fn a_receiver_that_hides_what_arrived_contradicts_itself() {
    let mut pair = pair(2, link(100_000_000, 25, 0.0), link(100_000_000, 25, 0.0), at_rate(20_000_000));
    // Every report claims the loss of nearly all datagrams, although blocks are decoded.
    pair.tap = rewrites(Flags::FBK, |_, payload| {
        let received: &mut [u8; 4] = payload[4..].first_chunk_mut().unwrap();
        *received = (u32::from_be_bytes(*received) / 20).to_be_bytes();
    });
    pair.run_until(Time::from_s(3));
    let ended = &pair.client.ended;
    let is_caught =
        matches!(ended[..], [Some(ConnectionError::PeerMisbehaved(PeerMisbehaved::InconsistentReport { .. }))]);
    assert!(is_caught, "{ended:?}");
}

#[test]
fn a_hundred_megabits_into_ten_settle_near_ten_and_a_half() {
    let mut pair = pair(4, link(10_000_000, 25, 0.0), link(10_000_000, 25, 0.0), at_rate(100_000_000));
    let (offered_mbit, goodput_mbit) = measured(&mut pair, 12, 52);
    // The sender offers 5 % more than the path's rate, except while it offers less to measure its own share of the
    // loss. The ceiling of goodput is 9.62 Mbit/s.
    assert!((10.3..10.8).contains(&offered_mbit), "{offered_mbit}");
    assert!(goodput_mbit > 9.3, "{goodput_mbit}");
}

#[test]
fn a_full_path_which_also_loses_a_tenth_is_used_to_the_full() {
    let mut pair = pair(7, link(20_000_000, 25, 0.1), link(20_000_000, 25, 0.1), at_rate(100_000_000));
    let (offered_mbit, goodput_mbit) = measured(&mut pair, 30, 60);
    let ceiling = 20.0 * 0.9 * 1420.0 / 1476.0;
    assert!(goodput_mbit > ceiling * 0.9, "{goodput_mbit} of {ceiling}");
    assert!((20.0..23.0).contains(&offered_mbit), "{offered_mbit}");
    assert_eq!(pair.client.stats().breaker_tests, 1);
}

#[test]
fn fifty_per_cent_of_random_loss_is_not_taxed() {
    let mut pair = pair(5, link(100_000_000, 25, 0.5), link(100_000_000, 25, 0.5), at_rate(50_000_000));
    let (_, goodput_mbit) = measured(&mut pair, 8, 28);
    let ceiling = 50.0 * 0.5 * 1420.0 / 1476.0;
    assert!(goodput_mbit > ceiling * 0.97, "{goodput_mbit} of {ceiling}");
    assert_eq!(pair.client.stats().breaker_tests, 1);
}

/// Both ends are honest. The sender's own rate is far above the receiver's limit, whichever end opened the connection.
#[test]
fn a_receivers_rate_cap_binds_whatever_the_sender_was_told() {
    let rates = [Rate::Line, Rate::Fixed { rate_bps: 500_000_000 }];
    for (cap_bps, base) in [(2_000_000, sealed()), (5_000_000, Config::danger_unsealed())] {
        for (rate, server_sends) in rates.into_iter().flat_map(|rate| [(rate, false), (rate, true)]) {
            let eager = (base.clone().with_rate(rate), Job::send(u64::MAX));
            let capped = (base.clone().with_receive_rate_max_bps(cap_bps), Job::send(0));
            let (client, server) = if server_sends { (capped, eager) } else { (eager, capped) };
            let (forward, backward) = (link(100_000_000, 5, 0.0), link(100_000_000, 5, 0.0));
            let links = LinksConfig { forward, backward, interface_bps: 1_000_000_000 };
            let mut pair = Pair::over(6, links, client, server).unwrap();
            let [begin, middle, end] = [2, 6, 12].map(|second| {
                pair.run_until(Time::from_s(second));
                let sender = if server_sends { &pair.server } else { &pair.client };
                (sender.sent_bytes.values().sum::<u64>() + 28 * sender.emitted()) as f64 * 8.0 / cap_bps as f64
            });
            let steady = (end - begin) / 10.0;
            assert!((0.96..1.04).contains(&steady), "{steady} of {cap_bps}, {rate:?}, server sends: {server_sends}");
            let at_first = middle / 5.0;
            assert!((0.90..=1.02).contains(&at_first), "{at_first} of {cap_bps} in the first 5 s, {rate:?}");
        }
    }
}
