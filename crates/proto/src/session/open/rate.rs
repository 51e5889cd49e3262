//! The rate of an open session: it has one owner, whatever is configured.

use dfcp_time::Time;

use crate::config::{Config, Rate};
use crate::limits;
use crate::path::hint::PathHint;
use crate::path::rate_control::RateControl;
use crate::path::rtt::RttEstimator;
use crate::session::link::Link;
use crate::session::open::Open;

impl Open {
    /// The configured rate is another.
    pub(in crate::session) fn choose_rate(&mut self, config: &Config) {
        match (config.rate, &mut self.rate_control) {
            (Rate::Auto { policy, max_bps, .. }, Some(control)) => control.set_policy(policy, max_bps),
            // Begun with the first data that follow others.
            (Rate::Auto { .. }, None) => {}
            (Rate::Line | Rate::Fixed { .. }, control) => *control = None,
        }
        self.update_rate(config);
    }

    /// A symbol is about to be sent (\[auto-11\]), which `is_alone` if its block has no other and nothing is in flight. A connection which never
    /// has two datagrams on their way, of which a server may have many, needs no controller.
    pub(super) fn begin_rate_control(
        &mut self,
        now: Time,
        (config, link, rtt): (&Config, &Link, &RttEstimator),
        is_alone: bool,
    ) {
        let Rate::Auto { policy, max_bps, .. } = config.rate else { return };
        if self.rate_control.is_some() || is_alone {
            return;
        }
        let datagram_bytes = u64::from(self.packet_size.bytes());
        let sent = link.numbers.sent_before(link.numbers.end());
        // A remembered rate is of the path with which the connection began.
        let may_be_known = rtt.is_known() && link.paths.changes() == 0;
        let rtt = rtt.smoothed();
        let hint = config.path_hint.filter(|hint| may_be_known && hint.matches(rtt));
        let mut control = Box::new(RateControl::new(now, datagram_bytes, rtt, sent));
        if let Some(hint) = hint {
            control.expect(hint.rate_bps);
        }
        control.set_policy(policy, max_bps);
        self.rate_control = Some(control);
        self.update_rate(config);
    }

    /// There is nothing to send, unless as much is in flight as may be.
    pub(super) fn note_limited(&mut self, is_full: bool) {
        if is_full {
            return;
        }
        self.is_limited = true;
        if let Some(control) = &mut self.rate_control {
            control.on_idle();
        }
    }

    /// All is acknowledged: a controller whose first train was not even complete has learnt nothing.
    pub(super) fn forget_vain_start(&mut self) {
        if self.rate_control.as_ref().is_some_and(|control| control.has_not_begun()) {
            self.rate_control = None;
        }
    }

    /// The rate follows its owner, the peer's cap and the breaker.
    pub(in crate::session) fn update_rate(&mut self, config: &Config) {
        if let Some(control) = &mut self.rate_control {
            // The breaker stands above the least rate, and above nothing else of an automatic one ([auto-9], [auto-10]).
            control.set_floor(
                guarded_bps(config, self.peer_rate_max_bps).map_or(0, |least_bps| {
                    if config.breaker { self.breaker.allowed_bps(least_bps) } else { least_bps }
                }),
            );
        }
        let mut rate = self.configured_bps(config);
        if let Some(configured) = rate.filter(|_| config.breaker && matches!(config.rate, Rate::Fixed { .. })) {
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
            Rate::Auto { max_bps, .. } => match &self.rate_control {
                Some(control) => control.rate_bps(),
                None => Some(max_bps.unwrap_or(u64::MAX).min(limits::CREDIT_AUTO_RATE_BPS)),
            },
        };
        own.into_iter().chain(cap_bps(self.peer_rate_max_bps)).min()
    }

    /// Rate and round trip of the path, as far as they are proven.
    pub(in crate::session) fn path_hint(&self) -> Option<PathHint> {
        self.rate_control.as_ref()?.hint()
    }

    /// This rate, or the peer's cap if that is less.
    pub(super) fn within_cap(&self, rate_bps: u64) -> u64 {
        cap_bps(self.peer_rate_max_bps).map_or(rate_bps, |cap| cap.min(rate_bps))
    }

    /// The rate which the breaker guards: one that is kept whatever becomes of the path. Of an automatic one, whose controller does
    /// the breaker's work (\[auto-9\]), that is the least. `None` without one.
    pub(super) fn guarded_bps(&self, config: &Config) -> Option<u64> {
        guarded_bps(config, self.peer_rate_max_bps).filter(|_| config.breaker)
    }

    /// True if the session sends at the rate which the breaker guards, or at what it has made of that.
    pub(super) fn is_at_guarded(&self, guarded_bps: u64) -> bool {
        self.rate_control.as_ref().is_none_or(|control| control.finds_at_most(guarded_bps))
    }
}

/// The configured rate that is kept whatever becomes of the path, as far as the peer's cap permits it.
fn guarded_bps(config: &Config, peer_rate_max_bps: u64) -> Option<u64> {
    let own = match config.rate {
        Rate::Line => None,
        Rate::Fixed { rate_bps } => Some(rate_bps),
        Rate::Auto { min_bps, .. } => min_bps,
    };
    own.map(|own| cap_bps(peer_rate_max_bps).map_or(own, |cap| cap.min(own)))
}

/// The cap of a peer that has declared this; 0 is none.
fn cap_bps(peer_rate_max_bps: u64) -> Option<u64> {
    (peer_rate_max_bps > 0).then_some(peer_rate_max_bps)
}
