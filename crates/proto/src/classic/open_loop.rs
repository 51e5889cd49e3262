//! Choice of the block that an open loop serves next, without searching the whole window for every segment.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use dfcp_time::Time;

/// State of each unacknowledged block: it is being served again, it awaits its first turn, it waits for its
/// acknowledgement, or its acknowledgement is overdue.
#[derive(Debug, Default)]
pub(crate) struct OpenLoop {
    /// The block that is being served again. It precedes blocks that await their first turn.
    again: Option<u32>,
    /// First block whose segments may not all have been sent once.
    fresh: u32,
    /// Blocks that were sent completely and wait for an acknowledgement, sorted by the time of their last segment.
    waiting: VecDeque<(Time, u32)>,
    /// Blocks moved from `waiting` when their acknowledgement became overdue.
    overdue: BTreeSet<u32>,
    /// Sending time of the last segment of the newest block that was acknowledged after its first turn.
    newest_acknowledged: Option<Time>,
}

impl OpenLoop {
    /// Returns the block that is being served again.
    pub(crate) fn again(&self) -> Option<u32> {
        self.again
    }

    /// Returns the first block whose first turn is not over. `end` is the id after the last block.
    pub(crate) fn fresh(&mut self, end: u32, is_acknowledged: impl Fn(u32) -> bool) -> Option<u32> {
        while self.fresh < end && is_acknowledged(self.fresh) {
            self.fresh += 1;
        }
        (self.fresh < end).then_some(self.fresh)
    }

    /// Gives another turn to a block that was overtaken: its last segment was sent at least `margin` before that of
    /// another block, which is already acknowledged. `last_sent` returns `None` for acknowledged blocks.
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
        // Keep an unacknowledged block at the front: remove acknowledged blocks that have just moved there.
        while self.waiting.front().is_some_and(|&(_, id)| last_sent(id).is_none()) {
            self.waiting.pop_front();
        }
        let id = found?;
        self.overdue.remove(&id);
        self.again = Some(id);
        Some(id)
    }

    /// Gives another turn to the first block that has waited for `patience`. Called when no block is
    /// [`fresh`](Self::fresh). `last_sent` returns `None` for acknowledged blocks.
    pub(crate) fn repeat(
        &mut self,
        now: Time,
        patience: Duration,
        last_sent: impl Fn(u32) -> Option<Time>,
    ) -> Option<u32> {
        while let Some(&(at, id)) = self.waiting.front() {
            // Blocks acknowledged behind the front are still in the queue.
            let is_open = last_sent(id).is_some();
            if is_open && now.since(at) < patience {
                break;
            }
            self.waiting.pop_front();
            if is_open {
                self.overdue.insert(id);
            }
        }
        // `patience` may have grown since the blocks were moved there.
        let waited = |id: u32| last_sent(id).is_some_and(|at| now.since(at) >= patience);
        let id = self.overdue.iter().copied().find(|&id| waited(id))?;
        self.overdue.remove(&id);
        self.again = Some(id);
        Some(id)
    }

    /// Records that the last segment of the block's turn was sent.
    pub(crate) fn on_turn_over(&mut self, now: Time, id: u32) {
        if self.again == Some(id) {
            self.again = None;
        } else {
            self.fresh = id + 1;
        }
        self.waiting.push_back((now, id));
    }

    /// Records an acknowledgement. `first_turn_over` is the end of the block's first turn, if it had no second turn:
    /// then the acknowledgement answers the first turn.
    pub(crate) fn on_acknowledged(
        &mut self,
        id: u32,
        first_turn_over: Option<Time>,
        is_acknowledged: impl Fn(u32) -> bool,
    ) {
        self.newest_acknowledged = self.newest_acknowledged.max(first_turn_over);
        self.again = self.again.filter(|&again| again != id);
        self.overdue.remove(&id);
        // Other acknowledged blocks are removed when they reach the front.
        while self.waiting.front().is_some_and(|&(_, id)| is_acknowledged(id)) {
            self.waiting.pop_front();
        }
    }

    /// Returns the sending time of the last segment of the block that has waited longest. `None` unless all blocks
    /// before `end` wait and none is overdue.
    pub(crate) fn oldest_waiting(&self, end: u32) -> Option<Time> {
        let all_wait = self.again.is_none() && self.overdue.is_empty() && self.fresh == end;
        self.waiting.front().filter(|_| all_wait).map(|&(at, _)| at)
    }

    /// Number of remembered blocks.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.waiting.len() + self.overdue.len()
    }
}
