//! Checks of queues: number of waiting packets, and order of service.

use std::thread;
use std::time::{Duration, Instant};

use dfcp_kernel::guest::network::{EdgeSample, Network};
use dfcp_netem::{Discipline, Drr, FqCodel, LinkChange, Red, Sfq, Wfq};
use dfcp_sim::Pair as HostPair;

use super::{Check, dumbbell, link, ms, plain, us};
use crate::traffic::{Arrival, Pair};

pub(super) const CHECKS: &[Check] = &[
    ("as many packets wait as may", drop_tail),
    ("the limit holds after a change of the rate", drop_tail_after_change),
    ("drop-tail favours the one who sends more", || shares(Discipline::DropTail, 100, 0.7, 0.1)),
    ("drr gives equal shares", || shares(Discipline::Drr(Drr::default()), 100, 0.5, 0.005)),
    ("sfq gives equal shares", || shares(Discipline::Sfq(Sfq::default()), 100, 0.5, 0.005)),
    ("fq_codel gives equal shares", || shares(Discipline::FqCodel(FqCodel::default()), 100, 0.5, 0.01)),
    ("drr shares its limit among its flows", drr_limit),
    ("fq_codel keeps the waiting time short", fq_codel),
    ("red keeps the queue between its thresholds", red),
    ("samples are cheap", samples),
    ("there is no wfq", wfq),
];

fn drop_tail() {
    for (limit, rate_bps) in [(1, 10_000_000), (20, 10_000_000), (150, 100_000_000)] {
        let layout = dumbbell(link(rate_bps, ms(5), limit), 1, plain(ms(0)));
        let mut network = Network::build(&layout, 1).unwrap();
        let pair = Pair::new(&network, layout.hosts[0]);
        (0..400).for_each(|number| pair.send(number, 1500));
        // Only the first packet has been sent.
        thread::sleep(us(100));
        let bottleneck = layout.links[0].0;
        let early = network.sample(bottleneck).unwrap();
        let arrivals = pair.receive(Instant::now());
        let expected: Vec<u32> = (0..=limit as u32).collect();
        assert_eq!(arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), expected, "limit {limit}");
        if rate_bps == 10_000_000 {
            assert_eq!((early.waiting_packets, early.sent.packets), (limit as u32, 1));
        }
        let late = network.sample(bottleneck).unwrap();
        let (sent, dropped) = (limit as u64 + 1, 400 - limit as u64 - 1);
        let counted = EdgeSample { waiting_packets: 0, offered_packets: 400, dropped_packets: dropped, ..late };
        assert_eq!((late, late.sent.packets, late.sent.ip_bytes), (counted, sent, sent * 1500));
        let received = network.received(layout.hosts[0].1).unwrap();
        assert_eq!((received.packets, received.ip_bytes), (sent, sent * 1500));
    }
}

