//! Limit on writes by the application, for connections that are driven together and take turns, and the choice of the
//! stream that may write while the session's allowance is limited ([`WriteAllowance::Bytes`]).
//!
//! An allowance is a few blocks for all streams together, and the application that writes first would take all of it.
//! Applications run in the same order each time, so without rounds the first stream would get everything. A stream that
//! was written to in this round therefore gives way while another stream waits that was not. One stream at a time gets
//! full blocks, instead of all streams parts of blocks.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::StreamId;

/// Time after which a notified application that does not write is no longer waited for.
const ABSENT_AFTER: Duration = Duration::from_millis(5);

/// Bytes that the application may still write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteAllowance {
    /// No limit except the available room.
    #[default]
    Any,
    /// This many bytes, and the bytes that then complete a block.
    Bytes(u64),
}

/// State of the write turns that all streams of a session share.
#[derive(Debug)]
pub(crate) struct WriteTurns {
    round: u64,
    /// Number of streams that wait and were not written to in this round.
    waiting: usize,
    /// Stream that was written to last. It continues until the allowance is used up.
    writing: Option<StreamId>,
    /// Time since which a stream has given way to waiting streams, none of which was written to.
    gave_way_at: Option<Time>,
}

/// Turn of one stream: the rounds in which it was last written to, and in which it counts as waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteTurn {
    written_in: u64,
    waits_in: u64,
}

impl Default for WriteTurns {
    fn default() -> Self {
        // A new stream has `written_in` = 0, so in round 1 it counts as not written to.
        Self { round: 1, waiting: 0, writing: None, gave_way_at: None }
    }
}

impl WriteTurns {
    /// Returns true if the stream must leave the allowance to other streams.
    pub(crate) fn gives_way(&mut self, now: Time, id: StreamId, turn: WriteTurn) -> bool {
        if turn.written_in != self.round || self.writing == Some(id) || self.waiting == 0 {
            return false;
        }
        let since = *self.gave_way_at.get_or_insert(now);
        if now.since(since) >= ABSENT_AFTER {
            // The applications of the waiting streams are absent.
            self.begin_round();
            return false;
        }
        true
    }

    /// Records a write to the stream. `is_used_up`: the write took the rest of the allowance.
    pub(crate) fn on_written(&mut self, id: StreamId, turn: &mut WriteTurn, is_used_up: bool) {
        self.leave(turn);
        if turn.written_in == self.round && self.writing != Some(id) {
            self.begin_round();
        }
        turn.written_in = self.round;
        self.writing = Some(id).filter(|_| !is_used_up);
        self.gave_way_at = None;
    }

    /// Records that the allowance, not the windows, prevents the stream's application from writing more.
    pub(crate) fn on_held_up(&mut self, turn: &mut WriteTurn) {
        if turn.written_in != self.round && turn.waits_in != self.round {
            turn.waits_in = self.round;
            self.waiting += 1;
        }
    }

    /// Records that the stream no longer waits.
    pub(crate) fn leave(&mut self, turn: &mut WriteTurn) {
        if turn.waits_in == self.round {
            turn.waits_in = 0;
            self.waiting -= 1;
        }
    }

    fn begin_round(&mut self) {
        self.round += 1;
        (self.waiting, self.gave_way_at) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use dfcp_wire::{Opener, StreamKind};
    use proptest::prelude::*;

    use super::*;

    const ALLOWANCE: u32 = 10;

    /// Application of a stream: size of its writes, and presence.
    #[derive(Clone, Copy, Debug)]
    struct Writer {
        turn: WriteTurn,
        piece: u32,
        comes: bool,
        written: u32,
    }

    fn id(index: usize) -> StreamId {
        StreamId::new(Opener::Initiator, StreamKind::Bidirectional, index as u32).unwrap()
    }

    fn writers(pieces: &[u32]) -> Vec<Writer> {
        let new = |&piece| Writer { turn: WriteTurn::default(), piece, comes: true, written: 0 };
        pieces.iter().map(new).collect()
    }

    /// Runs one turn: the applications come in this order, and each writes until it is held up.
    fn take_turn(turns: &mut WriteTurns, now: Time, writers: &mut [Writer], order: &[usize]) {
        let mut left = ALLOWANCE;
        for &index in order {
            let writer = &mut writers[index];
            if !writer.comes {
                continue;
            }
            loop {
                let gives_way = left > 0 && turns.gives_way(now, id(index), writer.turn);
                let taken = if gives_way { 0 } else { writer.piece.min(left) };
                left -= taken;
                writer.written += taken;
                if taken > 0 {
                    turns.on_written(id(index), &mut writer.turn, left == 0);
                }
                if gives_way || left == 0 {
                    turns.on_held_up(&mut writer.turn);
                    break;
                }
            }
        }
    }

    #[test]
    fn the_first_to_come_does_not_get_all() {
        let (mut turns, mut writers) = (WriteTurns::default(), writers(&[4, 4, 4]));
        for turn in 0..9 {
            take_turn(&mut turns, Time::from_ms(50 * turn), &mut writers, &[0, 1, 2]);
        }
        assert!(writers.iter().all(|writer| writer.written == 3 * ALLOWANCE), "{writers:?}");
    }

    #[test]
    fn absent_applications_cost_one_turn() {
        let (mut turns, mut writers) = (WriteTurns::default(), writers(&[10; 5]));
        take_turn(&mut turns, Time::ZERO, &mut writers, &[0, 1, 2, 3, 4]);
        (1..5).for_each(|index| writers[index].comes = index == 4);
        for turn in 1..10 {
            take_turn(&mut turns, Time::from_ms(50 * turn), &mut writers, &[0, 4]);
        }
        assert_eq!(writers.iter().map(|writer| writer.written).sum::<u32>(), 9 * ALLOWANCE);
        assert!(writers[0].written.abs_diff(writers[4].written) <= ALLOWANCE, "{writers:?}");
    }

    proptest! {
        /// For any order and write sizes: each of n applications with endless data writes in 2n turns, and no turn is
        /// wasted.
        #[test]
        fn no_stream_starves(
            pieces in prop::collection::vec(1..2 * ALLOWANCE, 1..8),
            keys in prop::collection::vec(any::<u64>(), 8 * 32),
        ) {
            let count = pieces.len();
            let (mut turns, mut writers, mut total) = (WriteTurns::default(), writers(&pieces), 0);
            for turn in 0..16 * count {
                let mut order = Vec::from_iter(0..count);
                order.sort_by_key(|index| keys[(turn * 7 + index) % keys.len()]);
                take_turn(&mut turns, Time::from_ms(50 * turn as u64), &mut writers, &order);
                prop_assert!(turns.waiting <= count);
                total += ALLOWANCE;
                prop_assert_eq!(writers.iter().map(|writer| writer.written).sum::<u32>(), total);
                if (turn + 1) % (2 * count) == 0 {
                    prop_assert!(writers.iter().all(|writer| writer.written > 0), "{writers:?}");
                    writers.iter_mut().for_each(|writer| writer.written = 0);
                    total = 0;
                }
            }
        }
    }
}
