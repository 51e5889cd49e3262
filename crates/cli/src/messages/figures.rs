//! Counts of messages in one direction, for display.

use std::time::Duration;

use dfcp_files::transport::PathSample;
use dfcp_framing::messages::{Came, Sent};
use serde::Serialize;

use crate::output;
use crate::progress::SILENCE_SHOWN;
use crate::units::human_percent;

/// Counts of messages in one direction, so far or final.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Time since the start, s.
    pub seconds: f64,
    /// Messages that the application submitted.
    pub offered: u64,
    /// Messages whose first datagram was sent.
    pub begun: u64,
    /// Messages dropped because there was no room before their deadline.
    pub unsent: u64,
    /// Messages that arrived on time and were read.
    pub in_time: u64,
    /// Messages completed after their deadline.
    pub late: u64,
    /// Messages that arrived on time and were dropped unread for lack of room.
    pub unread: u64,
    /// Messages never completed, or discarded incomplete after their deadline; `None` before the end.
    pub lost: Option<u64>,
    /// Bytes of the messages on time.
    pub bytes: u64,
    /// Latency from submission to delivery of the messages on time, ms; half of the minimum RTT stands for the one-way delay.
    pub latency_ms: Option<Latency>,
    /// Datagrams with message symbols.
    pub datagrams: u64,
    /// Number of these datagrams that carry source symbols.
    pub source_symbols: u64,
    /// Path statistics of the sending side.
    pub path: Option<PathSample>,
    /// Time since the last datagram from the peer.
    #[serde(skip)]
    pub silence: Duration,
}

/// Latency of messages, ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Maximum.
    pub max: f64,
}

impl Figures {
    /// Combines the counters of both ends. `rtt_ms` is the minimum RTT.
    pub(super) fn new(sent: Sent, came: Came, path: Option<PathSample>, rtt_ms: Option<f64>) -> Self {
        let is_over = sent.is_final && came.is_final;
        let [p50, p99, p99_9, max] = came.waited_us.map(|us| us as f64 / 1e3 + rtt_ms.unwrap_or_default() / 2.0);
        Self {
            offered: sent.offered,
            begun: sent.begun,
            unsent: sent.unsent,
            in_time: came.in_time,
            late: came.late,
            unread: came.unread,
            lost: is_over.then(|| sent.begun.saturating_sub(came.known())),
            bytes: came.bytes,
            latency_ms: rtt_ms.filter(|_| came.in_time > 0).map(|_| Latency { p50, p99, p99_9, max }),
            datagrams: sent.datagrams,
            source_symbols: sent.source_symbols,
            path,
            ..Self::default()
        }
    }

    pub(super) fn after(self, seconds: f64, silence: Duration) -> Self {
        Self { seconds, silence, ..self }
    }

    /// Returns the increase of the counters since `earlier`; latencies and path are copied.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            seconds: (self.seconds - earlier.seconds).max(0.0),
            offered: self.offered.saturating_sub(earlier.offered),
            begun: self.begun.saturating_sub(earlier.begun),
            unsent: self.unsent.saturating_sub(earlier.unsent),
            in_time: self.in_time.saturating_sub(earlier.in_time),
            late: self.late.saturating_sub(earlier.late),
            unread: self.unread.saturating_sub(earlier.unread),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            datagrams: self.datagrams.saturating_sub(earlier.datagrams),
            source_symbols: self.source_symbols.saturating_sub(earlier.source_symbols),
            ..*self
        }
    }

    /// Returns the datagrams per message that was started; `None` if no message was started.
    pub fn datagrams_per_message(&self) -> Option<f64> {
        (self.begun > 0).then(|| self.datagrams as f64 / self.begun as f64)
    }

    /// Returns the ratio of IP bytes sent to bytes delivered on time; `None` while unknown.
    pub fn ip_bytes_per_byte(&self) -> Option<f64> {
        let sent_bytes = self.path?.ip_bytes_sent;
        (self.bytes > 0).then(|| sent_bytes as f64 / self.bytes as f64)
    }

    /// Formats a text line; with `total`, it has all counts, for the end of a measurement.
    pub fn describe(&self, total: bool) -> String {
        let mut text = format!("{} messages", self.offered);
        let mut add = |count: u64, what: &str| {
            if count > 0 || (total && what != "unsent" && what != "unread") {
                text += &format!("  {what} {count}");
            }
        };
        add(self.unsent, "unsent");
        add(self.in_time, "in time");
        add(self.late, "late");
        add(self.unread, "unread");
        if let Some(lost) = self.lost.filter(|_| total) {
            add(lost, "lost");
            let missed = 1.0 - self.in_time as f64 / self.offered.max(1) as f64;
            text += &format!("  missed {}", human_percent(missed));
        }
        if let Some(latency) = self.latency_ms.filter(|_| total) {
            let Latency { p50, p99, p99_9, max } = latency;
            text += &format!("  latency {p50:.1} ms (99 %: {p99:.1}, 99.9 %: {p99_9:.1}, most {max:.1})");
        }
        if let Some(each) = self.datagrams_per_message() {
            text += &format!("  {each:.3} datagrams each");
        }
        if let Some(path) = self.path {
            let rtt = path.rtt_ms.map_or_else(|| "–".to_owned(), |rtt_ms| format!("{rtt_ms:.1} ms"));
            text += &format!("  rtt {rtt}");
        }
        if self.silence >= SILENCE_SHOWN && !total {
            text += &format!("  {}", output::nothing_heard(self.silence));
        }
        text
    }
}
