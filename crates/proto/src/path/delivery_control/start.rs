//! The start: half of what the first train promises, then more as long as delivery follows.

use super::DeliveryControl;
use super::company::{Queue, first_part, queue_behind, waits_alike};
use super::experiment::{Verdict, arrival_error, followed, likelier, verdict};
use super::law::Step;
use super::marks::Span;
use super::model::PathModel;
use super::params::P;

/// State of the start.
#[derive(Debug)]
pub(super) struct Start {
    is_first_train: bool,
    /// Window that the train promises.
    promise: f64,
    train_loss: f64,
    /// Rate of its datagrams between which none was lost.
    clean_per_s: Option<f64>,
    /// The train, until its losses are compared with those behind it.
    train: Option<Span>,
    /// The fastest round so far.
    before: Option<Span>,
    /// Losses of all rounds so far.
    losses: Span,
    falls: u32,
    /// The train was lost: others fill the path, or its buffer is short. What is lost of paced datagrams tells.
    is_suspect: bool,
    /// Factor of the next step beyond the promise.
    factor: f64,
    /// Datagrams of a round are multiplied by this after an open verdict.
    more: f64,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            is_first_train: true,
            promise: f64::INFINITY,
            train_loss: 0.0,
            clean_per_s: None,
            train: None,
            before: None,
            losses: Span::default(),
            falls: 0,
            is_suspect: false,
            factor: 1.0,
            more: 1.0,
        }
    }
}

impl Start {
    /// Something was lost: few datagrams tell nothing.
    pub(super) fn has_lost(&self) -> bool {
        self.losses.loss() > P.loss_more
    }

    pub(super) fn is_first_train(&self) -> bool {
        self.is_first_train
    }
}

impl DeliveryControl {
    /// The first train has arrived once something behind it has.
    pub(super) fn judge_first_train(&mut self, last_sent: f64) {
        if last_sent < self.train.1 {
            return;
        }
        let (rtt_s, length) = (self.model.rtt_s(), self.train.1 - self.train.0);
        let seen = self.model.span(self.train.0, self.train.1);
        let seen = seen.filter(|train| train.sent - train.lost >= 3.0 && train.arrived_s > 1e-5);
        let lost = self.model.marks.last().map_or(0.0, |last| 1.0 - last.received / last.sent.max(1.0));
        let is_batch = self.model.gap_s() > 0.5 * rtt_s;
        // It arrived as slowly as the application sent it.
        let is_slow = |train: &Span| self.is_train_limited && train.sent_s > P.limited_train * train.arrived_s;
        if let Some(train) = seen.filter(is_slow) {
            self.begin_limited(&train);
            return;
        }
        if seen.is_none() && length < P.train_max && lost < P.train_lost_max && !is_batch {
            // It arrived faster than the clock tells: a longer one.
            self.begin_train(length * P.train_growth);
            return;
        }
        let (mut window, mut is_suspect) = (2.0 * P.train, false);
        if lost > P.full_loss || seen.is_none() && lost >= 0.5 {
            is_suspect = true;
            window = 0.5 * P.train;
        }
        if let Some(train) = seen {
            let behind = self.model.span(self.train.1, f64::INFINITY).unwrap_or_default();
            match queue_behind(&self.model, &train, &behind, self.window / rtt_s.min(self.handshake_rtt_s)) {
                Queue::Open => return,
                Queue::Stays => (self.company.is_busy, self.company.is_alone) = (true, false),
                Queue::Drains => {}
            }
        }
        let behind = self.model.span(self.train.1, f64::INFINITY).unwrap_or_default();
        let handshake_rtt_s = self.handshake_rtt_s;
        let Some(start) = &mut self.start else { return };
        if let Some(train) = seen {
            start.train_loss = train.loss();
            start.clean_per_s = self.model.marks.clean_per_s(self.train.0, self.train.1, P.clean_min);
            start.losses.pool(&train, 1.0);
            start.train = Some(train);
            start.promise = train.arrives_per_s() * rtt_s;
            self.model.train_per_s = train.arrives_per_s();
            window = first_part(&self.model, &train, &behind, handshake_rtt_s) * start.promise;
            if self.company.is_busy || is_suspect {
                window = window.min(P.busy_trains * P.train);
            }
        }
        (start.is_first_train, start.is_suspect) = (false, is_suspect);
        self.apply(Step::Set(window));
        self.train = (0.0, 0.0);
        self.begin_round();
    }

