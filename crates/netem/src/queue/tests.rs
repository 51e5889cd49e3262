//! Tests of rules that all disciplines share, and a test bench.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ecn::Ecn;

/// One byte per nanosecond, so that sizes in bytes are times in nanoseconds.
pub(super) const RATE_BPS: u64 = 8_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) flow: u64,
    /// Number of the packet, in order of arrival.
    pub(super) number: usize,
    pub(super) size_bytes: u32,
    pub(super) ecn: Ecn,
}

impl Packet for Item {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        assert!(matches!(self.ecn, Ecn::Ect0 | Ecn::Ect1), "{self:?} cannot be marked");
        self.ecn = Ecn::Ce;
    }

    fn corrupt(&mut self, _random: u64) {}
}

/// Arrival as (time in ns, flow, size in bytes).
pub(super) type Arrival = (u64, u64, u32);

/// A packet with the start and end of its transmission, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) start: u64,
    pub(super) finish: u64,
    pub(super) item: Item,
}

/// Result of sending arrivals through a transmitter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) sent: Vec<Sent>,
    /// Drops as (time in ns, packet, cause).
    pub(super) dropped: Vec<(u64, Item, DropCause)>,
}

impl Outcome {
    /// Returns the numbers of the packets, in the order in which they were sent.
    pub(super) fn order(&self) -> Vec<usize> {
        self.sent.iter().map(|sent| sent.item.number).collect()
    }

    pub(super) fn sent_bytes(&self, flow: u64) -> u64 {
        let of_flow = self.sent.iter().filter(|sent| sent.item.flow == flow);
        of_flow.map(|sent| u64::from(sent.item.size_bytes)).sum()
    }
}

pub(super) fn queue(discipline: Discipline, limit: QueueLimit) -> Queue<Item> {
    Queue::new(discipline, limit, Some(RATE_BPS), 7).unwrap()
}

pub(super) fn unlimited(discipline: Discipline) -> Queue<Item> {
    queue(discipline, UNLIMITED)
}

/// Returns the codepoint of packet `number` in [`serve`]: all four in turn.
fn arriving_ecn(number: usize) -> Ecn {
    Ecn::from_bits(number as u8)
}

/// Sends arrivals, in order of time, through a transmitter of 1 byte per nanosecond. Checks at every step that the
/// queue length is correct and within the limit, and that the transmitter is never idle while packets wait.
pub(super) fn serve(queue: &mut Queue<Item>, arrivals: &[Arrival]) -> Outcome {
    let mut bench = Bench { queue, outcome: Outcome::default(), busy_until: None, waiting: (0, 0) };
    for (number, &(time, flow, size_bytes)) in arrivals.iter().enumerate() {
        bench.advance(time);
        bench.arrive(time, Item { flow, number, size_bytes, ecn: arriving_ecn(number) });
    }
    bench.advance(u64::MAX);
    bench.outcome
}

struct Bench<'a> {
    queue: &'a mut Queue<Item>,
    outcome: Outcome,
    busy_until: Option<u64>,
    /// Expected (packets, bytes) in the queue.
    waiting: (usize, u64),
}

impl Bench<'_> {
    fn arrive(&mut self, time: u64, item: Item) {
        let now = Time::from_ns(time);
        self.waiting = (self.waiting.0 + 1, self.waiting.1 + u64::from(item.size_bytes));
        let dropped_before = self.outcome.dropped.len();
        let dropped = &mut self.outcome.dropped;
        let mut on_drop = |item, cause| dropped.push((time, item, cause));
        if self.busy_until.is_some() {
            self.queue.push(now, item, &mut on_drop);
            self.count_drops(dropped_before);
        } else {
            let started = self.queue.pass(now, item, &mut on_drop);
            self.count_drops(dropped_before);
            assert_eq!(started.is_none(), self.outcome.dropped.len() > dropped_before, "the transmitter was idle");
            self.start(time, started);
        }
    }

    fn advance(&mut self, until: u64) {
        while let Some(finish) = self.busy_until.filter(|&finish| finish <= until) {
            let waited = self.queue.len();
            let dropped_before = self.outcome.dropped.len();
            let dropped = &mut self.outcome.dropped;
            let next = self.queue.pop(Time::from_ns(finish), &mut |item, cause| dropped.push((finish, item, cause)));
            self.count_drops(dropped_before);
            assert_eq!(next.is_some(), waited > 0, "idle at {finish} though {waited} waited");
            self.start(finish, next);
        }
    }

    fn start(&mut self, time: u64, item: Option<Item>) {
        self.busy_until = item.map(|item| time + u64::from(item.size_bytes));
        if let Some(item) = item {
            self.waiting = (self.waiting.0 - 1, self.waiting.1 - u64::from(item.size_bytes));
            self.outcome.sent.push(Sent { start: time, finish: time + u64::from(item.size_bytes), item });
        }
        self.check();
    }

    fn count_drops(&mut self, from: usize) {
        for (_, item, _) in &self.outcome.dropped[from..] {
            self.waiting = (self.waiting.0 - 1, self.waiting.1 - u64::from(item.size_bytes));
        }
        if self.busy_until.is_some() {
            assert!(self.queue.limit.allows(self.queue.len(), self.queue.bytes()), "over the limit");
        }
    }

    fn check(&self) {
        assert_eq!((self.queue.len(), self.queue.bytes()), self.waiting);
    }
}

