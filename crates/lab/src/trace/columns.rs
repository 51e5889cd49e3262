//! Columns of a trace's tables, for every platform.

use std::time::Duration;

use dfcp_proto::{ReceivedSymbols, Stats};

/// A value in a line of a table. `None` if it is unknown so far, or does not apply to the transport.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Column {
    /// Counter since the start of the run; a line contains its increase since the previous line.
    Count(Option<u64>),
    /// State at the end of a bin.
    State(Option<f64>),
}

pub(super) trait Row {
    /// Returns names and values of all columns, in order.
    fn columns(&self) -> Vec<(&'static str, Column)>;
}

/// Returns the fields of a line: increases of counters since `before`, and present states.
pub(super) fn since<'row, R: Row>(now: &'row R, before: &'row R) -> impl Iterator<Item = String> + use<'row, R> {
    now.columns().into_iter().zip(before.columns()).map(|((_, now), (_, before))| match (now, before) {
        (Column::Count(Some(now)), Column::Count(before)) => (now - before.unwrap_or(0)).to_string(),
        (Column::State(Some(now)), _) => now.to_string(),
        _ => String::new(),
    })
}

/// Counters and state of a flow; counters start with the run. `None` if a value is unknown so far, or does not apply to
/// the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowColumns {
    /// Application bytes delivered in order.
    pub delivered_bytes: u64,
    /// Congestion window, segments.
    pub cwnd_segments: Option<f64>,
    /// Congestion window, bytes.
    pub cwnd_bytes: Option<f64>,
    /// Smoothed round-trip time, ms.
    pub srtt_ms: Option<f64>,
    /// Retransmitted segments.
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Packets that the sender declared lost.
    pub lost_packets: Option<u64>,
    /// Blocks in flight.
    pub blocks_in_flight: Option<f64>,
    /// Encoding symbols sent.
    pub symbols_sent: Option<u64>,
    /// Data datagrams that arrived, including duplicates.
    pub symbols_arrived: Option<u64>,
    /// Data datagrams that arrived and did not help decoding.
    pub symbols_wasted: Option<u64>,
    /// Sender's estimate of the loss rate, 0 to 1.
    pub p_hat: Option<f64>,
    /// Arrival rate in the receiver's reports, 10⁶ bit/s.
    pub arrival_mbps: Option<f64>,
    /// Queueing delay measured by the receiver's clock, ms.
    pub queue_ms: Option<f64>,
}

impl Row for FlowColumns {
    fn columns(&self) -> Vec<(&'static str, Column)> {
        vec![
            ("delivered_bytes", Column::Count(Some(self.delivered_bytes))),
            ("cwnd_segments", Column::State(self.cwnd_segments)),
            ("cwnd_bytes", Column::State(self.cwnd_bytes)),
            ("srtt_ms", Column::State(self.srtt_ms)),
            ("retransmissions", Column::Count(self.retransmissions)),
            ("timeouts", Column::Count(self.timeouts)),
            ("lost_packets", Column::Count(self.lost_packets)),
            ("blocks_in_flight", Column::State(self.blocks_in_flight)),
            ("symbols_sent", Column::Count(self.symbols_sent)),
            ("symbols_arrived", Column::Count(self.symbols_arrived)),
            ("symbols_wasted", Column::Count(self.symbols_wasted)),
            ("p_hat", Column::State(self.p_hat)),
            ("arrival_mbps", Column::State(self.arrival_mbps)),
            ("queue_ms", Column::State(self.queue_ms)),
        ]
    }
}

impl FlowColumns {
    /// Sets the columns of a DFCP sender. `reports` is true in the modern profile, whose receivers send reports.
    #[must_use]
    pub fn with_dfcp_sender(self, sent: &Stats, reports: bool) -> Self {
        Self {
            srtt_ms: (!sent.rtt.is_zero()).then(|| ms(sent.rtt)),
            symbols_sent: Some(sent.sent.total()),
            p_hat: reports.then_some(sent.loss),
            arrival_mbps: reports.then_some(sent.arrival_rate_bps as f64 / 1e6),
            queue_ms: sent.queue.map(ms),
            ..self
        }
    }

    /// Sets the columns of a DFCP receiver.
    #[must_use]
    pub fn with_dfcp_receiver(self, received: &ReceivedSymbols) -> Self {
        let arrived = received.distinct() + received.duplicate;
        Self { symbols_arrived: Some(arrived), symbols_wasted: Some(arrived - received.useful), ..self }
    }
}

/// Converts a duration to milliseconds.
pub(super) fn ms(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

/// Counters and state of a bottleneck in the forward direction; counters start with the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkColumns {
    /// Queue length, packets.
    pub packets_waiting: u64,
    /// Packets that arrived at the queue.
    pub offered: u64,
    /// Packets dropped by the queue.
    pub drops: u64,
    /// Packets dropped early by RED or CoDel although the queue was not full; `None` if the platform does not report
    /// it.
    pub drops_early: Option<u64>,
    /// Packets dropped by the loss model.
    pub lost: u64,
    /// Packets delivered to the other end of the link.
    pub delivered: u64,
    /// Packets marked by the queue instead of dropped (CE, RFC 3168).
    pub marks: u64,
}

impl LinkColumns {
    /// Returns the packets dropped because the queue was full; `None` if the platform does not report early drops.
    #[must_use]
    pub fn drops_full(&self) -> Option<u64> {
        self.drops_early.map(|early| self.drops - early)
    }
}

impl Row for LinkColumns {
    fn columns(&self) -> Vec<(&'static str, Column)> {
        vec![
            ("packets_waiting", Column::State(Some(self.packets_waiting as f64))),
            ("offered", Column::Count(Some(self.offered))),
            ("drops", Column::Count(Some(self.drops))),
            ("drops_full", Column::Count(self.drops_full())),
            ("drops_early", Column::Count(self.drops_early)),
            ("lost", Column::Count(Some(self.lost))),
            ("delivered", Column::Count(Some(self.delivered))),
            ("marks", Column::Count(Some(self.marks))),
        ]
    }
}
