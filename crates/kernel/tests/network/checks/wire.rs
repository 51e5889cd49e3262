//! Checks of one wire: rate, delay, jitter, losses, changes.

use std::thread;
use std::time::{Duration, Instant};

use dfcp_kernel::guest::network::Network;
use dfcp_netem::{LinkChange, LinkConfig, Loss};
use dfcp_sim::Pair as HostPair;

use super::{Check, dumbbell, link, ms, near, plain, us};
use crate::traffic::{Arrival, Pair};

pub(super) const CHECKS: &[Check] = &[
    ("a packet takes its transmission times and delays", one_packet),
    ("the rate is that of IP bytes", rate),
    ("the rate of a host's own link is that of IP bytes", access_rate),
    ("jitter is even and keeps order", jitter),
    ("independent losses have their share", losses),
    ("losses in bursts have their share and length", bursts),
    ("the same seed loses the same packets", seeds),
    ("a change of the rate keeps what waits", change_of_rate),
    ("a change of the delay keeps what travels", change_of_delay),
    ("losses begin and end with a change", change_of_loss),
    ("an outage begins and ends with a change, and leaves losses as they are", outage),
    ("a policer lets its bucket and its rate through, and holds nothing up", policer_alone),
    ("a policer stands in front of a queue", policer_before_queue),
    ("packets that follow each other arrive in batches", batches),
];

fn numbers(arrivals: &[Arrival]) -> Vec<u32> {
    arrivals.iter().map(|arrival| arrival.number).collect()
}

fn one_packet() {
    for (rate_bps, access_bps) in [(10_000_000, None), (10_000_000, Some(100_000_000)), (1_000_000_000, None)] {
        let layout = dumbbell(link(rate_bps, ms(5), 10), 1, HostPair { access_bps, ..plain(ms(8)) });
        let network = Network::build(&layout, 1).unwrap();
        let pair = Pair::new(&network, layout.hosts[0]);
        for bytes in [1500, 100] {
            let [arrival] = pair.burst(1, bytes)[..] else { panic!("not one packet came") };
            let time = |bps: u64| Duration::from_nanos(bytes as u64 * 8 * 1_000_000_000 / bps);
            let access = access_bps.map_or(Duration::ZERO, time);
            let expected = ms(2) + access + time(rate_bps) + ms(5) + ms(2) + access;
            // Each hop rounds its timer up by some hundred nanoseconds.
            near("one-way delay", arrival.after, expected, us(3));
        }
    }
}

fn paced(arrivals: &[Arrival], packets: u32, bytes: u64, rate_bps: u64) {
    assert_eq!(numbers(arrivals), (0..packets).collect::<Vec<_>>(), "all, and in order");
    let took = (arrivals[arrivals.len() - 1].after - arrivals[0].after).as_secs_f64();
    let expected = f64::from(packets - 1) * (bytes * 8) as f64 / rate_bps as f64;
    assert!((took / expected - 1.0).abs() < 0.002, "{took} s instead of {expected} s at {rate_bps} bit/s, {bytes} B");
}

fn rate() {
    for rate_bps in [1_000_000, 12_345_678, 100_000_000, 2_000_000_000] {
        let layout = dumbbell(link(rate_bps, ms(1), 5000), 1, plain(ms(0)));
        let network = Network::build(&layout, 1).unwrap();
        let pair = Pair::new(&network, layout.hosts[0]);
        for bytes in [1500, 100] {
            paced(&pair.burst(2000, bytes), 2000, bytes as u64, rate_bps);
        }
    }
}

fn access_rate() {
    let layout =
        dumbbell(link(1_000_000_000, ms(0), 5000), 1, HostPair { access_bps: Some(50_000_000), ..plain(ms(4)) });
    let network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    paced(&pair.burst(2000, 1500), 2000, 1500, 50_000_000);
}

fn losses() {
    let packets = 40_000;
    for p in [0.01, 0.2] {
        let bottleneck = link(1_000_000_000, ms(1), 100_000).with_loss(Loss::bernoulli(p));
        let layout = dumbbell(bottleneck, 1, plain(ms(0)));
        let mut network = Network::build(&layout, 3).unwrap();
        let arrivals = Pair::new(&network, layout.hosts[0]).burst(packets, 200);
        let lost = packets as usize - arrivals.len();
        let expected = f64::from(packets) * p;
        let deviation = (expected * (1.0 - p)).sqrt();
        assert!((lost as f64 - expected).abs() < 4.0 * deviation, "{lost} instead of {expected} ± {deviation}");
        let sample = network.sample(layout.links[0].0).unwrap();
        assert_eq!((sample.lost_packets, sample.dropped_packets), (lost as u64, 0));
        assert_eq!((sample.sent.packets, sample.sent.ip_bytes), (packets.into(), u64::from(packets) * 200));
    }
}

