//! End of the sending half of a stream. The first stream is an exception: its end is the end of the session
//! (`spec/protocol.md` §12.2).

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Fin, Segment};

use super::SendStream;
use super::shared::SendShared;
use crate::error::PeerMisbehaved;
use crate::limits::STREAM_END_INTERVAL_MAX;

/// State of the announcement of a stream's end (\[end-5\]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    /// The end has not been announced.
    #[default]
    Nothing,
    /// The last block announces the end: its acknowledgement acknowledges the end.
    WithBlock,
    /// A FIN announces the end, because the last block had been cut before the end was known.
    ByFin,
    /// A reset announces the end, with the application's error code.
    ByReset { error: u32, end: u32 },
}

/// End of a stream, and the time of its next announcement.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    said: Said,
    next_at: Time,
    copies: u32,
    /// Symbols that may have been useful for unacknowledged blocks, which a reset has dropped.
    dropped_max: u64,
    /// True if the peer has stopped the stream, or reset its own half ([end-4]).
    is_peer_reset: bool,
}

impl Ending {
    fn say(&mut self, said: Said, now: Time) {
        *self = Self { said, next_at: now, copies: 0, ..*self };
    }

    fn is_repeated(&self) -> bool {
        matches!(self.said, Said::ByFin | Said::ByReset { .. })
    }

    /// Returns the time of the next copy.
    pub(crate) fn due_at(&self) -> Option<Time> {
        self.is_repeated().then_some(self.next_at)
    }

    /// Records that a copy was sent. The next copy is due after `wait`, doubled with each copy.
    fn on_sent(&mut self, now: Time, wait: Duration) {
        let wait = wait.saturating_mul(1 << self.copies.min(10)).min(STREAM_END_INTERVAL_MAX);
        self.copies += 1;
        self.next_at = now + wait;
    }

    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.said, Said::ByReset { .. })
    }

    /// Records that the last block has been cut, and announces the end.
    pub(crate) fn on_last_block(&mut self) {
        self.said = Said::WithBlock;
    }
}

impl SendStream {
    /// Ends the stream: nothing more will be written.
    pub(crate) fn shut_down(&mut self, now: Time) {
        self.more_to_come = false;
        self.source.shut_down();
        self.note_end(now);
    }

    /// Announces the end by a FIN if the last block was cut before the end was known.
    fn note_end(&mut self, now: Time) {
        if self.ending.said == Said::Nothing && self.source.is_finished() && !self.is_first() {
            self.ending.say(Said::ByFin, now);
        }
    }

    /// Drops all undelivered data, and announces the reset to the peer (\[end-6\]). No effect on a stream that is
    /// already reset.
    pub(crate) fn reset(&mut self, now: Time, error: u32, shared: &mut SendShared) {
        if self.ending.is_reset() {
            return;
        }
        let end = self.next_id();
        self.ending.dropped_max = self.drop_blocks(shared);
        self.first_id = end;
        self.source.shut_down();
        self.ending.say(Said::ByReset { error, end }, now);
    }

    /// Records that the peer has stopped the stream, or reset its own half.
    pub(crate) fn on_peer_reset(&mut self) {
        self.ending.is_peer_reset = true;
    }

    /// Returns true if the peer has stopped the stream, or reset its own half.
    pub(crate) fn is_peer_reset(&self) -> bool {
        self.ending.is_peer_reset
    }

    /// Returns the segment that announces the end, if one is due at `now`. The first repeat follows after `wait`.
    pub(crate) fn ending_segment(&mut self, now: Time, wait: Duration) -> Option<Segment> {
        self.ending.due_at().filter(|&at| at <= now)?;
        let stream = self.id;
        let segment = match self.ending.said {
            Said::ByFin => Segment::Fin(Fin { stream, end: self.next_id(), ack_proof: None }),
            Said::ByReset { error, end } => Segment::Ack(Ack::ResetStream { stream, error, end }),
            Said::Nothing | Said::WithBlock => return None,
        };
        self.ending.on_sent(now, wait);
        Some(segment)
    }

    /// Returns true if the last block announced the end and all blocks are acknowledged: no FIN is needed.
    pub(crate) fn is_delivered(&self) -> bool {
        self.ending.said == Said::WithBlock && self.is_drained()
    }

    /// Handles the peer's acknowledgement of an end before block `end`, with the proof of all blocks. Returns true if
    /// `end` is our end.
    ///
    /// # Errors
    /// The proof is wrong.
    pub(crate) fn on_end_acknowledged(
        &mut self,
        end: u32,
        proof: u32,
        shared: &mut SendShared,
    ) -> Result<bool, PeerMisbehaved> {
        if self.ending.is_reset() || self.end() != Some(end) {
            return Ok(false);
        }
        self.check_end(Some(end), proof)?;
        self.on_finished(shared);
        Ok(true)
    }

    /// Handles the peer's answer to our reset: `served` symbols of the stream were useful, modulo 2³². Returns true if
    /// the stream is reset.
    ///
    /// # Errors
    /// `served` is less than the peer has proven, or more than was sent.
    pub(crate) fn on_reset_acknowledged(
        &mut self,
        served: u32,
        shared: &mut SendShared,
    ) -> Result<bool, PeerMisbehaved> {
        if !self.ending.is_reset() {
            return Ok(false);
        }
        let more = u64::from(served.wrapping_sub(self.acknowledged_symbols as u32));
        if more > self.ending.dropped_max {
            let accounted = self.acknowledged_symbols + self.ending.dropped_max;
            return Err(PeerMisbehaved::InconsistentReport { received: served.into(), accounted });
        }
        shared.served_max -= self.ending.dropped_max;
        shared.reset_symbols += more;
        self.release(shared);
        Ok(true)
    }

    /// Handles the peer's answer that it no longer has the stream. Symbols count as useful only as far as proven
    /// (\[end-7\]).
    pub(crate) fn on_gone(&mut self, shared: &mut SendShared) {
        let dropped_max = if self.ending.is_reset() { self.ending.dropped_max } else { self.drop_blocks(shared) };
        shared.served_max -= dropped_max;
        shared.unproven_max += dropped_max;
        self.release(shared);
    }

    /// Records that the peer holds no data of the stream any more.
    pub(crate) fn release(&mut self, shared: &mut SendShared) {
        self.change_held(shared, |it| it.read_cost_bytes = it.cut_cost_bytes);
    }

    /// Drops all unacknowledged data. Returns the number of sent symbols that may have been useful.
    fn drop_blocks(&mut self, shared: &mut SendShared) -> u64 {
        let mut served_max = 0;
        while let Some(mut block) = self.blocks.pop_front() {
            shared.blocks_open -= 1;
            let served = if block.is_open() { block.served_max() } else { 0 };
            served_max += u64::from(served);
            if let Some(memory) = block.complete() {
                shared.hold_up.blocks -= 1;
                self.source.recycle(memory);
            }
        }
        let before = self.buffered_bytes();
        self.open_bytes = 0;
        self.source.discard();
        self.on_buffered_change(before, shared);
        (self.ask_at, self.more_to_come, self.write_blocked) = (None, false, false);
        shared.write_turns.leave(&mut self.write_turn);
        self.repairs.clear();
        self.active.clear();
        self.list_oldest(shared);
        served_max
    }
}
