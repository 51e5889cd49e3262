//! Sending rate of a path, from the configuration, the automatic rate control, and the circuit breaker.

use std::time::Duration;

use dfcp_time::Time;

use crate::config::PathHint;
use crate::config::controller::{Mark, PathStart, RateController, RateControllerFactory, ReportSeen};
use crate::config::{Config, Policy, Rate};
use crate::limits;
use crate::path::breaker::watched::Watched;
use crate::path::breaker::{Breaker, Snapshot};
use crate::path::numbers::DatagramNumbers;
use crate::path::pacing::Pacer;
use crate::path::rate_control::Automatic;
use crate::path::unjudged::Judgement;
use crate::stats::{BreakerState, Stats};

/// Bounds of the rate on every path of a session: the configuration and the peer's cap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateBounds {
    configured: Rate,
    controllers: Option<&'static dyn RateControllerFactory>,
    has_breaker: bool,
    /// Rate cap declared by the peer, bit/s; 0 is none (\[open-17\]).
    peer_max_bps: u64,
}

impl RateBounds {
    pub(crate) fn new(config: &Config, peer_max_bps: u64) -> Self {
        Self {
            configured: config.rate,
            controllers: config.rate_controllers,
            has_breaker: config.breaker,
            peer_max_bps,
        }
    }

    /// Returns bounds with another configuration, and the same cap.
    pub(crate) fn with_config(&self, config: &Config) -> Self {
        Self::new(config, self.peer_max_bps)
    }

    /// Returns the peer's cap, bit/s, if it has declared one.
    fn cap_bps(&self) -> Option<u64> {
        (self.peer_max_bps > 0).then_some(self.peer_max_bps)
    }

    /// Returns the rate, limited to the peer's cap.
    fn within_cap(&self, rate_bps: u64) -> u64 {
        self.cap_bps().map_or(rate_bps, |cap| cap.min(rate_bps))
    }

    /// Returns the configured rate that is kept on any path, limited to the peer's cap, bit/s. For an automatic rate
    /// this is its configured minimum. Above it, rate control replaces the breaker (\[auto-9\]).
    fn kept_bps(&self) -> Option<u64> {
        let own = match self.configured {
            Rate::Line => None,
            Rate::Fixed { rate_bps } => Some(rate_bps),
            Rate::Auto { min_bps, .. } => min_bps,
        };
        own.map(|own| self.within_cap(own))
    }

    /// Returns the rate that the breaker guards, bit/s; `None` without a breaker.
    fn guarded_bps(&self) -> Option<u64> {
        self.kept_bps().filter(|_| self.has_breaker)
    }

    /// Returns the rate from which credit is computed, bit/s. The peer's cap can lower it, but never raise it:
    /// otherwise a peer could raise its own credit whenever no rate is configured.
    pub(crate) fn credit_bps(&self) -> u64 {
        self.within_cap(match self.configured {
            Rate::Line => limits::CREDIT_LINE_RATE_BPS,
            Rate::Fixed { rate_bps } => rate_bps,
            Rate::Auto { max_bps, min_bps, .. } => {
                // The automatic rate depends on reports, which may be lies. The configured minimum does not.
                limits::CREDIT_AUTO_RATE_BPS.max(min_bps.unwrap_or_default()).min(max_bps.unwrap_or(u64::MAX))
            }
        })
    }
}

/// Sending rate of one path: bounds, rate control, breaker, and the pacer that follows from them.
#[derive(Debug)]
pub(crate) struct SendRate {
    bounds: RateBounds,
    pacer: Pacer,
    /// Controller of an automatic rate. `None` until one data datagram follows another.
    control: Option<Box<dyn RateController>>,
    /// True if the application lacked data at some time since the last report.
    is_limited: bool,
    /// Breaker. `None` until there is a rate to guard and a report, so that idle sessions need no memory for it.
    guard: Option<Box<Guard>>,
}

/// Breaker, and the filter of its input.
#[derive(Debug)]
struct Guard {
    breaker: Breaker,
    watched: Watched,
    /// Bytes of ours that have arrived, by the newest report.
    reported_bytes: u64,
}

impl SendRate {
    pub(crate) fn new(bounds: RateBounds) -> Self {
        let mut rate = Self { bounds, pacer: Pacer::new(None), control: None, is_limited: false, guard: None };
        rate.update();
        rate
    }

