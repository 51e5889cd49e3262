//! Other flows: is the path full without us, and is it all ours?
//!
//! A flow with a small share of a full queue sees a path whose delivery follows its rate and whose loss does not
//! depend on it. That is how a lossy path of its own looks, too. What tells them apart: the queue of the first train
//! does not drain behind it, delays vary by more than our own trains explain, and others answer when all of them
//! yield.

use super::marks::Span;
use super::model::PathModel;
use super::params::P;

/// Beliefs about other flows. Each has events that refute it.
#[derive(Debug)]
pub(super) struct Company {
    /// The path was full when we came, so that its losses may be caused by others and us. Refuted by delays that fall
    /// or stay flat, by losses that stay although we yield, and by growth without a queue.
    pub(super) is_busy: bool,
    /// The window used nearly all of the capacity when there was a queue last.
    pub(super) is_alone: bool,
    /// Least delay at the end of the start, and at the last round, seconds.
    base_at_start_s: f64,
    base_s: f64,
    /// Time of a drain, seconds.
    drain_at_s: f64,
    /// Time of the last one.
    drained_s: f64,
    /// Probes in a row in which half the rate lost as much, and that loss.
    same: u32,
    same_loss: f64,
    /// Round trips without a queue that our own trains do not explain.
    flat_rtts: f64,
    /// Datagrams of trains, and those of them that were lost, since there was a queue.
    trains: (f64, f64),
    /// Steps up in a row that delivery followed without a queue.
    follows: u32,
    /// The last step up found an empty queue.
    has_room: bool,
}

impl Default for Company {
    fn default() -> Self {
        Self {
            is_busy: false,
            is_alone: true,
            base_at_start_s: f64::INFINITY,
            base_s: f64::INFINITY,
            drain_at_s: f64::INFINITY,
            drained_s: f64::NEG_INFINITY,
            same: 0,
            same_loss: 0.0,
            flat_rtts: 0.0,
            trains: (0.0, 0.0),
            follows: 0,
            has_room: false,
        }
    }
}

/// Round trips of a round, its loss, and a factor of pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) rtts: f64,
    pub(super) loss: f64,
    pub(super) spread: f64,
}

/// Verdict on the queue behind the first train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Drains,
    /// It does not drain behind the train.
    Stays,
    /// Too little behind the train is known.
    Open,
}

/// Delays that differ by less are the same, seconds.
fn flat_s(model: &PathModel) -> f64 {
    (P.flat_rtt * model.rtt_s()).max(P.flat_s)
}

/// Judges the queue that the first `train` made, from what was sent `behind` it at `behind_per_s`.
pub(super) fn queue_behind(model: &PathModel, train: &Span, behind: &Span, behind_per_s: f64) -> Queue {
    let (rtt_s, per_s) = (model.rtt_s(), train.arrives_per_s());
    // As fast as they left, which is more than the round trip tells where reports wait on the way back.
    let behind_per_s = if behind.sent >= 3.0 { behind_per_s.max(behind.sent_per_s()) } else { behind_per_s };
    if behind_per_s > P.drain_load_max * per_s {
        return Queue::Drains;
    }
    let bump_s = train.top_s - train.least_s;
    // Datagrams behind it queue, too, if the path holds fewer than are in flight.
    let ours_s = (behind_per_s * rtt_s / per_s - rtt_s).max(0.0);
    // A bump that losses hid proves nothing.
    let is_seen = bump_s > 0.5 * (train.sent - 1.0) / per_s;
    if !is_seen || behind.least_s - train.least_s <= 0.5 * bump_s + ours_s + 0.0001 {
        return Queue::Drains;
    }
    let drains_s = bump_s / (1.0 - behind_per_s / per_s);
    let enough = (P.drain_times * drains_s * behind_per_s).min(P.train);
    if behind.sent < enough { Queue::Open } else { Queue::Stays }
}

