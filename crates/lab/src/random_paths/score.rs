//! Scores of random paths: goodput compared with DFCP told the rate, with BBR and with CUBIC, and self-inflicted drops.

use std::collections::BTreeMap;

use super::PathId;
use super::drawn::{Loss, RandomPath};
use crate::expand::Run;
use crate::record::Record;

/// Share of the judge's goodput below which a run counts in [`Score::below_half`].
pub const HALF: f64 = 0.5;
/// Share of the judge's goodput below which a run counts in [`Score::below_most`].
pub const MOST: f64 = 0.8;
/// Share of the offered packets that a bottleneck may drop because of its sender.
pub const DROPS_MAX: f64 = 0.25;
/// Greatest loss, without bursts, at which no path may be below half.
pub const MODERATE_LOSS: f64 = 0.1;
/// Number of standard errors of the counted datagrams that a shortfall must exceed to count.
const ERRORS: f64 = 4.0;
/// Bits of application data in a full datagram of DFCP.
const DATAGRAM_BITS: f64 = 1412.0 * 8.0;

/// One series on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Goodput, bit/s.
    pub goodput_bps: f64,
    /// Share of the offered packets that the bottleneck dropped.
    pub dropped: f64,
    /// Mean queueing delay, ms.
    pub queue_ms: f64,
}

/// All series on one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The path's id.
    pub id: PathId,
    /// The path.
    pub path: RandomPath,
    /// Judge: the median of the runs of DFCP told the rate.
    pub told: Outcome,
    /// Goodput of the worst run told the rate, as a share of the goodput of the best one.
    pub told_luck: f64,
    /// Series by label, without the judge.
    pub series: BTreeMap<String, Outcome>,
    /// Standard error of a share of the judge's goodput. It follows from the number of datagrams and the burstiness of
    /// losses.
    pub error: f64,
}

/// Counts of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Label of the series.
    pub series: String,
    /// Number of paths.
    pub paths: usize,
    /// Paths with less than half of the judge's goodput, beyond chance.
    pub below_half: usize,
    /// Paths with less than 0.8 of the judge's goodput, beyond chance.
    pub below_most: usize,
    /// Paths below half with at most 10 % of loss that is not in bursts.
    pub below_half_at_moderate_loss: usize,
    /// Paths with less than half of the better of BBR and CUBIC, beyond chance.
    pub below_half_of_rivals: usize,
    /// Paths on which the bottleneck dropped more than permitted; see [`DROPS_MAX`].
    pub drops: usize,
    /// Mean share of the judge's goodput. The share of each path counts as at most 1.2.
    pub mean: f64,
    /// Share of the judge's goodput that 5 % of the paths do not reach.
    pub p5: f64,
    /// Mean queueing delay, ms.
    pub queue_ms: f64,
}

/// A path on which a series falls short.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortfall {
    /// Index of the path among the rows.
    pub row: usize,
    /// Share of the judge's goodput.
    pub share: f64,
    /// True if the bottleneck dropped more than permitted; see [`DROPS_MAX`].
    pub drops: bool,
}

fn outcome(record: &Record) -> Option<Outcome> {
    let (flow, link) = (record.measured.flows.first()?, record.measured.links.first()?);
    Some(Outcome {
        goodput_bps: flow.goodput_bps,
        dropped: link.queue_drops as f64 / link.offered.max(1) as f64,
        queue_ms: link.queue_mean_ms,
    })
}

