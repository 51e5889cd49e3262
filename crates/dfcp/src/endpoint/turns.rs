//! Whose turn it is to send, among the connections with one peer.
//!
//! Where each of a thousand sends as much as its part of the peer's queue allows, a few datagrams, all that belongs to it has
//! left the processor's caches, on both sides, by the time that it may send more. So a few of them send at a time, and more,
//! and have the whole queue; the others' applications wait to write. Nothing that has been written is held back, and who sends
//! little waits for nobody.

use std::collections::VecDeque;

use dfcp_proto::Sending;
use dfcp_time::Time;

use crate::endpoint::activity::RecentGreatest;
use crate::limits::{TURN_BYTES, TURN_MAX, TURNS_AT_ONCE, TURNS_AT_ONCE_IDLE};

/// How a connection stands among those with its peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not been served yet.
    #[default]
    New,
    /// It sends nothing, or little.
    Quiet,
    /// It keeps to a rate, or its path is long: a turn would not end soon.
    Apart,
    /// It has a place, which nobody waits for.
    Placed,
    /// It has a place until it has sent its part.
    Turn {
        /// Or, if nothing is under way, so long.
        until: Time,
    },
    /// It waits for a place; nothing more is to be written to it.
    Waiting,
    /// The same, and what it had to send has been sent meanwhile.
    Queued,
}

/// The connections with one peer.
#[derive(Debug)]
pub(crate) struct Turns<C> {
    connections: usize,
    placed: usize,
    apart: usize,
    /// In the order of their coming, each once.
    waiting: VecDeque<C>,
    sharers: RecentGreatest,
}

impl<C> Default for Turns<C> {
    fn default() -> Self {
        Self { connections: 0, placed: 0, apart: 0, waiting: VecDeque::new(), sharers: RecentGreatest::default() }
    }
}

impl<C> Turns<C> {
    /// A connection is about to be served, and may send.
    pub(crate) fn on_serving(
        &mut self,
        now: Time,
        before: Standing,
        sending: Sending,
        it: impl FnOnce() -> C,
    ) -> Standing {
        let after = self.next(now, before, sending);
        self.change(before, after);
        if after == Standing::Waiting && !before.is_in_queue() {
            self.waiting.push_back(it());
        }
        after
    }

    fn next(&self, now: Time, standing: Standing, sending: Sending) -> Standing {
        let has_turn = |until| sending.is_under_way || (!sending.has_used_allowance && now < until);
        match standing {
            Standing::Waiting | Standing::Queued if sending.is_busy => Standing::Waiting,
            Standing::Waiting | Standing::Queued => Standing::Queued,
            Standing::Turn { until } if sending.takes_turns && has_turn(until) => standing,
            _ if !sending.is_busy => Standing::Quiet,
            _ if !sending.takes_turns => Standing::Apart,
            Standing::Placed if self.is_crowded() => Standing::Turn { until: now + TURN_MAX },
            Standing::Placed => Standing::Placed,
            Standing::Turn { .. } if !self.is_crowded() => Standing::Placed,
            Standing::Turn { .. } => Standing::Waiting,
            _ if !self.is_crowded() && self.placed < TURNS_AT_ONCE => Standing::Placed,
            _ => Standing::Waiting,
        }
    }

    /// Who waits first, if there is a place; then [`begin`](Self::begin) is to follow. There are more if nobody has anything to
    /// send now: all may be waiting for reports.
    pub(crate) fn pop(&mut self, is_idle: bool) -> Option<C> {
        let places = if is_idle { TURNS_AT_ONCE_IDLE } else { TURNS_AT_ONCE };
        if self.placed < places { self.waiting.pop_front() } else { None }
    }

    /// Whether somebody waits.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// It is the turn of one which has waited, if it still has something to send.
    pub(crate) fn begin(&mut self, now: Time, before: Standing, sending: Sending) -> Standing {
        let after = match sending {
            Sending { is_busy: false, .. } => Standing::Quiet,
            Sending { takes_turns: false, .. } => Standing::Apart,
            Sending { .. } => Standing::Turn { until: now + TURN_MAX },
        };
        self.change(before, after);
        after
    }

