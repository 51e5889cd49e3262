use std::time::Duration;

use dfcp_time::Time;
use proptest::prelude::*;

use super::SfqQueue;
use crate::queue::tests::{Item, drain, fill, numbers, queue, serve, unlimited, widest_gap};
use crate::queue::{Discipline, Sfq, UNLIMITED};
use crate::{Queue, QueueLimit};

fn sfq(quantum_bytes: u32) -> Queue<Item> {
    unlimited(Discipline::Sfq(Sfq { quantum_bytes, ..Sfq::default() }))
}

/// With seed 7, flows 0 to 4 are hashed into separate buckets, as the tests below require.
#[test]
fn the_first_flows_have_buckets_of_their_own() {
    let sfq = SfqQueue::<Item>::new(Sfq::default(), 7);
    let mut buckets: Vec<usize> = (0..5).map(|flow| sfq.bucket_of(flow)).collect();
    buckets.sort_unstable();
    buckets.dedup();
    assert_eq!(buckets.len(), 5);
}

/// Quantum 500. Packet sizes of flow 0: 200, 400, 300; flow 1: 500, 500.
///
/// Flow 0 may send 500: it sends 200 (300 left) and 400 (overdraft 100), so that 400 are left for its next turn. Flow 1
/// sends 500 (0 left) and has 500 in its next turn. Flow 0 sends 300 and is empty; flow 1 sends 500.
#[test]
fn a_schedule_worked_out_by_hand() {
    let mut queue = sfq(500);
    fill(&mut queue, &[(0, 200), (0, 400), (0, 300), (1, 500), (1, 500)]);
    assert_eq!(numbers(&drain(&mut queue)), [0, 1, 3, 2, 4]);
}

#[test]
fn a_full_queue_drops_the_newest_packet_of_the_longest_bucket() {
    let mut queue = queue(Discipline::Sfq(Sfq::default()), QueueLimit::packets(4));
    // The packet of flow 2 evicts #2, the newest of flow 0. With #5, flow 1 itself would be the longest, so #5 is
    // dropped.
    assert_eq!(fill(&mut queue, &[(0, 300), (0, 300), (0, 300), (1, 400), (2, 100), (1, 500)]), [2, 5]);
    assert_eq!(queue.flow_len(0), Some(2));
}

#[test]
fn flows_in_one_bucket_share_its_turn() {
    let mut queue = unlimited(Discipline::Sfq(Sfq { buckets: 1, ..Sfq::default() }));
    fill(&mut queue, &[(0, 1500), (0, 1500), (1, 1500), (0, 1500)]);
    assert_eq!(numbers(&drain(&mut queue)), [0, 1, 2, 3]);
}

/// Perturbation changes which flows share a bucket.
#[test]
fn perturbation_changes_who_shares() {
    let config = Sfq { buckets: 2, perturbation: Some(Duration::from_micros(10)), ..Sfq::default() };
    let mut sfq = SfqQueue::<Item>::new(config, 1);
    let mut shared = 0;
    for step in 0..1000 {
        assert_eq!(sfq.pop(Time::from_us(10 * step)), None);
        shared += u32::from(sfq.bucket_of(0) == sfq.bucket_of(1));
    }
    // Two given flows share a bucket half of the time; five standard deviations are 79.
    assert!(shared.abs_diff(500) < 79, "{shared}");
    let key = sfq.hash_key;
    sfq.perturb(Time::from_us(9_999));
    assert_eq!(sfq.hash_key, key, "nothing changes between the times");
}

/// Queued packets move to their new buckets: once the hash function separates two flows, both are served, although one
/// was far ahead.
#[test]
fn packets_that_wait_move_to_their_new_buckets() {
    let config = Sfq { buckets: 2, perturbation: Some(Duration::from_nanos(30_000)), ..Sfq::default() };
    let mut arrivals = vec![(0, 0, 1500); 100];
    arrivals.extend([(1, 1, 1500); 20]);
    // Find a seed with which the flows collide at first, but not after the first change.
    let seed = (0..100)
        .find(|&seed| {
            let mut sfq = SfqQueue::<Item>::new(config, seed);
            let shared = sfq.bucket_of(0) == sfq.bucket_of(1);
            sfq.perturb(Time::from_ns(30_000));
            shared && sfq.bucket_of(0) != sfq.bucket_of(1)
        })
        .unwrap();
    let mut queue = Queue::new(Discipline::Sfq(config), UNLIMITED, None, seed).unwrap();
    let outcome = serve(&mut queue, &arrivals);
    let first = outcome.sent.iter().find(|sent| sent.item.flow == 1).unwrap();
    assert!((30_000..34_500).contains(&first.start), "{first:?}");
}

proptest! {
    /// A turn gives a bucket its quantum less the overdraft of its last turn, which is below Max, the largest packet.
    /// Turns taken differ by at most one. The bytes sent by two busy buckets therefore differ by at most 2 Max +
    /// Quantum.
    #[test]
    fn busy_buckets_send_alike(
        quantum_bytes in 64u32..3000,
        packets in prop::collection::vec((0u64..5, 1u32..=1500), 50..300),
    ) {
        let mut queue = sfq(quantum_bytes);
        prop_assert_eq!(fill(&mut queue, &packets), Vec::<usize>::new());
        let (gap, _) = widest_gap(&drain(&mut queue), &[1; 5]);
        let max_bytes = packets.iter().map(|&(_, size_bytes)| size_bytes).max().unwrap_or(0);
        prop_assert!(gap <= 2 * i64::from(max_bytes) + i64::from(quantum_bytes), "{gap}");
    }
}
