use proptest::prelude::*;

use super::*;
use crate::ecn::Ecn;
use crate::queue::UNLIMITED;
use crate::queue::tests::{Item, RATE_BPS};

/// Weight so small that the average does not move.
const FROZEN: f64 = 1e-18;

fn red(config: Red) -> RedQueue<Item> {
    RedQueue::new(config, NonZeroU64::new(RATE_BPS), 3)
}

fn item(size_bytes: u32) -> Item {
    Item { flow: 0, number: 0, size_bytes, ecn: Ecn::NotEct }
}

/// Returns the fate of a packet that arrives at this average queue length: its codepoint, or the cause of its drop.
fn fate(config: Red, average: f64, ecn: Ecn, limit: QueueLimit) -> Result<Ecn, DropCause> {
    // With a maximum probability of 1, the decision about this packet is certain.
    let mut red = red(Red { weight: FROZEN, max_probability: 1.0, ..config });
    (red.average, red.idle_since) = (average, None);
    let mut dropped = None;
    red.push(Time::ZERO, Item { ecn, ..item(1000) }, limit, &mut |_, cause| dropped = Some(cause));
    dropped.map_or_else(|| Ok(red.pop(Time::ZERO).unwrap().ecn), Err)
}

/// Pushes a packet at `ns`; returns the cause of its drop, or `None`.
fn push(red: &mut RedQueue<Item>, ns: u64, size_bytes: u32, limit: QueueLimit) -> Option<DropCause> {
    let mut dropped = None;
    red.push(Time::from_ns(ns), item(size_bytes), limit, &mut |_, cause| dropped = Some(cause));
    dropped
}

/// Returns the paper's probability p_b at this average; `None` for a certain drop.
fn probability(config: Red, average: f64) -> Option<f64> {
    let mut red = red(config);
    red.average = average;
    match red.verdict() {
        Verdict::Keep => Some(0.0),
        Verdict::Drop => None,
        Verdict::Spread(probability) => Some(probability),
    }
}

/// Thresholds 5 and 15, maximum probability 0.1: 0 below 5, 0.05 at 10, 0.1 at 15. With `gentle`, 0.1 + 0.9 · 7.5/15 =
/// 0.55 at 22.5, and 1 at 30.
#[test]
fn the_probability_is_the_papers() {
    let gentle = Red::default();
    for (average, expected) in
        [(0.0, 0.0), (4.99, 0.0), (5.0, 0.0), (7.5, 0.025), (10.0, 0.05), (15.0, 0.1), (22.5, 0.55)]
    {
        let probability = probability(gentle, average).unwrap();
        assert!((probability - expected).abs() < 1e-12, "{probability} at {average}");
    }
    assert_eq!(probability(gentle, 30.0), None);
    assert_eq!(probability(Red { gentle: false, ..gentle }, 15.0), None);
}

/// At p_b = 1/20 the paper spreads drops evenly: the number of packets from one to the next is uniform over 1 to 19,
/// with mean 10.
#[test]
fn drops_at_a_fixed_average_are_spread_evenly() {
    let mut red = red(Red { weight: FROZEN, ..Red::default() });
    (red.average, red.idle_since) = (10.0, None);
    let mut gaps = [0u32; 20];
    let (mut gap, mut drops) = (0, 0);
    while drops < 19_000 {
        gap += 1;
        if push(&mut red, 0, 1000, UNLIMITED).is_some() {
            drops += 1;
            // The first gap is skipped: it also counts the packet at which the average exceeded the threshold.
            if drops > 1 {
                gaps[gap] += 1;
            }
            gap = 0;
        } else {
            red.pop(Time::ZERO);
        }
    }
    // Five standard deviations of a binomial count (n = 19 000, p = 1/19) are 154.
    assert!(gaps[0] == 0 && gaps[1..].iter().all(|count| count.abs_diff(1000) < 154), "{gaps:?}");
}