fn bursts() {
    let packets = 100_000;
    let (mean, length) = (0.05, 4.0);
    let bottleneck = link(1_000_000_000, ms(1), 100_000).with_loss(Loss::bursts(mean, length).unwrap());
    let layout = dumbbell(bottleneck, 1, plain(ms(0)));
    let network = Network::build(&layout, 5).unwrap();
    let came = numbers(&Pair::new(&network, layout.hosts[0]).burst(packets, 100));
    let gaps: Vec<u32> = came.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|&gap| gap > 0).collect();
    let lost = f64::from(gaps.iter().sum::<u32>());
    let share = lost / f64::from(packets);
    let run = lost / gaps.len() as f64;
    // 1250 bursts whose lengths have a standard deviation of √(4 · 3): 4 standard errors of the mean are 0.4.
    assert!((run - length).abs() < 0.4, "runs of {run}");
    assert!((share - mean).abs() < 0.01, "a share of {share}");
}

fn seeds() {
    let came = |seed| {
        let bottleneck = link(1_000_000_000, ms(1), 1000).with_loss(Loss::bernoulli(0.1));
        let layout = dumbbell(bottleneck, 1, HostPair { jitter: ms(1), ..plain(ms(4)) });
        let network = Network::build(&layout, seed).unwrap();
        (Pair::new(&network, layout.hosts[0]).stream(2000, 100, ms(2)), network.is_seeded())
    };
    let ((first, is_seeded), (second, _), (other, _)) = (came(11), came(11), came(12));
    println!("netem takes seeds: {is_seeded}");
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    assert_eq!(is_seeded, (parts.next(), parts.next()) >= (Some(6), Some(6)), "Linux {version}");
    assert_eq!(numbers(&first) == numbers(&second), is_seeded);
    assert!(numbers(&first) != numbers(&other), "another seed, other losses");
}

fn jitter() {
    let pair = HostPair { jitter: ms(4), ..plain(ms(40)) };
    let layout = dumbbell(link(1_000_000_000, ms(0), 1000), 1, pair);
    let network = Network::build(&layout, 7).unwrap();
    // Far apart, so that no packet catches up with another.
    let packets = 1000;
    let pace = ms(6);
    let arrivals = Pair::new(&network, layout.hosts[0]).stream(packets, 1500, pace);
    assert_eq!(numbers(&arrivals), (0..packets).collect::<Vec<_>>());
    let added = arrivals.iter().map(|arrival| arrival.after - pace * arrival.number - ms(20) - us(12));
    let added: Vec<f64> = added.map(|delay| delay.as_secs_f64() * 1e3).collect();
    let mean = added.iter().sum::<f64>() / added.len() as f64;
    let below = added.iter().filter(|&&ms| ms < 1.0).count();
    // Four standard errors: 4 ms / √12 / √1000, and √(1000 · 1/4 · 3/4); the sender's timers are 0.05 ms late.
    assert!((mean - 2.03).abs() < 0.15, "mean {mean} ms");
    assert!(below.abs_diff(250) < 65, "{below} of 1000 below a quarter");
    assert!(added.iter().all(|&ms| (-0.002..4.1).contains(&ms)), "{added:?}");
    // Packets sent close together catch up with each other, and none overtakes another.
    let arrivals = Pair::new(&network, layout.hosts[0]).burst(500, 1500);
    assert_eq!(numbers(&arrivals), (0..500).collect::<Vec<_>>());
    near("the first", arrivals[0].after, ms(22), ms(3));
}

/// Sends a burst, and changes the bottleneck after `when`.
fn changed(bottleneck: LinkConfig, packets: u32, when: Duration, change: &LinkChange) -> Vec<Arrival> {
    let layout = dumbbell(bottleneck, 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    let start = Instant::now();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| pair.receive(start));
        (0..packets).for_each(|number| pair.send(number, 1500));
        thread::sleep(when.saturating_sub(start.elapsed()));
        network.change(layout.links[0].0, change).unwrap();
        receiver.join().unwrap()
    })
}

fn change_of_rate() {
    // A packet takes 1.2 ms before the change, and 0.4 ms after it.
    let change = LinkChange { rate_bps: Some(30_000_000), ..LinkChange::default() };
    let arrivals = changed(link(10_000_000, ms(10), 1000), 1000, ms(600), &change);
    assert_eq!(numbers(&arrivals), (0..1000).collect::<Vec<_>>());
    let at = |number: usize| arrivals[number].after;
    near("the last one at the old rate", at(480), ms(10) + us(1200) * 481, us(1200));
    near("a hundred at the new rate", at(700) - at(600), ms(40), us(100));
    near("the last", at(999), ms(10) + ms(600) + us(400) * 500, us(2400));
}

fn change_of_delay() {
    let later = LinkChange { delay: Some(ms(300)), ..LinkChange::default() };
    let sooner = LinkChange { delay: Some(ms(20)), ..LinkChange::default() };
    let rate_bps = 12_000_000; // a packet lasts 1 ms
    let arrivals = changed(link(rate_bps, ms(100), 1000), 400, us(200_500), &later);
    assert_eq!(numbers(&arrivals), (0..400).collect::<Vec<_>>());
    let at = |arrivals: &[Arrival], number: usize| arrivals[number].after;
    near("the last one at the old delay", at(&arrivals, 199), ms(300), us(1100));
    near("one at the new delay", at(&arrivals, 210), ms(511), us(1100));
    let arrivals = changed(link(rate_bps, ms(100), 1000), 400, us(200_500), &sooner);
    // Netem keeps the order: the first packets after the change arrive with the last ones before it.
    assert_eq!(numbers(&arrivals), (0..400).collect::<Vec<_>>());
    near("the last one at the old delay", at(&arrivals, 199), ms(300), us(1100));
    near("nothing is in between", at(&arrivals, 205), ms(306), us(1100));
}

