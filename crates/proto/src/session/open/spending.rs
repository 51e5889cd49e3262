//! Spending of a session on credit: the account knows bytes and rates, the sender blocks and symbols.

use dfcp_time::Time;

use crate::config::{Config, Rate};
use crate::limits;
use crate::message::send::Proven;
use crate::path::credit::Spending;
use crate::session::common::Common;
use crate::session::open::Open;

impl Open {
    /// The data that the credit permits now.
    pub(super) fn spending(&self, common: &Common) -> Spending {
        let send = &common.streams.send;
        let overhead_bytes = data_overhead_bytes(common);
        let last_sent = (common.path.flight().last_sent(), u64::from(common.symbol_size) + overhead_bytes);
        self.credit.spending(self.credit_rate_bps(&common.config), last_sent, || {
            let (symbols, symbol_bytes) = send.oldest_block_symbols(&common.path);
            symbols * (symbol_bytes + overhead_bytes)
        })
    }

    /// The rate in which the credit is counted. The peer can lower it by its cap, but not raise it: where our own is none, a
    /// peer could otherwise declare what it wants to be lent.
    fn credit_rate_bps(&self, config: &Config) -> u64 {
        let own = match config.rate {
            Rate::Line => limits::CREDIT_LINE_RATE_BPS,
            Rate::Fixed { rate_bps } => rate_bps,
            Rate::Auto { max_bps, min_bps, .. } => {
                // The rate found may be a peer's lie; the least that the caller wants is not.
                limits::CREDIT_AUTO_RATE_BPS.max(min_bps.unwrap_or_default()).min(max_bps.unwrap_or(u64::MAX))
            }
        };
        match self.peer_rate_max_bps {
            0 => own,
            cap => own.min(cap),
        }
    }

    /// Takes a segment which may acknowledge the end of a stream, and with it what no report has.
    pub(super) fn paid_off<T>(
        &mut self,
        now: Time,
        common: &mut Common,
        take: impl FnOnce(&mut Self, &mut Common) -> T,
    ) -> T {
        let before = ProvenSymbols::now(common);
        let result = take(self, common);
        self.pay_off(now, common, before);
        result
    }

    /// The peer may have proven more than `before`.
    pub(super) fn pay_off(&mut self, now: Time, common: &Common, before: ProvenSymbols) {
        let proven = ProvenSymbols::now(common);
        let symbols = proven.symbols - before.symbols;
        if symbols > 0 {
            let symbol_bytes = proven.symbol_bytes - before.symbol_bytes;
            let bytes = symbol_bytes + symbols * data_overhead_bytes(common);
            self.credit.on_proven(now, bytes);
            if let Some(control) = &mut self.rate_control {
                control.on_proven(now, bytes);
            }
        }
    }
}

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
}

/// IP bytes of a data datagram besides its symbol.
fn data_overhead_bytes(common: &Common) -> u64 {
    u64::from(common.overhead_bytes) + dfcp_wire::overhead_bytes(common.link.is_sealed) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::Policy;
    use crate::security::PeerKey;
    use crate::session::handshake::PeerLimits;
    use crate::session::opening::{Agreed, Opening};
    use crate::shared::{Ports, Role};

    fn automatic(max_bps: Option<u64>, min_bps: Option<u64>) -> Rate {
        Rate::Auto { policy: Policy::High, max_bps, min_bps }
    }

    #[test]
    fn no_rate_cap_of_the_peers_raises_the_credit() {
        let spent = |rate, cap_bps, megabytes: u64| {
            let now = Time::from_s(1);
            let config = Arc::new(Config::sealed(PeerKey::Any).with_rate(rate));
            let (ports, remote) = (Ports { local: 1, remote: 2 }, ([192, 0, 2, 1], 9).into());
            let mut common = Common::new(now, config, ports, remote, Role::Initiator, [1; 32]);
            let peer = PeerLimits { rate_max_bps: cap_bps, ..PeerLimits::default() };
            let mut opening = Opening::initiate(now, None);
            let mut open = Open::new(now, &mut common, &mut opening, Agreed { peer, third: None, ticket: None });
            open.credit.on_report(Some(Duration::from_millis(10)));
            open.credit.on_sent(now, megabytes * 1_000_000);
            matches!(open.spending(&common), Spending::Trickle { .. })
        };
        // Two seconds of 1 Gbit/s, of the cap where that is less, and of our own rate where it is not.
        for (rate, cap_bps, megabytes) in [
            (Rate::Line, 0, 250),
            (Rate::Line, u64::MAX, 250),
            (Rate::Line, 2_000_000_000, 250),
            (Rate::Line, 100_000_000, 25),
            (Rate::Fixed { rate_bps: 40_000_000 }, u64::MAX, 10),
            // Nor does what an automatic rate has found, by reports which may be lies.
            (Rate::auto(Policy::Fair), u64::MAX, 25),
            (automatic(Some(40_000_000), None), u64::MAX, 10),
            (automatic(None, Some(200_000_000)), u64::MAX, 50),
            (automatic(None, Some(1_000_000)), u64::MAX, 25),
            (automatic(Some(40_000_000), Some(30_000_000)), 4_000_000, 1),
            (Rate::Fixed { rate_bps: 40_000_000 }, 4_000_000, 1),
        ] {
            assert!(!spent(rate, cap_bps, megabytes - 1), "{rate:?}, {cap_bps}");
            assert!(spent(rate, cap_bps, megabytes), "{rate:?}, {cap_bps}");
        }
    }
}