    /// A connection is over. If it waits, it does so until it is the first: nothing begins then.
    pub(crate) fn leave(&mut self, before: Standing) -> Standing {
        let after = if before.is_in_queue() { Standing::Queued } else { Standing::Quiet };
        self.change(before, after);
        self.connections -= 1;
        after
    }

    fn change(&mut self, before: Standing, after: Standing) {
        match before {
            Standing::New => self.connections += 1,
            Standing::Placed | Standing::Turn { .. } => self.placed -= 1,
            Standing::Apart => self.apart -= 1,
            Standing::Quiet | Standing::Waiting | Standing::Queued => {}
        }
        match after {
            Standing::Placed | Standing::Turn { .. } => self.placed += 1,
            Standing::Apart => self.apart += 1,
            Standing::New | Standing::Quiet | Standing::Waiting | Standing::Queued => {}
        }
    }

    /// Among how many the peer's queue is shared: the most who have sent at a time lately, and one at least. Who waits has no
    /// part in it.
    pub(crate) fn sharers(&mut self, now: Time, standing: Standing) -> usize {
        let sharers = self.sharers.with(now, self.placed + self.apart).max(1);
        if standing == Standing::Waiting { usize::MAX } else { sharers }
    }

    /// Whether no connection is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections == 0
    }
}

impl Standing {
    fn is_in_queue(self) -> bool {
        matches!(self, Self::Waiting | Self::Queued)
    }

    /// When it is to be looked at again at the latest.
    pub(crate) fn ends_at(self) -> Option<Time> {
        if let Self::Turn { until } = self { Some(until) } else { None }
    }

