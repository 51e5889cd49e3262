//! Tests of the automatic rate over simulated paths: alone, with other automatic rates, beside TCP, and behind fair
//! queues.

mod dumbbell;

use std::time::Duration;

use dfcp_netem::{Discipline, LinkChange, LinkConfig, LinkStats, Loss, Policer};
use dfcp_proto::{Config, Policy, Rate};
use dfcp_sim::{Counting, DfcpConfig, Nobody, Transport, tcp};
use dfcp_time::Time;
use dumbbell::{Dumbbell, Flow, Path};

const MBIT: u64 = 1_000_000;
const RATE_BPS: u64 = 50 * MBIT;
/// Share of payload in a full packet: a symbol takes 1420 bytes of an IP packet of 1460.
const PAYLOAD: f64 = 1_420.0 / 1_460.0;

fn auto(policy: Policy) -> Transport {
    dfcp(Config::danger_unsealed().with_rate(Rate::auto(policy)))
}

fn at_least(mbps: u64) -> Config {
    let rate = Rate::Auto { policy: Policy::Fair, max_bps: None, min_bps: Some(mbps * MBIT) };
    Config::danger_unsealed().with_rate(rate)
}

fn dfcp(config: Config) -> Transport {
    Transport::Dfcp(Box::new(DfcpConfig::both(config.with_codec(&Counting))))
}

/// Creates a path whose buffer holds `bdp` bandwidth-delay products.
fn path(rtt: Duration, bdp: f64, loss: f64) -> Path {
    let packets = RATE_BPS as f64 / 8.0 / 1_500.0 * rtt.as_secs_f64() * bdp;
    Path::drop_tail(RATE_BPS, (packets as usize).max(16), loss, 7)
}

/// Results of all flows over an interval.
struct Got {
    mbps: Vec<f64>,
    /// Mean queueing delay, ms.
    queue_ms: f64,
    /// Share of the offered packets that the bottleneck's queue dropped, 0 to 1.
    dropped: f64,
    /// Utilisation of the bottleneck, 0 to 1, including packets that are lost behind it.
    carried: f64,
}

impl Got {
    fn used(&self, loss: f64) -> f64 {
        self.mbps.iter().sum::<f64>() * 1e6 / RATE_BPS as f64 / PAYLOAD / (1.0 - loss)
    }

    fn jain(&self) -> f64 {
        let (sum, squares) = self.mbps.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        sum * sum / squares / self.mbps.len() as f64
    }
}

fn run(path: Path, flows: Vec<Flow>, from_s: u64, to_s: u64) -> Got {
    let mut dumbbell = Dumbbell::new(path, flows, Nobody);
    dumbbell.simulation.run_until(Time::from_s(from_s));
    got_until(&mut dumbbell, to_s)
}

/// Measures from the current time until `to_s`.
fn got_until(dumbbell: &mut Dumbbell<Nobody>, to_s: u64) -> Got {
    let (before, from) = (dumbbell.delivered_bytes(), dumbbell.simulation.now());
    let link = dumbbell.bottleneck;
    let stats = dumbbell.simulation.link_stats(link);
    let waiting = dumbbell.run_sampling(Time::from_s(to_s));
    let after = dumbbell.simulation.link_stats(link);
    let offered = after.offered.packets - stats.offered.packets;
    let carried_bytes = |stats: LinkStats| stats.lost.bytes + stats.delivered.bytes;
    let most_bytes = RATE_BPS as f64 / 8.0 * Time::from_s(to_s).since(from).as_secs_f64();
    Got {
        mbps: dumbbell.goodput_since(&before, from),
        queue_ms: waiting * 1_500.0 * 8.0 / RATE_BPS as f64 * 1e3,
        dropped: (after.queue_drops.packets - stats.queue_drops.packets) as f64 / offered as f64,
        carried: (carried_bytes(after) - carried_bytes(stats)) as f64 / most_bytes,
    }
}

fn alone(rtt_ms: u64, bdp: f64, loss: f64) -> Got {
    let rtt = Duration::from_millis(rtt_ms);
    run(path(rtt, bdp, loss), vec![Flow::new(auto(Policy::Fair), rtt, None)], 2, 8)
}

#[test]
fn alone_it_fills_the_path_with_a_short_queue() {
    for (rtt_ms, queue_ms) in [(10, 2.0), (100, 5.0)] {
        for bdp in [0.2, 1.0, 4.0] {
            let got = alone(rtt_ms, bdp, 0.0);
            assert!(got.used(0.0) > 0.95, "{rtt_ms} ms, {bdp} BDP: {}", got.used(0.0));
            assert!(got.queue_ms < queue_ms, "{rtt_ms} ms, {bdp} BDP: {} ms", got.queue_ms);
            assert!(got.dropped < 0.015, "{rtt_ms} ms, {bdp} BDP: {}", got.dropped);
        }
    }
}

