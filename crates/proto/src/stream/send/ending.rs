//! End of the sending half of a stream, except the first stream, whose end is the session's (`spec/protocol.md` §12.2).

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Fin, Segment};

use super::SendStream;
use super::shared::SendShared;
use crate::error::PeerMisbehaved;
use crate::limits::STREAM_END_INTERVAL_MAX;

/// Announcement of a stream's end so far (\[end-5\]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    /// Nothing.
    #[default]
    Nothing,
    /// The last block says it: its acknowledgement is the end's.
    WithBlock,
    /// A FIN, because the last block had been cut before.
    ByFin,
    /// The stream is reset, for this reason.
    ByReset { error: u32, end: u32 },
}

/// The end of a stream, and when it is said again.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    said: Said,
    next_at: Time,
    copies: u32,
    /// Symbols of unacknowledged blocks, dropped by a reset, which may have served.
    dropped_max: u64,
    /// The peer wants no more of the stream, or has reset its own half ([end-4]).
    is_peer_reset: bool,
}

impl Ending {
    fn say(&mut self, said: Said, now: Time) {
        *self = Self { said, next_at: now, copies: 0, ..*self };
    }

    fn is_repeated(&self) -> bool {
        matches!(self.said, Said::ByFin | Said::ByReset { .. })
    }

    /// Time of the next copy.
    pub(crate) fn due_at(&self) -> Option<Time> {
        self.is_repeated().then_some(self.next_at)
    }

    /// A copy has left; the next one is due after `wait`, doubled with each.
    fn on_sent(&mut self, now: Time, wait: Duration) {
        let wait = wait.saturating_mul(1 << self.copies.min(10)).min(STREAM_END_INTERVAL_MAX);
        self.copies += 1;
        self.next_at = now + wait;
    }

    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.said, Said::ByReset { .. })
    }

    /// The last block has been cut, and says so.
    pub(crate) fn on_last_block(&mut self) {
        self.said = Said::WithBlock;
    }
}

impl SendStream {
    /// Nothing more will be written.
    pub(crate) fn shut_down(&mut self, now: Time) {
        self.more_to_come = false;
        self.source.shut_down();
        self.note_end(now);
    }

    /// If the last block was cut before anybody knew that it was the last, a FIN has to say it.
    fn note_end(&mut self, now: Time) {
        if self.ending.said == Said::Nothing && self.source.is_finished() && !self.is_first() {
            self.ending.say(Said::ByFin, now);
        }
    }

    /// Drops what has not been delivered, and tells the peer so (\[end-6\]). The streams which are reset or done stay as they are.
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

    /// The peer has stopped the stream, or reset its own half of it.
    pub(crate) fn on_peer_reset(&mut self) {
        self.ending.is_peer_reset = true;
    }

    /// True if the peer has stopped the stream, or reset its own half of it.
    pub(crate) fn is_peer_reset(&self) -> bool {
        self.ending.is_peer_reset
    }

    /// Segment that announces the end, if one is due at `now`; the first repeat follows after `wait`.
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

    /// True if the peer has everything and knows where the end is, and has said so with each block.
    pub(crate) fn is_delivered(&self) -> bool {
        self.ending.said == Said::WithBlock && self.is_drained()
    }

    /// The peer's acknowledgement of an end before block `end`, with the proof of all blocks. `true` if it is ours.
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

    /// The peer's answer to our reset: `served` symbols of the stream have served, modulo 2³². `true` if it is reset.
    ///
    /// # Errors
    /// That is less than it has proven, or more than was sent.
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

    /// The peer knows nothing of the stream any more. What it proved of it counts, and no more than that (\[end-7\]).
    pub(crate) fn on_gone(&mut self, shared: &mut SendShared) {
        let dropped_max = if self.ending.is_reset() { self.ending.dropped_max } else { self.drop_blocks(shared) };
        shared.served_max -= dropped_max;
        shared.unproven_max += dropped_max;
        self.release(shared);
    }

    /// The peer holds none of it any more.
    pub(crate) fn release(&mut self, shared: &mut SendShared) {
        self.change_held(shared, |it| it.read_cost_bytes = it.cut_cost_bytes);
    }

    /// Drops all that is not acknowledged; returns how many of the symbols sent for it may have served.
    fn drop_blocks(&mut self, shared: &mut SendShared) -> u64 {
        let mut served_max = 0;
        while let Some(mut block) = self.blocks.pop_front() {
            shared.blocks_open -= 1;
            let served = if block.is_open() { block.served_max() } else { 0 };
            served_max += u64::from(served);
            if let Some(memory) = block.complete() {
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
