//! Evaluation of reports by a sending half: the facts it takes from them, and the limits of its trust.

use dfcp_time::Time;
use dfcp_wire::feedback::{Run, StreamState};

use super::SendStream;
use super::shared::{KIB_BYTES, SendShared};
use crate::error::PeerMisbehaved;
use crate::path::loss::LossEstimator;
use crate::proof::Layout;

/// Totals over the unacknowledged blocks that a report lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Listed {
    /// Number of streams with a record in the report.
    pub(crate) streams: u32,
    /// Symbols that the peer has of the open blocks.
    pub(crate) symbols: u64,
    /// Symbols that the peer may have of the open and empty blocks, at most.
    pub(crate) served_max: u64,
}

impl SendStream {
    /// Returns true if a report with `cumulative` as the next needed block was overtaken by a newer report.
    ///
    /// # Errors
    /// `cumulative` lies past the last block sent.
    pub(crate) fn is_overtaken(&self, cumulative: u32) -> Result<bool, PeerMisbehaved> {
        if cumulative > self.next_id() {
            let sent = u64::from(self.next_id());
            return Err(PeerMisbehaved::ReportOfUnsentBlocks { claimed: cumulative.into(), sent });
        }
        Ok(cumulative < self.first_id)
    }

    /// Checks a record that is not overtaken, before anything of its report is applied.
    ///
    /// # Errors
    /// The record acknowledges blocks without proof of decoding, or reports reading of bytes that were not sent.
    pub(crate) fn check_record(
        &self,
        state: &StreamState,
        runs: impl Iterator<Item = Run>,
    ) -> Result<(), PeerMisbehaved> {
        if state.blocks_read > state.next_needed || self.newly_read_bytes(state) > self.held_bytes() {
            let (blocks, kib) = (state.blocks_read, state.kib_read.into());
            return Err(PeerMisbehaved::InconsistentReading { blocks, kib });
        }
        self.proofs.check_report(self.first_id, (state.next_needed - self.first_id) as usize, state, runs)
    }

    /// Returns the bytes read by the peer's application since the latest record, as counted by flow control. A record
    /// has whole KiB, modulo 2³².
    fn newly_read_bytes(&self, state: &StreamState) -> u64 {
        if self.held_bytes() == 0 {
            // All is read or delivered: the peer subtracts unread bytes from the memory it advertises ([window-3]).
            return 0;
        }
        let known_kib = self.read_cost_bytes / KIB_BYTES;
        let more_kib = state.kib_read.wrapping_sub(known_kib as u32);
        if more_kib == 0 { 0 } else { (known_kib + u64::from(more_kib)) * KIB_BYTES - self.read_cost_bytes }
    }

    /// Returns the state of a stream that is unknown to the peer. The KiB read stay at the value reported before, in
    /// case the peer has lied.
    pub(crate) fn unseen_state(&self) -> StreamState {
        let kib_read = (self.read_cost_bytes / KIB_BYTES) as u32;
        StreamState { stream: self.id, kib_read, ..StreamState::default() }
    }

    /// Records that a report covers the datagram of a symbol of block `block_id`: the symbol has arrived or is lost.
    /// Returns the data bytes in the symbol; `None` if the block has left the window.
    pub(crate) fn on_fate(&mut self, block_id: u32) -> Option<usize> {
        let index = block_id.checked_sub(self.first_id).map(|index| index as usize);
        let block = index.and_then(|index| self.blocks.get_mut(index))?;
        block.in_flight = block.in_flight.saturating_sub(1);
        block.unreported += 1;
        Some(block.layout.data().symbol_size())
    }

    /// Applies a record of a report whose proofs have been checked.
    ///
    /// # Errors
    /// The record lists blocks that were never sent.
    pub(crate) fn on_record(
        &mut self,
        state: &StreamState,
        runs: impl Iterator<Item = Run>,
        loss: &LossEstimator,
        shared: &mut SendShared,
    ) -> Result<Listed, PeerMisbehaved> {
        self.advance(state.next_needed, shared);
        self.blocks_read = self.blocks_read.max(state.blocks_read);
        // When all blocks are read, the bytes below a whole KiB are released, too.
        let is_all_read = self.blocks_read == self.next_id();
        let read_bytes = if is_all_read { self.held_bytes() } else { self.newly_read_bytes(state) };
        self.change_held(shared, |it| it.read_cost_bytes += read_bytes);
        let listed = self.apply(state.next_needed, runs, loss, shared)?;
        self.proactive_from = 0;
        self.ask_at = None;
        Ok(listed)
    }

    /// Handles a report without a record of this stream. If the report covers datagrams with symbols of this stream, the
    /// stream requests another report at time `at`.
    pub(crate) fn on_unnamed(&mut self, at: Time) {
        if self.ask_at.is_none() && self.blocks.iter().any(|block| block.is_open() && block.unreported > 0) {
            self.ask_at = Some(at);
        }
    }