    /// The application sends less than a train: that tells no capacity, and some more of it is safe.
    fn begin_limited(&mut self, train: &Span) {
        if let Some(start) = &mut self.start {
            start.is_first_train = false;
        }
        // A batch arrives faster than it left.
        let per_s = train.passes_per_s().min(train.sent_per_s());
        self.apply(Step::Set(self.window.max(P.limited_growth * per_s * self.model.rtt_s())));
        self.train = (0.0, 0.0);
        self.begin_round();
    }

    pub(super) fn judge_start(&mut self, seen: &Span, is_limited: bool) {
        let Some(mut start) = self.start.take() else { return };
        let rtt_s = self.model.rtt_s();
        let arrives = seen.arrives_per_s();
        self.compare_with_train(&start, seen);
        let jitter_s = (1.0 - P.target_jitter) * self.model.jitter_s();
        let longest_s = self.target_s() + jitter_s + 0.05 * rtt_s;
        // Arrivals that take longer than departures did make a queue.
        let grown_s = seen.arrived_s - seen.sent_s - self.model.gap_s();
        let is_longer = self.queue_of(seen).max(grown_s) > longest_s;
        let is_overflow = start.loses_more(&self.model, seen);
        let found = self.verdict_of_start(&start, seen, is_overflow);
        let found = if self.tells_of_others(&mut start, seen, is_overflow) { found } else { Verdict::Open };
        if found == Verdict::Open && !is_longer && start.more < P.more_max {
            start.more *= 2.0;
            self.apply(Step::AtMost(P.exceeded * self.model.delivery() / start.passes()));
            let count =
                (0.5 * self.window).max(P.arm_min).max(P.arm_gaps * self.model.gap_s() * self.per_s) * start.more;
            self.start = Some(start);
            self.begin_round();
            self.round.1 = self.sent + count.floor();
            return;
        }
        start.more = 1.0;
        if !is_longer && found == Verdict::Full && start.is_burst(seen) {
            start.falls += 1;
            self.start = Some(start);
            self.apply(Step::Times(0.5));
            self.begin_round();
            return;
        }
        if is_longer || found == Verdict::Full || self.company.is_busy {
            // Nothing is known of whose a loss is: the window is what arrived, and whether more is possible is asked
            // soon. What was delivered before one burst of losses is still possible. Where the first part of the
            // promise makes a queue at once, the path was full before.
            let is_part = arrives < P.joined_part * start.promise / rtt_s * start.passes();
            let joins = is_longer && start.before.is_none() || is_overflow && self.company.is_busy && is_part;
            let most = if joins { P.joins * arrives } else { arrives.max(0.5 * self.model.delivery()) };
            self.apply(Step::AtMost(most));
            self.end_start(is_longer);
            return;
        }
        start.forgive_train(&self.model, seen, rtt_s);
        if start.before.is_none_or(|before| before.sent_per_s() < seen.sent_per_s()) && seen.sent >= P.round_min {
            start.before = Some(*seen);
        }
        if is_limited {
            self.end_start(is_longer);
            return;
        }
        if self.window < 0.84 * start.promise {
            let next = (2.0 * self.window).min((0.95 * start.promise).max(1.2 * self.window));
            self.apply(Step::Set(next));
        } else {
            // The promise is kept; what is beyond it is asked in steps.
            start.factor = (start.factor * P.up).min(P.up_max);
            self.apply(Step::Times(start.factor));
        }
        self.start = Some(start);
        self.begin_round();
    }

    /// Verdict on a round of the start: delivery follows the rate or not.
    fn verdict_of_start(&self, start: &Start, seen: &Span, is_overflow: bool) -> Verdict {
        let (arrives, sent_per_s, passes) = (seen.arrives_per_s(), seen.sent_per_s(), start.passes());
        match &start.before {
            _ if is_overflow => Verdict::Full,
            _ if seen.sent >= P.judged_min && arrives < P.surely_full * sent_per_s * passes => Verdict::Full,
            // Few datagrams can show that delivery follows, not that it does not.
            Some(before) if seen.sent < P.judged_min => match verdict(&self.model, before, seen) {
                Verdict::Follows => Verdict::Follows,
                Verdict::Full | Verdict::Open => Verdict::Open,
            },
            None if seen.sent < P.judged_min => {
                let sure = arrives * (1.0 - arrival_error(&self.model, seen));
                if sure >= P.follows * sent_per_s * passes { Verdict::Follows } else { Verdict::Open }
            }
            // Credit, or flow control, did not permit the rate: it is not known yet whether it passes.
            Some(_) if sent_per_s < P.permitted * self.per_s && start.more < P.more_max => Verdict::Open,
            // Nothing faster was tried: the start is over.
            Some(before) if sent_per_s < P.faster * before.sent_per_s() => Verdict::Full,
            Some(before) if followed(&self.model, before, seen).is_some_and(|(part, _)| part < P.surely_full) => {
                Verdict::Full
            }
            Some(before) => match verdict(&self.model, before, seen) {
                // Doubt is no licence: the likelier answer counts.
                Verdict::Open if start.more >= P.more_likely => likelier(&self.model, before, seen),
                verdict => verdict,
            },
            None if arrives >= P.follows * sent_per_s * passes => Verdict::Follows,
            None if seen.arrived_s > 3.0 * self.model.gap_s() && seen.sent >= P.round_min => Verdict::Full,
            None => Verdict::Open,
        }
    }

