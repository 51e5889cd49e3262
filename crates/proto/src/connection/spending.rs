//! What a modern connection may send on credit: the account knows bytes and rates, the sender blocks and symbols.

use dfcp_secure::TAG_BYTES;
use dfcp_time::Time;
use dfcp_wire::{CRC_BYTES, HEADER_BYTES};

use crate::connection::{Connection, Seal, Sender};
use crate::send::credit::Spending;

impl Connection {
    /// What may be sent now.
    pub(super) fn spending(&self) -> Spending {
        let Sender::Modern(sender) = &self.sender else { return Spending::Freely };
        let datagram_bytes = |symbol_bytes: u64| symbol_bytes + self.data_overhead_bytes();
        let last_sent = (sender.last_sent(), datagram_bytes(self.symbol_size.into()));
        self.credit.spending(self.configured_bps(), last_sent, || {
            let (symbols, symbol_bytes) = sender.oldest_block_symbols();
            symbols * datagram_bytes(symbol_bytes)
        })
    }

    /// The peer may have proven more than before: `symbols` and bytes of such, as the sender had counted then.
    pub(super) fn pay_off(&mut self, now: Time, (symbols, symbol_bytes): (u64, u64)) {
        let Sender::Modern(sender) = &self.sender else { return };
        let counters = sender.counters();
        let symbols = counters.acknowledged_symbols - symbols;
        if symbols > 0 {
            let symbol_bytes = counters.acknowledged_symbol_bytes - symbol_bytes;
            self.credit.on_proven(now, symbol_bytes + symbols * self.data_overhead_bytes());
        }
    }

    /// IP bytes of a data datagram besides its symbol.
    fn data_overhead_bytes(&self) -> u64 {
        let trailer = if matches!(self.seal, Seal::On(_)) { TAG_BYTES } else { CRC_BYTES };
        u64::from(self.overhead_bytes) + (HEADER_BYTES + trailer) as u64
    }
}
