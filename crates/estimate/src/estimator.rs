//! The algorithm: models the queue by the arrivals of test packets, and measures while it is busy.

use std::time::Duration;

use dfcp_time::{Time, duration_ns};

use crate::config::{Config, ConfigError};
use crate::limits::BACKWARDS_MAX;
use crate::summary::{BusyPeriod, Summary};

/// A test packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number: each that is sent has the next one. A caller without numbers counts those which arrive, and configures
    /// [`Config::unnumbered`].
    pub number: u64,
    /// Time at which it left, by the sender's clock, if that is known. Spacings are then those of these times, so that an unpunctual sender
    /// is not taken for a queue; else they are [`Config::interval`] for each number.
    pub sent: Option<Time>,
    /// Time at which it arrived, by the receiver's clock. The two clocks need no common epoch.
    pub at: Time,
    /// Bytes of its IP packet, which are part of what the queue served; 0 if [`Estimator::traffic`] has them.
    pub size_bytes: u32,
}

/// Packets and periods counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Test packets that arrived, in order.
    pub probes: u64,
    /// Numbers left out between them: lost, as far as they did not come late.
    pub missing: u64,
    /// Test packets with the number of one before or a smaller one, which had no effect: duplicates, and late ones.
    pub late: u64,
    /// Models begun.
    pub models: u64,
    /// Models which a gap ended, with their busy periods.
    pub gaps: u64,
    /// Busy periods with a single test packet, which has no duration.
    pub single: u64,
    /// Packets with a time before that of an earlier one.
    pub backwards: u64,
    /// The longest wait of a test packet, as modelled.
    pub longest_queue: Duration,
}

/// Time went back by more than [`BACKWARDS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of the time {at} follows one of {latest}: observations must be in order of time")]
pub struct TimeError {
    /// Time of the packet at fault.
    pub at: Time,
    /// The latest time before it.
    pub latest: Time,
}

/// While the queue is modelled (`m` of the algorithm).
#[derive(Clone, Copy, Debug)]
struct Model {
    since: Time,
    /// `q`: for how long the latest test packet waited, ns.
    queue_ns: u64,
    /// While the queue is busy (`b`).
    busy: Option<Busy>,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    /// Arrival of the first test packet (`t[s]`), and all bytes until then.
    start: Time,
    start_bytes: u64,
    /// Time of the latest test packet.
    end: Time,
    end_bytes: u64,
}

/// Estimates the rate of a queue from what leaves it. Constant memory.
///
/// The algorithm is that of thesis group 5. Decided here, where it says nothing or cannot be followed to the letter:
///
/// * *Tolerance.* The queue counts as empty when a spacing differs from the one sent by at most [`Config::tolerance`]. It may
///   in fact be a queue of constant length; the model then sees less of the queue than there is. So a busy period may be
///   missed or shortened by that, but what is found is busy.
/// * *Clamping.* The modelled queue is never below 0 (Lindley's recursion): a test packet that is early shows that the
///   queue was shorter than modelled, not that it is negative.
/// * *Lost test packets.* Spacings are compared with those sent, by number or by the sender's time.
/// * *Ends.* A busy period goes from the first test packet at or above the threshold to the last one; one with a single
///   test packet says nothing, and neither does one that is open at the end.
/// * *Drift.* A model ends after [`Config::restart_after`] without a busy period, and so does a busy period, which counts as
///   far as it went. The next spacing as sent begins a new model.
#[derive(Clone, Debug)]
pub struct Estimator {
    config: Config,
    last: Option<Probe>,
    model: Option<Model>,
    /// All bytes so far.
    bytes: u64,
    latest: Time,
    counts: Counts,
    summary: Summary,
}

impl Estimator {
    /// An estimator that has seen nothing.
    ///
    /// # Errors
    /// A parameter outside its range.
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

    /// `bytes` (of IP packets) of the user's traffic arrived at `at`, one packet or several since the last call.
    ///
    /// # Errors
    /// Time goes back; nothing has changed then.
    pub fn traffic(&mut self, at: Time, bytes: u64) -> Result<(), TimeError> {
        self.advance(at)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// A test packet arrived. Returns the busy period that it ends, if it ends one.
    ///
    /// # Errors
    /// Time goes back; nothing has changed then.
    pub fn probe(&mut self, probe: Probe) -> Result<Option<BusyPeriod>, TimeError> {
        let probe = Probe { at: self.advance(probe.at)?, ..probe };
        // Late and duplicate packets were served by the queue as well.
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

    /// One round of the algorithm's loop (lines 3 to 16), for two test packets which follow each other.
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
        // Line 6: an open busy period is thrown away with the model.
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

    /// The queue is busy (lines 11 to 13). Returns the busy period if it lasts too long.
    fn go_on(&mut self, model: &mut Model, at: Time) -> Option<BusyPeriod> {
        let bytes = self.bytes;
        let busy = model.busy.get_or_insert(Busy { start: at, start_bytes: bytes, end: at, end_bytes: bytes });
        (busy.end, busy.end_bytes) = (at, bytes);
        let is_long = at.since(busy.start) >= self.config.restart_after;
        if is_long { model.busy.take().and_then(|busy| self.close(busy, true)) } else { None }
    }

    /// The busy period is over (line 15): it was measured up to the last test packet at or above the threshold.
    fn close(&mut self, busy: Busy, is_cut: bool) -> Option<BusyPeriod> {
        if busy.end <= busy.start {
            self.counts.single += 1;
            return None;
        }
        let bytes = busy.end_bytes - busy.start_bytes;
        Some(BusyPeriod { start: busy.start, end: busy.end, bytes, is_cut })
    }

    /// Spacing of the two at the sender, ns.
    fn spacing_sent_ns(&self, last: &Probe, probe: &Probe) -> u64 {
        match (last.sent, probe.sent) {
            (Some(earlier), Some(later)) => later.as_ns().saturating_sub(earlier.as_ns()),
            _ => duration_ns(self.config.interval).saturating_mul(probe.number - last.number),
        }
    }

    /// Lets time pass until `at`, and returns the time that counts as that of the packet.
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

    /// Forgets the test packets so far and the model with its busy period, but nothing that is finished: what follows has other numbers, or
    /// it is not known what came meanwhile.
    pub fn restart(&mut self) {
        (self.last, self.model) = (None, None);
    }

    /// The parameters.
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

    /// Time that the latest test packet waited in the queue, as modelled; `None` without a model.
    #[must_use]
    pub fn queue(&self) -> Option<Duration> {
        self.model.map(|model| Duration::from_nanos(model.queue_ns))
    }
}

#[cfg(test)]
mod tests;
