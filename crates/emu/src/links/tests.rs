//! Tests of links on a virtual clock.

use dfcp_netem::{Loss, QueueLimit};

use super::*;
use crate::packet::testing::Spec;

const MS: Duration = Duration::from_millis(1);

/// Packet of 1052 bytes.
fn packet() -> Segment {
    let frame = Frame::parse(&Spec::tcp(1000, 1000).superpacket()).unwrap();
    Segment::all(frame).next().unwrap()
}

/// Topology: an access link per pair, a bottleneck, and an access link after it.
fn dumbbell(pairs: usize, bottleneck: LinkConfig) -> DirectionConfig {
    let delay = |pair: usize| LinkConfig::default().with_delay((pair as u32 + 1) * MS);
    let mut links = vec![bottleneck];
    let mut routes = Vec::new();
    for pair in 0..pairs {
        links.extend([delay(pair), delay(pair)]);
        routes.push(vec![links.len() - 2, 0, links.len() - 1]);
    }
    DirectionConfig { links, routes }
}

/// Arrival times at the end, ms, popping only at the times that the links return.
fn drain(links: &mut Links) -> Vec<f64> {
    let mut arrivals = Vec::new();
    while let Some(time) = links.next_time(Duration::ZERO) {
        while let Some((arrival, _)) = links.pop(time) {
            assert!(arrival <= time, "it is fetched at {time:?} at the earliest");
            arrivals.push(arrival.as_ns() as f64 / 1e6);
        }
    }
    arrivals
}

#[test]
fn times_are_exact_over_several_links_however_late_they_are_looked_at() {
    // 1052 bytes take 1.052 ms.
    let bottleneck = LinkConfig::default().with_rate_bps(8_000_000).with_delay(10 * MS);
    for is_late in [false, true] {
        let mut links = Links::new(&dumbbell(2, bottleneck.clone()), 1).unwrap();
        // The second pair reaches the bottleneck at 2 ms, when the first one's second packet is about to leave.
        links.push(Time::ZERO, 0, packet());
        links.push(Time::ZERO, 0, packet());
        links.push(Time::ZERO, 1, packet());
        let arrivals = if is_late {
            std::iter::from_fn(|| links.pop(Time::from_ms(500))).map(|(at, _)| at.as_ns() as f64 / 1e6).collect()
        } else {
            drain(&mut links)
        };
        let sent = [1.0 + 1.052, 1.0 + 2.0 * 1.052, 1.0 + 3.0 * 1.052];
        assert_eq!(arrivals, [sent[0] + 11.0, sent[1] + 11.0, sent[2] + 12.0], "late: {is_late}");
        assert_eq!(links.delivered().iter().map(|count| count.packets).collect::<Vec<_>>(), [2, 1]);
    }
}

#[test]
fn a_shared_bottleneck_drops_what_its_queue_cannot_hold_and_counts_it() {
    let bottleneck = LinkConfig::default().with_rate_bps(8_000_000).with_queue(QueueLimit::packets(3));
    let mut links = Links::new(&dumbbell(2, bottleneck), 1).unwrap();
    for _ in 0..5 {
        links.push(Time::ZERO, 0, packet());
    }
    let reading = links.reading(Time::from_ms(1), 0);
    assert_eq!((reading.waiting_packets, reading.stats.queue_drops.packets, reading.stats.offered.packets), (3, 1, 5));
    assert_eq!(drain(&mut links).len(), 4);
    let reading = links.reading(Time::from_ms(100), 0);
    assert_eq!((reading.waiting_packets, reading.stats.delivered.packets), (0, 4));
}

#[test]
fn changes_take_effect_at_their_time() {
    let mut links = Links::new(&dumbbell(1, LinkConfig::default().with_delay(10 * MS)), 1).unwrap();
    links.push(Time::ZERO, 0, packet());
    let change = LinkChange { delay: Some(20 * MS), loss: Some(Loss::bernoulli(1.0)), ..LinkChange::default() };
    // The first packet has been on the bottleneck since 1 ms.
    links.change(Time::from_ms(2), 0, &change).unwrap();
    links.push(Time::from_ms(3), 0, packet());
    assert_eq!(drain(&mut links), [12.0]);
    assert_eq!(links.stats()[0].lost.packets, 1);
    let change = LinkChange { loss: Some(Loss::None), ..LinkChange::default() };
    links.change(Time::from_ms(40), 0, &change).unwrap();
    links.push(Time::from_ms(50), 0, packet());
    assert_eq!(drain(&mut links), [72.0]);
    for (link, wrong) in [(9, change.clone()), (0, LinkChange { rate_bps: Some(0), ..change })] {
        links.change(Time::from_ms(100), link, &wrong).unwrap_err();
    }
}

#[test]
fn routes_which_make_no_sense_are_refused() {
    let links = vec![LinkConfig::default(); 2];
    for routes in [vec![vec![]], vec![vec![2]], vec![vec![0, 1], vec![1, 0]], vec![vec![0, 0]]] {
        let refused = Links::new(&DirectionConfig { links: links.clone(), routes: routes.clone() }, 1);
        assert!(matches!(refused, Err(Error::Route)), "{routes:?}");
    }
}

#[test]
fn a_frame_belongs_to_the_pair_that_its_sender_says() {
    let links = Links::new(&dumbbell(3, LinkConfig::default()), 1).unwrap();
    let route = |low: u8| {
        let mut bytes = Spec::tcp(1000, 1000).superpacket();
        let source = crate::packet::VNET_BYTES + 12;
        bytes[source..source + 4].copy_from_slice(&[198, 19, 0, low]);
        links.route_of(&Frame::parse(&bytes).unwrap())
    };
    assert_eq!([0, 1, 3, 4].map(route), [None, Some(0), Some(2), None]);
}
