//! Payments on a session's credit: the account knows bytes, the sender blocks and symbols.

use dfcp_time::Time;

use crate::message::send::Proven;
use crate::session::common::Common;

/// Symbols that the peer has proven to have decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProvenSymbols {
    symbols: u64,
    symbol_bytes: u64,
}

impl ProvenSymbols {
    pub(super) fn now(common: &Common) -> Self {
        let counters = common.streams.send.counters();
        let messages = common.messages.as_ref().map_or_else(Proven::default, |messages| messages.proven);
        Self {
            symbols: counters.acknowledged_symbols + messages.symbols,
            symbol_bytes: counters.acknowledged_symbol_bytes + messages.symbol_bytes,
        }
    }

    /// Pays off what the peer has proven beyond these.
    pub(super) fn pay_off(self, now: Time, common: &mut Common) {
        let proven = Self::now(common);
        let symbols = proven.symbols - self.symbols;
        if symbols > 0 {
            let symbol_bytes = proven.symbol_bytes - self.symbol_bytes;
            let around_bytes = common.around_payload_bytes() as u64;
            common.paths.active_mut().on_proven(now, symbol_bytes + symbols * around_bytes);
        }
    }
}