    pub(crate) fn bounds(&self) -> RateBounds {
        self.bounds
    }

    /// Applies a changed configuration, or a changed cap of the peer.
    pub(crate) fn set_bounds(&mut self, bounds: RateBounds) {
        self.bounds = bounds;
        match (bounds.configured, &mut self.control) {
            (Rate::Auto { policy, max_bps, .. }, Some(control)) => control.set_policy(policy, max_bps),
            // Begins when one data datagram follows another.
            (Rate::Auto { .. }, None) => {}
            (Rate::Line | Rate::Fixed { .. }, control) => *control = None,
        }
        self.update();
    }

    /// Returns the rate of a new path. The controller is dropped, because it knows only the old path.
    pub(crate) fn onto_other_path(self) -> Self {
        let mut rate = Self { control: None, is_limited: false, ..self };
        rate.update();
        rate
    }

    // ---- pacing ----

    /// Returns the current rate, bit/s; `None` is the line rate.
    pub(crate) fn bps(&self) -> Option<u64> {
        self.pacer.rate_bps()
    }

    /// Returns the transmission time of `ip_bytes` bytes of IP packets; zero at the line rate.
    pub(crate) fn time_of(&self, ip_bytes: u64) -> Duration {
        let ns = (ip_bytes * 8_000_000_000).checked_div(self.pacer.rate_bps().unwrap_or(0)).unwrap_or(0);
        Duration::from_nanos(ns)
    }

