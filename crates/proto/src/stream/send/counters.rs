//! Counters of the modern sender.

use crate::proof::Layout;
use crate::stats::SentSymbols;
use crate::stream::send::symbol::Reason;

#[derive(Debug, Default)]
pub(crate) struct SendCounters {
    pub(crate) sent: SentSymbols,
    pub(crate) acknowledged_bytes: u64,
    pub(crate) acknowledged_blocks: u64,
    /// Blocks for which a second round was planned.
    pub(crate) blocks_repeated: u64,
    /// Rounds after the first round of a block, over all blocks.
    pub(crate) later_rounds: u64,
    /// Source symbols of the acknowledged blocks.
    pub(crate) acknowledged_symbols: u64,
    /// Bytes of these symbols, padding included.
    pub(crate) acknowledged_symbol_bytes: u64,
}

impl SentSymbols {
    /// Counts a symbol that is not a first transmission of a source symbol.
    pub(crate) fn count_other(&mut self, reason: Reason) {
        *match reason {
            Reason::Round => &mut self.repair,
            Reason::Proactive => &mut self.proactive,
            Reason::Probe => &mut self.probe,
        } += 1;
    }
}

impl SendCounters {
    /// Counts a further round of a block that has had `rounds` rounds.
    pub(crate) fn on_later_round(&mut self, rounds: u32) {
        self.later_rounds += 1;
        self.blocks_repeated += u64::from(rounds == 1);
    }

    pub(crate) fn on_acknowledged(&mut self, layout: Layout) {
        self.acknowledged_bytes += layout.data().length_bytes() as u64;
        self.acknowledged_blocks += 1;
        self.acknowledged_symbols += layout.data().k() as u64;
        self.acknowledged_symbol_bytes += (layout.data().k() * layout.symbol_size()) as u64;
    }
}