impl Row {
    /// Gathers the row of a path; `None` unless all its runs are recorded.
    #[must_use]
    pub fn gather(id: PathId, runs: &[Run], records: &BTreeMap<String, Record>) -> Option<Self> {
        let path = id.path();
        let mut told = Vec::new();
        let mut series = BTreeMap::new();
        let mut run_s = 0.0;
        for run in runs {
            let outcome = outcome(records.get(&run.hash)?)?;
            run_s = (run.scenario.duration_ns - run.scenario.warm_up_ns) as f64 / 1e9;
            if run.series == "Told" {
                told.push(outcome);
            } else {
                series.insert(run.series.clone(), outcome);
            }
        }
        told.sort_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps));
        let (worst, judge, best) = (told.first()?, *told.get(told.len() / 2)?, told.last()?);
        let told_luck = worst.goodput_bps / best.goodput_bps.max(1.0);
        let error = standard_error(path.loss, judge.goodput_bps * run_s / DATAGRAM_BITS);
        Some(Self { id, path, told: judge, told_luck, series, error })
    }

    /// Returns the share of the judge's goodput that a series reaches.
    fn share(&self, outcome: &Outcome) -> f64 {
        outcome.goodput_bps / self.told.goodput_bps.max(1.0)
    }

    /// Returns true if a series reaches less than `part` of the judge's goodput, beyond chance.
    fn is_below(&self, outcome: &Outcome, part: f64) -> bool {
        self.share(outcome) + ERRORS * self.error < part
    }

    fn rivals_bps(&self) -> f64 {
        let of = |name| self.series.get(name).map_or(0.0, |it: &Outcome| it.goodput_bps);
        of("BBR").max(of("CUBIC"))
    }

    fn drops(&self, outcome: &Outcome) -> bool {
        let cubic = self.series.get("CUBIC").map_or(0.0, |it| it.dropped);
        let most = if self.path.has_deep_bucket() { DROPS_MAX.max(cubic) } else { DROPS_MAX };
        outcome.dropped > most
    }
}

/// Returns the standard error of the ratio of two runs with `datagrams` each. The number of arriving datagrams varies
/// by losses, which come in clusters of 2b − 1 for bursts of mean length b.
fn standard_error(loss: Option<Loss>, datagrams: f64) -> f64 {
    let datagrams = datagrams.max(1.0);
    let Some(Loss { share, burst_packets }) = loss else { return 1.0 / datagrams };
    let cluster = (2.0 * burst_packets.unwrap_or(1.0) - 1.0).max(1.0);
    (2.0 * share / (1.0 - share).max(0.01) * cluster / datagrams).sqrt()
}

/// Returns the counts of the series `label` on `rows`, and the paths on which it falls short, the worst first.
#[must_use]
pub fn score(rows: &[Row], label: &str) -> (Score, Vec<Shortfall>) {
    let mut score = Score { series: label.to_owned(), ..Score::default() };
    let (mut shares, mut shortfalls) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        let Some(outcome) = row.series.get(label) else { continue };
        let share = row.share(outcome);
        let is_moderate = row.path.loss.is_none_or(|loss| loss.share <= MODERATE_LOSS && loss.burst_packets.is_none());
        let (half, drops) = (row.is_below(outcome, HALF), row.drops(outcome));
        let of_rivals = outcome.goodput_bps / row.rivals_bps().max(1.0) + ERRORS * row.error < HALF;
        score.paths += 1;
        score.below_half += usize::from(half);
        score.below_most += usize::from(row.is_below(outcome, MOST));
        score.below_half_at_moderate_loss += usize::from(half && is_moderate);
        score.below_half_of_rivals += usize::from(of_rivals);
        score.drops += usize::from(drops);
        score.mean += share.min(1.2);
        score.queue_ms += outcome.queue_ms;
        shares.push(share);
        if drops || row.is_below(outcome, MOST) {
            shortfalls.push(Shortfall { row: index, share, drops });
        }
    }
    let count = score.paths.max(1) as f64;
    (score.mean, score.queue_ms) = (score.mean / count, score.queue_ms / count);
    shares.sort_by(f64::total_cmp);
    score.p5 = shares.get(shares.len() / 20).copied().unwrap_or_default();
    shortfalls.sort_by(|a, b| a.share.total_cmp(&b.share));
    (score, shortfalls)
}
