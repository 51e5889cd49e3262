//! Scheduler of the connections to one peer: only a few send at a time, so that each sends larger amounts.
//!
//! If a thousand connections shared the peer's queue, each could send only a few datagrams at a time. By its next turn,
//! its blocks and buffers would have left the processor's caches, on both sides. So a few connections share the whole
//! queue, while the applications of the others wait to write. Written data is never held back, and light senders are
//! never queued.

use std::collections::VecDeque;

use dfcp_proto::{Sending, WriteAllowance};
use dfcp_time::Time;

use crate::activity::RecentGreatest;
use crate::limits::{ACTIVE_CONNECTIONS_MAX, ACTIVE_CONNECTIONS_MAX_IDLE, QUANTUM_BYTES, QUANTUM_TIME_MAX};

/// State of one connection in the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SchedulerState {
    /// Not served yet.
    #[default]
    New,
    /// Sends nothing, or too little to be scheduled.
    Idle,
    /// Sends without being scheduled: its rate is limited (not line rate) or its path is long, so a turn would occupy a
    /// place for too long.
    Exempt,
    /// Has a place. Gets a quantum only when it is served while other connections wait.
    Active,
    /// Has a place until it has sent its quantum and the peer has reported all but a few datagrams.
    Turn {
        /// End of the turn for an application that has not written its quantum, provided that at most these few
        /// datagrams are in flight.
        until: Time,
    },
    /// Waits for a place. Its application may not write.
    Waiting,
    /// Keeps its position in the queue, but has little or nothing left to send. Its application may write.
    Queued,
}

/// The scheduler of the connections with one peer.
#[derive(Debug)]
pub(crate) struct PeerScheduler<C> {
    connections: usize,
    /// Number of connections with a place: [`SchedulerState::Active`] and [`SchedulerState::Turn`].
    active: usize,
    exempt: usize,
    /// First in, first out; each connection at most once.
    waiting: VecDeque<C>,
    sharers: RecentGreatest,
}

impl<C> Default for PeerScheduler<C> {
    fn default() -> Self {
        Self { connections: 0, active: 0, exempt: 0, waiting: VecDeque::new(), sharers: RecentGreatest::default() }
    }
}

impl<C> PeerScheduler<C> {
    /// Returns the next state of a connection that is about to be served, and may send. If the connection must wait,
    /// `it` returns its entry for the queue.
    pub(crate) fn on_serving(
        &mut self,
        now: Time,
        before: SchedulerState,
        sending: Sending,
        it: impl FnOnce() -> C,
    ) -> SchedulerState {
        let after = self.next(now, before, sending);
        self.change(before, after);
        if after == SchedulerState::Waiting && !before.is_in_queue() {
            self.waiting.push_back(it());
        }
        after
    }

    fn next(&self, now: Time, state: SchedulerState, sending: Sending) -> SchedulerState {
        let has_turn = |until| sending.is_under_way || (!sending.has_used_allowance && now < until);
        match state {
            SchedulerState::Waiting | SchedulerState::Queued if sending.is_busy => SchedulerState::Waiting,
            SchedulerState::Waiting | SchedulerState::Queued => SchedulerState::Queued,
            SchedulerState::Turn { until } if sending.takes_turns && has_turn(until) => state,
            _ if !sending.is_busy => SchedulerState::Idle,
            _ if !sending.takes_turns => SchedulerState::Exempt,
            SchedulerState::Active if self.is_crowded() => SchedulerState::Turn { until: now + QUANTUM_TIME_MAX },
            SchedulerState::Active => SchedulerState::Active,
            SchedulerState::Turn { .. } if !self.is_crowded() => SchedulerState::Active,
            SchedulerState::Turn { .. } => SchedulerState::Waiting,
            _ if !self.is_crowded() && self.active < ACTIVE_CONNECTIONS_MAX => SchedulerState::Active,
            _ => SchedulerState::Waiting,
        }
    }

    /// Removes the first waiting connection from the queue if a place is free; [`begin`](Self::begin) must follow. An
    /// idle endpoint has more places, because all active connections may be waiting for reports.
    pub(crate) fn pop(&mut self, is_idle: bool) -> Option<C> {
        let places = if is_idle { ACTIVE_CONNECTIONS_MAX_IDLE } else { ACTIVE_CONNECTIONS_MAX };
        if self.active < places { self.waiting.pop_front() } else { None }
    }

    /// Returns true if a connection waits.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the next state of a connection that [`pop`](Self::pop) has returned. Its turn begins if it still has
    /// data to send.
    pub(crate) fn begin(&mut self, now: Time, before: SchedulerState, sending: Sending) -> SchedulerState {
        let after = match sending {
            Sending { is_busy: false, .. } => SchedulerState::Idle,
            Sending { takes_turns: false, .. } => SchedulerState::Exempt,
            Sending { .. } => SchedulerState::Turn { until: now + QUANTUM_TIME_MAX },
        };
        self.change(before, after);
        after
    }