/// Part of the promise of the first train with which a path is tried: less where delays have not been flat since the
/// handshake, and least where they fall, because others fill the path and are giving way.
pub(super) fn first_part(model: &PathModel, train: &Span, behind: &Span, handshake_rtt_s: f64) -> f64 {
    let flat_s = flat_s(model) + model.jitter_s();
    let train_s = train.sent / train.arrives_per_s().max(1.0);
    // Datagrams that were lost behind the bottleneck delayed the first that arrived.
    let lost_s = train.lost / train.arrives_per_s().max(1.0);
    if train.least_s - behind.least_s > flat_s + lost_s {
        P.falling_part
    } else if handshake_rtt_s - model.rtt_s() < flat_s && behind.top_s - train.least_s < flat_s + train_s {
        P.flat_part
    } else {
        P.first_part
    }
}

/// True if `paced` datagrams were lost, too, and waited as long as those of a `train` that lost more than they did. A
/// full queue takes few of a train, and each waits as long as everything else; a short buffer without others delays a
/// train alone.
pub(super) fn waits_alike(model: &PathModel, train_top_s: f64, paced: &Span) -> bool {
    paced.loss() > P.suspect_loss && train_top_s < paced.low_s + 0.5 * flat_s(model) + 1.5 / model.train_per_s.max(1.0)
}

impl Company {
    /// The start is over.
    pub(super) fn begin(&mut self, now_s: f64, model: &PathModel, spread: f64) {
        let base_s = model.base_s(0.0).unwrap_or(f64::INFINITY);
        (self.base_at_start_s, self.base_s) = (base_s, base_s);
        if !self.is_alone {
            self.drain_soon(now_s, model, spread);
        }
    }

    fn drain_soon(&mut self, now_s: f64, model: &PathModel, spread: f64) {
        self.drain_at_s = now_s + P.drain_rtts * model.smoothed_rtt_s() * spread;
    }

    /// A round has been judged: the least delay falls if what was taken for the path was a queue of others, of which
    /// there may be more.
    /// Returns by how much it fell, seconds.
    pub(super) fn on_round(&mut self, now_s: f64, model: &PathModel, round: Passed) -> f64 {
        let fell_min_s = (P.fell_rtt * model.rtt_s()).max(P.fell_s) + model.jitter_s();
        let base_s = model.base_s(0.0).unwrap_or(self.base_s);
        if self.base_s - base_s > fell_min_s {
            self.is_alone = false;
            self.drain_soon(now_s, model, round.spread);
        }
        let fell_s = (self.base_s - base_s).max(0.0);
        self.base_s = base_s;
        if !self.is_busy {
            return fell_s;
        }
        let train_s = P.train / model.train_per_s.max(1.0);
        let is_flat = model.top_s() < train_s + 2.0 * flat_s(model) + model.jitter_s();
        if is_flat {
            self.flat_rtts += round.rtts;
        } else {
            (self.flat_rtts, self.trains) = (0.0, (0.0, 0.0));
        }
        // A short buffer that is always full delays all alike, too, but takes little of a train.
        let (sent, lost) = self.trains;
        let is_clean = sent > 0.0 && lost <= (round.loss + P.train_clean) * sent;
        if self.flat_rtts > P.flat_rtts && (round.loss < P.loss_more || is_clean) {
            (self.is_busy, self.is_alone) = (false, true);
        }
        if base_s < self.base_at_start_s - fell_min_s {
            self.is_busy = false;
        }
        fell_s
    }

    /// A train is to tell if the path is empty.
    pub(super) fn is_train_due(&self) -> bool {
        self.is_busy && self.flat_rtts > 0.5 * P.flat_rtts
    }

    /// A train has arrived.
    pub(super) fn on_train(&mut self, sent: f64, lost: f64) {
        let (sent_before, lost_before) = self.trains;
        self.trains = (P.evidence_kept * sent_before + sent, P.evidence_kept * lost_before + lost);
    }

    pub(super) fn is_drain_due(&self, now_s: f64) -> bool {
        now_s >= self.drain_at_s
    }

    /// All flows see an overflow at once: if all of them drain now, the queue becomes empty, which no single one of many
    /// can bring about.
    pub(super) fn may_drain_at_overflow(&self, now_s: f64, model: &PathModel) -> bool {
        now_s - self.drained_s > P.overflow_drain_rtts * model.smoothed_rtt_s()
    }

