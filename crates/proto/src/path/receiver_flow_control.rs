//! Flow control by the peer's receive buffer, for a sender without a congestion window: it limits the data in flight
//! (`spec/protocol.md` \[plan-7\]).

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use crate::limits::{IN_FLIGHT_MAX, LOSS_BELIEVED_MAX, PEER_QUEUE_DATAGRAMS_MIN};
use crate::path::windowed::WindowedMin;

/// Unit of the queue size in reports, bytes.
pub(crate) const QUEUE_UNIT_BYTES: u64 = 1024;

/// Length of a window part. Minima are taken over two parts, 5 to 10 s.
const MEMORY: Duration = Duration::from_secs(5);

/// Limit on the number of data datagrams in flight.
#[derive(Debug)]
pub(crate) struct ReceiverFlowControl {
    /// Windowed minimum RTT: the path's own, without a queue.
    least_rtt: WindowedMin<Duration, 2>,
    /// Windowed minimum loss rate: the path's own, without drops at the receiver.
    least_loss: WindowedMin<f64, 2>,
    /// Allowance from the newest report; `None` is no limit.
    room: Option<Room>,
    /// Number of connections that share the receive buffer.
    sharers: usize,
    in_flight_max: usize,
}

/// Inputs from which the maximum number of datagrams in flight is computed.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Bandwidth-delay product of the path, including one report interval, bytes.
    path_bytes: f64,
    /// Receive buffer of the peer, bytes.
    queue_bytes: f64,
    /// Data bytes per datagram.
    datagram_bytes: f64,
    /// Loss rate, 0 to 1.
    loss: f64,
}

/// Receive buffer of the peer, as reported, and the sender's rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueReport {
    /// Receive buffer of the peer's system for this connection, bytes; 0 if unknown.
    pub(crate) queue_bytes: u64,
    pub(crate) arrival_rate_bps: u64,
    /// Configured or automatic rate of this sender, bit/s; `None` is the line rate.
    pub(crate) rate_bps: Option<u64>,
    pub(crate) rtt: Option<Duration>,
    /// Interval of the receiver's reports.
    pub(crate) interval: Duration,
}

impl Default for ReceiverFlowControl {
    fn default() -> Self {
        Self {
            least_rtt: WindowedMin::new(),
            least_loss: WindowedMin::new(),
            room: None,
            sharers: 1,
            in_flight_max: IN_FLIGHT_MAX,
        }
    }
}

impl ReceiverFlowControl {
    /// Returns the maximum number of data datagrams in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    /// Takes in a report. Datagrams in flight beyond the path's capacity may all be waiting in the peer's buffer.
    /// `loss` is the current loss rate; only its minimum counts, because loss caused by outrunning the peer must not
    /// raise the limit.
    pub(crate) fn on_report(&mut self, now: Time, datagram_bytes: usize, loss: f64, report: QueueReport) {
        let part = now.as_ns() / duration_ns(MEMORY);
        if let Some(rtt) = report.rtt {
            self.least_rtt.update(part, rtt);
        }
        self.least_loss.update(part, loss);
        self.room = self.least_rtt.get().filter(|_| report.queue_bytes > 0).map(|least| {
            // A paced sender keeps to its rate from the first datagram on, for any RTT. At line rate, twice the arrival
            // rate lets the data in flight double in each round trip, until the path is full.
            let rate_bps = report.rate_bps.unwrap_or_else(|| report.arrival_rate_bps.saturating_mul(2));
            let path_bytes = rate_bps as f64 / 8.0 * (least + report.interval).as_secs_f64();
            let loss = self.least_loss.get().unwrap_or_default().clamp(0.0, LOSS_BELIEVED_MAX);
            let (queue_bytes, datagram_bytes) = (report.queue_bytes as f64, datagram_bytes.max(1) as f64);
            Room { path_bytes, queue_bytes, datagram_bytes, loss }
        });
        self.divide();
    }

    /// Returns the state for a new path to the same peer. The last reported buffer size is kept.
    pub(crate) fn onto_other_path(self) -> Self {
        Self { least_rtt: WindowedMin::new(), least_loss: WindowedMin::new(), ..self }
    }

