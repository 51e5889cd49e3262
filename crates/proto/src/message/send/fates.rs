//! Fate of each datagram that carries a message symbol, from the loss runs of reports.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::LOSS_RUNS_MAX;
use dfcp_wire::feedback::LossRuns;

use super::bursts::Bursts;
use super::unit::What;

/// A datagram in flight whose fate is unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    pub(super) number: u64,
    pub(super) at: Time,
    /// Number of the unit (group of messages) that the symbol belongs to.
    pub(super) unit: u32,
    pub(super) what: What,
    /// Id of the next message to begin at the time this datagram left.
    pub(super) next_id: u64,
}

/// Datagrams that are lost according to a report.
#[derive(Debug)]
pub(super) struct Lost {
    /// Runs of lost datagrams, highest first. Each is its lowest number, and its highest number + 1.
    runs: Vec<(u64, u64)>,
    /// Lowest datagram number that the report covers.
    from: u64,
}

impl Lost {
    /// Reads `runs`, which count down from datagram `highest`.
    pub(super) fn read(highest: u64, runs: LossRuns<'_>) -> Self {
        let mut all = Vec::with_capacity(LOSS_RUNS_MAX);
        let mut above = highest + 1;
        for run in runs {
            let end = above.saturating_sub(run.gap.into());
            let start = end.saturating_sub(run.length.into());
            all.push((start, end));
            above = start;
        }
        // A report with room for more runs lists all losses: the datagrams below its last run have arrived.
        let from = if all.len() < LOSS_RUNS_MAX { 0 } else { above };
        Self { runs: all, from }
    }

    /// Returns true if a datagram has arrived, and `None` if the report does not cover it.
    fn has_arrived(&self, number: u64) -> Option<bool> {
        if number < self.from {
            return None;
        }
        let below = self.runs.partition_point(|&(start, _)| start > number);
        Some(self.runs.get(below).is_none_or(|&(_, end)| number >= end))
    }
}

/// Datagrams in flight, oldest first.
#[derive(Debug, Default)]
pub(super) struct Fates {
    under_way: VecDeque<UnderWay>,
    /// Sending time of the last datagram with a known fate, and true if it was lost.
    last: Option<(Time, bool)>,
    pub(super) bursts: Bursts,
}

impl Fates {
    pub(super) fn push(&mut self, sent: UnderWay) {
        self.under_way.push_back(sent);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<&UnderWay> {
        self.under_way.front()
    }

    /// Removes the oldest datagram up to `highest`, and returns it with true if it has arrived. A datagram that the
    /// report does not cover counts as lost: it precedes 32 runs of losses.
    pub(super) fn next(&mut self, highest: u64, lost: &Lost) -> Option<(UnderWay, bool)> {
        let is_passed = self.under_way.front().is_some_and(|sent| sent.number <= highest);
        let sent = is_passed.then(|| self.under_way.pop_front()).flatten()?;
        let has_arrived = lost.has_arrived(sent.number);
        if let (Some((at, true)), Some(has_arrived)) = (self.last, has_arrived) {
            self.bursts.on_loss(sent.at.since(at), !has_arrived);
        }
        if let Some(has_arrived) = has_arrived {
            let gap = self.last.map_or(Duration::MAX, |(at, _)| sent.at.since(at));
            self.bursts.on_fate(gap, !has_arrived);
        }
        self.last = has_arrived.map(|has_arrived| (sent.at, !has_arrived));
        Some((sent, has_arrived.unwrap_or(false)))
    }
}

/// Running mean and mean deviation of a duration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    mean_s: f64,
    deviation_s: f64,
    is_known: bool,
}

impl Times {
    pub(super) fn sample(&mut self, took: Duration) {
        let took_s = took.as_secs_f64();
        if !self.is_known {
            *self = Self { mean_s: took_s, deviation_s: took_s / 8.0, is_known: true };
            return;
        }
        self.deviation_s += ((took_s - self.mean_s).abs() - self.deviation_s) / 32.0;
        self.mean_s += (took_s - self.mean_s) / 32.0;
    }

    /// Returns the mean plus this number of mean deviations; `None` before the first sample.
    pub(super) fn most(&self, deviations: f64) -> Option<Duration> {
        self.is_known.then(|| Duration::from_secs_f64((self.mean_s + deviations * self.deviation_s).max(0.0)))
    }
}
