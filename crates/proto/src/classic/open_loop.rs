//! The choice of the block that an open loop serves next, without a search of the whole window for every segment.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use dfcp_time::Time;

/// State of each unacknowledged block: it is served again, awaits its first turn, waits for its acknowledgement, or has waited
/// too long.
#[derive(Debug, Default)]
pub(crate) struct OpenLoop {
    /// The block which is served again; it goes before those which have not had their first turn.
    again: Option<u32>,
    /// No block before this one awaits its first turn, or is at it.
    fresh: u32,
    /// Blocks which have had all their segments, and when the last of these left, in that order.
    waiting: VecDeque<(Time, u32)>,
    /// Blocks taken from `waiting` when their acknowledgement was overdue.
    overdue: BTreeSet<u32>,
    /// Time at which the last segment left of the newest block which was acknowledged after its first turn.
    newest_acknowledged: Option<Time>,
}

impl OpenLoop {
    /// The block which is served again.
    pub(crate) fn again(&self) -> Option<u32> {
        self.again
    }

    /// The first block whose first turn is not over; there are blocks up to, but not including, `end`.
    pub(crate) fn fresh(&mut self, end: u32, is_acknowledged: impl Fn(u32) -> bool) -> Option<u32> {
        while self.fresh < end && is_acknowledged(self.fresh) {
            self.fresh += 1;
        }
        (self.fresh < end).then_some(self.fresh)
    }

    /// Gives another turn to a block which was overtaken: one whose last segment left `margin` or more before that of another,
    /// which is acknowledged already. `last_sent` knows nothing of blocks which are acknowledged.
    pub(crate) fn overtaken(&mut self, margin: Duration, last_sent: impl Fn(u32) -> Option<Time>) -> Option<u32> {
        let newest = self.newest_acknowledged?;
        let is_overtaken = |id: u32| last_sent(id).is_some_and(|at| at + margin <= newest);
        let mut found = self.overdue.iter().copied().find(|&id| is_overtaken(id));
        while found.is_none() {
            let &(_, id) = self.waiting.front()?;
            if last_sent(id).is_some() && !is_overtaken(id) {
                return None;
            }
            self.waiting.pop_front();
            found = is_overtaken(id).then_some(id);
        }
        // The front always waits: those acknowledged behind what was taken come to it now.
        while self.waiting.front().is_some_and(|&(_, id)| last_sent(id).is_none()) {
            self.waiting.pop_front();
        }
        let id = found?;
        self.overdue.remove(&id);
        self.again = Some(id);
        Some(id)
    }

    /// Gives the first block which has waited for `patience` another turn; to be asked when none is
    /// [`fresh`](Self::fresh). `last_sent` knows nothing of blocks which are acknowledged.
    pub(crate) fn repeat(
        &mut self,
        now: Time,
        patience: Duration,
        last_sent: impl Fn(u32) -> Option<Time>,
    ) -> Option<u32> {
        while let Some(&(at, id)) = self.waiting.front() {
            // Those acknowledged behind the front are still there.
            let is_open = last_sent(id).is_some();
            if is_open && now.since(at) < patience {
                break;
            }
            self.waiting.pop_front();
            if is_open {
                self.overdue.insert(id);
            }
        }
        // Patience may have grown since they were put there.
        let waited = |id: u32| last_sent(id).is_some_and(|at| now.since(at) >= patience);
        let id = self.overdue.iter().copied().find(|&id| waited(id))?;
        self.overdue.remove(&id);
        self.again = Some(id);
        Some(id)
    }

    /// The last segment of the block's turn has left.
    pub(crate) fn on_turn_over(&mut self, now: Time, id: u32) {
        if self.again == Some(id) {
            self.again = None;
        } else {
            self.fresh = id + 1;
        }
        self.waiting.push_back((now, id));
    }

    /// A block has been acknowledged; `first_turn_over` says when its first turn was, if it had no second one: then the
    /// acknowledgement answers that.
    pub(crate) fn on_acknowledged(
        &mut self,
        id: u32,
        first_turn_over: Option<Time>,
        is_acknowledged: impl Fn(u32) -> bool,
    ) {
        self.newest_acknowledged = self.newest_acknowledged.max(first_turn_over);
        self.again = self.again.filter(|&again| again != id);
        self.overdue.remove(&id);
        // The others are in no way until they come to the front.
        while self.waiting.front().is_some_and(|&(_, id)| is_acknowledged(id)) {
            self.waiting.pop_front();
        }
    }

    /// Time at which the last segment left of the block which has waited longest, if blocks up to `end` all wait and none is
    /// overdue.
    pub(crate) fn oldest_waiting(&self, end: u32) -> Option<Time> {
        let all_wait = self.again.is_none() && self.overdue.is_empty() && self.fresh == end;
        self.waiting.front().filter(|_| all_wait).map(|&(at, _)| at)
    }

    /// Blocks which are remembered.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.waiting.len() + self.overdue.len()
    }
}