fn drop_tail_after_change() {
    let layout = dumbbell(link(10_000_000, ms(5), 20), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let change = LinkChange { rate_bps: Some(5_000_000), ..LinkChange::default() };
    network.change(layout.links[0].0, &change).unwrap();
    assert_eq!(Pair::new(&network, layout.hosts[0]).burst(400, 1500).len(), 21);
}

/// Sends packets of 1500 bytes on each pair at its interval for 10 s; returns the arrivals of each.
fn contend(pairs: &[(Pair, Duration)]) -> Vec<Vec<Arrival>> {
    thread::scope(|scope| {
        let start = |(pair, pace): &(Pair, Duration)| {
            let packets = Duration::from_secs(10).div_duration_f64(*pace) as u32;
            pair.stream(packets, 1500, *pace)
        };
        let running: Vec<_> = pairs.iter().map(|pair| scope.spawn(move || start(pair))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks the share of the first of two flows: it sends at three times the link's rate, the second at that rate.
fn shares(discipline: Discipline, limit: usize, expected: f64, tolerance: f64) {
    let name = format!("{discipline:?}");
    // Without jitter two constant streams synchronize, and drop-tail always drops packets of the same stream.
    let pair = HostPair { jitter: ms(3), ..plain(ms(4)) };
    let layout = dumbbell(link(12_000_000, ms(5), limit).with_discipline(discipline), 2, pair);
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = |at: usize| Pair::new(&network, layout.hosts[at]);
    let came = contend(&[(pair(0), us(333)), (pair(1), us(1000))]);
    let sample = network.sample(layout.links[0].0).unwrap();
    let counts = (sample.offered_packets, sample.sent.packets, sample.waiting_packets);
    assert_eq!(counts, (30_030 + 10_000, (came[0].len() + came[1].len()) as u64, 0));
    let within = |arrivals: &[Arrival]| {
        let counts = |arrival: &&Arrival| (ms(2000)..ms(9000)).contains(&arrival.after);
        arrivals.iter().filter(counts).count() as f64
    };
    let (first, second) = (within(&came[0]), within(&came[1]));
    let share = first / (first + second);
    println!("{name}: {first} and {second} packets");
    assert!((share - expected).abs() <= tolerance, "{share} instead of {expected}");
    assert!((first + second - 7000.0).abs() <= 7.0, "{first} + {second} packets in 7 s of 1000 each");
}

fn drr_limit() {
    // Expected: a third of the remaining 99 packets, the next packet, and the one being sent.
    let discipline = Discipline::Drr(Drr::default());
    let layout = dumbbell(link(12_000_000, ms(5), 100).with_discipline(discipline), 3, plain(ms(0)));
    let network = Network::build(&layout, 1).unwrap();
    let pairs: Vec<Pair> = layout.hosts.iter().map(|&hosts| Pair::new(&network, hosts)).collect();
    let came = pairs[0].burst(200, 1500).len();
    assert_eq!(came, 33 + 1 + 1);
}

/// Samples every 10 ms for 10 s, with one flow at twice the link's rate, and its arrivals.
fn overloaded(discipline: Discipline) -> (Vec<EdgeSample>, Vec<Arrival>) {
    let layout = dumbbell(link(12_000_000, ms(5), 1000).with_discipline(discipline), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    let pair = Pair::new(&network, layout.hosts[0]);
    let (samples, arrivals) = thread::scope(|scope| {
        let stream = scope.spawn(|| pair.stream(20_000, 1500, us(500)));
        let samples = (0..900).map(|_| {
            thread::sleep(ms(10));
            network.sample(layout.links[0].0).unwrap()
        });
        (samples.collect::<Vec<_>>(), stream.join().unwrap())
    });
    // Each packet is counted once, whichever part of the discipline drops it.
    let last = network.sample(layout.links[0].0).unwrap();
    let counts = (last.offered_packets, last.sent.packets, last.dropped_packets);
    assert_eq!(counts, (20_000, arrivals.len() as u64, 20_000 - arrivals.len() as u64));
    (samples, arrivals)
}

fn red() {
    let (samples, arrivals) = overloaded(Discipline::Red(Red::default()));
    let waiting: Vec<u32> = samples[200..].iter().map(|sample| sample.waiting_packets).collect();
    let mean = f64::from(waiting.iter().sum::<u32>()) / waiting.len() as f64;
    println!("red: {mean} packets wait on average");
    // Half of the packets must be dropped, which RED does at its upper threshold; drop-tail would let 1000 wait.
    assert!((10.0..20.0).contains(&mean), "{mean} packets wait");
    assert!((9900..10_200).contains(&arrivals.len()), "{}", arrivals.len());
    let last = samples[samples.len() - 1];
    let balance = last.offered_packets.abs_diff(2 * last.sent.packets);
    assert!(balance < last.offered_packets / 50, "{last:?}");
}

fn fq_codel() {
    // An unresponsive flow: the interval shrinks until half of the packets are dropped.
    let (samples, _) = overloaded(Discipline::FqCodel(FqCodel::default()));
    let last = samples[samples.len() - 1];
    assert!(last.dropped_packets > 1000 && last.waiting_packets < 1000, "{last:?}");
}

fn wfq() {
    let discipline = Discipline::Wfq(Wfq::default());
    let layout = dumbbell(link(12_000_000, ms(5), 100).with_discipline(discipline), 1, plain(ms(0)));
    let error = Network::build(&layout, 1).unwrap_err().to_string();
    assert_eq!(error, "the kernel has no WFQ; choose drr or fq-codel");
}

/// Takes samples between two lines of output, whose times the caller uses for the measurement.
fn samples() {
    let layout = dumbbell(link(12_000_000, ms(5), 100), 1, plain(ms(0)));
    let mut network = Network::build(&layout, 1).unwrap();
    println!("taking 10000 samples");
    for _ in 0..10_000 {
        network.sample(layout.links[0].0).unwrap();
    }
    println!("taken");
}
