//! How fast an open session sends: one owner of the rate, whatever is configured.

use dfcp_time::Time;

use crate::config::{Config, Rate};
use crate::path::rate_control::RateControl;
use crate::session::common::Common;
use crate::session::open::Open;
use crate::session::open::packet_size::data_packet_bytes;

impl Open {
    /// The configured rate is another.
    pub(in crate::session) fn choose_rate(&mut self, now: Time, common: &Common) {
        let config = &common.config;
        if let Rate::Auto { policy, max_bps } = config.rate {
            let control = self.rate_control.get_or_insert_with(|| {
                let datagram_bytes = data_packet_bytes(self.packet_size.proven_bytes(), common);
                let numbers = &common.link.numbers;
                let sent = numbers.sent_before(numbers.end());
                Box::new(RateControl::new(now, datagram_bytes, common.rtt.smoothed(), sent))
            });
            control.set_policy(policy, max_bps);
        } else {
            self.rate_control = None;
        }
        self.update_rate(config);
    }

    /// The rate follows its owner, the peer's cap and the breaker.
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
            Rate::Auto { .. } => self.rate_control.as_ref().and_then(|control| control.rate_bps()),
        };
        let cap = (self.peer_rate_max_bps > 0).then_some(self.peer_rate_max_bps);
        own.into_iter().chain(cap).min()
    }

    /// The controller of an automatic rate does the breaker's work (\[auto-9\]).
    pub(super) fn breaker_is_on(&self, config: &Config) -> bool {
        config.breaker && matches!(config.rate, Rate::Fixed { .. })
    }
}
