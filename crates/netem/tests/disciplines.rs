//! Tests of links with queue disciplines: they obey the rules of all links, and their seeds are part of the crate's
//! contract.

use std::collections::BTreeMap;
use std::time::Duration;

use dfcp_netem::{
    ConfigError, Count, Datagram, Discipline, Drr, FqCodel, Link, LinkConfig, LinkStats, Loss, QueueLimit, Red,
    RedUnit, Sfq, Wfq,
};
use dfcp_time::Time;
use proptest::prelude::*;

/// A packet offered to a link: time, flow, size in bytes.
type Offer = (Time, u64, u32);

/// Returns a datagram with its number as tag.
fn datagram(number: usize, flow: u64, size_bytes: u32) -> Datagram<usize> {
    Datagram { bytes: Vec::new(), overhead_bytes: size_bytes, flow, tag: number, ..Datagram::default() }
}

/// Returns disciplines with parameters so small that a short test fills the queue, causes early drops and changes hash
/// functions.
fn disciplines() -> Vec<Discipline> {
    let red = Red { min_threshold: 2, max_threshold: 6, weight: 0.2, ..Red::default() };
    let in_bytes = Red { unit: RedUnit::Bytes, min_threshold: 2_000, max_threshold: 6_000, ..red };
    let us = Duration::from_micros;
    vec![
        Discipline::DropTail,
        Discipline::Drr(Drr { quantum_bytes: 700, weights: vec![1, 3] }),
        Discipline::Sfq(Sfq { buckets: 4, perturbation: Some(us(3_000)), ..Sfq::default() }),
        Discipline::Wfq(Wfq { weights: vec![1, 3] }),
        Discipline::FqCodel(FqCodel { queues: 4, target: us(500), interval: us(2_000), ..FqCodel::default() }),
        Discipline::Red(red),
        Discipline::Red(in_bytes),
    ]
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    prop::collection::vec((0u64..1_500, 0u64..5, 40u32..1_500), 0..150).prop_map(|steps| {
        let mut now = Time::ZERO;
        let at = |(gap_us, flow, size_bytes)| {
            now += Duration::from_micros(gap_us);
            (now, flow, size_bytes)
        };
        steps.into_iter().map(at).collect()
    })
}

fn sum(parts: &[Count]) -> (u64, u64) {
    (parts.iter().map(|part| part.packets).sum(), parts.iter().map(|part| part.bytes).sum())
}

/// Arrivals (time, number, flow), and the counters at the end.
type Trace = (Vec<(Time, usize, u64)>, LinkStats);

/// Pushes all offers and pops packets when due. Checks conservation of packets at every step.
fn run(config: &LinkConfig, seed: u64, offers: &[Offer]) -> Result<Trace, TestCaseError> {
    let mut link: Link<Datagram<usize>> =
        Link::new(config.clone(), seed).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut arrived = Vec::new();
    let mut offers = offers.iter().enumerate().peekable();
    loop {
        let next_offer = offers.peek().map(|&(_, &(time, ..))| time);
        if let Some(due) = link.next_time().filter(|&due| next_offer.is_none_or(|offer| due <= offer)) {
            while let Some(packet) = link.pop(due) {
                arrived.push((due, packet.tag, packet.flow));
            }
        } else if let Some((number, &(time, flow, size_bytes))) = offers.next() {
            link.push(time, datagram(number, flow, size_bytes));
            prop_assert!(config.queue.packets.is_none_or(|limit| link.queue_len() <= limit));
        } else {
            break;
        }
        let stats = link.stats();
        let went = [stats.delivered, stats.queue_drops, stats.blackout_drops, stats.lost, link.held()];
        prop_assert_eq!(sum(&[stats.offered, stats.duplicated]), sum(&went));
        prop_assert!(stats.early_drops.packets <= stats.queue_drops.packets);
        prop_assert!(stats.early_drops.bytes <= stats.queue_drops.bytes);
    }
    prop_assert_eq!(link.held(), Count::default());
    Ok((arrived, link.stats()))
}

