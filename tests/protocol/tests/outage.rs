//! Tests of outages during a transfer: all datagrams in flight are lost, without notice. Such loss is not treated as congestion.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::Duration;

use dfcp_netem::{LinkConfig, QueueLimit};
use dfcp_proto::{BreakerState, Config, Policy, Rate};
use dfcp_protocol_tests::Pair;
use dfcp_testkit::{Job, LinksConfig, Trust, sealed};
use dfcp_time::Time;

const MBIT: u64 = 1_000_000;
const BYTES: u64 = 10_000_000;

/// After an outage an automatic rate may have lost all data in flight: probing packets may exceed the limit of bytes in
/// flight ([silence-2]).
#[test]
fn an_automatic_rate_goes_on_after_an_outage() {
    for (rate_mbps, outage_ms) in [(20, 100), (20, 500), (20, 2_000), (200, 30), (200, 500)] {
        for only_data in [true, false] {
            let link = LinkConfig::default()
                .with_delay(Duration::from_millis(10))
                .with_rate_bps(rate_mbps * MBIT)
                .with_queue(QueueLimit::packets(100));
            let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
            let client = sealed().with_rate(Rate::auto(Policy::Fair));
            let mut pair = Pair::over(1, path, (client, Job::send(BYTES)), (sealed(), Job::send(0))).unwrap();
            // At this time half of the transfer is over.
            let begin = Time::from_s(1) + Duration::from_millis(BYTES * 8 / rate_mbps / 2_000);
            let end = begin + Duration::from_millis(outage_ms);
            let last_data = std::rc::Rc::new(std::cell::Cell::new(Time::ZERO));
            let seen = std::rc::Rc::clone(&last_data);
            pair.tap = Box::new(move |now, packet| {
                let is_data = packet.from == dfcp_testkit::client_address();
                if is_data && packet.bytes.len() > 1_000 {
                    seen.set(now);
                }
                if (is_data || !only_data) && now >= begin && now < end { Vec::new() } else { vec![packet] }
            });
            pair.run(Time::from_s(120)).unwrap_or_else(|error| panic!("{rate_mbps} Mbit/s, {outage_ms} ms: {error:#}"));
            // Twice the outage, because probe intervals double in it, 1.5 times the transfer, and one second.
            let most = Duration::from_millis(BYTES * 8 / rate_mbps / 1_000 * 3 / 2 + 2 * outage_ms + 1_000);
            let took = last_data.get().since(Time::from_s(1));
            assert!(took < most, "{rate_mbps} Mbit/s, {outage_ms} ms, data alone: {only_data}: {took:?}");
        }
    }
}

/// The path to the acceptor fails right after the acceptor's answer. Its half-open entry lasts as long as the proof is
/// repeated (\[open-32\]).
#[test]
fn an_outage_behind_the_answer_to_the_syn_delays_the_connection_and_no_more() {
    for (outage_s, trust) in [5, 11, 20, 28].into_iter().flat_map(|s| Trust::ALL.map(|trust| (s, trust))) {
        let link = LinkConfig::default().with_delay(Duration::from_millis(250)).with_rate_bps(10 * MBIT);
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
        let (client, server) = trust.security();
        let [client, server] = [client, server].map(|security| Config { security, ..sealed() });
        let mut pair = Pair::over(1, path, (client, Job::send(10_000)), (server, Job::send(0))).unwrap();
        let is_answered = std::cell::Cell::new(None);
        pair.tap = Box::new(move |now, packet| {
            let is_forward = packet.from == dfcp_testkit::client_address();
            let begin = is_answered.get().unwrap_or_else(|| {
                is_answered.set((!is_forward).then_some(now));
                Time::MAX
            });
            if is_forward && now >= begin && now < begin + Duration::from_secs(outage_s) {
                Vec::new()
            } else {
                vec![packet]
            }
        });
        pair.run(Time::from_s(100)).unwrap_or_else(|error| panic!("{outage_s} s, {trust:?}: {error:#}"));
    }
}

/// A sender at a fixed rate, on a path that becomes silent.
#[derive(Clone, Copy, Debug)]
struct Silence {
    rate: Rate,
    path_bps: u64,
    gap: Duration,
    /// Directions with loss in the gap: data, reports, or both.
    loses: (bool, bool),
}

/// Round-trip time of these paths.
const RTT: Duration = Duration::from_millis(40);