/// The drop probability of the first packet is p_b. With thresholds in bytes, it is p_b times the packet's size divided
/// by the mean size.
#[test]
fn bytes_make_large_packets_more_likely_to_go() {
    let in_bytes = Red { unit: RedUnit::Bytes, min_threshold: 5_000, max_threshold: 15_000, ..Red::default() };
    for (config, average, size_bytes, expected) in [
        (Red::default(), 10.0, 2000, 0.05),
        (in_bytes, 10_000.0, 1000, 0.05),
        (in_bytes, 10_000.0, 2000, 0.1),
        (in_bytes, 10_000.0, 100, 0.005),
    ] {
        let mut red = red(Red { weight: FROZEN, ..config });
        red.average = average;
        let n = 200_000;
        let mut drops = 0;
        for _ in 0..n {
            red.count = -1;
            drops += u32::from(red.signals_congestion(size_bytes));
        }
        let five_sigma = 5.0 * (expected * (1.0 - expected) / f64::from(n)).sqrt();
        let share = f64::from(drops) / f64::from(n);
        assert!((share - expected).abs() < five_sigma, "{share} instead of {expected} for {size_bytes} bytes");
    }
}

/// Weight 1/2. Packets pushed without pause see queue lengths 0, 1, 2 and 3. The first finds the link idle and leaves
/// the average at 0. The others make it (0 + 1)/2 = 0.5, (0.5 + 2)/2 = 1.25 and (1.25 + 3)/2 = 2.125.
#[test]
fn the_average_follows_the_length() {
    let mut red = red(Red { weight: 0.5, ..Red::default() });
    for expected in [0.0, 0.5, 1.25, 2.125] {
        assert_eq!(push(&mut red, 0, 1000, UNLIMITED), None);
        assert_eq!(red.average, expected);
    }
}

/// Weight 1/2, packets of 1000 bytes. During an idle time of 3500 ns, a link of 1 byte per ns could have sent 3
/// packets, so the average falls to an eighth. A link that still sends its last packet is not idle.
#[test]
fn idle_time_lets_the_average_fall() {
    let mut red = red(Red { weight: 0.5, ..Red::default() });
    red.average = 4.0;
    assert_eq!(push(&mut red, 0, 1000, UNLIMITED), None);
    assert_eq!(red.pop(Time::ZERO), Some(item(1000)));
    assert_eq!(push(&mut red, 500, 1000, UNLIMITED), None);
    assert_eq!(red.average, 2.0, "the queue was empty, but the transmitter busy");
    assert!(red.pop(Time::from_ns(1000)).is_some() && red.pop(Time::from_ns(2000)).is_none());
    assert_eq!(push(&mut red, 5500, 1000, UNLIMITED), None);
    assert_eq!(red.average, 0.25);
}

/// Without a rate, an idle link could have sent any number of packets, so the average falls to 0.
#[test]
fn idle_time_without_a_rate_clears_the_average() {
    let mut red = RedQueue::<Item>::new(Red::default(), None, 0);
    red.average = 12.0;
    assert_eq!(push(&mut red, 1, 1000, UNLIMITED), None);
    assert_eq!(red.average, 0.0);
}

#[test]
fn powers_are_those_of_the_library() {
    for exponent in [0, 1, 2, 3, 10, 347, 5_000] {
        let expected = 0.998f64.powi(exponent);
        assert!((power(0.998, exponent as u64) / expected - 1.0).abs() < 1e-12);
    }
    assert_eq!(power(0.998, u64::MAX), 0.0);
    assert_eq!(power(0.0, 0), 1.0);
}

