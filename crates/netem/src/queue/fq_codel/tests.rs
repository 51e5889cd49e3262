use proptest::prelude::*;

use super::*;
use crate::ecn::Ecn;
use crate::queue::tests::{Item, arrivals, fill, queue, serve, unlimited};
use crate::queue::{Discipline, Queue, UNLIMITED};

/// With seed 7, flows 0 to 5 are hashed into separate queues, as the tests below require.
#[test]
fn the_first_flows_have_queues_of_their_own() {
    let fq_codel = FqCodelQueue::<Item>::new(FqCodel::default(), 7);
    let mut queues: Vec<usize> = (0..6).map(|flow| fq_codel.queue_of(flow)).collect();
    queues.sort_unstable();
    queues.dedup();
    assert_eq!(queues.len(), 6);
}

fn pop(queue: &mut Queue<Item>) -> Option<usize> {
    queue.pop(Time::ZERO, &mut |item, _| panic!("{item:?} dropped")).map(|item| item.number)
}

fn push(queue: &mut Queue<Item>, number: usize, flow: u64, size_bytes: u32) {
    queue.push(Time::ZERO, Item { flow, number, size_bytes, ecn: Ecn::NotEct }, &mut |item, _| {
        panic!("{item:?} dropped")
    });
}

/// Quantum 1514. Flow 0 has #0, #1 and #2 of 1000 B each. It is new, sends #0 (514 left) and #1 (−486). #3 (flow 1, 100
/// B) arrives: flow 0 is overdrawn, receives a quantum (1028) and becomes old; flow 1 is new and sends #3. #4 (flow 2,
/// 100 B) arrives: flow 1 is empty and goes behind flow 0 in the old list; flow 2 sends #4. Flow 2 is empty, too, so
/// the old list is served: flow 0 sends #2. #5 (flow 1) arrives while flow 1 is still in the old list. It waits for
/// flow 1's turn there, behind #6 of flow 3, which is new.
#[test]
fn a_schedule_worked_out_by_hand() {
    let mut queue = unlimited(Discipline::FqCodel(FqCodel::default()));
    assert_eq!(fill(&mut queue, &[(0, 1000), (0, 1000), (0, 1000)]), [0; 0]);
    assert_eq!([pop(&mut queue), pop(&mut queue)], [Some(0), Some(1)]);
    push(&mut queue, 3, 1, 100);
    assert_eq!(pop(&mut queue), Some(3));
    push(&mut queue, 4, 2, 100);
    assert_eq!(pop(&mut queue), Some(4));
    assert_eq!(pop(&mut queue), Some(2));
    push(&mut queue, 5, 1, 100);
    push(&mut queue, 6, 3, 100);
    assert_eq!([pop(&mut queue), pop(&mut queue), pop(&mut queue)], [Some(6), Some(5), None]);
}

/// A flow that offers each packet when the previous one has left is new each time, but is not always served first.
#[test]
fn new_queues_do_not_starve_old_ones() {
    let mut queue = unlimited(Discipline::FqCodel(FqCodel::default()));
    fill(&mut queue, &[(0, 1514); 100]);
    let mut of_backlog = 0;
    for number in 100..200 {
        push(&mut queue, number, 1, 1514);
        of_backlog += usize::from(pop(&mut queue).is_some_and(|number| number < 100));
    }
    assert!((49..=51).contains(&of_backlog), "{of_backlog}");
}

/// Three flows overload the link. A packet of a sparse flow waits for the packet being sent at most.
#[test]
fn a_sparse_flow_does_not_wait() {
    let mut arrivals: Vec<_> = (0..6_000u64).map(|step| (step * 500, step % 3, 1500)).collect();
    arrivals.extend((0..60u64).map(|step| (step * 50_000 + 333, 5, 200)));
    arrivals.sort_unstable();
    let outcome = serve(&mut queue(Discipline::FqCodel(FqCodel::default()), QueueLimit::packets(300)), &arrivals);
    let sparse: Vec<_> = outcome.sent.iter().filter(|sent| sent.item.flow == 5).collect();
    assert_eq!(sparse.len(), 60);
    for sent in sparse {
        assert!(sent.start <= arrivals[sent.item.number].0 + 1500, "{sent:?}");
    }
}