    /// Removes a connection that is over. If it is in the queue, it stays there until it is popped, and gets no turn
    /// then: removing it now would need a search.
    pub(crate) fn leave(&mut self, before: SchedulerState) -> SchedulerState {
        let after = if before.is_in_queue() { SchedulerState::Queued } else { SchedulerState::Idle };
        self.change(before, after);
        self.connections -= 1;
        after
    }

    fn change(&mut self, before: SchedulerState, after: SchedulerState) {
        match before {
            SchedulerState::New => self.connections += 1,
            SchedulerState::Active | SchedulerState::Turn { .. } => self.active -= 1,
            SchedulerState::Exempt => self.exempt -= 1,
            SchedulerState::Idle | SchedulerState::Waiting | SchedulerState::Queued => {}
        }
        match after {
            SchedulerState::Active | SchedulerState::Turn { .. } => self.active += 1,
            SchedulerState::Exempt => self.exempt += 1,
            SchedulerState::New | SchedulerState::Idle | SchedulerState::Waiting | SchedulerState::Queued => {}
        }
    }

    /// Returns the number of connections that share the peer's queue: the most that sent at a time recently, and at
    /// least one. A waiting connection has no share, which `usize::MAX` expresses.
    pub(crate) fn sharers(&mut self, now: Time, state: SchedulerState) -> usize {
        let sharers = self.sharers.with(now, self.active + self.exempt).max(1);
        if state == SchedulerState::Waiting { usize::MAX } else { sharers }
    }

    /// Returns true if no connection is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections == 0
    }
}

impl SchedulerState {
    fn is_in_queue(self) -> bool {
        matches!(self, Self::Waiting | Self::Queued)
    }

    /// Returns the time by which the connection must be served again, so that its turn can end.
    pub(crate) fn ends_at(self) -> Option<Time> {
        if let Self::Turn { until } = self { Some(until) } else { None }
    }

