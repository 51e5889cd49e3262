use dfcp_time::Time;
use proptest::prelude::*;

use crate::queue::tests::{Arrival, Item, RATE_BPS, arrivals, drain, fill, numbers, queue, serve, unlimited};
use crate::queue::{Discipline, UNLIMITED, Wfq};
use crate::{Queue, QueueLimit};

fn wfq(weights: &[u16]) -> Queue<Item> {
    unlimited(Discipline::Wfq(Wfq { weights: weights.to_vec() }))
}

/// Weights 1 : 2 : 1, one byte per ns; virtual time V in bytes per unit of weight.
///
/// At 0 arrive #0 (flow 1, 600 B), #1 (flow 0, 400 B), #2 (flow 0, 400 B) and #3 (flow 1, 200 B). Their finish tags are
/// 600/2 = 300, 400, 800 and 300 + 200/2 = 400. V advances at 1/3 while flows 0 and 1 are busy in the fluid server. #0
/// finds the transmitter idle and is sent until 600. At 400 arrives #4 (flow 2, 100 B): V = 133.3, so its tag is 233.3.
/// V advances at 1/4 until it reaches 233.3 at 800, then at 1/3. At 600, #4 has the least tag and is sent until 700.
/// Then #1 and #3 both have 400, and the lower flow goes first: #1 is sent until 1100, #3 until 1300. At 1290 arrives
/// #5 (flow 2, 100 B): V = 233.3 + 490/3 = 396.7, so its tag is 496.7, before #2 with 800. #5 is sent until 1400, #2
/// until 1800.
///
/// A self-clocked queue would give #4 the tag 300 + 100 = 400, and #1 would go first. A queue whose virtual time
/// advanced at rate 1 would give it 500, behind #1 and #3.
#[test]
fn a_schedule_worked_out_by_hand() {
    let arrivals = [(0, 1, 600), (0, 0, 400), (0, 0, 400), (0, 1, 200), (400, 2, 100), (1290, 2, 100)];
    let outcome = serve(&mut wfq(&[1, 2, 1]), &arrivals);
    assert_eq!(outcome.order(), [0, 4, 1, 3, 5, 2]);
    assert_eq!(outcome.sent.iter().map(|sent| sent.finish).collect::<Vec<_>>(), [600, 700, 1100, 1300, 1400, 1800]);
}

/// The rate is halved at 100. #0 (flow 0, 998 B) and #1 (flow 1, 1000 B) arrive at 0: V = 50 at 100, then it advances
/// at 1/4. At 200, V = 75. Then #2 (flow 2, 960 B) arrives with tag 1035, behind both, and #3 (flow 3, 924 B) with tag
/// 999, before #1. At the old rate V would be 100, and #3 would have 1024, behind #1.
#[test]
fn the_rate_bends_virtual_time() {
    for (rate_bps, expected) in [(RATE_BPS / 2, [0, 3, 1, 2]), (RATE_BPS, [0, 1, 3, 2])] {
        let mut queue = wfq(&[]);
        let push = |queue: &mut Queue<Item>, ns, number: usize, size_bytes| {
            let item = Item { flow: number as u64, number, size_bytes, ecn: crate::Ecn::NotEct };
            queue.push(Time::from_ns(ns), item, &mut |item, _| panic!("{item:?} dropped"));
        };
        push(&mut queue, 0, 0, 998);
        push(&mut queue, 0, 1, 1000);
        queue.set_rate_bps(Time::from_ns(100), Some(rate_bps)).unwrap();
        push(&mut queue, 200, 2, 960);
        push(&mut queue, 200, 3, 924);
        assert_eq!(numbers(&drain(&mut queue)), expected);
    }
}

#[test]
fn without_a_rate_it_is_first_in_first_out() {
    let mut queue = Queue::new(Discipline::Wfq(Wfq::default()), UNLIMITED, None, 0).unwrap();
    fill(&mut queue, &[(0, 1000), (0, 1000), (1, 10), (0, 10), (2, 500)]);
    assert_eq!(numbers(&drain(&mut queue)), [0, 1, 2, 3, 4]);
}

/// A dropped packet returns its share of virtual time. Flow 0 offers #0, #1 and #2 of 100 B each (tags 100, 200, 300),
/// and three packets may wait. #3 (flow 1, 300 B) would make its flow as long as flow 0, and is dropped. #4 (flow 1,
/// 150 B, tag 150) evicts #2. The next packet of flow 0, #5 of 40 B, then has the tag 240 instead of 340, and is sent
/// before #6 (flow 1, 120 B, tag 270).
#[test]
fn a_dropped_packet_costs_its_flow_nothing() {
    let mut queue = queue(Discipline::Wfq(Wfq::default()), QueueLimit::packets(3));
    assert_eq!(fill(&mut queue, &[(0, 100), (0, 100), (0, 100), (1, 300), (1, 150)]), [3, 2]);
    queue.limit = UNLIMITED;
    for (number, flow, size_bytes) in [(5, 0, 40), (6, 1, 120)] {
        queue.push(Time::ZERO, Item { flow, number, size_bytes, ecn: crate::Ecn::NotEct }, &mut |_, _| unreachable!());
    }
    assert_eq!(numbers(&drain(&mut queue)), [0, 4, 1, 5, 6]);
}