#[test]
fn what_the_path_loses_by_itself_does_not_lower_the_rate() {
    for loss in [0.01, 0.1, 0.3, 0.5] {
        let got = alone(50, 1.0, loss);
        assert!(got.used(loss) > 0.92 && got.queue_ms < 6.0, "loss {loss}: {}, {} ms", got.used(loss), got.queue_ms);
        assert!(got.dropped < 0.005, "loss {loss}: {}", got.dropped);
    }
}

#[test]
fn jitter_is_no_queue() {
    for (rtt_ms, jitter_ms) in [(20, 5), (20, 10), (100, 10)] {
        let rtt = Duration::from_millis(rtt_ms);
        let mut path = path(rtt, 1.0, 0.0);
        path.bottleneck.jitter = Duration::from_millis(jitter_ms);
        let got = run(path, vec![Flow::new(auto(Policy::Fair), rtt, None)], 2, 30);
        assert!(got.used(0.0) > 0.88, "{rtt_ms} ms, jitter {jitter_ms} ms: {}", got.used(0.0));
    }
}

#[test]
fn ten_automatic_rates_share_the_path_and_keep_its_queue_short() {
    let rtt = Duration::from_millis(100);
    for every_ms in [200_u64, 250, 300, 350] {
        let flow = |index| Flow { start: Time::from_ms(every_ms * index), ..Flow::new(auto(Policy::Fair), rtt, None) };
        let mut dumbbell = Dumbbell::new(path(rtt, 1.0, 0.0), (0..10).map(flow).collect(), Nobody);
        dumbbell.simulation.run_until(Time::from_s(10));
        let early = got_until(&mut dumbbell, 25);
        // Convergence depends on the start times. Differences between the rates fall by a factor of e in about 13 s
        // (decision 0025).
        let late = got_until(&mut dumbbell, 40);
        for got in [&early, &late] {
            assert!(got.used(0.0) > 0.93, "every {every_ms} ms: {} used", got.used(0.0));
            assert!(got.queue_ms < 0.3 * 100.0 + 5.0, "every {every_ms} ms: {} ms", got.queue_ms);
            assert!(got.dropped < 0.02, "every {every_ms} ms: {} dropped", got.dropped);
        }
        println!("every {every_ms} ms: Jain {:.2} early, {:.2} late", early.jain(), late.jain());
        assert!(late.jain() > 0.9, "every {every_ms} ms: {:?}", late.mbps);
    }
}

/// The configured rate is four times the path's capacity. Without the breaker, three quarters of the packets are lost
/// in the whole run.
#[test]
fn the_breaker_stands_above_a_least_rate_which_the_path_does_not_take() {
    let rtt = Duration::from_millis(50);
    let dropped = |breaker| {
        let config = at_least(200).with_breaker(breaker);
        run(path(rtt, 1.0, 0.0), vec![Flow::new(dfcp(config), rtt, None)], 30, 50).dropped
    };
    let (with, without) = (dropped(true), dropped(false));
    assert!(with < 0.15 && without > 0.7, "dropped {with} with the breaker, {without} without");
}

#[test]
fn a_least_rate_which_the_path_takes_is_no_more_than_that() {
    let rtt = Duration::from_millis(100);
    let got = run(path(rtt, 1.0, 0.0), vec![Flow::new(dfcp(at_least(20)), rtt, None)], 2, 8);
    assert!(got.used(0.0) > 0.95 && got.queue_ms < 5.0, "{}, {} ms", got.used(0.0), got.queue_ms);
    let flows = vec![
        Flow::new(dfcp(at_least(30)), rtt, None),
        Flow::new(Transport::Tcp(tcp::Config::modern(tcp::Congestion::Cubic)), rtt, None),
    ];
    let got = run(path(rtt, 1.0, 0.0), flows, 5, 35);
    assert!(got.mbps[0] > 0.9 * 30.0 * PAYLOAD, "{:?}", got.mbps);
}

#[test]
fn thirty_automatic_rates_become_equal_and_do_not_take_each_other_for_tcp() {
    // These buffers take 100 ms and 80 ms to drain; TCP flows would fill them.
    for (rtt_ms, bdp, most_ms) in [(100_u64, 1.0, 60.0), (20, 4.0, 40.0)] {
        let rtt = Duration::from_millis(rtt_ms);
        let flow = |index: u64| Flow { start: Time::from_ms(130 * index), ..Flow::new(auto(Policy::Fair), rtt, None) };
        let got = run(path(rtt, bdp, 0.0), (0..30).map(flow).collect(), 8, 38);
        println!("{rtt_ms} ms: Jain {:.2}, {} ms, {} dropped", got.jain(), got.queue_ms, got.dropped);
        assert!(got.used(0.0) > 0.95 && got.dropped < 0.02, "{rtt_ms} ms: {}, {}", got.used(0.0), got.dropped);
        assert!(got.queue_ms < most_ms, "{rtt_ms} ms: {} ms", got.queue_ms);
        // Late joiners find a queue. If no flow let it drain, they would mistake it for base delay, and Jain's index
        // would be 0.2 to 0.75.
        assert!(got.jain() > 0.8, "{rtt_ms} ms: {:?}", got.mbps);
    }
}

