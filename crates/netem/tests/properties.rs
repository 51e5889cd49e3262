//! Property tests of links under arbitrary sequences of calls.

use std::time::Duration;

use dfcp_netem::{Count, Link, LinkConfig, LinkStats, Loss, QueueLimit};
use dfcp_time::Time;
use proptest::prelude::*;

/// A packet offered to a link: time and size in bytes.
type Offer = (Time, usize);

fn numbered(number: usize, size_bytes: usize) -> Vec<u8> {
    let mut bytes = (number as u64).to_be_bytes().to_vec();
    bytes.resize(size_bytes, 0);
    bytes
}

fn number_of(bytes: &[u8]) -> usize {
    bytes[..8].iter().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let gap_us = prop_oneof![3 => Just(0u64), 3 => 0u64..200, 1 => 0u64..20_000];
    prop::collection::vec((gap_us, 8usize..1500), 1..200).prop_map(|steps| {
        let mut now = Time::ZERO;
        steps
            .into_iter()
            .map(|(gap_us, size_bytes)| {
                now += Duration::from_micros(gap_us);
                (now, size_bytes)
            })
            .collect()
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..=1.0).prop_map(Loss::bernoulli),
        (0.0..0.9, 10.0..30.0).prop_filter_map("no such bursts", |(mean, burst)| Loss::bursts(mean, burst).ok()),
        prop::collection::vec(any::<bool>(), 1..20).prop_map(|pattern| Loss::Trace(pattern.into())),
    ]
}

prop_compose! {
    fn config()(
        rate_bps in prop::option::of(1_000u64..2_000_000_000),
        delay_us in 0u64..50_000,
        jitter_us in 0u64..10_000,
        loss in loss(),
        packets in prop::option::of(0usize..20),
        bytes in prop::option::of(0u64..20_000),
        reorder in 0.0..=1.0,
        reorder_us in 0u64..10_000,
        duplicate in 0.0..=1.0,
        corrupt in 0.0..=1.0,
        dark_us in (0u64..100_000, 1u64..100_000),
        held_bytes_max in 1_000u64..200_000,
    ) -> LinkConfig {
        let mut config = LinkConfig::default()
            .with_delay(Duration::from_micros(delay_us))
            .with_jitter(Duration::from_micros(jitter_us))
            .with_loss(loss)
            .with_queue(QueueLimit { packets, bytes })
            .with_reorder(reorder, Duration::from_micros(reorder_us))
            .with_duplicate(duplicate)
            .with_corrupt(corrupt)
            .with_blackout(Time::from_us(dark_us.0), Time::from_us(dark_us.0 + dark_us.1))
            .with_held_bytes_max(held_bytes_max);
        config.rate_bps = rate_bps;
        config
    }
}

fn sum(parts: &[Count]) -> (u64, u64) {
    (parts.iter().map(|part| part.packets).sum(), parts.iter().map(|part| part.bytes).sum())
}

fn went(stats: &LinkStats, held: Count) -> (u64, u64) {
    sum(&[stats.delivered, stats.queue_drops, stats.blackout_drops, stats.lost, held])
}

/// Arrivals with their times, and the counters at the end.
type Trace = (Vec<(Time, Vec<u8>)>, LinkStats);

/// Pushes all offers and pops packets when due. Checks the invariants after every call.
fn run(config: &LinkConfig, seed: u64, offers: &[Offer]) -> Result<Trace, TestCaseError> {
    let mut link = Link::new(config.clone(), seed).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut arrived = Vec::new();
    let mut offers = offers.iter().enumerate().peekable();
    loop {
        let next_offer = offers.peek().map(|&(_, &(time, _))| time);
        let due = link.next_time().filter(|&due| next_offer.is_none_or(|offer| due <= offer));
        if let Some(due) = due {
            while let Some(packet) = link.pop(due) {
                arrived.push((due, packet));
            }
            prop_assert!(link.next_time().is_none_or(|next| next > due), "no progress at {due}");
        } else if let Some((number, &(time, size_bytes))) = offers.next() {
            link.push(time, numbered(number, size_bytes));
            prop_assert!(config.queue.packets.is_none_or(|limit| link.queue_len() <= limit));
            prop_assert!(config.queue.bytes.is_none_or(|limit| link.queue_bytes() <= limit));
        } else {
            break;
        }
        let stats = link.stats();
        prop_assert_eq!(sum(&[stats.offered, stats.duplicated]), went(&stats, link.held()));
    }
    prop_assert_eq!(link.held(), Count::default());
    Ok((arrived, link.stats()))
}

