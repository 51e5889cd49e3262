//! What a modern connection may send on credit: the account knows bytes and rates, the sender blocks and symbols.

use dfcp_time::Time;

use crate::config::Rate;
use crate::limits;
use crate::path::credit::Spending;
use crate::session::{Seal, Session};

impl Session {
    /// What may be sent now.
    pub(super) fn spending(&self) -> Spending {
        let datagram_bytes = |symbol_bytes: u64| symbol_bytes + self.data_overhead_bytes();
        let last_sent = (self.send.flight.last_sent(), datagram_bytes(self.symbol_size.into()));
        self.credit.spending(self.credit_rate_bps(), last_sent, || {
            let (symbols, symbol_bytes) = self.send.oldest_block_symbols();
            symbols * datagram_bytes(symbol_bytes)
        })
    }

    /// The rate in which the credit is counted. The peer can lower it by its cap, but not raise it: where our own is none, a
    /// peer could otherwise declare what it wants to be lent.
    fn credit_rate_bps(&self) -> u64 {
        let own = match self.config.rate {
            Rate::Line => limits::CREDIT_LINE_RATE_BPS,
            Rate::Fixed { rate_bps } => rate_bps,
        };
        match self.peer_rate_max_bps {
            0 => own,
            cap => own.min(cap),
        }
    }

    /// Symbols which the peer has proven to have decoded, and their bytes.
    pub(super) fn proven(&self) -> (u64, u64) {
        let counters = self.send.counters();
        (counters.acknowledged_symbols, counters.acknowledged_symbol_bytes)
    }

    /// The peer may have proven more than before: `symbols` and bytes of such, as the sender had counted then.
    pub(super) fn pay_off(&mut self, now: Time, (symbols, symbol_bytes): (u64, u64)) {
        let counters = self.send.counters();
        let symbols = counters.acknowledged_symbols - symbols;
        if symbols > 0 {
            let symbol_bytes = counters.acknowledged_symbol_bytes - symbol_bytes;
            self.credit.on_proven(now, symbol_bytes + symbols * self.data_overhead_bytes());
        }
    }

    /// Takes a segment which may acknowledge the end of a stream, and with it what no report has.
    pub(super) fn paid_off<T>(&mut self, now: Time, take: impl FnOnce(&mut Self) -> T) -> T {
        let proven = self.proven();
        let result = take(self);
        self.pay_off(now, proven);
        result
    }

    /// IP bytes of a data datagram besides its symbol.
    fn data_overhead_bytes(&self) -> u64 {
        let is_sealed = matches!(self.seal, Seal::On(_));
        u64::from(self.overhead_bytes) + dfcp_wire::overhead_bytes(is_sealed) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::security::PeerKey;
    use crate::shared::Ports;

    #[test]
    fn no_rate_cap_of_the_peers_raises_the_credit() {
        let spent = |rate, cap_bps, megabytes: u64| {
            let now = Time::from_s(1);
            let config = Config::sealed(PeerKey::Any).with_rate(rate);
            let ports = Ports { local: 1, remote: 2 };
            let mut connection =
                Session::initiate(now, Arc::new(config), ports, ([192, 0, 2, 1], 9).into(), [1; 32]).unwrap();
            connection.peer_rate_max_bps = cap_bps;
            connection.credit.on_report(Some(Duration::from_millis(10)));
            connection.credit.on_sent(now, megabytes * 1_000_000);
            matches!(connection.spending(), Spending::Trickle { .. })
        };
        // Two seconds of 1 Gbit/s, of the cap where that is less, and of our own rate where it is not.
        for (rate, cap_bps, megabytes) in [
            (Rate::Line, 0, 250),
            (Rate::Line, u64::MAX, 250),
            (Rate::Line, 2_000_000_000, 250),
            (Rate::Line, 100_000_000, 25),
            (Rate::Fixed { rate_bps: 40_000_000 }, u64::MAX, 10),
            (Rate::Fixed { rate_bps: 40_000_000 }, 4_000_000, 1),
        ] {
            assert!(!spent(rate, cap_bps, megabytes - 1), "{rate:?}, {cap_bps}");
            assert!(spent(rate, cap_bps, megabytes), "{rate:?}, {cap_bps}");
        }
    }
}
