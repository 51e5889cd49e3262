//! Estimator: models the queue by the arrivals of test packets, and measures while it is busy.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use crate::config::{Config, ConfigError};
use crate::limits::BACKWARDS_MAX;
use crate::summary::{BusyPeriod, Summary};

/// Received test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Sequence number. A caller without numbers counts arrivals, and uses [`Config::unnumbered`].
    pub number: u64,
    /// Departure by the sender's clock, if known. Spacings then follow these times, so that a late sender does not look like a queue;
    /// otherwise they are [`Config::interval`] per number.
    pub sent: Option<Time>,
    /// Arrival by the receiver's clock. The two clocks need no common epoch.
    pub at: Time,
    /// Bytes of its IP packet, which count as served; 0 if [`Estimator::traffic`] counts them.
    pub size_bytes: u32,
}

/// Counts of packets and periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Test packets that arrived, in order.
    pub probes: u64,
    /// Missing sequence numbers between these test packets: lost, or late.
    pub missing: u64,
    /// Test packets with a repeated or smaller number, which have no effect: duplicates, and late ones.
    pub late: u64,
    /// Models started.
    pub models: u64,
    /// Models ended by a gap, with their busy periods.
    pub gaps: u64,
    /// Busy periods with a single test packet, and so without a duration.
    pub single: u64,
    /// Packets with a time before that of an earlier one.
    pub backwards: u64,
    /// Longest modelled wait of a test packet.
    pub longest_queue: Duration,
}

/// Error: time went back by more than [`BACKWARDS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of the time {at} follows one of {latest}: observations must be in order of time")]
pub struct TimeError {
    /// Time of the faulty packet.
    pub at: Time,
    /// Latest time before it.
    pub latest: Time,
}

/// State while the queue is modelled (`m` of the algorithm).
#[derive(Clone, Copy, Debug)]
struct Model {
    since: Time,
    /// `q`: modelled wait of the latest test packet, ns.
    queue_ns: u64,
    /// State while the queue is busy (`b`).
    busy: Option<Busy>,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    /// Arrival of the first test packet (`t[s]`), with the byte count at that time.
    start: Time,
    start_bytes: u64,
    /// Arrival of the latest test packet at or above the threshold.
    end: Time,
    end_bytes: u64,
}

/// Estimator of a queue's rate from its output. Constant memory.
///
/// The algorithm is that of thesis group 5. Decisions where the thesis is silent or cannot be followed literally:
///
/// * *Tolerance.* The queue counts as empty if a spacing differs from the one sent by at most [`Config::tolerance`]. It may really be a
///   queue of constant length, which the model then underestimates: a busy period may be missed or shortened, but a found one is busy.
/// * *Clamping.* The modelled queue is never below 0 (Lindley's recursion): a test packet that is early shows that the
///   queue was shorter than modelled, not that it is negative.
/// * *Lost test packets.* Spacings are compared with those sent, by number or by the sender's time.
/// * *Ends.* A busy period extends from the first test packet at or above the threshold to the last one. A period with a single test
///   packet, or open at the end, is discarded.
/// * *Drift.* A model ends after [`Config::restart_after`] without a busy period, as does a busy period, which counts up to there. The next
///   spacing equal to the one sent starts a new model.
#[derive(Clone, Debug)]
pub struct Estimator {
    config: Config,
    last: Option<Probe>,
    model: Option<Model>,
    /// Bytes so far.
    bytes: u64,
    latest: Time,
    counts: Counts,
    summary: Summary,
}

