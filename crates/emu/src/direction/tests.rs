//! Tests of a direction on a virtual clock.

use std::cell::Cell;

use dfcp_netem::{Discipline, Ecn, FqCodel, LinkConfig, Loss};

use super::*;
use crate::links::DirectionConfig;
use crate::packet::testing::Spec;

const MS: Duration = Duration::from_millis(1);

/// Write, with its time.
type Write = (Time, Vec<u8>);

fn direction(config: LinkConfig, patience: Duration) -> Direction {
    let links = Links::new(&DirectionConfig::single(config), 7).unwrap();
    Direction::new(links, patience, (Arc::default(), Side::Near))
}

/// Releases everything at the times that the direction returns.
fn drain(direction: &mut Direction) -> Vec<Write> {
    let mut writes = Vec::new();
    while let Some(due) = direction.next_time() {
        direction.release(
            || due,
            |headers, payload| {
                writes.push((due, [headers, payload].concat()));
                Ok(())
            },
        );
    }
    writes
}

/// Packets that the writes represent.
fn packets(writes: &[Write]) -> Vec<Vec<u8>> {
    let frames = writes.iter().map(|(_, bytes)| Frame::parse(bytes).unwrap());
    frames.flat_map(|frame| (0..frame.segments()).map(|index| frame.wire_packet(index)).collect::<Vec<_>>()).collect()
}

#[test]
fn without_a_rate_a_superpacket_leaves_whole_and_in_time() {
    let spec = Spec::tcp(1448, 20_000);
    let mut direction = direction(LinkConfig::default().with_delay(5 * MS), MS);
    direction.accept(Time::from_ms(1), &spec.superpacket());
    assert_eq!(drain(&mut direction), [(Time::from_ms(6), spec.superpacket())]);
    let report = direction.report();
    assert_eq!((report.writes, report.links[0].delivered.packets, report.lateness.packets), (1, 14, 14));
    assert_eq!(report.lateness.max_ms, 0.0);
}

#[test]
fn with_a_rate_each_segment_leaves_at_its_own_time() {
    // 1000 bytes with 52 of headers take 1052 µs.
    let spec = Spec::tcp(1000, 10_000);
    let mut direction = direction(LinkConfig::default().with_rate_bps(8_000_000), Duration::ZERO);
    direction.accept(Time::ZERO, &spec.superpacket());
    let writes = drain(&mut direction);
    let times: Vec<u64> = writes.iter().map(|(time, _)| time.as_ns() / 1000).collect();
    assert_eq!(times, (1..=10).map(|number| number * 1052).collect::<Vec<_>>());
    assert_eq!(packets(&writes), spec.packets());
    assert_eq!(direction.report().lateness.max_ms, 0.0);
}

#[test]
fn patience_joins_segments_and_is_counted_as_lateness() {
    // Packets take 105.2 µs each, so three are due within 250 µs.
    let spec = Spec::tcp(1000, 9000);
    let patience = Duration::from_micros(250);
    let mut direction = direction(LinkConfig::default().with_rate_bps(80_000_000).with_delay(20 * MS), patience);
    direction.accept(Time::ZERO, &spec.superpacket());
    let writes = drain(&mut direction);
    assert_eq!(packets(&writes), spec.packets());
    let report = direction.report();
    assert_eq!((report.writes, report.links[0].delivered.packets), (3, 9));
    // The first of three waits for two others.
    assert!((report.lateness.max_ms - 0.2104).abs() < 0.003, "{:?}", report.lateness);
    assert_eq!(writes[0].0, Time::from_ns(20_000_000 + 3 * 105_200));
}

#[test]
fn what_is_lost_parts_runs_and_nothing_else_changes() {
    let spec = Spec::tcp(1448, 60_000);
    let mut direction = direction(LinkConfig::default().with_loss(Loss::bernoulli(0.1)), Duration::ZERO);
    let all = spec.packets();
    let mut delivered = 0;
    for _ in 0..200 {
        direction.accept(Time::ZERO, &spec.superpacket());
        let survivors = packets(&drain(&mut direction));
        delivered += survivors.len();
        // The survivors are in order, each at most once, and unchanged.
        let mut rest = all.iter();
        assert!(survivors.iter().all(|packet| rest.any(|sent| sent == packet)));
    }
    let report = direction.report();
    assert_eq!(report.links[0].delivered.packets, delivered as u64);
    assert_eq!(report.links[0].lost.packets + delivered as u64, 200 * all.len() as u64);
    let share = report.links[0].lost.packets as f64 / report.links[0].offered.packets as f64;
    assert!((share - 0.1).abs() < 0.01, "{share}");
    // Far fewer than one write per packet: 42 segments with 4.2 losses form about 5 runs.
    assert!(report.writes < report.links[0].delivered.packets / 5, "{report:?}");
}

#[test]
fn lateness_is_the_time_of_the_write_and_not_of_the_decision() {
    let mut direction = direction(LinkConfig::default().with_delay(MS), Duration::ZERO);
    for _ in 0..2 {
        direction.accept(Time::ZERO, &Spec::tcp(1000, 1000).superpacket());
    }
    // Each reading of the clock takes 1 ms: one for the decision, one for each write.
    let now = Cell::new(Time::ZERO + MS);
    let clock = || {
        now.set(now.get() + MS);
        now.get()
    };
    direction.release(clock, |_, _| Ok(()));
    let lateness = direction.report().lateness;
    assert_eq!(lateness.packets, 2);
    assert!((lateness.p50_ms - 2.0).abs() < 0.03 && (lateness.max_ms - 3.0).abs() < 0.05, "{lateness:?}");
}

