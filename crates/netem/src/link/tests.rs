use super::*;
use crate::{Datagram, Discipline, Ecn, Policer, QueueLimit, Red};

const MS: Duration = Duration::from_millis(1);

/// Returns a packet whose first bytes contain its number.
fn numbered(number: u32, size_bytes: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(size_bytes, 0);
    bytes
}

fn number_of(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Pops packets at their arrival times until `end`; returns (time, packet).
fn pop_until(link: &mut Link<Vec<u8>>, end: Time) -> Vec<(Time, Vec<u8>)> {
    let mut arrived = Vec::new();
    while let Some(time) = link.next_time().filter(|&time| time <= end) {
        while let Some(packet) = link.pop(time) {
            arrived.push((time, packet));
        }
        assert!(link.next_time().is_none_or(|next| next > time), "no progress at {time}");
    }
    arrived
}

/// Pops packets until the link is empty.
fn drain(link: &mut Link<Vec<u8>>) -> Vec<(Time, Vec<u8>)> {
    pop_until(link, Time::MAX)
}

/// Returns (time in ns, number) of all further arrivals.
fn schedule(link: &mut Link<Vec<u8>>) -> Vec<(u64, u32)> {
    numbers(drain(link))
}

/// Sends `count` packets of 100 bytes at intervals of `gap`; returns (time in ns, number) of the arrivals.
fn stream(link: &mut Link<Vec<u8>>, count: u32, gap: Duration) -> Vec<(u64, u32)> {
    let mut arrived = Vec::new();
    for number in 0..count {
        let now = Time::ZERO + gap * number;
        arrived.extend(pop_until(link, now));
        link.push(now, numbered(number, 100));
    }
    arrived.extend(drain(link));
    numbers(arrived)
}

fn numbers(arrived: Vec<(Time, Vec<u8>)>) -> Vec<(u64, u32)> {
    arrived.into_iter().map(|(time, packet)| (time.as_ns(), number_of(&packet))).collect()
}

fn assert_conserved(link: &Link<Vec<u8>>) {
    let stats = link.stats();
    let mut came = stats.offered;
    came += stats.duplicated;
    let mut went = stats.delivered;
    for part in [stats.queue_drops, stats.blackout_drops, stats.lost, link.held()] {
        went += part;
    }
    assert_eq!(came, went, "{stats:?}");
}

#[test]
fn a_perfect_link_delivers_at_once() {
    let mut link = Link::new(LinkConfig::default(), 0).unwrap();
    link.push(Time::from_us(7), numbered(1, 100));
    assert_eq!(link.next_time(), Some(Time::from_us(7)));
    assert_eq!(link.pop(Time::from_us(7)), Some(numbered(1, 100)));
    assert_eq!(link.next_time(), None);
}

#[test]
fn a_schedule_worked_out_by_hand() {
    // 8 Mbit/s is 1 µs per byte; delay 10 ms; queue of two packets. Pushed at 0: #0 (1000 B) is sent until 1000 µs, #1
    // (500 B) until 1500, #2 (100 B) until 1600, and #3 finds the queue full. At 1000 µs #0 has just left, so #4 (50 B)
    // finds room and is sent until 1650. At 5000 µs the link is idle: #5 (200 B) is sent until 5200.
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_delay(10 * MS).with_queue(QueueLimit::packets(2));
    let mut link = Link::new(config, 0).unwrap();
    for (number, size_bytes) in [(0, 1000), (1, 500), (2, 100), (3, 100)] {
        link.push(Time::ZERO, numbered(number, size_bytes));
    }
    assert_eq!((link.queue_len(), link.queue_bytes()), (2, 600));
    link.push(Time::from_us(1000), numbered(4, 50));
    assert_eq!((link.queue_len(), link.queue_bytes()), (2, 150));
    link.push(Time::from_us(5000), numbered(5, 200));
    let expected = [(11_000, 0), (11_500, 1), (11_600, 2), (11_650, 4), (15_200, 5)];
    assert_eq!(schedule(&mut link), expected.map(|(us, number)| (us * 1000, number)));
    assert_eq!(link.stats().queue_drops, Count { packets: 1, bytes: 100 });
    assert_eq!(link.stats().delivered, Count { packets: 5, bytes: 1850 });
    assert_conserved(&link);
}

#[test]
fn packets_back_to_back_take_exactly_their_bits() {
    // 1476 bytes at 93.4 Mbit/s take 126 423.98… ns each. If each packet were rounded up, 1000 packets would be 20 ns
    // late.
    for (rate_bps, size_bytes) in [(93_400_000u64, 1476usize), (3, 10), (999_999_937, 1500), (123_456_789_012, 40)] {
        let config = LinkConfig::default().with_rate_bps(rate_bps);
        let mut link = Link::new(config, 0).unwrap();
        for number in 0..1000 {
            link.push(Time::ZERO, numbered(number, size_bytes));
        }
        for (count, (time, _)) in (1u128..).zip(drain(&mut link)) {
            let exact = (count * size_bytes as u128 * 8 * 1_000_000_000).div_ceil(u128::from(rate_bps));
            assert_eq!(u128::from(time.as_ns()), exact, "{rate_bps} bit/s, packet {count}");
        }
    }
}

#[test]
fn a_queue_of_bytes_counts_bytes() {
    let config = LinkConfig::default().with_rate_bps(8_000).with_queue(QueueLimit::bytes(250));
    let mut link = Link::new(config, 0).unwrap();
    for number in 0..4 {
        link.push(Time::ZERO, numbered(number, 100));
    }
    link.push(Time::ZERO, numbered(4, 50));
    // #0 is being sent, #1 and #2 are queued, #3 does not fit, and #4 exactly fills the rest.
    assert_eq!(schedule(&mut link).iter().map(|&(_, number)| number).collect::<Vec<_>>(), [0, 1, 2, 4]);
}

#[test]
fn no_queue_means_the_transmitter_alone() {
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_queue(QueueLimit::packets(0));
    let mut link = Link::new(config, 0).unwrap();
    link.push(Time::ZERO, numbered(0, 100));
    link.push(Time::from_us(99), numbered(1, 100));
    link.push(Time::from_us(100), numbered(2, 100));
    assert_eq!(schedule(&mut link), [(100_000, 0), (200_000, 2)]);
}

#[test]
fn memory_is_bounded_without_a_rate() {
    let config = LinkConfig::default().with_delay(10 * MS).with_held_bytes_max(1000);
    let mut link = Link::new(config, 0).unwrap();
    for number in 0..20 {
        link.push(Time::ZERO, numbered(number, 100));
    }
    assert_eq!(link.held(), Count { packets: 10, bytes: 1000 });
    assert_eq!(link.stats().queue_drops.packets, 10);
    assert_eq!(drain(&mut link).len(), 10);
    link.push(Time::from_ms(10), numbered(20, 1000));
    assert_eq!(drain(&mut link).len(), 1);
    assert_conserved(&link);
}

#[test]
fn lost_packets_use_the_link() {
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_loss(Loss::Trace([false, true, false].into()));
    let mut link = Link::new(config, 0).unwrap();
    for number in 0..3 {
        link.push(Time::ZERO, numbered(number, 1000));
    }
    assert_eq!(schedule(&mut link), [(1_000_000, 0), (3_000_000, 2)]);
    assert_eq!(link.stats().lost, Count { packets: 1, bytes: 1000 });
}

#[test]
fn blackouts_swallow_what_leaves_within_them() {
    // Packets are sent until 1, 2, 3, 4, 5 and 6 ms. Outages last from 2 (included) to 4 ms (excluded), and from 5 to
    // 5.5 ms.
    let config = LinkConfig::default()
        .with_rate_bps(8_000_000)
        .with_delay(MS)
        .with_blackout(Time::from_ms(2), Time::from_ms(4))
        .with_blackout(Time::from_ms(5), Time::from_us(5500));
    let mut link = Link::new(config, 0).unwrap();
    for number in 0..6 {
        link.push(Time::ZERO, numbered(number, 1000));
    }
    let arrived = schedule(&mut link);
    assert_eq!(arrived, [(2_000_000, 0), (5_000_000, 3), (7_000_000, 5)]);
    assert_eq!(link.stats().blackout_drops, Count { packets: 3, bytes: 3000 });
    assert_conserved(&link);
}

#[test]
fn jitter_spreads_arrivals_over_its_range() {
    let config = LinkConfig::default().with_delay(10 * MS).with_jitter(5 * MS);
    let mut link = Link::new(config, 11).unwrap();
    let arrived = stream(&mut link, 2000, 5 * MS);
    let delays: Vec<u64> = arrived.iter().map(|&(time, number)| time - u64::from(number) * 5_000_000).collect();
    assert!(delays.iter().all(|delay| (10_000_000..=15_000_000).contains(delay)));
    let mean = delays.iter().sum::<u64>() / 2000;
    // The mean of 2000 uniformly distributed values has a standard deviation of 5 ms / √12 / √2000 = 32 µs.
    assert!(mean.abs_diff(12_500_000) < 160_000, "{mean}");
}

#[test]
fn jitter_keeps_the_order() {
    let config = LinkConfig::default().with_delay(10 * MS).with_jitter(5 * MS);
    let mut link = Link::new(config, 12).unwrap();
    let arrived = stream(&mut link, 2000, MS / 10);
    assert!(arrived.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
    assert_eq!(arrived.len(), 2000);
}

#[test]
fn a_reordered_packet_is_overtaken_by_those_of_the_extra_delay() {
    let config = LinkConfig::default().with_delay(10 * MS).with_reorder(0.05, 3 * MS);
    let mut link = Link::new(config, 5).unwrap();
    let arrived = stream(&mut link, 1000, MS);
    let late = |&&(time, number): &&(u64, u32)| time == u64::from(number) * 1_000_000 + 13_000_000;
    let in_time = |&&(time, number): &&(u64, u32)| time == u64::from(number) * 1_000_000 + 10_000_000;
    let reordered = link.stats().reordered.packets as usize;
    assert_eq!(arrived.iter().filter(late).count(), reordered);
    assert_eq!(arrived.iter().filter(in_time).count(), 1000 - reordered);
    // 50 packets are expected to be reordered; five standard deviations are 34.
    assert!((16..=84).contains(&reordered), "{reordered}");
    assert!(!arrived.is_sorted_by_key(|&(_, number)| number));
}

#[test]
fn a_duplicate_follows_its_original() {
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_duplicate(1.0);
    let mut link = Link::new(config, 0).unwrap();
    link.push(Time::ZERO, numbered(0, 1000));
    link.push(Time::ZERO, numbered(1, 1000));
    assert_eq!(schedule(&mut link), [(1_000_000, 0), (1_000_000, 0), (2_000_000, 1), (2_000_000, 1)]);
    assert_eq!(link.stats().duplicated, Count { packets: 2, bytes: 2000 });
    assert_conserved(&link);
}

#[test]
fn corruption_flips_one_bit_of_each_copy() {
    let config = LinkConfig::default().with_corrupt(1.0).with_duplicate(1.0);
    let mut link = Link::new(config, 3).unwrap();
    for _ in 0..100 {
        link.push(Time::ZERO, vec![0u8; 64]);
    }
    let arrived = drain(&mut link);
    let ones = |packet: &[u8]| packet.iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert!(arrived.iter().all(|(_, packet)| ones(packet) == 1));
    assert!(arrived.chunks(2).any(|copies| copies[0].1 != copies[1].1));
    assert_eq!(link.stats().corrupted, Count { packets: 200, bytes: 12_800 });
}

#[test]
fn the_rate_changes_in_the_middle_of_a_packet() {
    // #0 takes 1 ms at 8 Mbit/s. The rate is halved after half of it: the rest takes 1 ms, and #1 takes 2 ms.
    let mut link = Link::new(LinkConfig::default().with_rate_bps(8_000_000), 0).unwrap();
    link.push(Time::ZERO, numbered(0, 1000));
    link.push(Time::ZERO, numbered(1, 1000));
    link.set_rate_bps(Time::from_us(500), Some(4_000_000)).unwrap();
    assert_eq!(link.set_rate_bps(Time::from_us(500), Some(0)), Err(ConfigError::ZeroRate));
    assert_eq!(schedule(&mut link), [(1_500_000, 0), (3_500_000, 1)]);
}

#[test]
fn without_a_rate_the_queue_empties() {
    let mut link = Link::new(LinkConfig::default().with_rate_bps(8), 0).unwrap();
    for number in 0..3 {
        link.push(Time::ZERO, numbered(number, 1000));
    }
    link.set_rate_bps(Time::from_ms(5), None).unwrap();
    assert_eq!(link.queue_len(), 0);
    assert_eq!(schedule(&mut link), [(5_000_000, 0), (5_000_000, 1), (5_000_000, 2)]);
}

#[test]
fn a_shorter_delay_does_not_reorder() {
    let mut link = Link::new(LinkConfig::default().with_delay(10 * MS), 0).unwrap();
    link.push(Time::ZERO, numbered(0, 100));
    link.set_delay(Time::from_ms(1), MS);
    link.push(Time::from_ms(1), numbered(1, 100));
    link.push(Time::from_ms(20), numbered(2, 100));
    assert_eq!(schedule(&mut link), [(10_000_000, 0), (10_000_000, 1), (21_000_000, 2)]);
}

#[test]
fn the_loss_model_changes_for_what_leaves_later() {
    let mut link = Link::new(LinkConfig::default().with_rate_bps(8_000_000), 0).unwrap();
    for number in 0..3 {
        link.push(Time::ZERO, numbered(number, 1000));
    }
    link.set_loss(Time::from_us(1500), Loss::bernoulli(1.0)).unwrap();
    assert!(link.set_loss(Time::from_us(1500), Loss::bernoulli(2.0)).is_err());
    assert_eq!(schedule(&mut link), [(1_000_000, 0)]);
}

#[test]
fn a_clock_that_runs_backwards_is_held() {
    let mut link = Link::new(LinkConfig::default().with_delay(MS), 0).unwrap();
    link.push(Time::from_ms(10), numbered(0, 100));
    link.push(Time::from_ms(3), numbered(1, 100));
    assert_eq!(schedule(&mut link), [(11_000_000, 0), (11_000_000, 1)]);
}

#[test]
fn absurd_numbers_saturate() {
    let config = LinkConfig::default()
        .with_rate_bps(1)
        .with_delay(Duration::MAX)
        .with_jitter(Duration::MAX)
        .with_reorder(1.0, Duration::MAX);
    let mut link = Link::new(config, 0).unwrap();
    link.push(Time::MAX - MS, numbered(0, 65_000));
    link.push(Time::MAX - MS, numbered(1, 65_000));
    assert_eq!(schedule(&mut link).len(), 2);
    let mut fast = Link::new(LinkConfig::default().with_rate_bps(u64::MAX), 0).unwrap();
    fast.push(Time::ZERO, numbered(0, 65_000));
    assert_eq!(schedule(&mut fast), [(1, 0)]);
}

#[test]
fn one_impairment_does_not_change_another() {
    let lossy = LinkConfig::default().with_delay(MS).with_loss(Loss::bernoulli(0.3));
    let survivors = |config: LinkConfig| {
        let mut link = Link::new(config, 77).unwrap();
        let mut numbers: Vec<u32> = stream(&mut link, 500, MS / 1000).into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let busy = lossy.clone().with_jitter(MS).with_duplicate(0.2).with_reorder(0.1, MS).with_rate_bps(1_000_000);
    assert_eq!(survivors(lossy), survivors(busy));
}

#[test]
fn packets_leave_in_batches_and_in_order() {
    // 100 bytes take 0.1 ms at 8 Mbit/s, and arrive 1 ms later.
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_delay(MS).with_batch(4 * MS);
    let mut link = Link::new(config, 1).unwrap();
    let arrived = stream(&mut link, 80, Duration::from_micros(100));
    // Packets due at 1.1 to 4 ms arrive at 4 ms, and so on; the last packet is due at 9 ms.
    let of = |ms: u64| arrived.iter().filter(|(at_ns, _)| *at_ns == ms * 1_000_000).count();
    assert_eq!([4, 8, 12].map(of), [30, 40, 10]);
    assert!(arrived.iter().map(|(_, number)| *number).eq(0..80));
    assert_conserved(&link);
}

#[test]
fn what_exceeds_a_policer_is_dropped_and_the_rest_does_not_wait() {
    // 8 Mbit/s is ten packets of 100 bytes per ms. Twice as many are offered.
    let policer = Policer { rate_bps: 8_000_000, bucket_bytes: 200 };
    let mut link = Link::new(LinkConfig::default().with_delay(MS).with_policer(policer), 1).unwrap();
    let arrived = stream(&mut link, 2_000, Duration::from_micros(50));
    assert_eq!(arrived.len(), 1_001);
    assert!(arrived.iter().all(|&(at_ns, number)| at_ns == 1_000_000 + u64::from(number) * 50_000));
    assert_eq!(link.stats().queue_drops.packets, 999);
    assert_conserved(&link);
}

#[test]
fn an_arrival_is_told_with_the_packet_however_late_it_is_taken_out() {
    let mut link = Link::new(LinkConfig::default().with_delay(3 * MS), 1).unwrap();
    link.push(Time::from_ms(1), numbered(0, 100));
    link.push(Time::from_ms(2), numbered(1, 100));
    let mut late = |now| link.pop_with_arrival(now).map(|(arrival, packet)| (arrival, number_of(&packet)));
    assert_eq!(late(Time::from_ms(3)), None);
    assert_eq!(late(Time::from_ms(9)), Some((Time::from_ms(4), 0)));
    assert_eq!(late(Time::from_ms(9)), Some((Time::from_ms(5), 1)));
}

#[test]
fn packets_which_follow_closely_are_waited_for_and_no_others() {
    let us = Duration::from_micros;
    // 100 bytes take 10 µs.
    let config = LinkConfig::default().with_rate_bps(80_000_000).with_delay(us(500));
    let mut link = Link::new(config, 1).unwrap();
    assert_eq!(link.next_time_together(us(100)), None);
    link.push(Time::ZERO, numbered(0, 100));
    // A single packet is not delayed.
    assert_eq!(link.next_time_together(us(100)), Some(Time::from_us(510)));
    link.push(Time::ZERO, numbered(1, 100));
    link.push(Time::ZERO, numbered(2, 100));
    // Two more packets are queued behind it, 10 µs each.
    assert_eq!(link.next_time_together(us(100)), Some(Time::from_us(530)));
    assert_eq!(link.next_time_together(us(15)), Some(Time::from_us(520)));
    assert_eq!(link.next_time_together(us(9)), Some(Time::from_us(510)));
    // With all packets in flight the result is the same; later arrivals are not awaited.
    link.advance(Time::from_us(40));
    link.push(Time::from_us(200), numbered(3, 100));
    link.advance(Time::from_us(300));
    assert_eq!(link.next_time_together(us(100)), Some(Time::from_us(530)));
    assert_eq!(link.next_time_together(us(15)), Some(Time::from_us(520)));
    assert_eq!(link.next_time_together(us(200)), Some(Time::from_us(710)));
}

#[test]
fn slow_packets_in_the_queue_are_not_waited_for() {
    // 100 bytes take 1 ms.
    let mut link = Link::new(LinkConfig::default().with_rate_bps(800_000), 1).unwrap();
    for number in 0..3 {
        link.push(Time::ZERO, numbered(number, 100));
    }
    assert_eq!(link.next_time_together(MS / 10), Some(Time::from_ms(1)));
    assert_eq!(link.next_time_together(MS), Some(Time::from_ms(2)));
    assert_eq!(link.next_time_together(10 * MS), Some(Time::from_ms(3)));
}

#[test]
fn what_leaves_in_an_outage_is_gone_and_what_travels_arrives() {
    // 1000 bytes take 1 ms to send and 5 ms to travel.
    let config = LinkConfig::default().with_rate_bps(8_000_000).with_delay(5 * MS);
    let mut link = Link::new(config, 1).unwrap();
    for number in 0..4 {
        link.push(Time::ZERO, numbered(number, 1_000));
    }
    let outage = |is_out| LinkChange { outage: Some(is_out), ..LinkChange::default() };
    // The first packet has been sent; the second and third are sent during the outage.
    link.change(Time::from_us(1_500), &outage(true)).unwrap();
    link.change(Time::from_us(3_500), &outage(false)).unwrap();
    assert_eq!(schedule(&mut link), [(6_000_000, 0), (9_000_000, 3)]);
    assert_eq!((link.stats().blackout_drops.packets, link.stats().lost.packets, link.held().packets), (2, 0, 0));
}

#[test]
fn a_change_which_makes_no_sense_changes_nothing() {
    let mut link: Link<Vec<u8>> = Link::new(LinkConfig::default().with_rate_bps(8_000_000), 1).unwrap();
    let before = link.config().clone();
    let change = LinkChange { rate_bps: Some(1), loss: Some(Loss::bernoulli(2.0)), ..LinkChange::default() };
    assert!(link.change(Time::ZERO, &change).is_err());
    assert!(link.change(Time::ZERO, &LinkChange { rate_bps: Some(0), ..LinkChange::default() }).is_err());
    assert_eq!(*link.config(), before);
}

#[test]
fn a_policer_stands_in_front_of_the_queue_or_instead_of_it() {
    let link = LinkConfig::default().with_rate_bps(8_000_000);
    let instead = link.clone().policed(None, 2).unwrap();
    assert_eq!(instead.rate_bps, None);
    assert_eq!(instead.policer, Some(Policer { rate_bps: 8_000_000, bucket_bytes: 3_000 }));
    let before = link.clone().policed(Some(16_000_000), 2).unwrap();
    assert_eq!((before.rate_bps, before.policer.map(|policer| policer.rate_bps)), (Some(8_000_000), Some(16_000_000)));
    assert!(LinkConfig::default().policed(None, 2).is_err() && link.policed(None, 0).is_err());
    // Two packets pass the policer immediately and wait for the transmitter; the third is dropped. The tokens for a
    // packet take 750 µs.
    let mut link = Link::new(before, 1).unwrap();
    for (number, us) in [(0, 0), (1, 0), (2, 0), (3, 750)] {
        link.push(Time::from_us(us), numbered(number, 1_500));
    }
    assert_eq!(schedule(&mut link), [(1_500_000, 0), (3_000_000, 1), (4_500_000, 3)]);
    assert_eq!(link.stats().queue_drops.packets, 1);
}

/// Impairments preserve codepoints: copies and damaged packets have the original's codepoint.
#[test]
fn marks_pass_what_is_behind_the_queue() {
    let red =
        Red { min_threshold: 0, max_threshold: 1, max_probability: 1.0, weight: 1.0, ecn: true, ..Red::default() };
    let config = LinkConfig::default()
        .with_rate_bps(8_000_000)
        .with_delay(10 * MS)
        .with_jitter(3 * MS)
        .with_reorder(0.5, 2 * MS)
        .with_duplicate(1.0)
        .with_corrupt(1.0)
        .with_discipline(Discipline::Red(red));
    let mut link = Link::new(config, 1).unwrap();
    for tag in 0..4u8 {
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            link.push(Time::ZERO, Datagram { bytes: vec![0; 1000], ecn, tag, ..Datagram::default() });
        }
    }
    let arrived: Vec<Ecn> = std::iter::from_fn(|| link.pop(Time::from_s(10))).map(|packet| packet.ecn).collect();
    // The first packet finds the transmitter idle, and the second an empty queue, so neither is marked.
    let kept = arrived.iter().filter(|&&ecn| ecn != Ecn::Ce).count();
    assert_eq!((arrived.len(), kept), (24, 4));
    assert_eq!((link.stats().ce_marked.packets, link.stats().early_drops.packets), (10, 0));
}