    /// Returns the write allowance of the application in this state, or `None` if it is the same as in `before`.
    pub(crate) fn allowance(self, before: Self) -> Option<WriteAllowance> {
        let of = |state| match state {
            Self::New | Self::Idle | Self::Exempt | Self::Active | Self::Queued => WriteAllowance::Any,
            Self::Turn { .. } => WriteAllowance::Bytes(QUANTUM_BYTES),
            Self::Waiting => WriteAllowance::Bytes(0),
        };
        (of(self) != of(before)).then(|| of(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::PERIOD;
    use proptest::prelude::*;
    use std::time::Duration;

    const BUSY: Sending = Sending { is_under_way: true, is_busy: true, takes_turns: true, has_used_allowance: false };
    const SENT: Sending = Sending { is_under_way: false, ..BUSY };
    const DONE: Sending = Sending { has_used_allowance: true, ..SENT };
    const IDLE: Sending = Sending { is_busy: false, ..DONE };

    /// Connections to one peer, by index, and their write allowances.
    #[derive(Default)]
    struct Crowd {
        now: Time,
        scheduler: PeerScheduler<usize>,
        states: Vec<SchedulerState>,
        allowances: Vec<WriteAllowance>,
    }

    impl Crowd {
        fn of(count: usize) -> Self {
            Self {
                states: vec![SchedulerState::New; count],
                allowances: vec![WriteAllowance::Any; count],
                now: Time::from_ms(1_000),
                ..Self::default()
            }
        }

        fn enter(&mut self, index: usize, after: SchedulerState) {
            if let Some(allowance) = after.allowance(self.states[index]) {
                self.allowances[index] = allowance;
            }
            self.states[index] = after;
        }

        /// Serves the connection `index`, which has `sending` to send. Then fills free places. Returns the connections
        /// whose turns begin.
        fn serve(&mut self, index: usize, sending: Sending) -> Vec<usize> {
            self.serve_then(index, sending, BUSY)
        }

        /// Like `serve`, where waiting connections have `of_waiting` to send.
        fn serve_then(&mut self, index: usize, sending: Sending, of_waiting: Sending) -> Vec<usize> {
            let after = self.scheduler.on_serving(self.now, self.states[index], sending, || index);
            self.enter(index, after);
            std::iter::from_fn(|| self.begin_next(false, of_waiting)).collect()
        }

        /// Offers the places of an idle endpoint. Returns the connection whose turn begins.
        fn idle(&mut self) -> Option<usize> {
            self.begin_next(true, BUSY)
        }

        fn begin_next(&mut self, is_idle: bool, sending: Sending) -> Option<usize> {
            let next = self.scheduler.pop(is_idle)?;
            let after = self.scheduler.begin(self.now, self.states[next], sending);
            self.enter(next, after);
            Some(next)
        }

        fn count(&self, is_meant: impl Fn(SchedulerState) -> bool) -> usize {
            self.states.iter().filter(|&&state| is_meant(state)).count()
        }

        fn waiting(&self) -> Vec<usize> {
            (0..self.states.len()).filter(|&index| self.states[index].is_in_queue()).collect()
        }
    }

    fn is_turn(state: SchedulerState) -> bool {
        matches!(state, SchedulerState::Turn { .. })
    }

    #[test]
    fn as_many_as_there_are_places_for_write_as_they_like() {
        let mut crowd = Crowd::of(ACTIVE_CONNECTIONS_MAX);
        for _ in 0..3 {
            (0..ACTIVE_CONNECTIONS_MAX).for_each(|index| assert!(crowd.serve(index, DONE).is_empty()));
        }
        assert_eq!(crowd.count(|state| state == SchedulerState::Active), ACTIVE_CONNECTIONS_MAX);
        assert!(crowd.allowances.iter().all(|allowance| *allowance == WriteAllowance::Any));
        assert_eq!(crowd.scheduler.sharers(crowd.now, SchedulerState::Active), ACTIVE_CONNECTIONS_MAX);
    }

    #[test]
    fn of_many_all_get_about_the_same() {
        let count = 3 * ACTIVE_CONNECTIONS_MAX + 1;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        assert_eq!(crowd.waiting(), Vec::from_iter(ACTIVE_CONNECTIONS_MAX..count));
        assert!(crowd.waiting().iter().all(|&index| crowd.allowances[index] == WriteAllowance::Bytes(0)));
        let mut begun = Vec::new();
        while begun.len() < 4 * count {
            let active: Vec<_> = (0..count).filter(|&index| crowd.states[index] != SchedulerState::Waiting).collect();
            for index in active {
                if !is_turn(crowd.states[index]) {
                    assert!(
                        crowd.serve(index, BUSY).is_empty(),
                        "a connection that had a place before any waited keeps it for a turn"
                    );
                    assert_eq!(crowd.allowances[index], WriteAllowance::Bytes(QUANTUM_BYTES));
                }
                begun.extend(crowd.serve(index, DONE));
            }
        }
        let turns_of = |index| begun.iter().filter(|&&begun| begun == index).count();
        let counts = Vec::from_iter((0..count).map(turns_of));
        assert!(counts.iter().all(|turns| (3..=5).contains(turns)), "{counts:?}");
        assert_eq!(crowd.scheduler.sharers(crowd.now, SchedulerState::Active), ACTIVE_CONNECTIONS_MAX);
        assert_eq!(crowd.scheduler.sharers(crowd.now, SchedulerState::Waiting), usize::MAX);
    }

    #[test]
    fn a_turn_ends_with_its_time_and_who_falls_silent_waits_no_more() {
        let count = ACTIVE_CONNECTIONS_MAX + 1;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        (0..2).for_each(|index| assert!(crowd.serve(index, BUSY).is_empty()));
        crowd.now += QUANTUM_TIME_MAX;
        assert_eq!(crowd.serve(0, BUSY), [], "what is in flight has a part in the queue, however slow the receiver is");
        assert_eq!(crowd.serve(0, SENT), [count - 1], "its application did not write");
        assert_eq!(crowd.waiting(), [0]);
        assert_eq!(crowd.serve(1, IDLE), [0]);
        assert_eq!((crowd.states[1], crowd.allowances[1]), (SchedulerState::Idle, WriteAllowance::Any));
        assert_eq!(crowd.serve(0, DONE), []);
        assert_eq!(
            (crowd.states[0], crowd.allowances[0]),
            (SchedulerState::Active, WriteAllowance::Any),
            "nobody waits"
        );
    }

    #[test]
    fn who_has_sent_all_while_it_waited_may_write_a_little_and_keeps_its_place_in_the_queue() {
        let count = ACTIVE_CONNECTIONS_MAX + 2;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        let first = ACTIVE_CONNECTIONS_MAX;
        assert_eq!(crowd.allowances[first], WriteAllowance::Bytes(0));
        assert_eq!(crowd.serve(first, IDLE), []);
        assert_eq!(crowd.allowances[first], WriteAllowance::Any);
        assert_eq!(crowd.serve(first, BUSY), []);
        assert_eq!(crowd.allowances[first], WriteAllowance::Bytes(0));
        assert_eq!(crowd.serve(0, IDLE), [first]);
    }

    #[test]
    fn more_send_at_a_time_when_those_who_do_wait_for_reports() {
        let count = 3 * ACTIVE_CONNECTIONS_MAX_IDLE;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        let extra = Vec::from_iter(std::iter::from_fn(|| crowd.idle()));
        assert_eq!(extra, Vec::from_iter(ACTIVE_CONNECTIONS_MAX..ACTIVE_CONNECTIONS_MAX_IDLE));
        (0..ACTIVE_CONNECTIONS_MAX).for_each(|index| assert!(crowd.serve(index, BUSY).is_empty()));
        let ended = ACTIVE_CONNECTIONS_MAX_IDLE - ACTIVE_CONNECTIONS_MAX;
        (0..ended).for_each(|index| assert!(crowd.serve(index, DONE).is_empty(), "the places were extra ones"));
        assert_eq!(crowd.serve(ended, DONE), [ACTIVE_CONNECTIONS_MAX_IDLE]);
    }

    #[test]
    fn who_keeps_to_a_rate_takes_no_place_but_a_part_of_the_queue() {
        let paced = Sending { takes_turns: false, ..BUSY };
        let mut crowd = Crowd::of(3 * ACTIVE_CONNECTIONS_MAX);
        (0..2 * ACTIVE_CONNECTIONS_MAX).for_each(|index| _ = crowd.serve(index, paced));
        (2 * ACTIVE_CONNECTIONS_MAX..3 * ACTIVE_CONNECTIONS_MAX).for_each(|index| _ = crowd.serve(index, BUSY));
        assert!(crowd.waiting().is_empty());
        assert_eq!(crowd.scheduler.sharers(crowd.now, SchedulerState::Exempt), 3 * ACTIVE_CONNECTIONS_MAX);
        (0..3 * ACTIVE_CONNECTIONS_MAX).for_each(|index| _ = crowd.serve(index, IDLE));
        crowd.now += PERIOD;
        assert_eq!(crowd.scheduler.sharers(crowd.now, SchedulerState::Idle), 3 * ACTIVE_CONNECTIONS_MAX);
        crowd.now += PERIOD;
        assert_eq!(crowd.scheduler.sharers(crowd.now, SchedulerState::Idle), 1);
    }

    #[test]
    fn who_is_over_leaves_its_place_or_nothing_begins_when_its_turn_comes() {
        let count = ACTIVE_CONNECTIONS_MAX + 2;
        let mut crowd = Crowd::of(count);
        (0..count).for_each(|index| _ = crowd.serve(index, BUSY));
        let waits = crowd.scheduler.leave(SchedulerState::Waiting);
        assert_eq!((waits, crowd.scheduler.pop(false)), (SchedulerState::Queued, None));
        let left = crowd.scheduler.leave(crowd.states[0]);
        crowd.enter(0, left);
        assert_eq!(crowd.scheduler.pop(false), Some(ACTIVE_CONNECTIONS_MAX));
        assert_eq!(crowd.scheduler.begin(crowd.now, waits, Sending::default()), SchedulerState::Idle, "it is over");
        assert_eq!(crowd.scheduler.pop(false), Some(ACTIVE_CONNECTIONS_MAX + 1));
        (2..count).for_each(|_| _ = crowd.scheduler.leave(SchedulerState::Queued));
        assert!(crowd.scheduler.is_empty());
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
        /// Reference model: counts the states of all connections anew after each step.
        #[test]
        fn places_are_never_too_many_nor_left_empty_while_somebody_waits(
            steps in prop::collection::vec(
                (0..4 * ACTIVE_CONNECTIONS_MAX, sending(), sending(), 0..5_u64, any::<bool>()),
                0..2_000,
            ),
        ) {
            let mut crowd = Crowd::of(4 * ACTIVE_CONNECTIONS_MAX);
            for (index, sending, of_waiting, pause_ms, is_idle) in steps {
                crowd.now += Duration::from_millis(pause_ms);
                crowd.serve_then(index, sending, of_waiting);
                if is_idle {
                    crowd.idle();
                }
                let active = crowd.count(|state| state == SchedulerState::Active || is_turn(state));
                prop_assert!(active <= ACTIVE_CONNECTIONS_MAX_IDLE);
                prop_assert_eq!(active, crowd.scheduler.active);
                prop_assert_eq!(crowd.count(|state| state == SchedulerState::Exempt), crowd.scheduler.exempt);
                let mut queued = Vec::from(crowd.scheduler.waiting.clone());
                queued.sort_unstable();
                prop_assert_eq!(&queued, &crowd.waiting());
                prop_assert!(queued.is_empty() || active >= ACTIVE_CONNECTIONS_MAX);
                for (state, allowance) in crowd.states.iter().zip(&crowd.allowances) {
                    prop_assert_eq!(*state == SchedulerState::Waiting, *allowance == WriteAllowance::Bytes(0));
                    prop_assert_eq!(is_turn(*state), *allowance == WriteAllowance::Bytes(QUANTUM_BYTES));
                }
            }
        }
    }
}