impl Silence {
    fn pair(self, seed: u64) -> Pair {
        let link =
            LinkConfig::default().with_delay(RTT / 2).with_rate_bps(self.path_bps).with_queue(QueueLimit::packets(100));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 1_000 * MBIT };
        let client = sealed().with_rate(self.rate);
        Pair::over(seed, path, (client, Job::send(u64::MAX)), (sealed(), Job::send(0))).unwrap()
    }

    /// Seconds of delivery lost in addition to the gap: measured 16 s after the gap, at the rate of delivery before it.
    fn lost_beyond_the_gap(self, seed: u64) -> f64 {
        let began = Time::from_s(16) + Duration::from_micros(seed * 7_919_000 % 1_000_000);
        let ended = began + self.gap;
        let mut pair = self.pair(seed);
        let (data, reports) = self.loses;
        pair.tap = Box::new(move |now, packet| {
            let is_data = packet.from == dfcp_testkit::client_address();
            let is_lost = now >= began && now < ended && if is_data { data } else { reports };
            if is_lost { Vec::new() } else { vec![packet] }
        });
        let read_at = |pair: &mut Pair, at: Time| {
            pair.run_until(at);
            pair.server.stats().stream_bytes_read as f64
        };
        let measured = Duration::from_secs(4);
        let (first, second) = (read_at(&mut pair, began - measured), read_at(&mut pair, began));
        let per_s = (second - first) / measured.as_secs_f64();
        let after = Duration::from_secs(16);
        (after.as_secs_f64() - (read_at(&mut pair, ended + after) - second) / per_s).max(0.0)
    }
}

/// A gap costs, beyond its length, the wait for the next probe (at most one second) and some round trips.
#[test]
fn a_fixed_rate_goes_on_after_a_silence() {
    let mut worst = Vec::new();
    // Rates below and above the path's capacity; above it the circuit breaker limits the rate.
    for (path_mbps, rate) in [(10, 8), (4, 8)] {
        for gap_s in [1, 3, 8, 20] {
            for loses in [(true, true), (true, false), (false, true)] {
                let rate = Rate::Fixed { rate_bps: rate * MBIT };
                let silence = Silence { rate, path_bps: path_mbps * MBIT, gap: Duration::from_secs(gap_s), loses };
                let lost = (1..3).map(|seed| silence.lost_beyond_the_gap(seed)).fold(0.0, f64::max);
                worst.push((lost, silence));
            }
        }
    }
    let most = 1.0 + 8.0 * RTT.as_secs_f64();
    worst.retain(|(lost, _)| *lost > most);
    assert!(worst.is_empty(), "more than {most:.2} s: {worst:?}");
}

#[test]
fn an_automatic_rate_is_what_it_was_after_a_silence() {
    let mut worst = Vec::new();
    for gap_s in [1, 3, 8, 20] {
        for loses in [(true, true), (true, false), (false, true)] {
            let rate = Rate::auto(Policy::Fair);
            let silence = Silence { rate, path_bps: 8 * MBIT, gap: Duration::from_secs(gap_s), loses };
            let lost = (1..3).map(|seed| silence.lost_beyond_the_gap(seed)).fold(0.0, f64::max);
            worst.push((lost, silence));
        }
    }
    let most = 1.0 + 8.0 * RTT.as_secs_f64();
    worst.retain(|(lost, _)| *lost > most);
    assert!(worst.is_empty(), "more than {most:.2} s: {worst:?}");
}

/// Rare reports must not disable the circuit breaker, for any cause of the delay: each report ends a gap.
#[test]
fn the_breaker_acts_on_a_full_path_whose_reports_hardly_come() {
    // Period of reports and the open part of it, ms; and independent loss of reports, per cent.
    let windows = [(1_100, 1), (1_100, 30), (400, 5), (250, 60), (3_000, 200)];
    for (every_ms, open_ms, loss) in
        windows.map(|(every, open)| (every, open, 0)).into_iter().chain([(1, 1, 90), (1, 1, 97)])
    {
        let rate = Rate::Fixed { rate_bps: 20 * MBIT };
        let silence = Silence { rate, path_bps: 5 * MBIT, gap: Duration::ZERO, loses: (false, false) };
        let mut pair = silence.pair(1);
        let mut random = 1_u64;
        let opens = Time::from_s(2);
        pair.tap = Box::new(move |now, packet| {
            if packet.from == dfcp_testkit::client_address() || now < opens {
                return vec![packet];
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_open = now.since(opens).as_millis() as u64 % every_ms < open_ms && (random >> 33) % 100 >= loss;
            if is_open { vec![packet] } else { Vec::new() }
        });
        let mut acted_at = None;
        let mut sent_before = 0;
        while pair.now < Time::from_s(90) {
            pair.run_until(pair.now + Duration::from_millis(50));
            let stats = pair.client.stats();
            if stats.breaker == BreakerState::Limiting {
                acted_at.get_or_insert_with(|| pair.now.since(opens));
            }
            if pair.now <= Time::from_s(60) {
                sent_before = stats.bytes_sent;
            }
        }
        let sent_bps = (pair.client.stats().bytes_sent - sent_before) * 8 / 30;
        // A nearly silent peer is sent little data, with or without the circuit breaker ([silence-1]).
        assert!(sent_bps < 5 * MBIT * 13 / 10, "every {every_ms} ms for {open_ms} ms, {loss} % lost: {sent_bps}");
        assert!(acted_at.is_some() || sent_bps < MBIT, "{acted_at:?}, {sent_bps} bit/s");
    }
}