/// Pushes all packets at time 0, given as (flow, size in bytes). Returns the numbers of the dropped ones.
pub(super) fn fill(queue: &mut Queue<Item>, packets: &[(u64, u32)]) -> Vec<usize> {
    let mut dropped = Vec::new();
    for (number, &(flow, size_bytes)) in packets.iter().enumerate() {
        queue.push(Time::ZERO, Item { flow, number, size_bytes, ecn: Ecn::NotEct }, &mut |item, _| {
            dropped.push(item.number)
        });
    }
    dropped
}

/// Pops all packets at time 0 and returns them.
pub(super) fn drain(queue: &mut Queue<Item>) -> Vec<Item> {
    std::iter::from_fn(|| queue.pop(Time::ZERO, &mut |item, _| panic!("{item:?} dropped"))).collect()
}

pub(super) fn numbers(items: &[Item]) -> Vec<usize> {
    items.iter().map(|item| item.number).collect()
}

/// Returns the widest gap between two flows during a drain, while both are backlogged, as (gap, divisor). Divided by
/// `divisor`, `gap` is the difference of bytes sent per unit of weight over any interval.
pub(super) fn widest_gap(items: &[Item], weights: &[u16]) -> (i64, i64) {
    let flows = weights.len();
    let mut left = vec![0usize; flows];
    for item in items {
        left[item.flow as usize] += 1;
    }
    let mut widest = (0, 1);
    for i in 0..flows {
        for j in 0..i {
            let (w_i, w_j) = (i64::from(weights[i]), i64::from(weights[j]));
            let (mut lead, mut least, mut most) = (0i64, 0i64, 0i64);
            let mut left = left.clone();
            for item in items {
                let flow = item.flow as usize;
                left[flow] -= 1;
                if left[flow] == 0 {
                    break;
                }
                if flow == i {
                    lead += i64::from(item.size_bytes) * w_j;
                } else if flow == j {
                    lead -= i64::from(item.size_bytes) * w_i;
                }
                (least, most) = (least.min(lead), most.max(lead));
            }
            if (most - least) * widest.1 > widest.0 * w_i * w_j {
                widest = (most - least, w_i * w_j);
            }
        }
    }
    widest
}

pub(super) fn arrivals(flows: u64, gap_ns: u64, count: usize) -> impl Strategy<Value = Vec<Arrival>> {
    prop::collection::vec((0..=gap_ns, 0..flows, 1u32..1500), 0..count).prop_map(|steps| {
        let mut time = 0;
        let at = |(gap, flow, size_bytes): (u64, u64, u32)| {
            time += gap;
            (time, flow, size_bytes)
        };
        steps.into_iter().map(at).collect()
    })
}

fn discipline() -> impl Strategy<Value = Discipline> {
    let weights = || prop::collection::vec(1u16..5, 0..6);
    let drr = (64u32..3000, weights()).prop_map(|(quantum_bytes, weights)| Drr { quantum_bytes, weights });
    let sfq = (1u32..8, 64u32..3000, prop::option::of(1u64..20_000)).prop_map(|(buckets, quantum_bytes, ns)| Sfq {
        buckets,
        quantum_bytes,
        perturbation: ns.map(Duration::from_nanos),
    });
    let marks = || (any::<bool>(), prop::option::of(1u64..5_000));
    let fq_codel = (1u32..8, 64u32..3000, 1u64..5_000, 1u64..20_000, 1u32..5, marks()).prop_map(
        |(queues, quantum_bytes, target, interval, drop_batch_packets, (ecn, ce_threshold))| FqCodel {
            queues,
            quantum_bytes,
            target: Duration::from_nanos(target),
            interval: Duration::from_nanos(interval),
            drop_batch_packets,
            ecn,
            ce_threshold: ce_threshold.map(Duration::from_nanos),
        },
    );
    let red = (0u64..10, 1u64..10, 0.0..=1.0, 0.01..=1.0, any::<[bool; 5]>()).prop_map(
        |(min, range, max_probability, weight, [gentle, in_bytes, ecn, hard_drop, no_drop])| {
            let scale = if in_bytes { 750 } else { 1 };
            Red {
                unit: if in_bytes { RedUnit::Bytes } else { RedUnit::Packets },
                min_threshold: min * scale,
                max_threshold: (min + range) * scale,
                max_probability,
                weight,
                gentle,
                mean_packet_bytes: 750,
                ecn,
                hard_drop: ecn && hard_drop,
                no_drop: ecn && no_drop,
            }
        },
    );
    prop_oneof![
        Just(Discipline::DropTail),
        drr.prop_map(Discipline::Drr),
        sfq.prop_map(Discipline::Sfq),
        weights().prop_map(|weights| Discipline::Wfq(Wfq { weights })),
        fq_codel.prop_map(Discipline::FqCodel),
        red.prop_map(Discipline::Red),
    ]
}

