use super::*;
use crate::ecn::Ecn;
use crate::queue::tests::Item;

const PARAMS: Params =
    Params { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false, ce_threshold: None };
const SIZE_BYTES: u32 = 1000;

/// CoDel, fed with a given sojourn time at each dequeue.
struct Bench {
    codel: Codel,
    params: Params,
    /// ECN codepoint of all packets.
    ecn: Ecn,
    marker: Marker,
    drops_ms: Vec<u64>,
    marks_ms: Vec<u64>,
}

impl Default for Bench {
    fn default() -> Self {
        Self {
            codel: Codel::default(),
            params: PARAMS,
            ecn: Ecn::NotEct,
            marker: Marker::default(),
            drops_ms: Vec::new(),
            marks_ms: Vec::new(),
        }
    }
}

impl Bench {
    /// Dequeues once, at `now_ms`, from a queue of `count` packets that have all waited for `wait_ms`.
    fn pop(&mut self, now_ms: u64, wait_ms: u64, count: usize) -> Option<Item> {
        let mut backlog = Backlog::new();
        for number in 0..count {
            let item = Item { flow: 0, number, size_bytes: SIZE_BYTES, ecn: self.ecn };
            backlog.push_back(0, item, Time::from_ms(now_ms - wait_ms));
        }
        let drops_ms = &mut self.drops_ms;
        let on_drop = &mut |_, cause| {
            assert_eq!(cause, DropCause::Early);
            drops_ms.push(now_ms);
        };
        let served = Served { backlog: &mut backlog, slot: 0, largest_bytes: SIZE_BYTES, marker: &mut self.marker };
        let popped = self.codel.pop(Time::from_ms(now_ms), self.params, served, on_drop);
        if popped.is_some_and(|item| item.ecn == Ecn::Ce) {
            self.marks_ms.push(now_ms);
        }
        popped
    }

    /// Dequeues every millisecond, from a queue of 10 packets.
    fn run(&mut self, from_ms: u64, to_ms: u64, wait_ms: u64) {
        for now_ms in from_ms..to_ms {
            assert!(self.pop(now_ms, wait_ms, 10).is_some());
        }
    }
}

/// The sojourn time exceeds the target from 1000 ms on, so the first drop is at 1100 ms. The next one is due 100 ms
/// later, at 1200 ms. Further drops are due 100/√2, 100/√3, … ms after the previous due time: at 1270.7, 1328.4, 1378.4
/// and 1423.2 ms. Packets are dequeued once per millisecond.
#[test]
fn drops_follow_the_control_law() {
    let mut bench = Bench::default();
    bench.run(1000, 1424, 6);
    assert_eq!(bench.drops_ms, [1100, 1200, 1271, 1329, 1379]);
    bench.run(1424, 1425, 6);
    assert_eq!(bench.drops_ms.last(), Some(&1424));
}

#[test]
fn the_control_law_is_the_inverse_square_root() {
    for (count, ns) in [(0, 100_000_000), (1, 100_000_000), (2, 70_710_678), (4, 50_000_000), (100, 10_000_000)] {
        assert_eq!(control_law(Time::ZERO, PARAMS.interval, count), Time::from_ns(ns));
    }
}

#[test]
fn nothing_is_dropped_below_target_or_before_the_interval() {
    let mut bench = Bench::default();
    bench.run(1000, 3000, 4);
    bench.run(3000, 3100, 50);
    // One packet below the target restarts the interval.
    bench.run(3100, 3101, 4);
    bench.run(3101, 3201, 50);
    assert_eq!(bench.drops_ms, [0; 0]);
    bench.run(3201, 3202, 50);
    assert_eq!(bench.drops_ms, [3201]);
}

#[test]
fn the_last_packets_are_left_alone() {
    let mut bench = Bench::default();
    for now_ms in 1000..3000 {
        // One packet remains behind the current one: no more than the largest packet, so CoDel does not drop.
        assert_eq!(bench.pop(now_ms, 900, 2).map(|item| item.number), Some(0));
    }
    assert_eq!(bench.drops_ms, [0; 0]);
    assert_eq!(bench.pop(3000, 900, 0), None);
}

