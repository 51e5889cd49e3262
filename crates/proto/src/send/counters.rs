//! What the modern sender has done so far.

use dfcp_wire::feedback::Wasted;

use crate::proof::Layout;
use crate::send::symbol::{Reason, Symbol};
use crate::stats::{SentSymbols, WastedSymbols};

#[derive(Debug, Default)]
pub(crate) struct SendCounters {
    pub(crate) sent: SentSymbols,
    pub(crate) wasted: WastedSymbols,
    /// The newest report's counts, which wrap.
    wasted_reported: Wasted,
    pub(crate) acknowledged_bytes: u64,
    pub(crate) acknowledged_blocks: u64,
    /// Source symbols of these blocks, and the bytes of as many encoding symbols.
    pub(crate) acknowledged_symbols: u64,
    pub(crate) acknowledged_symbol_bytes: u64,
}

impl SendCounters {
    pub(crate) fn on_sent(&mut self, symbol: Symbol) {
        let is_source = symbol.esi < u32::from(symbol.info.k);
        *match symbol.reason {
            Reason::Round if is_source => &mut self.sent.source,
            Reason::Round => &mut self.sent.repair,
            Reason::Proactive => &mut self.sent.proactive,
            Reason::Probe => &mut self.sent.probe,
        } += 1;
    }

    pub(crate) fn on_acknowledged(&mut self, layout: Layout) {
        self.acknowledged_bytes += layout.data().length_bytes() as u64;
        self.acknowledged_blocks += 1;
        self.acknowledged_symbols += layout.data().k() as u64;
        self.acknowledged_symbol_bytes += (layout.data().k() * layout.symbol_size()) as u64;
    }

    pub(crate) fn on_wasted(&mut self, now: Wasted) {
        let more = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let before = std::mem::replace(&mut self.wasted_reported, now);
        self.wasted.dependent += more(now.dependent, before.dependent);
        self.wasted.late += more(now.late, before.late);
        self.wasted.refused += more(now.refused, before.refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waste_is_counted_on_over_the_reports_wrap() {
        let mut counters = SendCounters::default();
        counters.on_wasted(Wasted { late: u32::MAX - 1, ..Wasted::default() });
        counters.on_wasted(Wasted { late: 3, dependent: 2, refused: 1 });
        let WastedSymbols { dependent, late, refused } = counters.wasted;
        assert_eq!((dependent, late, refused), (2, u64::from(u32::MAX) + 4, 1));
    }
}
