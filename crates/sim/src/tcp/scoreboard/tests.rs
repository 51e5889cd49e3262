use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Reference model that recomputes every count from scratch.
#[derive(Debug, Default)]
struct Naive {
    una: u64,
    end: u64,
    sacked: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    retransmitted: BTreeSet<u64>,
    /// Retransmissions in order of time: segment and time.
    repeats: Vec<(u64, Time)>,
    sent: std::collections::BTreeMap<u64, Time>,
    newest: Time,
}

impl Naive {
    fn pipe(&self) -> u64 {
        let mut pipe = 0;
        for segment in self.una..self.end {
            if self.sacked.contains(&segment) {
                continue;
            }
            pipe += u64::from(!self.lost.contains(&segment));
            pipe += u64::from(self.retransmitted.contains(&segment));
        }
        pipe
    }

    fn deliver(&mut self, segment: u64) {
        self.newest = self.newest.max(self.sent[&segment]);
        self.lost.remove(&segment);
        self.retransmitted.remove(&segment);
    }

    fn advance(&mut self, una: u64) -> u64 {
        let mut delivered = 0;
        while self.una < una {
            let segment = self.una;
            if !self.sacked.remove(&segment) {
                delivered += 1;
                self.deliver(segment);
            }
            self.una += 1;
        }
        delivered
    }

    fn sack(&mut self, start: u64, end: u64) -> u64 {
        let mut fresh = 0;
        for segment in start.max(self.una)..end.min(self.end) {
            if self.sacked.insert(segment) {
                fresh += 1;
                self.deliver(segment);
            }
        }
        fresh
    }

    fn detect(&mut self, rule: LossDetection) -> u64 {
        let mut fresh = 0;
        for &(segment, sent) in &self.repeats {
            let current = self.retransmitted.contains(&segment) && self.sent[&segment] == sent;
            if current && sent < self.newest {
                self.retransmitted.remove(&segment);
                fresh += 1;
            }
        }
        for segment in self.una..self.end {
            let above = self.sacked.range(segment + 1..).count();
            let far = self.sacked.last().is_some_and(|&last| last >= segment + 3);
            let lost = match rule {
                LossDetection::Rfc6675 => above >= 3,
                LossDetection::Fack => far,
                LossDetection::Rack => false,
            };
            if lost && !self.sacked.contains(&segment) && self.lost.insert(segment) {
                fresh += 1;
            }
        }
        fresh
    }

    fn next_lost(&self) -> BTreeSet<u64> {
        self.lost.difference(&self.retransmitted).copied().collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u8),
    Advance(u8),
    Sack(u8, u8),
    Retransmit(u8),
    Timeout,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u8..40).prop_map(Step::Send),
        3 => (0u8..12).prop_map(Step::Advance),
        6 => (0u8..120, 1u8..20).prop_map(|(start, len)| Step::Sack(start, len)),
        4 => (1u8..10).prop_map(Step::Retransmit),
        1 => Just(Step::Timeout),
    ];
    proptest::collection::vec(step, 1..200)
}

fn check(rule: LossDetection, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut board = Scoreboard::new(rule, true);
    let mut naive = Naive::default();
    for (index, step) in steps.iter().enumerate() {
        let now = Time::from_us(index as u64 + 1);
        match *step {
            Step::Send(count) => {
                for _ in 0..count {
                    let segment = board.push(now);
                    prop_assert_eq!(segment, naive.end);
                    naive.sent.insert(segment, now);
                    naive.end += 1;
                }
            }
            Step::Advance(count) => {
                let una = (naive.una + u64::from(count)).min(naive.end);
                let advance = board.advance(una);
                prop_assert_eq!(advance.segments, una - naive.una);
                prop_assert_eq!(advance.delivered, naive.advance(una));
            }
            Step::Sack(start, len) => {
                let start = naive.una + 1 + u64::from(start);
                let end = start + u64::from(len);
                prop_assert_eq!(board.sack(start, end), naive.sack(start, end));
            }
            Step::Retransmit(count) => {
                for _ in 0..count {
                    let next = board.next_lost();
                    let waiting = naive.next_lost();
                    prop_assert_eq!(next.is_some(), !waiting.is_empty());
                    let Some(segment) = next else { break };
                    prop_assert!(waiting.contains(&segment));
                    board.retransmit(segment, now);
                    naive.retransmitted.insert(segment);
                    naive.sent.insert(segment, now);
                    naive.repeats.push((segment, now));
                }
            }
            Step::Timeout => {
                board.mark_all_lost();
                naive.retransmitted.clear();
                naive.repeats.clear();
                naive.lost = (naive.una..naive.end).filter(|segment| !naive.sacked.contains(segment)).collect();
            }
        }
        let fresh = board.detect_lost_retransmissions() + board.detect_losses();
        prop_assert_eq!(fresh, naive.detect(rule));
        prop_assert_eq!(board.pipe(), naive.pipe());
        prop_assert_eq!(board.lost(), naive.lost.len() as u64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_naive_recount_by_rfc_6675(steps in steps()) {
        check(LossDetection::Rfc6675, &steps)?;
    }

    #[test]
    fn agrees_with_a_naive_recount_by_fack(steps in steps()) {
        check(LossDetection::Fack, &steps)?;
    }
}

#[test]
fn a_block_reported_before_costs_no_walk() {
    // 100 000 segments, of which the first is lost. Each acknowledgement repeats the same block, longer by one segment.
    let mut board = Scoreboard::new(LossDetection::Rfc6675, true);
    for _ in 0..100_000 {
        board.push(Time::ZERO);
    }
    for end in 2..=100_000 {
        assert_eq!(board.sack(1, end), 1);
        board.detect_losses();
    }
    assert_eq!((board.pipe(), board.lost()), (0, 1));
    assert_eq!(board.next_lost(), Some(0));
    assert_eq!(
        board.advance(100_000),
        Advance { segments: 100_000, delivered: 1, sent: Some(Time::ZERO), repeated: false }
    );
}

#[test]
fn the_last_segment_may_be_rescued_once() {
    let mut board = Scoreboard::new(LossDetection::Rfc6675, true);
    assert_eq!(board.last_unsacked(), None);
    board.push(Time::ZERO);
    board.push(Time::ZERO);
    assert_eq!(board.last_unsacked(), Some(1));
    board.retransmit(1, Time::from_ms(1));
    assert_eq!(board.last_unsacked(), None);
    assert_eq!(board.pipe(), 3);
}