    /// Learns from the losses of a round whether others fill the path. Returns false while too few are known.
    fn tells_of_others(&mut self, start: &mut Start, seen: &Span, is_overflow: bool) -> bool {
        let lost_before = start.losses.loss();
        start.losses.pool(seen, 1.0);
        if is_overflow && lost_before > P.train_loses_more {
            // Much was lost at a lower rate, too: others fill the path.
            (self.company.is_busy, self.company.is_alone) = (true, false);
        }
        if start.is_suspect && start.losses.sent >= P.arm_min {
            start.is_suspect = false;
            self.company.is_busy |= start.losses.loss() > P.suspect_loss;
            self.company.is_alone = !self.company.is_busy;
        }
        !start.is_suspect
    }

    /// A full queue takes less of a train than of what follows it.
    fn compare_with_train(&mut self, start: &Start, seen: &Span) {
        let chance = self.model.doubt(start.train_loss, P.train, P.burst_ask_max);
        let is_train_worse = start.train_loss > seen.loss() + P.train_loses_more + chance;
        if is_train_worse && start.train.is_some_and(|train| waits_alike(&self.model, train.top_s, seen)) {
            (self.company.is_busy, self.company.is_alone) = (true, false);
            self.apply(Step::AtMost(P.busy_trains * P.train / self.model.rtt_s()));
        }
    }

    fn end_start(&mut self, is_longer: bool) {
        self.start = None;
        self.schedule.begin(self.now_s, &self.model);
        self.company.is_alone =
            !self.company.is_busy && (self.share() > P.alone_share || !is_longer && !self.is_queue_seen());
        self.company.begin(self.now_s, &self.model, self.schedule.spread());
        self.begin_round();
    }
}

impl Start {
    /// Part of the datagrams that passes, as the train told.
    fn passes(&self) -> f64 {
        1.0 - self.train_loss.min(0.5)
    }

    /// More is lost than at lower rates before. A lossy path of one's own loses the same part of every rate.
    fn loses_more(&self, model: &PathModel, seen: &Span) -> bool {
        let (before, sent) = (&self.losses, seen.sent);
        let both = (before.lost + seen.lost) / (before.sent + sent).max(1.0);
        let doubt = model.doubt(both, before.sent * sent / (before.sent + sent).max(1.0), P.burst_max);
        let is_faster = self.before.is_none_or(|before| seen.sent_per_s() > before.sent_per_s());
        is_faster && before.sent.min(sent) >= P.judged_min && seen.loss() > before.loss() + P.start_loses_more + doubt
    }

    /// The train lost no more than what followed it: its lost datagrams took their time on the bottleneck.
    fn forgive_train(&mut self, model: &PathModel, seen: &Span, rtt_s: f64) {
        let Some(train) = self.train.take() else { return };
        if train.loss() <= seen.loss() + model.doubt(seen.loss(), train.sent, P.burst_max) {
            let most = train.arrives_per_s() / (1.0 - train.loss().max(seen.loss()).min(0.9));
            let clean = self.clean_per_s.map_or(f64::INFINITY, |per_s| P.clean_part * per_s);
            self.promise = self.promise.max(train.passes_per_s().min(most).min(clean) * rtt_s);
        }
    }

    /// A full path still carries what it carried before: less is a burst of losses, or a bucket that has become empty.
    fn is_burst(&self, seen: &Span) -> bool {
        let falls = |before: &Span| {
            seen.sent_per_s() > P.faster * before.sent_per_s()
                && seen.arrives_per_s() < P.burst_part * before.arrives_per_s()
        };
        self.falls < P.falls_max && self.before.as_ref().is_some_and(falls)
    }
}
