//! What the sender learns from reports, and what it believes of them.

use dfcp_wire::feedback::{Run, StreamState};

use super::SendStream;
use crate::error::PeerMisbehaved;
use crate::path::loss::LossEstimator;
use crate::proof::Layout;
use crate::stream::window::counted_bytes;

/// Symbols of a stream that a report accounts for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounted {
    /// Those which its acknowledged blocks took, and which its open ones have.
    pub(crate) symbols: u64,
    /// At most as many more can have come for blocks that are neither acknowledged nor in the list, which may be cut anywhere.
    pub(crate) unlisted_max: u64,
}

/// What the list of a report says.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    /// Symbols which its open blocks have.
    symbols: u64,
    /// Symbols which these, and its empty ones, could have.
    served_max: u32,
}

impl SendStream {
    /// Whether a report which names `cumulative` as the next block needed has been overtaken by another.
    ///
    /// # Errors
    /// The block lies past the last one sent.
    pub(crate) fn is_overtaken(&self, cumulative: u32) -> Result<bool, PeerMisbehaved> {
        if cumulative > self.next_id() {
            let sent = u64::from(self.next_id());
            return Err(PeerMisbehaved::ReportOfUnsentBlocks { claimed: cumulative.into(), sent });
        }
        Ok(cumulative < self.first_id)
    }

    /// Checks the proofs of a report which is not overtaken.
    ///
    /// # Errors
    /// It acknowledges what was not decoded.
    pub(crate) fn check_proofs(
        &self,
        state: &StreamState,
        runs: impl Iterator<Item = Run>,
    ) -> Result<(), PeerMisbehaved> {
        self.proofs.check_report(self.first_id, (state.next_needed - self.first_id) as usize, state, runs)
    }

    /// A report has passed a symbol of this block by: it has arrived or is lost.
    pub(crate) fn on_fate(&mut self, block_id: u32) {
        let index = block_id.checked_sub(self.first_id).map(|index| index as usize);
        if let Some(block) = index.and_then(|index| self.blocks.get_mut(index)) {
            block.in_flight = block.in_flight.saturating_sub(1);
            block.unreported += 1;
        }
    }

    /// The newest report tells what the peer lends to blocks which are not read.
    pub(crate) fn on_memory(&mut self, memory_kib: u32) {
        self.flow.on_memory(memory_kib);
    }

    /// What a report accounts for which does not name the stream.
    pub(crate) fn unreported(&self) -> Accounted {
        Accounted { symbols: self.counters.acknowledged_symbols, unlisted_max: self.served_max.into() }
    }

    /// Takes in what a report, whose proofs are right, says of the stream's blocks.
    ///
    /// # Errors
    /// It names blocks that were never sent, or says that more was read than is decoded.
    pub(crate) fn on_report(
        &mut self,
        state: &StreamState,
        runs: impl Iterator<Item = Run>,
        loss: &LossEstimator,
    ) -> Result<Accounted, PeerMisbehaved> {
        self.advance(state.next_needed);
        self.flow.on_read(state, self.span_bytes)?;
        let listed = self.apply(state.next_needed, runs, loss)?;
        self.proactive_from = 0;
        Ok(Accounted {
            symbols: self.counters.acknowledged_symbols + listed.symbols,
            unlisted_max: self.served_max.saturating_sub(listed.served_max).into(),
        })
    }

    /// The peer has decoded the whole stream.
    pub(crate) fn on_finished(&mut self) {
        self.advance(self.next_id());
    }

    /// Checks the proof of an acknowledgement of our FIN, if that names our `end`, or whichever it is.
    pub(crate) fn check_end(&self, end: Option<u32>, proof: u32) -> Result<(), PeerMisbehaved> {
        match self.end().filter(|&ours| end.is_none_or(|named| named == ours)) {
            Some(ours) => self.proofs.check_end(ours, proof),
            None => Ok(()),
        }
    }

    /// All blocks before `cumulative` are acknowledged.
    fn advance(&mut self, cumulative: u32) {
        while self.first_id < cumulative {
            let Some(mut block) = self.blocks.pop_front() else { return };
            let served_max = block.served_max();
            if let Some(memory) = block.complete() {
                self.on_acknowledged(block.layout, served_max, memory);
            }
            self.span_bytes -= counted_bytes(block.layout.data().length_bytes());
            self.proofs.advance();
            self.active.remove(self.first_id);
            self.first_id += 1;
        }
        if self.blocks.is_empty() {
            self.repairs.clear();
            self.active.clear();
        }
    }

    fn on_acknowledged(&mut self, layout: Layout, served_max: u32, memory: Vec<u8>) {
        self.served_max -= served_max;
        self.open_bytes -= layout.data().length_bytes() as u64;
        self.buffer.on_carried(layout.data().length_bytes() as u64, u64::MAX);
        self.counters.on_acknowledged(layout);
        self.source.recycle(memory);
    }

    fn apply(
        &mut self,
        cumulative: u32,
        runs: impl Iterator<Item = Run>,
        loss: &LossEstimator,
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
                        self.complete_at(i);
                    }
                    index = end;
                }
                Run::Empty(blocks) => {
                    // The receiver ends its list with blocks it has heard nothing of, sent or not.
                    let end = (index + blocks as usize).min(self.blocks.len());
                    for i in index..end {
                        self.report_missing(i, None, loss, &mut listed);
                    }
                    index += blocks as usize;
                }
                Run::Open { missing } => {
                    if index >= self.blocks.len() {
                        return Err(self.unsent(index + 1));
                    }
                    self.report_missing(index, Some(missing.into()), loss, &mut listed);
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

    fn complete_at(&mut self, index: usize) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        let (layout, served_max, Some(memory)) = (block.layout, block.served_max(), block.complete()) else { return };
        self.on_acknowledged(layout, served_max, memory);
        self.active.remove(self.first_id + index as u32);
    }

    /// Block `index` lacks `missing` symbols, or all of them; unless it is acknowledged, `listed` counts it.
    fn report_missing(&mut self, index: usize, missing: Option<u32>, loss: &LossEstimator, listed: &mut Listed) {
        let traffic = self.round_traffic();
        let Some(block) = self.blocks.get_mut(index).filter(|block| block.is_open()) else { return };
        block.on_missing(missing);
        listed.symbols += u64::from(block.k() - block.missing);
        listed.served_max += block.served_max();
        let id = self.first_id + index as u32;
        if block.awaits_round() {
            block.target = block.round_size(traffic, block.round, loss);
            block.round += 1;
            self.active.insert(id);
        } else if block.target > 0 {
            // Planned while the path lost more, the rest of the round would be sent in vain and delay later blocks.
            let wanted = block.round_size(traffic, block.round - 1, loss);
            block.target = block.target.min(wanted.saturating_sub(block.in_flight));
            if block.target == 0 {
                self.active.remove(id);
            }
        }
    }
}