    pub(crate) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    pub(crate) fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.pacer
    }

    // ---- the automatic rate ----

    /// Starts the controller when a symbol of a block of `k` symbols is about to be sent with `in_flight` datagrams in
    /// flight (\[auto-11\]). A connection that never has two datagrams in flight needs no controller; a server may have
    /// many such connections. `begin` creates the controller.
    pub(crate) fn begin_control(
        &mut self,
        k: u16,
        in_flight: usize,
        path: impl FnOnce(Policy, Option<u64>) -> PathStart,
    ) {
        let Rate::Auto { policy, max_bps, .. } = self.bounds.configured else { return };
        if self.control.is_some() || k == 1 && in_flight == 0 {
            return;
        }
        self.control = Some(self.bounds.controllers.unwrap_or(&Automatic).begin(path(policy, max_bps)));
        self.update();
    }

    /// Returns the controller's limit of datagrams in flight.
    pub(crate) fn in_flight_max(&self) -> Option<usize> {
        self.control.as_ref().map(|control| control.in_flight_max())
    }

    /// Records that the application has no data to send.
    pub(crate) fn on_limited(&mut self) {
        self.is_limited = true;
        if let Some(control) = &mut self.control {
            control.on_idle();
        }
    }

    /// Records a sent data datagram, the last of `numbers`.
    pub(crate) fn on_sent(&mut self, numbers: &DatagramNumbers) {
        if let Some(control) = &mut self.control
            && control.on_sent(numbers.sent_before(numbers.end()))
        {
            self.update();
        }
    }

    /// Takes in a proof that the peer has decoded `bytes` further bytes.
    pub(crate) fn on_proven(&mut self, now: Time, bytes: u64) {
        if let Some(control) = &mut self.control {
            control.on_proven(now, bytes);
        }
    }

    /// Sets the size of data packets, bytes.
    pub(crate) fn set_datagram_bytes(&mut self, datagram_bytes: u64) {
        if let Some(control) = &mut self.control {
            control.set_datagram_bytes(datagram_bytes);
        }
        self.update();
    }

    /// Takes in a report with news: its RTT sample and its marks. `is_drained` means that all data are acknowledged,
    /// `has_messages` that messages with deadlines are in flight or queued.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        (rtt, marks): (Option<Duration>, &[Mark]),
        is_drained: bool,
        has_messages: bool,
    ) {
        let Some(control) = &mut self.control else { return };
        control.on_report(ReportSeen { now, rtt, marks, is_limited: self.is_limited, has_messages });
        self.is_limited = false;
        if is_drained && !has_messages && control.has_not_begun() {
            // A controller whose first packet train is incomplete has measured nothing.
            self.control = None;
        }
        self.update();
    }

    /// Returns the proven rate and RTT of the path.
    pub(crate) fn hint(&self) -> Option<PathHint> {
        self.control.as_ref()?.hint()
    }

    // ---- the breaker ----

    /// Returns true if there is a rate for the breaker to guard.
    pub(crate) fn is_guarded(&self) -> bool {
        self.bounds.guarded_bps().is_some()
    }

    /// Passes a report with news to the breaker, if it guards a rate. `reported_bytes` of our datagrams have arrived;
    /// `snapshot` counts only their IP headers.
    pub(crate) fn watch(&mut self, snapshot: Snapshot, reported_bytes: u64, judgement: Judgement, rtt: Duration) {
        let Some(guarded_bps) = self.bounds.guarded_bps() else { return };
        // Traffic above the guarded rate is no evidence about that rate.
        if self.control.as_ref().is_some_and(|control| !control.finds_at_most(guarded_bps)) {
            if let Some(guard) = &mut self.guard {
                guard.breaker.pass_over();
            }
            return;
        }
        let new = || Guard { breaker: Breaker::new(), watched: Watched::default(), reported_bytes: 0 };
        let guard = self.guard.get_or_insert_with(|| Box::new(new()));
        guard.reported_bytes = guard.reported_bytes.max(reported_bytes);
        let arrived_bits = snapshot.arrived_bits + guard.reported_bytes * 8;
        let snapshot = Snapshot { arrived_bits, ..snapshot };
        let Some(snapshot) = guard.watched.see(snapshot, judgement) else { return };
        guard.breaker.observe(snapshot, rtt, guarded_bps);
        self.update();
    }

    // ---- resulting rate ----

    /// Returns the rate without the breaker, bit/s: the smaller of our own and the peer's cap (\[open-17\]). `None` is
    /// the line rate.
    pub(crate) fn unguarded_bps(&self) -> Option<u64> {
        let own = match self.bounds.configured {
            Rate::Line => None,
            Rate::Fixed { rate_bps } => Some(rate_bps),
            Rate::Auto { max_bps, .. } => match &self.control {
                Some(control) => control.rate_bps(),
                None => Some(max_bps.unwrap_or(u64::MAX).min(limits::CREDIT_AUTO_RATE_BPS)),
            },
        };
        own.into_iter().chain(self.bounds.cap_bps()).min()
    }

    /// Returns the rate, limited by the breaker.
    fn allowed_bps(&self, bps: u64) -> u64 {
        self.guard.as_ref().map_or(bps, |guard| guard.breaker.allowed_bps(bps))
    }

    /// Sets the pacer to the rate that follows from configuration, cap, rate control and breaker.
    fn update(&mut self) {
        let has_breaker = self.bounds.has_breaker;
        // With an automatic rate, the breaker limits only the configured minimum ([auto-9], [auto-10]).
        let floor = |least_bps| if has_breaker { self.allowed_bps(least_bps) } else { least_bps };
        let floor_bps = self.bounds.kept_bps().map_or(0, floor);
        if let Some(control) = &mut self.control {
            control.set_floor(floor_bps);
        }
        let mut rate = self.unguarded_bps();
        if let Some(configured) = rate.filter(|_| has_breaker && matches!(self.bounds.configured, Rate::Fixed { .. })) {
            rate = Some(self.allowed_bps(configured));
        }
        if rate != self.pacer.rate_bps() {
            self.pacer.set_rate_bps(rate);
        }
    }

    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        stats.rate_bps = self.pacer.rate_bps().unwrap_or_default();
        if let Some(control) = &self.control {
            stats.rate_bps = self.bounds.within_cap(control.steady_bps());
            stats.rate_control = Some(control.stats());
        }
        if self.is_guarded() {
            stats.breaker = BreakerState::Watching;
        }
        let Some(Guard { breaker, .. }) = self.guard.as_deref() else { return };
        if let Some(guarded_bps) = self.bounds.guarded_bps() {
            stats.breaker = breaker.state();
            if breaker.is_limiting() {
                stats.breaker_rate_bps = breaker.allowed_bps(guarded_bps);
                stats.carried_rate_bps = breaker.carried_bps(guarded_bps).unwrap_or_default();
            }
        }
        stats.breaker_tests = breaker.tests();
    }
}