impl Estimator {
    /// Creates an estimator.
    ///
    /// # Errors
    /// Fails if a parameter is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            last: None,
            model: None,
            bytes: 0,
            latest: Time::ZERO,
            counts: Counts::default(),
            summary: Summary::default(),
        })
    }

    /// Records that `bytes` (of IP packets) of the user's traffic have arrived by `at`, since the last call.
    ///
    /// # Errors
    /// Fails, without effect, if time goes back.
    pub fn traffic(&mut self, at: Time, bytes: u64) -> Result<(), TimeError> {
        self.advance(at)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Processes a received test packet. Returns the busy period that it ends, if any.
    ///
    /// # Errors
    /// Fails, without effect, if time goes back.
    pub fn probe(&mut self, probe: Probe) -> Result<Option<BusyPeriod>, TimeError> {
        let probe = Probe { at: self.advance(probe.at)?, ..probe };
        // The queue served late and duplicate packets too.
        self.bytes = self.bytes.saturating_add(u64::from(probe.size_bytes));
        let Some(last) = self.last else {
            self.counts.probes += 1;
            self.last = Some(probe);
            return Ok(None);
        };
        if probe.number <= last.number {
            self.counts.late += 1;
            return Ok(None);
        }
        self.counts.probes += 1;
        self.counts.missing = self.counts.missing.saturating_add(probe.number - last.number - 1);
        self.last = Some(probe);
        let period = self.step(&last, &probe);
        if let Some(period) = &period {
            self.summary.add(period);
        }
        Ok(period)
    }

    /// Round of the algorithm's loop (lines 3 to 16) for two successive test packets.
    fn step(&mut self, last: &Probe, probe: &Probe) -> Option<BusyPeriod> {
        let spacing_ns = probe.at.as_ns() - last.at.as_ns();
        let sent_ns = self.spacing_sent_ns(last, probe);
        let Some(mut model) = self.model.take() else {
            // Line 3, with a tolerance.
            if spacing_ns.abs_diff(sent_ns) <= duration_ns(self.config.tolerance) {
                self.counts.models += 1;
                self.model = Some(Model { since: probe.at, queue_ns: 0, busy: None });
            }
            return None;
        };
        // Line 6: an open busy period is discarded with the model.
        if spacing_ns > duration_ns(self.config.gap) {
            self.counts.gaps += 1;
            return None;
        }
        // Line 10, clamped.
        model.queue_ns = model.queue_ns.saturating_add(spacing_ns).saturating_sub(sent_ns);
        self.counts.longest_queue = self.counts.longest_queue.max(Duration::from_nanos(model.queue_ns));
        let period = if model.queue_ns >= duration_ns(self.config.threshold) {
            self.go_on(&mut model, probe.at)
        } else {
            model.busy.take().and_then(|busy| self.close(busy, false))
        };
        let is_over = model.busy.is_none() && probe.at.since(model.since) >= self.config.restart_after;
        if period.is_none_or(|period| !period.is_cut) && !is_over {
            self.model = Some(model);
        }
        period
    }

    /// Continues a busy period (lines 11 to 13). Returns it if it has reached its longest duration.
    fn go_on(&mut self, model: &mut Model, at: Time) -> Option<BusyPeriod> {
        let bytes = self.bytes;
        let busy = model.busy.get_or_insert(Busy { start: at, start_bytes: bytes, end: at, end_bytes: bytes });
        (busy.end, busy.end_bytes) = (at, bytes);
        let is_long = at.since(busy.start) >= self.config.restart_after;
        if is_long { model.busy.take().and_then(|busy| self.close(busy, true)) } else { None }
    }

    /// Ends a busy period (line 15) at the last test packet at or above the threshold.
    fn close(&mut self, busy: Busy, is_cut: bool) -> Option<BusyPeriod> {
        if busy.end <= busy.start {
            self.counts.single += 1;
            return None;
        }
        let bytes = busy.end_bytes - busy.start_bytes;
        Some(BusyPeriod { start: busy.start, end: busy.end, bytes, is_cut })
    }

    /// Spacing of two test packets at the sender, ns.
    fn spacing_sent_ns(&self, last: &Probe, probe: &Probe) -> u64 {
        match (last.sent, probe.sent) {
            (Some(earlier), Some(later)) => later.as_ns().saturating_sub(earlier.as_ns()),
            _ => duration_ns(self.config.interval).saturating_mul(probe.number - last.number),
        }
    }

    /// Advances time to `at`; returns the effective time of the packet.
    fn advance(&mut self, at: Time) -> Result<Time, TimeError> {
        if at < self.latest {
            if self.latest.since(at) > BACKWARDS_MAX {
                return Err(TimeError { at, latest: self.latest });
            }
            self.counts.backwards += 1;
        }
        self.latest = self.latest.max(at);
        Ok(self.latest)
    }

    /// Discards the test packets so far and the model with its busy period, but no finished period: used when numbers restart, or arrivals
    /// were missed.
    pub fn restart(&mut self) {
        (self.last, self.model) = (None, None);
    }

    /// Parameters of the estimator.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Summary of all busy periods so far.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// All bytes so far, test packets included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Modelled wait of the latest test packet; `None` without a model.
    #[must_use]
    pub fn queue(&self) -> Option<Duration> {
        self.model.map(|model| Duration::from_nanos(model.queue_ns))
    }
}

#[cfg(test)]
mod tests;
