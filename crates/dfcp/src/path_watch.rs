//! Path estimates for applications that adapt to the path, like video encoders.

use std::time::Duration;

use dfcp_proto::{BreakerState, Stats};
use dfcp_time::Time;
use tokio::sync::watch;

use crate::limits;

/// Current estimates of a connection's path, in the direction from this side to the peer.
///
/// Advice: offer at most `rate_bps`, headers and repair symbols included. With a loss of `loss`, each written byte
/// costs about `1 / (1 - loss)` bytes of that rate. Bytes written in excess wait in the send buffer.
///
/// ```
/// use dfcp::PathEstimates;
///
/// /// Bits per second that an encoder may produce if every frame shall be delivered without waiting.
/// fn target_bps(path: &PathEstimates, most: u64) -> f64 {
///     path.rate_bps.unwrap_or(most).min(most) as f64 * (1.0 - path.loss) * 0.9
/// }
/// assert_eq!(target_bps(&PathEstimates::default(), 1_000_000), 900_000.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PathEstimates {
    /// Current sending rate, bits of IP packets per second: the configured or discovered rate, or less while the peer
    /// or the circuit breaker limits it. `None` at line rate.
    pub rate_bps: Option<u64>,
    /// Arrival rate that the peer reports, bits per second.
    pub arrival_rate_bps: u64,
    /// Smoothed round-trip time. `None` before the first sample.
    #[cfg_attr(feature = "serde", serde(rename = "rtt_ms", serialize_with = "as_milliseconds"))]
    pub rtt: Option<Duration>,
    /// Queueing delay of this side's datagrams above the recent minimum, whichever flow fills the queue. `None` before
    /// the first sample.
    #[cfg_attr(feature = "serde", serde(rename = "queue_ms", serialize_with = "as_milliseconds"))]
    pub queue: Option<Duration>,
    /// Fraction of datagrams that the path loses, 0 to 1. Without samples, 0.05.
    pub loss: f64,
    /// Size of the largest IP packets for data now, bytes, as found so far by packet size discovery. Zero in classic.
    pub packet_bytes: u16,
    /// State of the circuit breaker. While it is `Testing`, the rate is halved for a second and says nothing about the
    /// path.
    pub breaker: BreakerState,
}

#[cfg(feature = "serde")]
#[expect(clippy::ref_option, reason = "serde's signature")]
fn as_milliseconds<S: serde::Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&span.map(|span| span.as_secs_f64() * 1e3), serializer)
}

impl From<&Stats> for PathEstimates {
    fn from(stats: &Stats) -> Self {
        Self {
            rate_bps: (stats.rate_bps > 0).then_some(stats.rate_bps),
            arrival_rate_bps: stats.arrival_rate_bps,
            rtt: (!stats.rtt.is_zero()).then_some(stats.rtt),
            queue: stats.queue,
            loss: stats.loss,
            packet_bytes: stats.packet_bytes,
            breaker: stats.breaker,
        }
    }
}

/// Watches a connection's [`PathEstimates`]; from [`Stream::watch_path`](crate::Stream::watch_path).
///
/// Values that are overtaken before they are read are skipped: a watch is a state, not a history. There are at most
/// twenty new values per second. A watch does not keep the connection open. Each clone tracks separately which values
/// it has returned.
///
/// ```
/// # use dfcp::{Config, Listener, Stream};
/// # use tokio::io::AsyncWriteExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let key = dfcp::generate_key()?;
/// # let public = key.public();
/// # let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Config::server(key))?;
/// # let server = listener.local_addr()?;
/// # let (stream, _peer) = tokio::try_join!(
/// #     async { Ok(Stream::connect(server, Config::client(public)).await?) },
/// #     listener.accept(),
/// # )?;
/// let mut path = stream.watch_path();
/// tokio::spawn(async move {
///     while let Some(now) = path.changed().await {
///         let bits = now.rate_bps.unwrap_or(1_000_000_000) as f64 * (1.0 - now.loss) * 0.9;
///         println!("the encoder may make {bits:.0} bit/s");
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PathWatch {
    estimates: watch::Receiver<PathEstimates>,
}

impl PathWatch {
    /// Returns the newest estimates; once the connection is over, the last ones.
    #[must_use]
    pub fn latest(&self) -> PathEstimates {
        *self.estimates.borrow()
    }