    /// Sets the number of connections that share the buffer, at least 1.
    pub(crate) fn set_sharers(&mut self, sharers: usize) {
        if sharers != self.sharers {
            self.sharers = sharers.max(1);
            self.divide();
        }
    }

    /// Returns the minimum RTT of the last 5 to 10 s.
    pub(crate) fn least_rtt(&self) -> Option<Duration> {
        self.least_rtt.get()
    }

    fn divide(&mut self) {
        self.in_flight_max = self.room.map_or(IN_FLIGHT_MAX, |room| {
            let sent_bytes = (room.queue_bytes / self.sharers as f64 + room.path_bytes) / (1.0 - room.loss);
            let datagrams = (sent_bytes / room.datagram_bytes) as usize;
            datagrams.clamp(PEER_QUEUE_DATAGRAMS_MIN, IN_FLIGHT_MAX)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: QueueReport = QueueReport {
        queue_bytes: 1_000_000,
        arrival_rate_bps: 400_000_000,
        rate_bps: None,
        rtt: Some(Duration::from_millis(9)),
        interval: Duration::from_millis(1),
    };

    fn with_loss(loss: f64, reports: &[(u64, QueueReport)]) -> usize {
        let mut queue = ReceiverFlowControl::default();
        reports.iter().for_each(|&(at_ms, report)| queue.on_report(Time::from_ms(at_ms), 1_000, loss, report));
        queue.in_flight_max()
    }

    fn in_flight_max(reports: &[(u64, QueueReport)]) -> usize {
        with_loss(0.0, reports)
    }

    #[test]
    fn the_path_and_the_queue_may_be_full() {
        assert_eq!(in_flight_max(&[(0, REPORT)]), 2_000, "1 MB, and twice 50 MB/s for 10 ms");
        assert_eq!(in_flight_max(&[(0, QueueReport { rate_bps: Some(80_000_000), ..REPORT })]), 1_100);
        assert_eq!(with_loss(0.5, &[(0, REPORT)]), 4_000);
        assert_eq!(with_loss(1.0, &[(0, REPORT)]), 8_000, "no more than that is believed");
    }

    #[test]
    fn the_queue_is_divided_and_the_path_is_not() {
        let mut queue = ReceiverFlowControl::default();
        queue.set_sharers(4);
        assert_eq!(queue.in_flight_max(), IN_FLIGHT_MAX, "nothing is known");
        queue.on_report(Time::from_ms(0), 1_000, 0.0, REPORT);
        assert_eq!(queue.in_flight_max(), 1_250);
        for (sharers, datagrams) in [(2, 1_500), (1, 2_000), (0, 2_000), (usize::MAX, 1_000)] {
            queue.set_sharers(sharers);
            assert_eq!(queue.in_flight_max(), datagrams);
        }
    }

    #[test]
    fn a_peer_which_does_not_say_does_not_limit() {
        assert_eq!(in_flight_max(&[]), IN_FLIGHT_MAX);
        assert_eq!(in_flight_max(&[(0, REPORT), (1, QueueReport { queue_bytes: 0, ..REPORT })]), IN_FLIGHT_MAX);
        assert_eq!(in_flight_max(&[(0, QueueReport { rtt: None, ..REPORT })]), IN_FLIGHT_MAX);
    }

    #[test]
    fn a_standing_queue_does_not_count_as_the_path_but_a_longer_path_does_in_time() {
        let slower = QueueReport { rtt: Some(Duration::from_millis(19)), ..REPORT };
        assert_eq!(in_flight_max(&[(0, REPORT), (4_000, slower)]), 2_000);
        assert_eq!(in_flight_max(&[(0, REPORT), (5_000, slower), (10_000, slower)]), 3_000);
    }

    #[test]
    fn whatever_is_told_some_may_be_in_flight() {
        let tiny = QueueReport { queue_bytes: 1, arrival_rate_bps: 0, ..REPORT };
        assert_eq!(in_flight_max(&[(0, tiny)]), PEER_QUEUE_DATAGRAMS_MIN);
        let vast = QueueReport { queue_bytes: u64::MAX, arrival_rate_bps: u64::MAX, ..REPORT };
        assert_eq!(in_flight_max(&[(0, vast)]), IN_FLIGHT_MAX);
    }
}