proptest! {
    /// Early drops occur only at or above the lower threshold, and always above the range. Drops below the lower
    /// threshold are caused by the limit.
    #[test]
    fn the_thresholds_bound_early_drops(
        steps in prop::collection::vec((0u64..2_000, any::<bool>()), 1..400),
        weight in 0.01..=1.0,
        limit in 1usize..40,
    ) {
        let config = Red { weight, ..Red::default() };
        let mut red = red(config);
        let mut now = 0;
        for (gap, pops) in steps {
            now += gap;
            if pops {
                red.pop(Time::from_ns(now));
            }
            let before = red.len();
            match push(&mut red, now, 1000, QueueLimit::packets(limit)) {
                None => prop_assert!(red.average < 30.0 && red.len() == before + 1),
                Some(DropCause::Early) => prop_assert!(red.average >= 5.0 && red.len() == before),
                Some(DropCause::Full) => prop_assert!(red.average < 30.0 && before == limit),
            }
        }
    }
}

/// Thresholds 5 and 15, with probability 1 at an average just below 15. Each case corresponds to a branch of
/// `red_enqueue` in Linux.
#[test]
fn marks_are_made_as_linux_makes_them() {
    let off = Red { gentle: false, ..Red::default() };
    let ecn = Red { ecn: true, ..off };
    let (hard, nodrop) = (Red { hard_drop: true, ..ecn }, Red { no_drop: true, ..ecn });
    let (below, between, above) = (4.9, 15.0f64.next_down(), 15.0);
    use DropCause::Early;
    for (config, average, arriving, expected) in [
        (off, between, Ecn::Ect0, Err(Early)),
        (ecn, below, Ecn::Ect0, Ok(Ecn::Ect0)),
        (ecn, between, Ecn::Ect0, Ok(Ecn::Ce)),
        (ecn, between, Ecn::Ect1, Ok(Ecn::Ce)),
        (ecn, between, Ecn::Ce, Ok(Ecn::Ce)),
        (ecn, between, Ecn::NotEct, Err(Early)),
        (ecn, above, Ecn::Ect0, Ok(Ecn::Ce)),
        (ecn, above, Ecn::NotEct, Err(Early)),
        (hard, between, Ecn::Ect0, Ok(Ecn::Ce)),
        (hard, above, Ecn::Ect0, Err(Early)),
        (hard, above, Ecn::Ce, Err(Early)),
        (nodrop, between, Ecn::NotEct, Ok(Ecn::NotEct)),
        (nodrop, above, Ecn::NotEct, Ok(Ecn::NotEct)),
        (nodrop, above, Ecn::Ect0, Ok(Ecn::Ce)),
        (Red { hard_drop: true, ..nodrop }, above, Ecn::NotEct, Err(Early)),
    ] {
        assert_eq!(fate(config, average, arriving, UNLIMITED), expected, "{config:?} at {average}");
    }
    // A full queue drops even ECN-capable packets.
    assert_eq!(fate(ecn, between, Ecn::Ect0, QueueLimit::packets(0)), Err(DropCause::Full));
}

/// Step marking as DCTCP requires, with K = 3 packets and the instantaneous queue length: a packet that finds more than
/// 3 is marked. (DCTCP performs badly with a slowly moving average.)
#[test]
fn a_step_at_the_instantaneous_length_can_be_set() {
    let step =
        Red { min_threshold: 3, max_threshold: 4, max_probability: 1.0, weight: 1.0, ecn: true, ..Red::default() };
    let mut red = red(step);
    red.push(Time::ZERO, item(1000), UNLIMITED, &mut |_, _| unreachable!());
    // Codepoint of the packet that waits from one round to the next.
    let mut first = Ecn::NotEct;
    for _ in 0..3 {
        for _ in 0..6 {
            red.push(Time::ZERO, Item { ecn: Ecn::Ect0, ..item(1000) }, UNLIMITED, &mut |_, _| unreachable!());
        }
        let sent: Vec<Ecn> = (0..6).map(|_| red.pop(Time::ZERO).unwrap().ecn).collect();
        // The first of six packets finds one packet queued, and the fourth finds four. The last one is sent in the next
        // round.
        assert_eq!(sent, [first, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce]);
        first = Ecn::Ce;
    }
    assert_eq!(red.ce_marked(), Count { packets: 9, bytes: 9000 });
}
