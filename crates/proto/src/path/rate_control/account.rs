//! Statistics of an automatic rate for users: the causes of losses, and the results.

use super::history::{History, Point};
use super::path_loss::doubt;
use super::{Mode, RateControl};
use crate::config::controller::RateController;
use crate::stats::{RateControlStats, RatePhase};

/// Datagrams whose fate is judged together: among fewer, chance makes too much of a difference.
const BATCH: f64 = 250.0;

/// Datagrams in a short queue from which on their loss is the measure of the path's own.
const SHORT_MIN: f64 = 200.0;

/// The account of losses: what was lost beyond the path's own, and beyond chance.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The newest mark up to which all is judged.
    judged_to: Option<Point>,
    judged: Judgement,
}

/// Datagrams, how many of them were lost, and how many of these in a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Judgement {
    sent: f64,
    lost: f64,
    lost_in_queue: f64,
}

impl Account {
    /// Judges what reports have told of, once that is enough. `path_loss` is what the rate goes by, unless that is not known yet.
    pub(super) fn note(&mut self, history: &History, path_loss: Option<f64>) {
        let Some(last) = history.last() else { return };
        let first = *self.judged_to.get_or_insert(last);
        let Some(path_loss) = path_loss.filter(|_| last.sent - first.sent >= BATCH) else { return };
        self.judged = self.judged.with(Judgement::of(history, first, last, path_loss));
        self.judged_to = Some(last);
    }
}

impl Judgement {
    fn with(self, more: Self) -> Self {
        Self {
            sent: self.sent + more.sent,
            lost: self.lost + more.lost,
            lost_in_queue: self.lost_in_queue + more.lost_in_queue,
        }
    }

    /// Losses between two marks.
    fn of(history: &History, first: Point, last: Point, path_loss: f64) -> Self {
        let sent = last.sent - first.sent;
        let lost = (sent - (last.received - first.received)).max(0.0);
        // The controller's own estimate errs on the careful side; losses in a short queue are closer to the truth.
        let (short_sent, short_loss) = history.short();
        let (known, path_loss) =
            if short_sent >= SHORT_MIN { (short_sent, short_loss) } else { (f64::INFINITY, path_loss) };
        let evidence = 1.0 / (1.0 / sent.max(1.0) + 1.0 / known);
        if lost <= sent * (path_loss + doubt(path_loss, evidence, history.burstiness())) {
            return Self { sent, lost, lost_in_queue: 0.0 };
        }
        // Of what the queue let through, the path lost its share.
        let lost_in_queue = ((lost - sent * path_loss) / (1.0 - path_loss)).min(lost);
        Self { sent, lost, lost_in_queue }
    }
}

impl RateControl {
    /// Results of the controller.
    pub(super) fn account_stats(&self) -> RateControlStats {
        let bps = |per_s: f64| (per_s * self.datagram_bits) as u64;
        let judged = self.account.judged;
        RateControlStats {
            phase: match self.mode {
                Mode::Train | Mode::Start => RatePhase::Start,
                Mode::Run | Mode::Ebb | Mode::Push => RatePhase::Steady,
                Mode::Compete => RatePhase::Compete,
            },
            rate_bps: self.steady_bps(),
            capacity_bps: (self.capacity.per_s() > 0.0).then(|| bps(self.capacity.per_s())),
            target_queue: std::time::Duration::from_secs_f64(self.target_s().clamp(0.0, 1e3)),
            path_loss: self.path_loss.share,
            datagrams_judged: judged.sent as u64,
            datagrams_lost: judged.lost as u64,
            datagrams_lost_in_queue: judged.lost_in_queue as u64,
        }
    }
}
