//! The loss that is the path's own (\[auto-5\]): it does not depend on the rate, so it counts for nothing.

use super::history::History;

/// It is never taken for more than this.
pub(super) const PATH_LOSS_MAX: f64 = 0.9;
/// The least loss that chance is reckoned for, and how many standard errors it may make.
const LOSS_LEAST: f64 = 0.002;
pub(super) const STANDARD_ERRORS: f64 = 2.5;
/// By this much more is lost than the path's own before it says something.
const EXCESS: f64 = 0.02;
/// A queue has been long enough to tell what is lost in a short one: datagrams, and seconds.
const TOP_DATAGRAMS: f64 = 24.0;
const TOP_S: f64 = 0.004;
const SHORT_DATAGRAMS: f64 = 200.0;
/// By this part the estimate goes up to what is lost with a short queue, and down to what is lost at all.
const RISE: f64 = 0.3;
const FALL: f64 = 0.5;
/// So many answers tell that others are not the cause.
const SAME_MIN: u32 = 4;
/// Round trips without a queue after which the path counts as ours.
const FLAT_ROUND_TRIPS: f64 = 12.0;
/// A supposedly empty queue was not empty if delays fall below it by this: a part of the round trip, and seconds.
const FELL_PART: f64 = 0.02;
const FELL_S: f64 = 0.0005;

/// The estimate.
#[derive(Debug, Default)]
pub(super) struct PathLoss {
    /// 0 to 0.9.
    pub(super) share: f64,
    /// Somebody else filled the path when we came, so that its losses may be theirs and ours.
    pub(super) is_busy: bool,
    /// The least delay of then.
    pub(super) base_at_start: f64,
    /// Times in a row that half the rate has lost as much since then, and that loss.
    same: u32,
    same_loss: f64,
    flat_round_trips: f64,
}

impl PathLoss {
    /// Loss beyond the path's own, as a share of what would arrive without it; and `true` if chance does not explain it.
    pub(super) fn excess(&self, loss: f64, doubt: f64) -> (f64, bool) {
        let excess = 1.0 - (1.0 - loss) / (1.0 - self.share);
        (excess, excess > EXCESS + doubt)
    }

    /// Less was lost.
    pub(super) fn fall(&mut self, loss: f64, doubt: f64) {
        if loss + 1.5 * doubt < self.share {
            self.share += FALL * (loss + doubt - self.share);
        }
    }

    /// Learns from losses while the queue is short, which are the path's own. `true` if the queue has been long enough to tell.
    pub(super) fn learn(&mut self, history: &History, capacity_per_s: f64) -> bool {
        let (sent, loss) = history.short();
        let datagrams_s = if capacity_per_s > 0.0 { TOP_DATAGRAMS / capacity_per_s } else { 0.0 };
        if history.top() < datagrams_s.max(TOP_S) || sent < SHORT_DATAGRAMS {
            return false;
        }
        if loss > self.share + 0.5 * doubt(loss, sent, history.burstiness()) {
            self.share += RISE * (loss - self.share);
        }
        true
    }

    /// Half the rate lost as much as the whole. Where others fill the path, all of them yield and less is lost before long; what stays
    /// is the path's own. Returns whether that is so now.
    pub(super) fn note_same(&mut self, loss: f64, doubt: f64) -> bool {
        if self.same == 0 || loss + doubt < self.same_loss {
            (self.same, self.same_loss) = (0, loss);
        }
        self.same += 1;
        let is_own = self.is_busy && self.same >= SAME_MIN;
        self.is_busy &= !is_own;
        is_own
    }

    /// A path that others fill does not have the same delay all the time: a round of `round_trips` has passed, and one of our trains makes
    /// `train_s` of it. Returns whether that is so now.
    pub(super) fn note_flat(&mut self, history: &History, round_trips: f64, train_s: f64) -> bool {
        let is_flat = history.top() < train_s + (FELL_PART * history.rtt()).max(FELL_S);
        self.flat_round_trips = if is_flat { self.flat_round_trips + round_trips } else { 0.0 };
        let is_ours = self.is_busy && self.flat_round_trips > FLAT_ROUND_TRIPS;
        self.is_busy &= !is_ours;
        is_ours
    }

    /// Withdraws `is_busy`, that the path was full when we came, if delays have fallen since.
    pub(super) fn note_base(&mut self, history: &History) {
        if self.is_busy && history.base() < self.base_at_start - (FELL_PART * history.rtt()).max(FELL_S) {
            self.is_busy = false;
        }
    }
}

/// Error by chance of a share of `loss` among `sent` datagrams, with losses in bursts.
pub(super) fn doubt(loss: f64, sent: f64, burstiness: f64) -> f64 {
    let p = loss.max(LOSS_LEAST);
    STANDARD_ERRORS * burstiness * (p * (1.0 - p) / sent.max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_exceeds_the_paths_own_counts() {
        let path = PathLoss { share: 0.3, ..PathLoss::default() };
        assert_eq!(path.excess(0.3, 0.0), (0.0, false));
        let (excess, is_excess) = path.excess(0.37, doubt(0.3, 10_000.0, 1.0));
        assert!((excess - 0.1).abs() < 1e-9 && is_excess);
        assert!(!path.excess(0.37, doubt(0.3, 100.0, 1.0)).1, "chance");
        assert!(!path.excess(0.37, doubt(0.3, 2_000.0, 6.0)).1, "bursts");
    }

    #[test]
    fn it_falls_at_once_and_not_by_chance() {
        let mut path = PathLoss { share: 0.3, ..PathLoss::default() };
        path.fall(0.29, doubt(0.3, 500.0, 1.0));
        assert_eq!(path.share, 0.3);
        (0..10).for_each(|_| path.fall(0.0, doubt(0.0, 500.0, 1.0)));
        assert!(path.share < 0.01, "{}", path.share);
    }
}