    pub(super) fn on_drain(&mut self, now_s: f64) {
        (self.drain_at_s, self.drained_s) = (f64::INFINITY, now_s);
    }

    /// Half the rate lost as much as the whole. Where others fill the path, all of them yield and less is lost before
    /// long; what stays is the path's own.
    pub(super) fn on_same_loss(&mut self, loss: f64, doubt: f64) {
        if self.same == 0 || loss + doubt < self.same_loss {
            (self.same, self.same_loss) = (0, loss);
        }
        self.same += 1;
        if self.same >= P.same_min {
            (self.is_busy, self.is_alone) = (false, true);
        }
    }

    /// Delivery followed a step up, without a queue, or not.
    pub(super) fn on_probe_up(&mut self, model: &PathModel, has_followed: bool, queue_s: f64) {
        self.has_room = has_followed && queue_s < flat_s(model);
        self.follows = if has_followed { self.follows + 1 } else { 0 };
        if self.follows >= P.same_min {
            self.is_busy = false;
        }
    }

    /// Delivery followed a step up, and there was no queue at all: whoever used the path has left.
    pub(super) fn has_room(&self) -> bool {
        self.has_room
    }

    /// True if a loss that half the rate shares is the path's own: half of a small share makes little difference to a
    /// path that others fill.
    pub(super) fn tells_loss(&self, share: f64) -> bool {
        !self.is_busy && (self.is_alone || share >= P.decisive_share)
    }