    /// What may be written from here on, if that changes with the step from `before`.
    pub(crate) fn allowance(self, before: Self) -> Option<Option<u64>> {
        let of = |standing| match standing {
            Self::New | Self::Quiet | Self::Apart | Self::Placed | Self::Queued => None,
            Self::Turn { .. } => Some(TURN_BYTES),
            Self::Waiting => Some(0),
        };
        (of(self) != of(before)).then(|| of(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::activity::PERIOD;
    use proptest::prelude::*;
    use std::time::Duration;

    const BUSY: Sending = Sending { is_under_way: true, is_busy: true, takes_turns: true, has_used_allowance: false };
    const SENT: Sending = Sending { is_under_way: false, ..BUSY };
    const DONE: Sending = Sending { has_used_allowance: true, ..SENT };
    const IDLE: Sending = Sending { is_busy: false, ..DONE };

    /// Connections with one peer, by their index, and what they are allowed.
    #[derive(Default)]
    struct Crowd {
        now: Time,
        turns: Turns<usize>,
        standings: Vec<Standing>,
        allowances: Vec<Option<u64>>,
    }

    impl Crowd {
        fn of(count: usize) -> Self {
            Self {
                standings: vec![Standing::New; count],
                allowances: vec![None; count],
                now: Time::from_ms(1_000),
                ..Self::default()
            }
        }

        fn stand(&mut self, index: usize, after: Standing) {
            if let Some(allowance) = after.allowance(self.standings[index]) {
                self.allowances[index] = allowance;
            }
            self.standings[index] = after;
        }

        /// Serves one which has this to send, and begins the turns of those for whom there is a place then.
        fn serve(&mut self, index: usize, sending: Sending) -> Vec<usize> {
            self.serve_then(index, sending, BUSY)
        }

        /// The same, where those who wait have that to send.
        fn serve_then(&mut self, index: usize, sending: Sending, of_waiting: Sending) -> Vec<usize> {
            let after = self.turns.on_serving(self.now, self.standings[index], sending, || index);
            self.stand(index, after);
            std::iter::from_fn(|| self.begin_next(false, of_waiting)).collect()
        }

        /// Nobody has anything to send now.
        fn idle(&mut self) -> Option<usize> {
            self.begin_next(true, BUSY)
        }

        fn begin_next(&mut self, is_idle: bool, sending: Sending) -> Option<usize> {
            let next = self.turns.pop(is_idle)?;
            let after = self.turns.begin(self.now, self.standings[next], sending);
            self.stand(next, after);
            Some(next)
        }

        fn count(&self, is_meant: impl Fn(Standing) -> bool) -> usize {
            self.standings.iter().filter(|&&standing| is_meant(standing)).count()
        }

        fn waiting(&self) -> Vec<usize> {
            (0..self.standings.len()).filter(|&index| self.standings[index].is_in_queue()).collect()
        }
    }

    fn is_turn(standing: Standing) -> bool {
        matches!(standing, Standing::Turn { .. })
    }

    #[test]
    fn as_many_as_there_are_places_for_write_as_they_like() {
        let mut crowd = Crowd::of(TURNS_AT_ONCE);
        for _ in 0..3 {
            (0..TURNS_AT_ONCE).for_each(|index| assert!(crowd.serve(index, DONE).is_empty()));
        }
        assert_eq!(crowd.count(|standing| standing == Standing::Placed), TURNS_AT_ONCE);
        assert!(crowd.allowances.iter().all(Option::is_none));
        assert_eq!(crowd.turns.sharers(crowd.now, Standing::Placed), TURNS_AT_ONCE);
    }

    #[test]
    fn of_many_all_get_about_the_same() {
        let count = 3 * TURNS_AT_ONCE + 1;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        assert_eq!(crowd.waiting(), Vec::from_iter(TURNS_AT_ONCE..count));
        assert!(crowd.waiting().iter().all(|&index| crowd.allowances[index] == Some(0)));
        let mut begun = Vec::new();
        while begun.len() < 4 * count {
            let placed: Vec<_> = (0..count).filter(|&index| crowd.standings[index] != Standing::Waiting).collect();
            for index in placed {
                if !is_turn(crowd.standings[index]) {
                    assert!(
                        crowd.serve(index, BUSY).is_empty(),
                        "one who had a place before anybody waited keeps it for a turn"
                    );
                    assert_eq!(crowd.allowances[index], Some(TURN_BYTES));
                }
                begun.extend(crowd.serve(index, DONE));
            }
        }
        let turns_of = |index| begun.iter().filter(|&&begun| begun == index).count();
        let counts = Vec::from_iter((0..count).map(turns_of));
        assert!(counts.iter().all(|turns| (3..=5).contains(turns)), "{counts:?}");
        assert_eq!(crowd.turns.sharers(crowd.now, Standing::Placed), TURNS_AT_ONCE);
        assert_eq!(crowd.turns.sharers(crowd.now, Standing::Waiting), usize::MAX);
    }

    #[test]
    fn a_turn_ends_with_its_time_and_who_falls_silent_waits_no_more() {
        let count = TURNS_AT_ONCE + 1;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        (0..2).for_each(|index| assert!(crowd.serve(index, BUSY).is_empty()));
        crowd.now += TURN_MAX;
        assert_eq!(crowd.serve(0, BUSY), [], "what is in flight has a part in the queue, however slow the receiver is");
        assert_eq!(crowd.serve(0, SENT), [count - 1], "its application did not write");
        assert_eq!(crowd.waiting(), [0]);
        assert_eq!(crowd.serve(1, IDLE), [0]);
        assert_eq!((crowd.standings[1], crowd.allowances[1]), (Standing::Quiet, None));
        assert_eq!(crowd.serve(0, DONE), []);
        assert_eq!((crowd.standings[0], crowd.allowances[0]), (Standing::Placed, None), "nobody waits");
    }

    #[test]
    fn who_has_sent_all_while_it_waited_may_write_a_little_and_keeps_its_place_in_the_queue() {
        let count = TURNS_AT_ONCE + 2;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        let first = TURNS_AT_ONCE;
        assert_eq!(crowd.allowances[first], Some(0));
        assert_eq!(crowd.serve(first, IDLE), []);
        assert_eq!(crowd.allowances[first], None);
        assert_eq!(crowd.serve(first, BUSY), []);
        assert_eq!(crowd.allowances[first], Some(0));
        assert_eq!(crowd.serve(0, IDLE), [first]);
    }

    #[test]
    fn more_send_at_a_time_when_those_who_do_wait_for_reports() {
        let count = 3 * TURNS_AT_ONCE_IDLE;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        let extra = Vec::from_iter(std::iter::from_fn(|| crowd.idle()));
        assert_eq!(extra, Vec::from_iter(TURNS_AT_ONCE..TURNS_AT_ONCE_IDLE));
        (0..TURNS_AT_ONCE).for_each(|index| assert!(crowd.serve(index, BUSY).is_empty()));
        let ended = TURNS_AT_ONCE_IDLE - TURNS_AT_ONCE;
        (0..ended).for_each(|index| assert!(crowd.serve(index, DONE).is_empty(), "the places were extra ones"));
        assert_eq!(crowd.serve(ended, DONE), [TURNS_AT_ONCE_IDLE]);
    }

    #[test]
    fn who_keeps_to_a_rate_takes_no_place_but_a_part_of_the_queue() {
        let paced = Sending { takes_turns: false, ..BUSY };
        let mut crowd = Crowd::of(3 * TURNS_AT_ONCE);
        (0..2 * TURNS_AT_ONCE).for_each(|index| _ = crowd.serve(index, paced));
        (2 * TURNS_AT_ONCE..3 * TURNS_AT_ONCE).for_each(|index| _ = crowd.serve(index, BUSY));
        assert!(crowd.waiting().is_empty());
        assert_eq!(crowd.turns.sharers(crowd.now, Standing::Apart), 3 * TURNS_AT_ONCE);
        (0..3 * TURNS_AT_ONCE).for_each(|index| _ = crowd.serve(index, IDLE));
        crowd.now += PERIOD;
        assert_eq!(crowd.turns.sharers(crowd.now, Standing::Quiet), 3 * TURNS_AT_ONCE);
        crowd.now += PERIOD;
        assert_eq!(crowd.turns.sharers(crowd.now, Standing::Quiet), 1);
    }

    #[test]
    fn who_is_over_leaves_its_place_or_nothing_begins_when_its_turn_comes() {
        let count = TURNS_AT_ONCE + 2;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        let waits = crowd.turns.leave(Standing::Waiting);
        assert_eq!((waits, crowd.turns.pop(false)), (Standing::Queued, None));
        let left = crowd.turns.leave(crowd.standings[0]);
        crowd.stand(0, left);
        assert_eq!(crowd.turns.pop(false), Some(TURNS_AT_ONCE));
        assert_eq!(crowd.turns.begin(crowd.now, waits, Sending::default()), Standing::Quiet, "it is over");
        assert_eq!(crowd.turns.pop(false), Some(TURNS_AT_ONCE + 1));
        (2..count).for_each(|_| _ = crowd.turns.leave(Standing::Queued));
        assert!(crowd.turns.is_empty());
    }

    fn sending() -> impl Strategy<Value = Sending> {
        any::<(bool, bool, bool, bool)>().prop_map(|(is_under_way, waits, takes_turns, has_used_allowance)| Sending {
            is_under_way,
            is_busy: is_under_way || waits,
            takes_turns,
            has_used_allowance,
        })
    }

    proptest! {
        /// Model: the standings of all, counted each time.
        #[test]
        fn places_are_never_too_many_nor_left_empty_while_somebody_waits(
            steps in prop::collection::vec((0..4 * TURNS_AT_ONCE, sending(), sending(), 0..5_u64, any::<bool>()), 0..2_000),
        ) {
            let mut crowd = Crowd::of(4 * TURNS_AT_ONCE);
            for (index, sending, of_waiting, pause_ms, is_idle) in steps {
                crowd.now += Duration::from_millis(pause_ms);
                crowd.serve_then(index, sending, of_waiting);
                if is_idle {
                    crowd.idle();
                }
                let placed = crowd.count(|standing| standing == Standing::Placed || is_turn(standing));
                prop_assert!(placed <= TURNS_AT_ONCE_IDLE);
                prop_assert_eq!(placed, crowd.turns.placed);
                prop_assert_eq!(crowd.count(|standing| standing == Standing::Apart), crowd.turns.apart);
                let mut queued = Vec::from(crowd.turns.waiting.clone());
                queued.sort_unstable();
                prop_assert_eq!(&queued, &crowd.waiting());
                prop_assert!(queued.is_empty() || placed >= TURNS_AT_ONCE);
                for (standing, allowance) in crowd.standings.iter().zip(&crowd.allowances) {
                    prop_assert_eq!(*standing == Standing::Waiting, *allowance == Some(0));
                    prop_assert_eq!(is_turn(*standing), *allowance == Some(TURN_BYTES));
                }
            }
        }
    }
}