/// Returns the exact arrival of each offer at a link without impairments; `None` if the queue is full. Departures are
/// computed from the start of each busy period and its total number of bits, so that errors cannot accumulate.
fn reference(rate_bps: u64, delay: Duration, queue_packets: usize, offers: &[Offer]) -> Vec<Option<Time>> {
    let mut departures: Vec<u64> = Vec::new();
    let (mut busy_since, mut busy_bits) = (0u64, 0u128);
    let mut arrivals = Vec::new();
    for &(time, size_bytes) in offers {
        let now = time.as_ns();
        let unfinished = departures.iter().filter(|&&departure| departure > now).count();
        if unfinished.saturating_sub(1) >= queue_packets && unfinished > 0 {
            arrivals.push(None);
            continue;
        }
        if unfinished == 0 {
            (busy_since, busy_bits) = (now, 0);
        }
        busy_bits += size_bytes as u128 * 8;
        let departure = busy_since + (busy_bits * 1_000_000_000).div_ceil(u128::from(rate_bps)) as u64;
        departures.push(departure);
        arrivals.push(Some(Time::from_ns(departure) + delay));
    }
    arrivals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_are_conserved_bounded_and_never_early(config in config(), seed: u64, offers in offers()) {
        let (arrived, stats) = run(&config, seed, &offers)?;
        prop_assert_eq!(arrived.len() as u64, stats.delivered.packets);
        prop_assert!(arrived.is_sorted_by_key(|&(time, _)| time));
        if config.corrupt == 0.0 {
            for (time, packet) in &arrived {
                let (pushed, size_bytes) = offers[number_of(packet)];
                let on_the_wire = config.rate_bps.map_or(0, |rate| size_bytes as u64 * 8 * 1_000_000_000 / rate);
                prop_assert!(*time >= pushed + Duration::from_nanos(on_the_wire) + config.delay);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace(config in config(), seed: u64, offers in offers()) {
        prop_assert_eq!(run(&config, seed, &offers)?, run(&config, seed, &offers)?);
    }

    #[test]
    fn order_is_kept_unless_reordering_is_asked_for(config in config(), seed: u64, offers in offers()) {
        let config = LinkConfig { reorder: 0.0, corrupt: 0.0, ..config };
        let (arrived, _) = run(&config, seed, &offers)?;
        prop_assert!(arrived.is_sorted_by_key(|(_, packet)| number_of(packet)));
    }

    #[test]
    fn the_schedule_is_that_of_the_reference(
        rate_bps in 1_000u64..3_000_000_000,
        delay_us in 0u64..50_000,
        queue_packets in 0usize..20,
        offers in offers(),
    ) {
        let delay = Duration::from_micros(delay_us);
        let config = LinkConfig::default()
            .with_rate_bps(rate_bps)
            .with_delay(delay)
            .with_queue(QueueLimit::packets(queue_packets));
        let (arrived, _) = run(&config, 0, &offers)?;
        let mut measured = vec![None; offers.len()];
        for (time, packet) in arrived {
            measured[number_of(&packet)] = Some(time);
        }
        prop_assert_eq!(measured, reference(rate_bps, delay, queue_packets, &offers));
    }

    #[test]
    fn when_the_link_is_asked_does_not_matter(config in config(), seed: u64, offers in offers()) {
        // Popping only at the end gives the same packets in the same order. The limit of all bytes is disabled here,
        // because room under this limit depends on earlier pops.
        let config = LinkConfig { held_bytes_max: u64::MAX, ..config };
        let (arrived, stats) = run(&config, seed, &offers)?;
        let mut link = Link::new(config, seed).unwrap();
        for (number, &(time, size_bytes)) in offers.iter().enumerate() {
            link.push(time, numbered(number, size_bytes));
        }
        let late: Vec<_> = std::iter::from_fn(|| link.pop(Time::MAX)).collect();
        prop_assert_eq!(late, arrived.into_iter().map(|(_, packet)| packet).collect::<Vec<_>>());
        prop_assert_eq!(link.stats(), stats);
    }
}