fn config(discipline: Discipline, rate_bps: u64, limit: QueueLimit) -> LinkConfig {
    LinkConfig::default()
        .with_rate_bps(rate_bps)
        .with_delay(Duration::from_millis(2))
        .with_loss(Loss::bernoulli(0.1))
        .with_duplicate(0.1)
        .with_blackout(Time::from_ms(20), Time::from_ms(30))
        .with_queue(limit)
        .with_discipline(discipline)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn packets_are_conserved_and_flows_stay_in_order(
        rate_bps in 1_000_000u64..30_000_000,
        packets in prop::option::of(0usize..20),
        bytes in prop::option::of(0u64..20_000),
        seed: u64,
        offers in offers(),
    ) {
        for discipline in disciplines() {
            let config = config(discipline, rate_bps, QueueLimit { packets, bytes });
            let (arrived, stats) = run(&config, seed, &offers)?;
            let mut last = BTreeMap::new();
            for &(_, number, flow) in &arrived {
                prop_assert!(last.insert(flow, number) <= Some(number), "#{number} in {arrived:?}");
            }
            prop_assert_eq!(&(arrived, stats), &run(&config, seed, &offers)?);
        }
    }

    #[test]
    fn when_the_link_is_asked_does_not_matter(seed: u64, packets in 0usize..20, offers in offers()) {
        for discipline in disciplines() {
            let config = config(discipline, 8_000_000, QueueLimit::packets(packets));
            let (arrived, stats) = run(&config, seed, &offers)?;
            let mut link = Link::new(config, seed).unwrap();
            for (number, &(time, flow, size_bytes)) in offers.iter().enumerate() {
                link.push(time, datagram(number, flow, size_bytes));
            }
            let late: Vec<usize> = std::iter::from_fn(|| link.pop(Time::MAX)).map(|packet| packet.tag).collect();
            prop_assert_eq!(late, arrived.into_iter().map(|(_, number, _)| number).collect::<Vec<_>>());
            prop_assert_eq!(link.stats(), stats);
        }
    }
}

/// 8 Mbit/s is 1 µs per byte; quantum 500. At 0 arrive #0 (flow 0, 1000 B), sent immediately, then #1 and #2 (flow 0,
/// 400 B each), #3 and #4 (flow 1, 300 B each). Flow 0's first visit gives it 500: it sends #1 and keeps 100. Flow 1
/// has 500: it sends #3 and keeps 200. Flow 0 has 600 and sends #2; flow 1 has 700 and sends #4.
#[test]
fn a_round_robin_schedule_worked_out_by_hand() {
    let drr = Discipline::Drr(Drr { quantum_bytes: 500, weights: Vec::new() });
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_discipline(drr);
    let mut link = Link::new(config, 0).unwrap();
    for (number, (flow, size_bytes)) in [(0, 1000), (0, 400), (0, 400), (1, 300), (1, 300)].into_iter().enumerate() {
        link.push(Time::ZERO, datagram(number, flow, size_bytes));
    }
    assert_eq!((link.queue_len(), link.queue_bytes()), (4, 1400));
    for (us, number) in [(1000, 0), (1400, 1), (1700, 3), (2100, 2), (2400, 4)] {
        assert_eq!(link.next_time(), Some(Time::from_us(us)));
        assert_eq!(link.pop(Time::from_us(us)).map(|packet| packet.tag), Some(number));
    }
}

/// Drops by CoDel at dequeue count as early drops, and the dropped packets are no longer held.
#[test]
fn drops_on_the_way_out_are_counted() {
    let config =
        LinkConfig::default().with_rate_bps(8_000_000).with_discipline(Discipline::FqCodel(FqCodel::default()));
    let mut link = Link::new(config, 0).unwrap();
    for number in 0..1000 {
        link.push(Time::ZERO, datagram(number, 0, 1000));
    }
    assert_eq!(link.stats().queue_drops, Count::default());
    // One packet is sent per millisecond. The sojourn time reaches 5 ms at 5 ms; the control law then drops at 105, 205
    // and 276 ms.
    link.advance(Time::from_ms(300));
    assert_eq!(link.stats().early_drops, Count { packets: 3, bytes: 3000 });
    assert_eq!(link.stats().queue_drops, link.stats().early_drops);
    assert_eq!(link.queue_len(), 1000 - 300 - 1 - 3);
}