    /// Waits for estimates that this watch has not yet returned. Returns `None` once the connection is over, including
    /// TIME_WAIT.
    ///
    /// Cancel-safe: a future dropped before it is ready has taken nothing, and the next call returns the changes since.
    pub async fn changed(&mut self) -> Option<PathEstimates> {
        self.estimates.changed().await.ok()?;
        Some(*self.estimates.borrow_and_update())
    }
}

/// Publishes the estimates of one connection to its watches.
#[derive(Debug)]
pub(crate) struct PathPublisher {
    estimates: watch::Sender<PathEstimates>,
    published_at: Time,
    /// The connection was served since the last publication, so the estimates may have changed.
    is_stale: bool,
}

impl PathPublisher {
    /// Starts with the estimates of `stats`, published at `now`.
    pub(crate) fn new(now: Time, stats: &Stats) -> Self {
        Self { estimates: watch::Sender::new(stats.into()), published_at: now, is_stale: false }
    }

    /// Returns a further watch, whose first `changed` returns the current estimates.
    pub(crate) fn watch(&self) -> PathWatch {
        let mut estimates = self.estimates.subscribe();
        estimates.mark_changed();
        PathWatch { estimates }
    }

    /// Called after the connection was served: publishes changed estimates if the last publication is old enough.
    pub(crate) fn on_served(&mut self, now: Time, stats: impl FnOnce() -> Stats) {
        self.is_stale = true;
        if now.since(self.published_at) < limits::PATH_WATCH_INTERVAL {
            return;
        }
        (self.is_stale, self.published_at) = (false, now);
        self.publish(&stats());
    }

    /// Called when the connection is over: publishes the last estimates, and ends all watches.
    pub(crate) fn end(self, stats: &Stats) {
        self.publish(stats);
    }

    fn publish(&self, stats: &Stats) {
        let latest = PathEstimates::from(stats);
        self.estimates.send_if_modified(|estimates| std::mem::replace(estimates, latest) != latest);
    }

    /// Returns the time by which the connection must be served to publish pending estimates.
    pub(crate) fn due_at(&self) -> Option<Time> {
        self.is_stale.then_some(self.published_at + limits::PATH_WATCH_INTERVAL)
    }

    /// Returns true if no watch is left.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.estimates.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_s(1) + Duration::from_millis(ms)
    }

    fn with_rate(rate_bps: u64) -> Stats {
        let mut stats = Stats::default();
        stats.rate_bps = rate_bps;
        stats
    }

    #[tokio::test]
    async fn news_come_twenty_times_a_second_at_most_and_the_last_is_never_kept_back() {
        let mut publisher = PathPublisher::new(at(0), &with_rate(1));
        let mut watch = publisher.watch();
        assert_eq!(watch.changed().await.unwrap().rate_bps, Some(1), "what is known at first is news");
        let mut seen = 0;
        for ms in 1..=1_000 {
            publisher.on_served(at(ms), || with_rate(1 + ms));
            if let Some(Some(_)) = std::future::poll_fn(|cx| {
                let poll = std::pin::pin!(watch.changed()).poll(cx);
                std::task::Poll::Ready(if let std::task::Poll::Ready(it) = poll { Some(it) } else { None })
            })
            .await
            {
                seen += 1;
            }
        }
        assert_eq!(seen, 20);
        publisher.on_served(at(1_010), || with_rate(7));
        assert_eq!((watch.latest().rate_bps, publisher.due_at()), (Some(1_001), Some(at(1_050))));
        publisher.on_served(at(1_050), || with_rate(7));
        assert_eq!((watch.changed().await.unwrap().rate_bps, publisher.due_at()), (Some(7), None));
    }

    #[tokio::test]
    async fn a_watch_ends_with_the_connection_and_keeps_the_last_estimates() {
        let publisher = PathPublisher::new(at(0), &with_rate(5));
        let mut watch = publisher.watch();
        let late = publisher.watch();
        publisher.end(&with_rate(6));
        assert_eq!(watch.changed().await.map(|it| it.rate_bps), Some(Some(6)));
        assert_eq!(watch.changed().await, None);
        assert_eq!(late.latest().rate_bps, Some(6));
    }

    #[test]
    fn estimates_which_stay_wake_nobody_and_nobody_costs_nothing() {
        let mut publisher = PathPublisher::new(at(0), &with_rate(5));
        let mut watch = publisher.watch();
        watch.estimates.mark_unchanged();
        publisher.on_served(at(100), || with_rate(5));
        assert!(!watch.estimates.has_changed().unwrap());
        assert!(!publisher.is_unwatched());
        drop(watch);
        assert!(publisher.is_unwatched());
    }
}