/// Returns the share of an automatic rate beside one TCP flow over a minute, 0 to 1.
fn share_beside(congestion: tcp::Congestion, rtt_ms: u64, bdp: f64, start_ms: u64) -> f64 {
    let rtt = Duration::from_millis(rtt_ms);
    let rival = Transport::Tcp(tcp::Config::modern(congestion));
    let late = Flow { start: Time::from_ms(start_ms), ..Flow::new(auto(Policy::Fair), rtt, None) };
    let got = run(path(rtt, bdp, 0.0), vec![late, Flow::new(rival, rtt, None)], 15, 75);
    got.mbps[0] / got.mbps.iter().sum::<f64>()
}

#[test]
fn beside_cubic_neither_starves() {
    // The starts are simultaneous or successive, which determines which flow fills the queue first.
    for (rtt_ms, bdp) in [(20, 1.0), (20, 4.0), (100, 1.0), (100, 4.0), (40, 0.5)] {
        for start_ms in [0, 130, 3_000] {
            let share = share_beside(tcp::Congestion::Cubic, rtt_ms, bdp, start_ms);
            assert!((0.15..0.65).contains(&share), "{rtt_ms} ms, {bdp} BDP, after {start_ms} ms: {share}");
        }
    }
}

#[test]
fn beside_bbr_neither_starves() {
    for (rtt_ms, bdp) in [(20, 1.0), (20, 4.0), (100, 1.0), (100, 4.0)] {
        let share = share_beside(tcp::Congestion::Bbr1, rtt_ms, bdp, 50);
        assert!((0.08..0.7).contains(&share), "{rtt_ms} ms, {bdp} BDP: {share}");
    }
}

#[test]
fn bursts_of_losses_are_no_queue() {
    let rtt = Duration::from_millis(100);
    let mut soon = 0;
    for seed in 1..=6 {
        let mut path = path(rtt, 1.0, 0.0);
        (path.seed, path.bottleneck.loss) = (seed, Loss::bursts(0.3, 4.0).expect("such bursts exist"));
        let mut dumbbell = Dumbbell::new(path, vec![Flow::new(auto(Policy::Fair), rtt, None)], Nobody);
        dumbbell.simulation.run_until(Time::from_s(2));
        // In-order arrivals within a second vary from 0.6 to 1.4 of the rate, depending on bursts. The utilisation of
        // the link does not vary.
        soon += u32::from(got_until(&mut dumbbell, 8).carried > 0.97);
        // A flow that loses its first two packet trains in bursts mistakes the path for a full one, but recovers.
        let late = got_until(&mut dumbbell, 18).used(0.3);
        assert!(late > 0.93, "seed {seed}: {late}");
    }
    assert!(soon >= 5, "only {soon} of 6 within two seconds");
}

#[test]
fn the_low_policy_leaves_the_path_to_others_and_takes_it_alone() {
    let rtt = Duration::from_millis(50);
    let cubic = Transport::Tcp(tcp::Config::modern(tcp::Congestion::Cubic));
    let flows = vec![Flow::new(auto(Policy::Low), rtt, None), Flow::new(cubic, rtt, None)];
    let got = run(path(rtt, 1.0, 0.0), flows, 5, 35);
    assert!(got.mbps[0] / got.mbps[1] < 0.18, "{:?}", got.mbps);
    let got = run(path(rtt, 1.0, 0.0), vec![Flow::new(auto(Policy::Low), rtt, None)], 2, 8);
    assert!(got.used(0.0) > 0.95, "{}", got.used(0.0));
    let flows = [Policy::Low, Policy::Fair].map(|policy| Flow::new(auto(policy), rtt, None));
    let got = run(path(rtt, 1.0, 0.0), flows.into(), 5, 35);
    assert!(got.mbps[0] / got.mbps[1] < 0.5, "beside fair: {:?}", got.mbps);
}

#[test]
fn the_high_policy_takes_more_of_what_automatic_rates_share() {
    let rtt = Duration::from_millis(50);
    let flows = [Policy::High, Policy::Fair].map(|policy| Flow::new(auto(policy), rtt, None));
    let got = run(path(rtt, 1.0, 0.0), flows.into(), 5, 35);
    assert!((1.4..2.6).contains(&(got.mbps[0] / got.mbps[1])), "beside fair: {:?}", got.mbps);
    let got = run(path(rtt, 1.0, 0.0), vec![Flow::new(auto(Policy::High), rtt, None)], 2, 8);
    assert!(got.used(0.0) > 0.97 && got.queue_ms < 8.0, "alone: {}, {} ms", got.used(0.0), got.queue_ms);
}