fn limit() -> impl Strategy<Value = QueueLimit> {
    (prop::option::of(0usize..20), prop::option::of(0u64..15_000))
        .prop_map(|(packets, bytes)| QueueLimit { packets, bytes })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Further checks are in `serve`: queue lengths, the limit, and work conservation.
    #[test]
    fn every_packet_is_sent_or_dropped_once_and_flows_stay_in_order(
        discipline in discipline(),
        limit in limit(),
        arrivals in arrivals(6, 1_000, 120),
    ) {
        let mut queue = queue(discipline.clone(), limit);
        let outcome = serve(&mut queue, &arrivals);
        prop_assert!(queue.is_empty());
        let mut fates = outcome.order();
        fates.extend(outcome.dropped.iter().map(|(_, item, _)| item.number));
        fates.sort_unstable();
        prop_assert_eq!(fates, (0..arrivals.len()).collect::<Vec<_>>());
        let mut last = BTreeMap::new();
        for sent in &outcome.sent {
            let before = last.insert(sent.item.flow, sent.item.number);
            prop_assert!(before < Some(sent.item.number), "{:?} after {before:?}", sent.item);
        }
        let may_drop_early = matches!(discipline, Discipline::Red(_) | Discipline::FqCodel(_));
        let early = outcome.dropped.iter().any(|&(_, _, cause)| cause == DropCause::Early);
        prop_assert!(may_drop_early || !early);
        if limit == UNLIMITED {
            prop_assert!(outcome.dropped.iter().all(|&(_, _, cause)| cause == DropCause::Early));
        }
    }

    /// Marks are neither lost nor invented, only ECN-capable packets are marked, and all marks are counted.
    #[test]
    fn codepoints_only_ever_become_marks(
        discipline in discipline(),
        limit in limit(),
        arrivals in arrivals(6, 1_000, 120),
    ) {
        let mut queue = queue(discipline.clone(), limit);
        let outcome = serve(&mut queue, &arrivals);
        let mut fresh = 0;
        for item in outcome.sent.iter().map(|sent| sent.item).chain(outcome.dropped.iter().map(|&(_, item, _)| item)) {
            let before = arriving_ecn(item.number);
            prop_assert!(item.ecn == before || item.ecn == Ecn::Ce && before.is_capable(), "{item:?} was {before:?}");
            fresh += u64::from(item.ecn != before);
        }
        let marks = match &discipline {
            Discipline::FqCodel(fq_codel) => fq_codel.ecn || fq_codel.ce_threshold.is_some(),
            Discipline::Red(red) => red.ecn,
            _ => false,
        };
        let counted = queue.ce_marked().packets;
        prop_assert!(if marks { counted >= fresh } else { counted == 0 && fresh == 0 }, "{counted} for {fresh}");
    }

    /// If all packets are ECN-capable, none is dropped early, except by RED with `hard_drop` above the upper threshold.
    #[test]
    fn marks_take_the_place_of_early_drops(discipline in discipline(), arrivals in arrivals(6, 1_000, 120)) {
        let discipline = match discipline {
            Discipline::FqCodel(fq_codel) => Discipline::FqCodel(FqCodel { ecn: true, ..fq_codel }),
            Discipline::Red(red) => Discipline::Red(Red { ecn: true, hard_drop: false, ..red }),
            other => other,
        };
        let outcome = serve(&mut unlimited(discipline), &arrivals);
        for (_, item, _) in outcome.dropped {
            prop_assert!(!item.ecn.is_capable(), "{item:?}");
        }
    }

    #[test]
    fn the_same_calls_give_the_same_result(
        discipline in discipline(),
        limit in limit(),
        arrivals in arrivals(6, 1_000, 60),
    ) {
        let once = serve(&mut queue(discipline.clone(), limit), &arrivals);
        prop_assert_eq!(once, serve(&mut queue(discipline, limit), &arrivals));
    }

    /// With a queue per flow, the flows' lengths add up to the total.
    #[test]
    fn lengths_of_flows_are_true(packets in prop::collection::vec((0u64..4, 1u32..1500), 0..40), wfq: bool) {
        let discipline = if wfq { Discipline::Wfq(Wfq::default()) } else { Discipline::Drr(Drr::default()) };
        let mut queue = unlimited(discipline);
        prop_assert_eq!(fill(&mut queue, &packets), Vec::<usize>::new());
        for flow in 0..5 {
            let expected = packets.iter().filter(|&&(of, _)| of == flow).count();
            prop_assert_eq!(queue.flow_len(flow), Some(expected));
        }
    }
}