    /// Handles an acknowledgement outside of reports that the peer has decoded the whole stream. The peer's next report
    /// subtracts the stream's unread bytes from its memory; until then this side subtracts them.
    pub(crate) fn on_finished(&mut self, shared: &mut SendShared) {
        self.advance(self.next_id(), shared);
        let held_before = shared.peer_memory.held_bytes;
        self.release(shared);
        let unread_bytes = held_before - shared.peer_memory.held_bytes;
        shared.peer_memory.bytes = shared.peer_memory.bytes.saturating_sub(unread_bytes);
    }

    /// Checks the proof in an acknowledgement of our FIN. An acknowledgement of another `end` than ours is ignored; without
    /// an `end`, it is for ours.
    pub(crate) fn check_end(&self, end: Option<u32>, proof: u32) -> Result<(), PeerMisbehaved> {
        match self.end().filter(|&ours| end.is_none_or(|named| named == ours)) {
            Some(ours) => self.proofs.check_end(ours, proof),
            None => Ok(()),
        }
    }

    /// Acknowledges all blocks before `cumulative`.
    fn advance(&mut self, cumulative: u32, shared: &mut SendShared) {
        while self.first_id < cumulative {
            let Some(mut block) = self.blocks.pop_front() else { break };
            shared.blocks_open -= 1;
            let served_max = block.served_max();
            if let Some(memory) = block.complete() {
                self.on_acknowledged(block.layout, served_max, memory, shared);
            }
            self.proofs.advance();
            self.active.remove(self.first_id);
            self.first_id += 1;
        }
        if self.blocks.is_empty() {
            self.repairs.clear();
            self.active.clear();
        }
        self.list_oldest(shared);
    }

    fn on_acknowledged(&mut self, layout: Layout, served_max: u32, memory: Vec<u8>, shared: &mut SendShared) {
        let bytes = layout.data().length_bytes() as u64;
        shared.served_max -= u64::from(served_max);
        shared.hold_up.blocks -= 1;
        shared.buffer.on_carried(bytes);
        shared.counters.on_acknowledged(layout);
        let before = self.buffered_bytes();
        self.open_bytes -= bytes;
        self.on_buffered_change(before, shared);
        self.acknowledged_symbols += layout.data().k() as u64;
        self.acknowledged_bytes += bytes;
        self.acknowledged_blocks += 1;
        self.source.recycle(memory);
    }

    fn apply(
        &mut self,
        cumulative: u32,
        runs: impl Iterator<Item = Run>,
        loss: &LossEstimator,
        shared: &mut SendShared,
    ) -> Result<Listed, PeerMisbehaved> {
        let mut index = (cumulative - self.first_id) as usize;
        let mut listed = Listed::default();
        for run in runs {
            match run {
                Run::Complete(blocks) => {
                    let end = index + blocks as usize;
                    if end > self.blocks.len() {
                        return Err(self.unsent(end));
                    }
                    for i in index..end {
                        self.complete_at(i, shared);
                    }
                    index = end;
                }
                Run::Empty(blocks) => {
                    // The receiver ends its list with blocks of which nothing has arrived, sent or not.
                    let end = (index + blocks as usize).min(self.blocks.len());
                    for i in index..end {
                        self.report_missing(i, None, (loss, shared), &mut listed);
                    }
                    index += blocks as usize;
                }
                Run::Open { missing } => {
                    if index >= self.blocks.len() {
                        return Err(self.unsent(index + 1));
                    }
                    self.report_missing(index, Some(missing.into()), (loss, shared), &mut listed);
                    index += 1;
                }
            }
        }
        Ok(listed)
    }

    fn unsent(&self, end: usize) -> PeerMisbehaved {
        let claimed = u64::from(self.first_id) + end as u64;
        PeerMisbehaved::ReportOfUnsentBlocks { claimed, sent: self.next_id().into() }
    }

    fn complete_at(&mut self, index: usize, shared: &mut SendShared) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        let (layout, served_max, Some(memory)) = (block.layout, block.served_max(), block.complete()) else { return };
        self.on_acknowledged(layout, served_max, memory, shared);
        self.active.remove(self.first_id + index as u32);
    }

    /// Records that block `index` lacks `missing` symbols; `None` means all. Adds an unacknowledged block to `listed`.
    fn report_missing(
        &mut self,
        index: usize,
        missing: Option<u32>,
        (loss, shared): (&LossEstimator, &mut SendShared),
        listed: &mut Listed,
    ) {
        let purpose = self.round_purpose(shared);
        let Some(block) = self.blocks.get_mut(index).filter(|block| block.is_open()) else { return };
        block.on_missing(missing);
        listed.symbols += u64::from(block.k() - block.missing);
        listed.served_max += u64::from(block.served_max());
        let id = self.first_id + index as u32;
        let parts = shared.parts_of(block.layout.symbol_size());
        if block.awaits_round() {
            block.target = block.round_size(purpose, block.round, loss, parts);
            shared.counters.on_later_round(block.round);
            block.round += 1;
            self.active.insert(id);
        } else if block.target > 0 {
            // The round was planned at a higher loss. The surplus would be sent in vain and delay later blocks.
            let wanted = block.round_size(purpose, block.round - 1, loss, parts);
            block.target = block.target.min(wanted.saturating_sub(block.in_flight));
            if block.target == 0 {
                self.active.remove(id);
            }
        }
    }
}
