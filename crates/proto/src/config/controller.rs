//! Rate controllers: they find the rate of a path from what the peer reports of arrivals. A session asks for one where the
//! configured rate is automatic.
//!
//! A controller does no I/O and takes the time as an argument. It must compute alike on every machine: equal calls give equal rates, so
//! that a seed is a run.

use std::fmt;
use std::time::Duration;

use dfcp_time::Time;

use super::{PathHint, Policy};
use crate::stats::RateControlStats;

/// Progress of arrivals when one of our datagrams arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of our datagrams sent up to this one.
    pub sent: u64,
    /// Number of these that had arrived.
    pub received: u64,
    /// Departure of this datagram, by our clock.
    pub sent_at: Time,
    /// Arrival of this datagram, µs modulo 2³² of the peer's clock.
    pub arrived_us: u32,
}

/// A path whose rate is to be found.
#[derive(Clone, Copy, Debug)]
pub struct PathStart {
    /// Present time.
    pub now: Time,
    /// Size of data datagrams, bytes of IP packets.
    pub datagram_bytes: u64,
    /// Round-trip time as far as known.
    pub rtt: Duration,
    /// Datagrams sent so far.
    pub sent: u64,
    /// Rate that an earlier connection found on what may be the same path, bit/s (\[auto-12\]).
    pub hint_bps: Option<u64>,
    /// Policy beside other traffic.
    pub policy: Policy,
    /// Highest permitted rate, bit/s.
    pub max_bps: Option<u64>,
}

/// A report with news, as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct ReportSeen<'a> {
    /// Arrival of the report.
    pub now: Time,
    /// Round-trip time that the report measured.
    pub rtt: Option<Duration>,
    /// Arrivals that the report names, oldest first.
    pub marks: &'a [Mark],
    /// True if there was nothing to send at some time since the previous report.
    pub is_limited: bool,
    /// True while messages with deadlines are on their way, which a queue delays (\[auto-17\]).
    pub has_messages: bool,
}

/// A controller of one path's rate. The caller paces datagrams at [`rate_bps`](Self::rate_bps), and keeps at most
/// [`in_flight_max`](Self::in_flight_max) of them on their way.
pub trait RateController: fmt::Debug + Send + Sync {
    /// Returns the present rate, bits of IP packets per second. `None` is the rate of the line, for packet trains.
    fn rate_bps(&self) -> Option<u64>;

    /// Returns the rate without short experiments, bit/s.
    fn steady_bps(&self) -> u64;

    /// Returns the highest number of datagrams that may be in flight.
    fn in_flight_max(&self) -> usize;

    /// Takes in that `sent` datagrams have been sent in all. Returns true if [`rate_bps`](Self::rate_bps) has changed.
    fn on_sent(&mut self, sent: u64) -> bool;

    /// Takes in that there is nothing to send now.
    fn on_idle(&mut self);

    /// Takes in a report with news.
    fn on_report(&mut self, report: ReportSeen<'_>);

    /// Takes in that the peer has proven to have decoded further `bytes`.
    fn on_proven(&mut self, now: Time, bytes: u64);

    /// Sets the policy and the highest rate, bit/s, from now on.
    fn set_policy(&mut self, policy: Policy, max_bps: Option<u64>);

    /// Sets the lowest rate, bit/s, from now on; it does not exceed the highest.
    fn set_floor(&mut self, floor_bps: u64);

    /// Sets the size of data datagrams, bytes of IP packets, from now on.
    fn set_datagram_bytes(&mut self, datagram_bytes: u64);

    /// Returns true until the first packet train has been sent: the controller has learnt nothing yet.
    fn has_not_begun(&self) -> bool;

    /// Returns true if the rate found is at most `bps`.
    fn finds_at_most(&self, bps: u64) -> bool;

    /// Returns the rate and round-trip time for the next connection on this path, at most what was proven.
    fn hint(&self) -> Option<PathHint>;

    /// Returns the state for users.
    fn stats(&self) -> RateControlStats;
}

/// A factory of controllers, which a [`Config`](crate::Config) names.
pub trait RateControllerFactory: fmt::Debug + Send + Sync {
    /// Returns the controller of a path.
    fn begin(&self, path: PathStart) -> Box<dyn RateController>;
}