/// Queue of six packets, batch 64. Flow 0 has 100, 100, 400 and 100 B, flow 1 has 300 and 300 B. A further packet of 50
/// B exceeds the limit: flow 0 with 700 B is the longest, and loses at least 350 B from its head: #0, #1 and #2.
#[test]
fn a_full_queue_drops_half_of_the_longest_from_its_head() {
    let packets = [(0, 100), (0, 100), (0, 400), (0, 100), (1, 300), (1, 300), (2, 50)];
    let mut queue = queue(Discipline::FqCodel(FqCodel::default()), QueueLimit::packets(6));
    assert_eq!(fill(&mut queue, &packets), [0, 1, 2]);
    assert_eq!(queue.len(), 4);
}

#[test]
fn a_batch_bounds_what_is_dropped_at_once() {
    let config = FqCodel { drop_batch_packets: 2, ..FqCodel::default() };
    let mut queue = queue(Discipline::FqCodel(config), QueueLimit::packets(9));
    assert_eq!(fill(&mut queue, &[(0, 100); 10]), [0, 1]);
}

/// The arriving packet is eligible, too: if its queue is the longest and has no other packet, it is the head.
#[test]
fn the_arriving_packet_may_be_the_one() {
    let mut queue = queue(Discipline::FqCodel(FqCodel::default()), QueueLimit::packets(2));
    assert_eq!(fill(&mut queue, &[(0, 100), (1, 100), (2, 900)]), [2]);
}

/// A flow offers 20 kB every 16 µs, 1.25 times the rate, for 500 ms. Each packet waits for a fifth of the time since
/// the start, so the target of 5 ms is exceeded at 25 ms, and the first drop follows 100 ms later. The flow does not
/// slow down, and the queue is empty at 625 ms. Until then, the control law drops at 125, 225, 296, 353, 403, 448, 489,
/// 527, 562 and 595 ms.
#[test]
fn a_standing_queue_is_cut() {
    let arrivals: Vec<_> = (0..31_250u64).map(|step| (step * 16_000, 0, 20_000)).collect();
    let drops_ms = |target| {
        let config = FqCodel { target, ..FqCodel::default() };
        let outcome = serve(&mut queue(Discipline::FqCodel(config), UNLIMITED), &arrivals);
        assert!(outcome.dropped.iter().all(|&(_, _, cause)| cause == DropCause::Early));
        outcome.dropped.iter().map(|&(time, ..)| (time + 500_000) / 1_000_000).collect::<Vec<u64>>()
    };
    let expected = [125, 225, 296, 353, 403, 448, 489, 527, 562, 595];
    assert_eq!(drops_ms(FqCodel::default().target), expected);
    assert_eq!(drops_ms(std::time::Duration::from_secs(1)), [0; 0]);
}

proptest! {
    /// No packet is dropped early if its sojourn time is below the target.
    #[test]
    fn what_codel_drops_has_waited(
        target_ns in 1u64..20_000,
        interval_ns in 1u64..30_000,
        arrivals in arrivals(4, 800, 200),
    ) {
        let config = FqCodel {
            target: std::time::Duration::from_nanos(target_ns),
            interval: std::time::Duration::from_nanos(interval_ns),
            ..FqCodel::default()
        };
        let outcome = serve(&mut unlimited(Discipline::FqCodel(config)), &arrivals);
        for (time, item, _) in outcome.dropped {
            let waited_ns = time - arrivals[item.number].0;
            prop_assert!(waited_ns >= target_ns, "{item:?} waited {waited_ns} ns");
            prop_assert!(time >= interval_ns, "{item:?} was dropped at {time}");
        }
    }
}

/// Marking does not prevent loss if the queue is too small: a full queue also drops ECN-capable packets.
#[test]
fn a_full_queue_drops_what_could_be_marked() {
    let config = FqCodel { ecn: true, drop_batch_packets: 1, ..FqCodel::single_queue() };
    let mut queue = queue(Discipline::FqCodel(config), QueueLimit::packets(2));
    let mut causes = Vec::new();
    for number in 0..3 {
        let item = Item { flow: 0, number, size_bytes: 100, ecn: Ecn::Ect0 };
        queue.push(Time::ZERO, item, &mut |item, cause| causes.push((item.number, cause)));
    }
    assert_eq!((causes, queue.ce_marked().packets), (vec![(0, DropCause::Full)], 0));
}

/// With a single queue, packets of all flows leave in order of arrival.
#[test]
fn a_single_queue_keeps_the_order_of_all() {
    let mut queue = unlimited(Discipline::FqCodel(FqCodel::single_queue()));
    fill(&mut queue, &[(0, 1514), (0, 1514), (1, 100), (2, 1514), (1, 100)]);
    assert_eq!(std::iter::from_fn(|| pop(&mut queue)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}