#[test]
fn what_the_kernel_refuses_is_counted_with_all_its_packets() {
    let mut direction = direction(LinkConfig::default(), Duration::ZERO);
    direction.accept(Time::ZERO, &Spec::tcp(1000, 3500).superpacket());
    direction.release(|| Time::ZERO, |_, _| Err(io::ErrorKind::InvalidInput.into()));
    let report = direction.report();
    assert_eq!(report.refused, Count { packets: 4, bytes: 3500 + 4 * 52 });
    assert_eq!(report.refused, report.links[0].delivered);
}

#[test]
fn what_is_no_packet_or_for_neighbours_does_not_reach_the_link() {
    let mut direction = direction(LinkConfig::default(), Duration::ZERO);
    direction.accept(Time::ZERO, &[0; 30]);
    direction.accept(Time::ZERO, &[]);
    let mut solicitation = vec![0; 10];
    solicitation.extend([0x60, 0, 0, 0, 0, 0, 58, 255]);
    solicitation.extend([0; 16]);
    solicitation.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    direction.accept(Time::ZERO, &solicitation);
    let report = direction.report();
    assert_eq!((report.malformed_packets, report.local_packets), (2, 1));
    assert_eq!(report.links[0].offered, Count::default());
    assert_eq!(direction.next_time(), None);
}

#[test]
fn what_is_on_its_way_back_when_the_nat_forgets_is_lost() {
    let nat = Arc::new(Nat::default());
    let links = || Links::new(&DirectionConfig::single(LinkConfig::default().with_delay(5 * MS)), 7).unwrap();
    let mut forward = Direction::new(links(), Duration::ZERO, (Arc::clone(&nat), Side::Near));
    let mut backward = Direction::new(links(), Duration::ZERO, (Arc::clone(&nat), Side::Far));
    // The ports are 0x0102 and 0x0304; an answer has them swapped.
    let spec = Spec::tcp(1000, 3000);
    let answer_to = |port: u16| {
        let mut frame = spec.superpacket();
        let ports = crate::packet::VNET_BYTES + 20;
        frame[ports..ports + 2].copy_from_slice(&0x0304_u16.to_be_bytes());
        frame[ports + 2..ports + 4].copy_from_slice(&port.to_be_bytes());
        frame
    };
    backward.accept(Time::ZERO, &answer_to(0x0102));
    nat.forget(0);
    assert_eq!(drain(&mut backward), []);
    assert_eq!((backward.report().forgotten_packets, backward.report().links[0].delivered.packets), (3, 3));
    forward.accept(Time::from_ms(10), &spec.superpacket());
    let sent = drain(&mut forward);
    let (_, [outer, _]) = Frame::parse(&sent[0].1).unwrap().ports().unwrap();
    assert_ne!(outer, 0x0102);
    backward.accept(Time::from_ms(20), &answer_to(outer));
    assert_eq!(packets(&drain(&mut backward)).len(), 3);
    // Packets to the old port still use the link, and are lost.
    backward.accept(Time::from_ms(30), &answer_to(0x0102));
    assert_eq!((drain(&mut backward).len(), backward.report().forgotten_packets), (0, 6));
}

/// CoDel that marks packets after 3 ms of sojourn time.
fn marking() -> LinkConfig {
    let codel = FqCodel { ce_threshold: Some(3 * MS), ..FqCodel::single_queue() };
    LinkConfig::default().with_rate_bps(8_000_000).with_discipline(Discipline::FqCodel(codel))
}

#[test]
fn marks_are_in_the_packets_that_leave_and_nothing_else_changes() {
    // 1000 bytes with 52 of headers take 1052 µs, so the fourth packet has waited longer than 3 ms.
    for is_v6 in [false, true] {
        for corrupt in [0.0, 0.3] {
            let spec = Spec { is_v6, ecn: Ecn::Ect0, ..Spec::tcp(1000, 10_000) };
            // Adjacent segments with equal marks are joined again.
            let mut direction = direction(marking().with_corrupt(corrupt).with_delay(MS), 20 * MS);
            direction.accept(Time::ZERO, &spec.superpacket());
            let writes = drain(&mut direction);
            let left = packets(&writes);
            let marked = Spec { ecn: Ecn::Ce, ..spec };
            let stats = direction.report().links[0];
            assert_eq!((left.len(), stats.ce_marked.packets, stats.queue_drops.packets), (10, 7, 0));
            let mut flipped = 0;
            for (number, (left, (plain, marked))) in
                left.iter().zip(spec.packets().iter().zip(marked.packets())).enumerate()
            {
                let expected = if number < 3 { plain } else { &marked };
                flipped += left.iter().zip(expected).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
                assert_eq!(left.len(), expected.len());
            }
            assert_eq!(u64::from(flipped), stats.corrupted.packets, "bits that are not as they should be");
            assert!(corrupt > 0.0 || writes.len() == 2, "{} writes", writes.len());
        }
    }
}

#[test]
fn packets_whose_ends_see_no_marks_are_dropped() {
    let codel = FqCodel { ecn: true, interval: 5 * MS, target: MS, ..FqCodel::single_queue() };
    for (ecn, drops) in [(Ecn::NotEct, true), (Ecn::Ect0, false), (Ecn::Ect1, false), (Ecn::Ce, false)] {
        let link = LinkConfig::default().with_rate_bps(8_000_000).with_discipline(Discipline::FqCodel(codel));
        let mut direction = direction(link, Duration::ZERO);
        direction.accept(Time::ZERO, &Spec { ecn, ..Spec::tcp(1000, 30_000) }.superpacket());
        let left = packets(&drain(&mut direction)).len();
        let stats = direction.report().links[0];
        assert_eq!((stats.queue_drops.packets > 0, stats.ce_marked.packets > 0), (drops, !drops), "{ecn:?}");
        assert_eq!(left as u64 + stats.queue_drops.packets, 30);
    }
}