    /// The queue was long enough to tell whose the path is: `share` of its capacity is ours.
    pub(super) fn on_queue(&mut self, share: f64) {
        self.is_alone = share > P.alone_share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::controller::Mark;

    const PER_S: f64 = 4_000.0;

    /// A model of a path of 100 ms whose trains found `PER_S`, with rounds of these least and greatest delays, seconds.
    fn model(rounds: &[(f64, f64)]) -> PathModel {
        let mut model = PathModel::default();
        model.on_rtt(0.0, 0.1);
        model.train_per_s = PER_S;
        let mark = Mark { sent: 1, received: 1, ..Mark::default() };
        model.on_marks(&[mark]);
        for (index, &(low_s, top_s)) in rounds.iter().enumerate() {
            let seen =
                Span { sent: 100.0, sent_s: 0.1, arrived_s: 0.1, least_s: low_s, low_s, top_s, ..Span::default() };
            model.on_round(index as f64 * 0.1, &seen, false);
        }
        model
    }

    fn busy(model: &PathModel) -> Company {
        let mut company = Company { is_busy: true, is_alone: false, ..Company::default() };
        company.begin(0.0, model, 1.0);
        company
    }

    fn round(loss: f64) -> Passed {
        Passed { rtts: 1.0, loss, spread: 1.0 }
    }

    fn train(top_ms: f64, loss: f64) -> Span {
        let sent = 16.0;
        Span { sent, lost: sent * loss, arrived_s: sent / PER_S, top_s: top_ms / 1e3, ..Span::default() }
    }

    /// Sixteen datagrams at 4000 per second make a queue of 4 ms, which drains in a round trip.
    #[test]
    fn a_queue_that_does_not_drain_behind_a_train_is_of_others() {
        let (model, behind_per_s) = (model(&[]), 160.0);
        let behind = |least_ms: f64, sent: f64| Span {
            sent,
            sent_s: sent / behind_per_s,
            least_s: least_ms / 1e3,
            ..Span::default()
        };
        let train = train(4.0, 0.0);
        assert_eq!(queue_behind(&model, &train, &behind(0.2, 1.0), behind_per_s), Queue::Drains);
        assert_eq!(queue_behind(&model, &train, &behind(4.0, 0.0), behind_per_s), Queue::Open, "too soon");
        assert_eq!(queue_behind(&model, &train, &behind(4.0, 4.0), behind_per_s), Queue::Stays);
        let dense = Span { sent_s: 0.001, ..behind(4.0, 4.0) };
        assert_eq!(queue_behind(&model, &train, &dense, behind_per_s), Queue::Drains, "what follows is as fast");
    }

    #[test]
    fn a_path_is_tried_with_less_where_delays_were_not_flat() {
        let model = model(&[]);
        let behind = |ms: f64| Span { least_s: ms / 1e3, top_s: ms / 1e3, sent: 4.0, ..Span::default() };
        let train = Span { least_s: 0.01, ..train(14.0, 0.0) };
        assert_eq!(first_part(&model, &train, &behind(10.0), 0.1), P.flat_part);
        assert_eq!(first_part(&model, &train, &behind(10.0), 0.15), P.first_part, "the handshake waited");
        assert_eq!(first_part(&model, &train, &behind(2.0), 0.1), P.falling_part, "others give way");
    }

    /// A full queue takes few datagrams of a train, and delays them no more than all others. A short buffer delays a
    /// train alone, and without losses of paced datagrams there is nothing to explain.
    #[test]
    fn a_train_tells_a_full_queue_from_a_short_buffer() {
        let model = model(&[]);
        let paced =
            |low_ms: f64, loss: f64| Span { sent: 100.0, lost: 100.0 * loss, low_s: low_ms / 1e3, ..Span::default() };
        assert!(waits_alike(&model, 0.02, &paced(19.8, 0.5)), "a full queue");
        assert!(!waits_alike(&model, 0.002, &paced(0.0, 0.3)), "eight packets of buffer on a lossy path");
        assert!(!waits_alike(&model, 0.02, &paced(20.0, 0.0)), "no losses");
    }

    /// Each event that refutes the belief does so within twenty round trips.
    #[test]
    fn that_a_path_is_full_of_others_is_refuted() {
        let quiet = model(&[(0.0, 0.004); 50]);
        let mut company = busy(&quiet);
        (1..=20).for_each(|rtt| _ = company.on_round(f64::from(rtt) * 0.1, &quiet, round(0.0)));
        assert!(!company.is_busy && company.is_alone, "delays that our trains explain");

        let mut company = busy(&quiet);
        (1..=20).for_each(|rtt| _ = company.on_round(f64::from(rtt) * 0.1, &quiet, round(0.4)));
        assert!(company.is_busy && company.is_train_due(), "a short buffer that is always full is flat, too");
        company.on_train(16.0, 15.0);
        company.on_round(2.1, &quiet, round(0.4));
        assert!(company.is_busy, "it takes little of a train");
        (0..4).for_each(|_| company.on_train(16.0, 6.0));
        company.on_round(2.2, &quiet, round(0.4));
        assert!(!company.is_busy && company.is_alone, "a lossy path loses the same part of all");

        let before = model(&[(0.05, 0.1); 10]);
        let fallen = model(&[(0.05, 0.1), (0.02, 0.1)]);
        let mut company = busy(&before);
        company.on_round(0.1, &fallen, round(0.0));
        assert!(
            !company.is_busy && !company.is_alone && company.is_drain_due(1.0),
            "the least delay fell: there were others"
        );

        let full = model(&[(0.05, 0.1); 10]);
        let mut company = busy(&full);
        (0..P.same_min).for_each(|_| company.on_same_loss(0.3, 0.01));
        assert!(!company.is_busy && company.is_alone, "less is sent, and as much is lost");

        let mut company = busy(&full);
        (0..P.same_min).for_each(|_| company.on_probe_up(&full, true, 0.01));
        assert!(!company.is_busy, "more is sent, and arrives");
    }

    /// While others yield, too, less is lost each time: that is not the path's own loss.
    #[test]
    fn losses_that_fall_do_not_refute_it() {
        let full = model(&[(0.05, 0.1); 10]);
        let mut company = busy(&full);
        (1..=10).for_each(|times| company.on_same_loss(0.7 * 0.8_f64.powi(times), 0.01));
        assert!(company.is_busy);
        assert!(!company.tells_loss(1.0));
        company.is_busy = false;
        assert!(company.tells_loss(0.5) && !company.tells_loss(0.1), "half of a tenth tells nothing");
    }
}
