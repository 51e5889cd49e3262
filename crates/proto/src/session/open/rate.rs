//! How fast an open session sends.

use crate::config::{Config, Rate};
use crate::session::open::Open;

impl Open {
    /// The rate follows the configuration, the peer's cap and the breaker.
    pub(in crate::session) fn update_rate(&mut self, config: &Config) {
        let mut rate = self.configured_bps(config);
        if let Some(configured) = rate.filter(|_| self.breaker_is_on(config)) {
            rate = Some(self.breaker.allowed_bps(configured));
        }
        if rate != self.pacer.rate_bps() {
            self.pacer.set_rate_bps(rate);
        }
    }

    /// The rate without the breaker: the smaller of our own and the peer's cap (\[open-17\]); `None` is the line rate.
    pub(super) fn configured_bps(&self, config: &Config) -> Option<u64> {
        let own = match config.rate {
            Rate::Line => None,
            Rate::Fixed { rate_bps } => Some(rate_bps),
        };
        let cap = (self.peer_rate_max_bps > 0).then_some(self.peer_rate_max_bps);
        own.into_iter().chain(cap).min()
    }

    pub(super) fn breaker_is_on(&self, config: &Config) -> bool {
        config.breaker && config.rate != Rate::Line
    }
}