#[test]
fn a_queue_of_bytes_that_cannot_hold_the_packet_drops_it_alone() {
    for discipline in [
        Discipline::DropTail,
        Discipline::Drr(Drr::default()),
        Discipline::Sfq(Sfq::default()),
        Discipline::Wfq(Wfq::default()),
        Discipline::FqCodel(FqCodel::default()),
        Discipline::Red(Red::default()),
    ] {
        let mut queue = queue(discipline.clone(), QueueLimit::bytes(1000));
        assert_eq!(fill(&mut queue, &[(0, 400), (1, 300), (2, 1001)]), [2], "{discipline:?}");
        assert_eq!(queue.len(), 2);
    }
}

/// Flow 1 sends at 40 % of the rate, flow 0 at ten times the rate. Fair queues give flow 1 all it needs; DropTail
/// serves both in proportion to their load.
#[test]
fn a_greedy_flow_does_not_harm_a_modest_one() {
    let mut arrivals: Vec<Arrival> = Vec::new();
    arrivals.extend((0..20_000).map(|step| (step * 100, 0, 1000)));
    arrivals.extend((0..800).map(|step| (step * 2_500 + 50, 1, 1000)));
    arrivals.sort_unstable();
    let modest_drops = |discipline| {
        let outcome = serve(&mut queue(discipline, QueueLimit::packets(50)), &arrivals);
        outcome.dropped.iter().filter(|(_, item, _)| item.flow == 1).count()
    };
    assert!(modest_drops(Discipline::DropTail) > 600);
    for fair in [
        Discipline::Drr(Drr::default()),
        Discipline::Sfq(Sfq::default()),
        Discipline::Wfq(Wfq::default()),
        Discipline::FqCodel(FqCodel::default()),
    ] {
        assert_eq!(modest_drops(fair.clone()), 0, "{fair:?}");
    }
}

/// Flows from 65 536 on share queues of lower flows, so that memory does not grow with flow numbers.
#[test]
fn huge_flow_numbers_share_queues() {
    for discipline in [Discipline::Drr(Drr::default()), Discipline::Wfq(Wfq::default())] {
        let mut queue = unlimited(discipline);
        let beyond = FLOWS_MAX as u64 * 3 + 5;
        fill(&mut queue, &[(5, 100), (beyond, 100), (u64::MAX, 100)]);
        assert_eq!(queue.flow_len(5), Some(2));
        assert_eq!(queue.flow_len(FLOWS_MAX as u64 - 1), Some(1));
        assert_eq!(drain(&mut queue).len(), 3);
    }
}

/// A flow of empty packets must not occupy the transmitter forever.
#[test]
fn empty_packets_take_turns() {
    for discipline in [
        Discipline::Drr(Drr { quantum_bytes: 64, weights: vec![] }),
        Discipline::Sfq(Sfq { quantum_bytes: 64, ..Sfq::default() }),
        Discipline::Wfq(Wfq::default()),
        Discipline::FqCodel(FqCodel { quantum_bytes: 64, ..FqCodel::default() }),
    ] {
        let mut queue = unlimited(discipline.clone());
        let mut packets = vec![(0, 0); 1000];
        packets.push((1, 64));
        fill(&mut queue, &packets);
        let place = drain(&mut queue).iter().position(|item| item.flow == 1).unwrap();
        assert!(place <= 64, "{discipline:?}: {place}");
    }
}

#[test]
fn a_zero_rate_is_refused() {
    let new = |rate_bps| Queue::<Item>::new(Discipline::DropTail, QueueLimit::default(), rate_bps, 0);
    assert_eq!(new(Some(0)).err(), Some(ConfigError::ZeroRate));
    assert_eq!(new(None).unwrap().set_rate_bps(Time::ZERO, Some(0)), Err(ConfigError::ZeroRate));
}