#[test]
fn a_link_without_a_queue_still_sends() {
    for discipline in disciplines() {
        let limit = QueueLimit::packets(0);
        let config = LinkConfig::default().with_rate_bps(8_000_000).with_queue(limit).with_discipline(discipline);
        let mut link = Link::new(config, 0).unwrap();
        for (number, us) in [0, 500, 1000].into_iter().enumerate() {
            link.push(Time::from_us(us), datagram(number, 0, 1000));
        }
        assert_eq!(std::iter::from_fn(|| link.pop(Time::MAX)).map(|packet| packet.tag).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(link.stats().queue_drops.packets, 1);
    }
}

/// The rate changes while packets are queued. Without a rate, all queued packets leave immediately.
#[test]
fn the_rate_may_change() {
    for discipline in disciplines() {
        let config = LinkConfig::default().with_rate_bps(8_000_000).with_discipline(discipline);
        let mut link = Link::new(config, 0).unwrap();
        for number in 0..5 {
            link.push(Time::ZERO, datagram(number, number as u64, 1000));
        }
        link.set_rate_bps(Time::from_us(500), Some(16_000_000)).unwrap();
        assert_eq!(link.next_time(), Some(Time::from_us(750)));
        link.set_rate_bps(Time::from_us(800), None).unwrap();
        assert_eq!((link.queue_len(), link.next_time()), (0, Some(Time::from_us(750))));
        let sent = std::iter::from_fn(|| link.pop(Time::from_us(800))).count() as u64;
        assert_eq!(sent + link.stats().queue_drops.packets, 5);
    }
}

#[test]
fn nonsense_is_refused() {
    let sfq = Discipline::Sfq(Sfq { buckets: 0, ..Sfq::default() });
    let error = Link::<Vec<u8>>::new(LinkConfig::default().with_discipline(sfq), 0).unwrap_err();
    assert!(matches!(error, ConfigError::OutOfRange { value: 0, min: 1, max: 65_536, .. }));
    assert_eq!(error.to_string(), "SFQ's number of buckets is 0, but must be 1 to 65536");
}

/// Returns the flows of the arriving packets, in order. 8 flows offer three times the rate of 8 Mbit/s.
fn pattern(discipline: Discipline, seed: u64) -> Result<String, ConfigError> {
    let config =
        LinkConfig::default().with_rate_bps(8_000_000).with_queue(QueueLimit::packets(12)).with_discipline(discipline);
    let mut link = Link::new(config, seed)?;
    for number in 0..120 {
        let flow = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 0][number % 11];
        link.push(Time::from_us(number as u64 * 333), datagram(number, flow, 1000));
    }
    Ok(std::iter::from_fn(|| link.pop(Time::MAX)).map(|packet| packet.flow.to_string()).collect())
}

/// Golden values, as in `golden.rs`, which must not change.
#[test]
fn seeds_keep_their_meaning() {
    let us = Duration::from_micros;
    let sfq = Sfq { buckets: 4, perturbation: Some(us(5_000)), ..Sfq::default() };
    let fq_codel = FqCodel { queues: 4, target: us(500), interval: us(4_000), ..FqCodel::default() };
    let red = Red { min_threshold: 2, max_threshold: 6, weight: 0.2, ..Red::default() };
    for (discipline, seed, expected) in [
        (Discipline::Sfq(sfq), 1, "0123475110006337210444765551140036727062501133366111"),
        (Discipline::FqCodel(fq_codel), 2, "01234405716244501124073644001734072344507164023506"),
        (Discipline::Red(red), 3, "012345670100124613016702410247036036703713410257"),
    ] {
        assert_eq!(pattern(discipline.clone(), seed), Ok(expected.to_owned()), "{discipline:?}");
    }
}