/// Four flows each offer twice the rate to a short queue. The output is still shared 1 : 2 : 3 : 4.
#[test]
fn overload_is_shared_by_weight() {
    let weights = [1u16, 2, 3, 4];
    let arrivals: Vec<Arrival> = (0..40_000u64).map(|step| (step * 125, step % 4, 1000)).collect();
    let outcome =
        serve(&mut queue(Discipline::Wfq(Wfq { weights: weights.to_vec() }), QueueLimit::packets(40)), &arrivals);
    let sent = |flow: usize| outcome.sent_bytes(flow as u64) as f64;
    let total: f64 = (0..4).map(sent).sum();
    for (flow, &weight) in weights.iter().enumerate() {
        let share = sent(flow) / total;
        assert!((share - f64::from(weight) / 10.0).abs() < 0.01, "flow {flow} has {share}");
    }
}

/// Returns the time at which the fluid server finishes each arrival, ns. It simulates all flows with work, served in
/// proportion to their weights, from event to event, without using virtual time.
fn fluid_finishes(arrivals: &[Arrival], weights: &[u16]) -> Vec<f64> {
    let mut finishes = vec![f64::NAN; arrivals.len()];
    let mut work: Vec<std::collections::VecDeque<(usize, f64)>> = vec![Default::default(); weights.len()];
    let mut now = 0.0f64;
    let mut pending = arrivals.iter().enumerate().peekable();
    loop {
        let busy: f64 = work.iter().zip(weights).filter(|(work, _)| !work.is_empty()).map(|(_, &w)| f64::from(w)).sum();
        let first = work.iter().zip(weights).filter_map(|(work, &w)| Some(work.front()?.1 * busy / f64::from(w)));
        let next_finish = first.fold(f64::INFINITY, f64::min);
        let next_arrival = pending.peek().map_or(f64::INFINITY, |(_, arrival)| arrival.0 as f64 - now);
        let step = next_finish.min(next_arrival);
        if step.is_infinite() {
            return finishes;
        }
        now += step;
        for (work, &weight) in work.iter_mut().zip(weights) {
            if let Some((number, left)) = work.front_mut() {
                *left -= step * f64::from(weight) / busy;
                if *left < 1e-6 {
                    finishes[*number] = now;
                    work.pop_front();
                }
            }
        }
        if next_arrival <= next_finish {
            while let Some((number, &(_, flow, size_bytes))) = pending.next_if(|(_, arrival)| arrival.0 as f64 <= now) {
                work[flow as usize].push_back((number, f64::from(size_bytes)));
            }
        }
    }
}

#[test]
fn the_fluid_model_agrees_with_the_example() {
    // The first five packets of the example above: V is 233.3 at 800, 300 at 1000 and 400 at 1300. Then flow 0 is
    // alone, and all 1700 bytes are served at 1700.
    let arrivals = [(0, 1, 600), (0, 0, 400), (0, 0, 400), (0, 1, 200), (400, 2, 100)];
    let finishes = fluid_finishes(&arrivals, &[1, 2, 1]);
    for (finish, expected) in finishes.iter().zip([1000.0, 1300.0, 1700.0, 1300.0, 800.0]) {
        assert!((finish - expected).abs() < 1e-6, "{finishes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Parekh and Gallager's theorem: each packet leaves at most the time of one largest packet after the fluid server
    /// finishes it. Their lemma: of all waiting packets, the one sent next is the first that the fluid server finishes.
    /// The lemma holds for exact virtual time only.
    #[test]
    fn it_follows_the_fluid_server(
        weights in prop::collection::vec(1u16..6, 6),
        arrivals in arrivals(6, 2_000, 150),
    ) {
        let outcome = serve(&mut wfq(&weights), &arrivals);
        let fluid = fluid_finishes(&arrivals, &weights);
        let largest_ns = arrivals.iter().map(|&(_, _, size_bytes)| size_bytes).max().map_or(0.0, f64::from);
        for (place, sent) in outcome.sent.iter().enumerate() {
            let finish = fluid[sent.item.number];
            prop_assert!(sent.finish as f64 <= finish + largest_ns + 1e-3, "{sent:?}, fluid {finish}");
            for other in &outcome.sent[place + 1..] {
                let waits = arrivals[other.item.number].0 < sent.start;
                let other_finish = fluid[other.item.number];
                prop_assert!(!waits || finish <= other_finish + 1e-3, "{sent:?} before {other:?}");
            }
        }
    }
}