/// Five drops are counted until the sojourn time falls. If it exceeds the target again soon, drops continue at the rate
/// of count 5 − 1 = 4, at first 50 ms apart. After a long rest they begin again with 100 ms.
#[test]
fn a_rate_of_drops_is_remembered_for_a_while() {
    for (rest_until_ms, second_gap_ms) in [(1400, 50), (4000, 100)] {
        let mut bench = Bench::default();
        bench.run(1000, 1380, 6);
        assert_eq!((bench.codel.count, bench.codel.last_count), (5, 1));
        bench.run(1380, rest_until_ms, 1);
        bench.drops_ms.clear();
        bench.run(rest_until_ms, rest_until_ms + 155, 6);
        let first_ms = rest_until_ms + 100;
        let expected = [first_ms, first_ms + second_gap_ms];
        assert!(expected.starts_with(&bench.drops_ms), "{:?}", bench.drops_ms);
        assert_eq!(bench.drops_ms.len(), if second_gap_ms == 50 { 2 } else { 1 });
    }
}

/// If a dequeue is late, several drops are due at the same time.
#[test]
fn overdue_drops_are_made_up_for() {
    let mut bench = Bench::default();
    bench.run(1000, 1101, 6);
    // These drops were due at 1200, 1270.7 and 1328.4 ms.
    assert_eq!(bench.pop(1330, 6, 10).map(|item| item.number), Some(3));
    assert_eq!(bench.drops_ms, [1100, 1330, 1330, 1330]);
}

fn marking(ecn: Ecn) -> Bench {
    Bench { params: Params { ecn: true, ..PARAMS }, ecn, ..Bench::default() }
}

/// ECN-capable packets are marked at the times at which other packets would be dropped.
#[test]
fn marks_follow_the_control_law_in_place_of_drops() {
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let mut bench = marking(ecn);
        bench.run(1000, 1425, 6);
        assert_eq!((bench.marks_ms, bench.drops_ms), (vec![1100, 1200, 1271, 1329, 1379, 1424], vec![]));
        assert_eq!(bench.marker.marked().packets, 6);
    }
    let mut blind = marking(Ecn::NotEct);
    blind.run(1000, 1425, 6);
    assert_eq!((blind.marks_ms, blind.drops_ms), (vec![], vec![1100, 1200, 1271, 1329, 1379, 1424]));
    let mut off = Bench { ecn: Ecn::Ect0, ..Bench::default() };
    off.run(1000, 1425, 6);
    assert_eq!((off.marks_ms, off.drops_ms), (vec![], vec![1100, 1200, 1271, 1329, 1379, 1424]));
}

/// If a dequeue is late, several marks are due. A marked packet is sent, so each packet gets one mark (`goto end` in
/// `codel_dequeue`). Drops, in contrast, catch up immediately; see the test above.
#[test]
fn overdue_marks_are_given_one_to_a_packet() {
    let mut bench = marking(Ecn::Ect0);
    bench.run(1000, 1101, 6);
    // These marks were due at 1200, 1270.7 and 1328.4 ms.
    for number in 0..5 {
        bench.pop(1330 + number, 6, 10);
    }
    assert_eq!((bench.marks_ms, bench.drops_ms), (vec![1100, 1330, 1331, 1332], vec![]));
}

/// Step marking: every packet above the threshold is marked, even below the target and independently of `ecn`. A packet
/// is counted once, even if the control law marks it, too.
#[test]
fn the_ce_threshold_marks_at_once_what_has_waited_for_longer() {
    for ecn in [false, true] {
        let params = Params { ecn, ce_threshold: Some(Duration::from_millis(1)), ..PARAMS };
        let mut bench = Bench { params, ecn: Ecn::Ect0, ..Bench::default() };
        bench.run(1000, 1010, 1);
        assert_eq!(bench.marks_ms, [0; 0], "no longer than the threshold");
        bench.run(1010, 1020, 2);
        assert_eq!(bench.marks_ms, (1010..1020).collect::<Vec<_>>());
        bench.run(2000, 2300, 6);
        let drops = if ecn { vec![] } else { vec![2100, 2200, 2271] };
        assert_eq!((bench.marks_ms.len(), bench.drops_ms), (310, drops));
        assert_eq!(bench.marker.marked().packets, 310);
    }
    let blind = Params { ce_threshold: Some(Duration::from_millis(1)), ..PARAMS };
    let mut bench = Bench { params: blind, ..Bench::default() };
    bench.run(1000, 1050, 4);
    assert_eq!((bench.marks_ms.len(), bench.drops_ms.len()), (0, 0), "what cannot be marked is not dropped for it");
}