#[test]
fn slow_paths_which_lose_much_are_filled() {
    // A round has few datagrams on these paths, so the measured loss varies by chance alone.
    for (mbps, rtt_ms, loss) in [(5, 10, 0.3), (5, 100, 0.1), (5, 100, 0.5), (1, 50, 0.3)] {
        for seed in 1..=3 {
            let path = Path { seed, ..Path::drop_tail(mbps * MBIT, 50, loss, seed) };
            let rtt = Duration::from_millis(rtt_ms);
            let mut dumbbell = Dumbbell::new(path, vec![Flow::new(auto(Policy::Fair), rtt, None)], Nobody);
            dumbbell.simulation.run_until(Time::from_s(3));
            let used =
                dumbbell.goodput_mbps(Time::from_s(3), Time::from_s(33))[0] / mbps as f64 / PAYLOAD / (1.0 - loss);
            assert!(used > 0.88, "{mbps} Mbit/s, {rtt_ms} ms, loss {loss}, seed {seed}: {used}");
        }
    }
}

/// A radio link aggregates frames. Waiting for the next batch is not queueing.
#[test]
fn batches_are_no_queue() {
    for rtt_ms in [20, 100] {
        let rtt = Duration::from_millis(rtt_ms);
        let mut path = path(rtt, 1.0, 0.0);
        path.bottleneck = path.bottleneck.with_batch(Duration::from_millis(4));
        let got = run(path, vec![Flow::new(auto(Policy::Fair), rtt, None)], 4, 24);
        assert!(got.used(0.0) > 0.95 && got.queue_ms < 8.0, "{rtt_ms} ms: {}, {} ms", got.used(0.0), got.queue_ms);
    }
}

/// The policer drops excess packets without queueing them.
#[test]
fn behind_a_policer_it_sends_little_more_than_passes() {
    for (rtt_ms, bucket_packets, loss) in [(20, 2, 0.0), (20, 20, 0.01), (100, 2, 0.01), (100, 20, 0.0)] {
        let rtt = Duration::from_millis(rtt_ms);
        let mut path = Path { access_bps: 1_000 * MBIT, ..path(rtt, 1.0, loss) };
        let policer = Policer { rate_bps: RATE_BPS, bucket_bytes: bucket_packets * 1_500 };
        path.bottleneck = LinkConfig { rate_bps: Some(1_000 * MBIT), ..path.bottleneck.with_policer(policer) };
        let got = run(path, vec![Flow::new(auto(Policy::Fair), rtt, None)], 6, 36);
        let told = format!("{rtt_ms} ms, {bucket_packets} packets: {} used, {} dropped", got.used(loss), got.dropped);
        assert!(got.used(loss) > 0.9 && got.dropped < 0.12, "{told}");
    }
}

#[test]
fn behind_fair_queues_it_takes_its_share_and_loses_nothing() {
    let rtt = Duration::from_millis(50);
    for discipline in [Discipline::Drr(Default::default()), Discipline::FqCodel(Default::default())] {
        let cubic = Transport::Tcp(tcp::Config::modern(tcp::Congestion::Cubic));
        let flows = vec![Flow::new(auto(Policy::Fair), rtt, None), Flow::new(cubic, rtt, None)];
        let mut path = path(rtt, 1.0, 0.0);
        path.bottleneck.discipline = discipline.clone();
        let got = run(path, flows, 5, 25);
        let share = got.mbps[0] / got.mbps.iter().sum::<f64>();
        assert!((0.44..0.58).contains(&share) && got.dropped < 0.01, "{discipline:?}: {share}, {}", got.dropped);
    }
}

#[test]
fn when_the_path_gets_slower_and_faster_the_rate_follows() {
    let rtt = Duration::from_millis(100);
    let flows = vec![Flow::new(auto(Policy::Fair), rtt, None)];
    let mut dumbbell = Dumbbell::new(path(rtt, 1.0, 0.01), flows, Nobody);
    let link = dumbbell.bottleneck;
    dumbbell.simulation.run_until(Time::from_s(5));
    for (rate_bps, from_s) in [(RATE_BPS / 2, 5), (RATE_BPS, 10)] {
        let change = LinkChange { rate_bps: Some(rate_bps), ..LinkChange::default() };
        dumbbell.simulation.change(link, &change).expect("a valid rate");
        let mbps = dumbbell.goodput_mbps(Time::from_s(from_s + 1), Time::from_s(from_s + 5))[0];
        assert!(mbps * 1e6 / rate_bps as f64 > 0.9 * PAYLOAD, "{mbps} of {rate_bps}");
    }
}