fn change_of_loss() {
    let layout = dumbbell(link(100_000_000, ms(1), 1000), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    let count = |network: &mut Network, loss| {
        let change = LinkChange { loss: Some(loss), ..LinkChange::default() };
        network.change(layout.links[0].0, &change).unwrap();
        pair.burst(500, 100).len()
    };
    assert_eq!(count(&mut network, Loss::bernoulli(1.0)), 0);
    assert_eq!(count(&mut network, Loss::None), 500);
    let some = count(&mut network, Loss::bursts(0.5, 3.0).unwrap());
    assert!((150..350).contains(&some), "{some} of 500");
    assert_eq!(count(&mut network, Loss::None), 500);
}

fn outage() {
    let layout = dumbbell(link(100_000_000, ms(1), 1000).with_loss(Loss::bernoulli(0.5)), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    let edge = layout.links[0].0;
    let set = |network: &mut Network, is_out| {
        network.change(edge, &LinkChange { outage: Some(is_out), ..LinkChange::default() }).unwrap();
        let arrived = pair.burst(500, 100).len() as u64;
        (arrived, network.sample(edge).unwrap().lost_packets)
    };
    assert_eq!(set(&mut network, true), (0, 0), "what is gone in an outage is not lost at random");
    let (arrived, lost) = set(&mut network, false);
    assert!((150..350).contains(&arrived) && arrived + lost == 500, "{arrived} arrived, {lost} lost");
    assert_eq!(set(&mut network, true), (0, lost));
    let (arrived, both) = set(&mut network, false);
    assert_eq!(arrived + both - lost, 500);
}

fn policer_alone() {
    // 1 ms per packet, and a bucket of 20.
    let config = LinkConfig::default().with_rate_bps(12_000_000).with_delay(ms(5)).policed(None, 20).unwrap();
    let layout = dumbbell(config, 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    let burst = pair.burst(100, 1500);
    assert!((20..=21).contains(&burst.len()), "{} of a burst passed", burst.len());
    assert!(burst.iter().all(|arrival| arrival.after < ms(6)), "nothing is held up: {burst:?}");
    // At twice the rate half of the packets pass, plus the full bucket. Smaller packets pass by their bytes, to within
    // the 1 % of headers.
    for (bytes, pace) in [(1500, us(500)), (750, us(250))] {
        thread::sleep(ms(100));
        let passed = pair.stream(2_000, bytes, pace).len() as f64;
        let expected = 1_000.0 + 20.0 * 1500.0 / bytes as f64;
        assert!((passed / expected - 1.0).abs() < 0.03, "{passed} of 2000 with {bytes} bytes, not {expected}");
    }
    let sample = network.sample(layout.links[0].0).unwrap();
    assert_eq!(sample.offered_packets, 4_100);
    assert_eq!(sample.dropped_packets + sample.sent.packets, 4_100);
}

fn policer_before_queue() {
    // The policer lets 40 pass at once, of which the queue holds 10 and one is being sent.
    let config = link(12_000_000, ms(5), 10).policed(Some(24_000_000), 40).unwrap();
    let layout = dumbbell(config, 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    let burst = pair.burst(100, 1500);
    assert!((11..=12).contains(&burst.len()), "{} passed", burst.len());
    near("the last", burst[burst.len() - 1].after, ms(5) + ms(1) * burst.len() as u32, us(300));
    let sample = network.sample(layout.links[0].0).unwrap();
    assert_eq!(sample.dropped_packets, 100 - burst.len() as u64);
}

fn batches() {
    // A packet per ms, in batches 8 ms apart.
    let layout = dumbbell(link(12_000_000, ms(20), 1000).with_batch(ms(8)), 1, plain(ms(0)));
    let network = Network::build(&layout, 1).unwrap();
    let arrivals = Pair::new(&network, layout.hosts[0]).burst(400, 1500);
    assert_eq!(numbers(&arrivals), (0..400).collect::<Vec<_>>());
    let mut times: Vec<Duration> = Vec::new();
    for arrival in &arrivals {
        if times.last().is_none_or(|last| arrival.after - *last > ms(2)) {
            times.push(arrival.after);
        }
    }
    assert!((49..=52).contains(&times.len()), "{} batches", times.len());
    let apart = times.windows(2).skip(1).map(|pair| pair[1] - pair[0]);
    apart.for_each(|apart| near("from one batch to the next", apart, ms(8), us(100)));
    assert!(arrivals.iter().zip(1..).all(|(arrival, number)| arrival.after + us(100) >= ms(20) + ms(1) * number));
}
