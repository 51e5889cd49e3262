//! Reports of a connection to its observer. Connections without an observer run none of this code.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::Outline;

use crate::config::Config;
use crate::connection::Inner;
use crate::error::Dropped;
use crate::observe::{Beginning, ConnectionObserver, DatagramInfo, Observed};
use crate::shared::Transmit;
use crate::state::State;
use crate::stats::{BreakerState, RatePhase, Stats};

/// Observer of a connection, with the state last reported to it.
pub(crate) struct Watch {
    observer: Box<dyn ConnectionObserver>,
    began: Time,
    state: State,
    remote: SocketAddr,
    keys_told: bool,
    metrics: Metrics,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("began", &self.began).field("state", &self.state).finish_non_exhaustive()
    }
}

/// Metrics that cause a report when they change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Metrics {
    rtt: Duration,
    queue: Option<Duration>,
    loss: f64,
    rate_bps: u64,
    arrival_rate_bps: u64,
    breaker: BreakerState,
    phase: Option<RatePhase>,
    capacity_bps: Option<u64>,
    packet_bytes: u16,
}

impl Metrics {
    fn of(stats: &Stats) -> Self {
        Self {
            rtt: stats.rtt,
            queue: stats.queue,
            loss: stats.loss,
            rate_bps: stats.rate_bps,
            arrival_rate_bps: stats.arrival_rate_bps,
            breaker: stats.breaker,
            phase: stats.rate_control.map(|control| control.phase),
            capacity_bps: stats.rate_control.and_then(|control| control.capacity_bps),
            packet_bytes: stats.packet_bytes,
        }
    }
}

impl Watch {
    /// Offers a new connection to the observer of `config`. `None` if there is no observer, or if it declines.
    pub(crate) fn begin(now: Time, config: &Config, connection: &Inner, opened_here: bool) -> Option<Box<Self>> {
        let observer = config.observer.as_ref()?;
        let remote = connection.remote();
        let (local_id, peer_id) = connection.ids();
        let initiator_id = if opened_here { local_id } else { peer_id };
        let beginning = Beginning { opened_here, profile: config.profile, remote, local_id, initiator_id };
        let observer = observer.begin(&beginning)?;
        // Start with the address only, so that all other properties are reported as changes.
        let state = if opened_here { State::SynSent } else { State::SynReceived };
        let mut watch = Self { observer, began: now, state, remote, keys_told: false, metrics: Metrics::default() };
        watch.tell_changes(now, connection);
        Some(Box::new(watch))
    }

    fn tell(&mut self, now: Time, event: &Observed<'_>) {
        self.observer.on_event(now.since(self.began), event);
    }

    /// Reports a received datagram of `bytes` bytes with this header. `why` is the reason for dropping it, `None` if it
    /// was accepted.
    pub(crate) fn on_received(
        &mut self,
        now: Time,
        (outline, bytes): (Option<&Outline>, usize),
        why: Option<Dropped>,
        connection: &Inner,
    ) {
        let bytes = bytes as u64;
        let datagram = outline.map(|outline| DatagramInfo::new(outline, bytes));
        match (why, datagram) {
            (Some(why), datagram) => self.tell(now, &Observed::DatagramDropped { datagram, bytes, why }),
            (None, Some(datagram)) => self.tell(now, &Observed::DatagramReceived(datagram)),
            // Unreachable: every accepted datagram has a header.
            (None, None) => {}
        }
        self.tell_changes(now, connection);
        self.tell_metrics(now, connection);
    }

    /// Reports changes and metrics after a timeout.
    pub(crate) fn on_timeout(&mut self, now: Time, connection: &Inner) {
        self.tell_changes(now, connection);
        self.tell_metrics(now, connection);
    }

    /// Reports the datagram that was written to `out`, if any.
    pub(crate) fn on_transmit(&mut self, now: Time, sent: Option<&Transmit>, out: &[u8], connection: &Inner) {
        if let Some(transmit) = sent
            && let Some(Ok(outline)) = out.get(..transmit.length).map(Outline::of)
        {
            let bytes = transmit.length as u64 + u64::from(transmit.virtual_bytes);
            self.tell(now, &Observed::DatagramSent(DatagramInfo::new(&outline, bytes)));
        }
        self.tell_changes(now, connection);
    }

    fn tell_changes(&mut self, now: Time, connection: &Inner) {
        if !self.keys_told
            && let Some(identity) = connection.identity()
        {
            self.keys_told = true;
            self.tell(now, &Observed::KeysAgreed(&identity));
        }
        let remote = connection.remote();
        if remote != self.remote {
            self.remote = remote;
            self.tell(now, &Observed::PathChanged { remote });
        }
        let (from, to) = (self.state, connection.state());
        if from == to {
            return;
        }
        self.state = to;
        self.tell(now, &Observed::StateChanged { from, to });
        if to == State::Closed {
            let stats = connection.stats();
            self.tell(now, &Observed::Closed { error: connection.error(), stats: &stats });
        }
    }

    fn tell_metrics(&mut self, now: Time, connection: &Inner) {
        if self.state == State::Closed {
            return;
        }
        let stats = connection.stats();
        let metrics = Metrics::of(&stats);
        if metrics != self.metrics {
            self.metrics = metrics;
            self.tell(now, &Observed::MetricsUpdated(&stats));
        }
    }
}
