//! The steady phase: rounds that follow the queue, and the experiments between them.

use super::DeliveryControl;
use super::company::waits_alike;
use super::experiment::{Experiment, Kind, Verdict, arm_datagrams, followed, verdict};
use super::law::{Beliefs, Step};
use super::marks::Span;
use super::model::PathModel;
use super::params::P;
use crate::config::Policy;

/// Times of experiments, and what earlier ones left.
#[derive(Debug)]
pub(super) struct Schedule {
    last_s: f64,
    rounds: u64,
    may_ask_s: f64,
    verify_s: f64,
    may_up_s: f64,
    /// Last time that the queue was nearly empty.
    low_at_s: f64,
    /// Rounds in which the queue was long and did not become shorter, and its delay, seconds.
    high_rounds: u32,
    high_s: f64,
    up_factor: f64,
    up_pause: f64,
    /// Rate that trains promised when more was last tried in vain.
    refused_per_s: f64,
    ask_pause: f64,
    verify_times: f64,
    ceiling_times: f64,
    more: f64,
    train_due_s: f64,
    /// Pause until the next train where the queue has vanished; 0 while there is one.
    train_pause_s: f64,
    /// Datagrams of the next train.
    train_datagrams: f64,
    /// Rounds in a row in which the queue was nearly empty.
    low_rounds: u32,
    /// Rounds with a queue since it was empty last, and rounds in a row in which it was nearly empty.
    queued_rounds: u32,
    empty_rounds: u32,
    /// Window that made a queue last.
    queued_window: f64,
    /// A loss probe has told since the start.
    is_loss_known: bool,
    /// Losses of recent rounds, and those at full and half the rate.
    losses: Span,
    full: Span,
    half: Span,
}

impl Schedule {
    pub(super) fn new(now_s: f64) -> Self {
        Self {
            last_s: now_s,
            rounds: 0,
            may_ask_s: 0.0,
            verify_s: 0.0,
            may_up_s: 0.0,
            low_at_s: now_s,
            high_rounds: 0,
            high_s: 0.0,
            up_factor: P.up,
            up_pause: 1.0,
            refused_per_s: f64::INFINITY,
            ask_pause: 1.0,
            verify_times: 1.0,
            ceiling_times: 1.0,
            more: 1.0,
            train_due_s: 0.0,
            train_pause_s: 0.0,
            train_datagrams: P.later_train,
            low_rounds: 0,
            queued_rounds: 0,
            empty_rounds: 0,
            queued_window: f64::INFINITY,
            is_loss_known: false,
            losses: Span::default(),
            full: Span::default(),
            half: Span::default(),
        }
    }

    /// The start is over.
    pub(super) fn begin(&mut self, now_s: f64, model: &PathModel) {
        self.low_at_s = now_s;
        self.verify_s = now_s + P.loss_pause_rtts * model.smoothed_rtt_s();
    }

    /// The queue was nearly empty.
    pub(super) fn on_low(&mut self, now_s: f64) {
        self.low_at_s = now_s;
    }

    /// A round is over: limits relax with time.
    /// Returns the round trips since the last one.
    pub(super) fn on_round(&mut self, now_s: f64, model: &PathModel, beliefs: &mut Beliefs) -> f64 {
        let rtts = (now_s - self.last_s) / model.smoothed_rtt_s();
        self.last_s = now_s;
        self.rounds += 1;
        beliefs.limit_s = (beliefs.limit_s * (1.0 + (P.limit_growth * rtts).min(0.5))).min(1.0);
        if now_s >= beliefs.ceiling_until_s {
            beliefs.ceiling_per_s = f64::INFINITY;
        }
        rtts
    }

    /// Loss of recent rounds.
    pub(super) fn loss(&self) -> f64 {
        self.losses.loss()
    }

    /// From 0.5 to 1.5, so that flows which began together do not ask together.
    pub(super) fn spread(&self) -> f64 {
        0.5 + (self.rounds * 7 % 16) as f64 / 16.0
    }
}

fn verify_after_s(model: &PathModel) -> f64 {
    P.verify_s.max(P.verify_rtts * model.smoothed_rtt_s())
}

impl DeliveryControl {
    pub(super) fn judge_steady(&mut self, seen: &Span, is_limited: bool) {
        match self.experiment.take() {
            Some(Experiment { kind, factor, control: None, .. }) => self.begin_arm(kind, factor, *seen),
            Some(Experiment { kind: Kind::ProbeUp, factor, control: Some(control), .. }) => {
                self.judge_probe_up(factor, &control, seen, is_limited);
            }
            Some(Experiment { kind: Kind::LossProbe, control: Some(control), .. }) => {
                self.judge_loss_probe(&control, seen);
            }
            Some(Experiment { kind: Kind::Drain, .. }) => {
                self.schedule.low_at_s = self.now_s;
                self.company.on_drain(self.now_s);
            }
            Some(Experiment { kind: Kind::Pulse, per_s, .. }) => self.judge_pulse(per_s, seen),
            None => self.judge_round(seen, is_limited),
        }
    }

    fn judge_round(&mut self, seen: &Span, is_limited: bool) {
        let (target_s, queue_s) = (self.target_s(), self.queue_of(seen));
        self.schedule.losses.pool(seen, P.loss_kept);
        let (loss, sent) = (self.schedule.losses.loss(), self.schedule.losses.sent);
        self.beliefs.own_loss = self.beliefs.own_loss.min(loss + self.model.doubt(loss, sent, P.burst_max));
        let is_held_up = self.is_held_up();
        let sees_queue = is_held_up || self.learn_from_short_queue();
        let own_loss = self.beliefs.own_loss;
        let doubt = self.model.doubt(own_loss, sent, P.burst_ask_max);
        let is_more = loss > own_loss + P.loss_more + 0.5 * doubt;
        if queue_s < 0.25 * target_s {
            self.schedule.low_at_s = self.now_s;
        }
        // Jitter is no queue.
        let jitter_s = self.model.jitter_s();
        if queue_s - jitter_s > 0.5 * (target_s - jitter_s) {
            self.company.on_queue(self.share());
            self.schedule.queued_rounds += 1;
            self.schedule.empty_rounds = 0;
        } else if queue_s < 0.25 * target_s {
            self.on_empty();
        }
        if self.company.is_train_due() && self.now_s >= self.schedule.train_due_s {
            self.schedule.train_due_s =
                self.now_s + P.drain_rtts * self.model.smoothed_rtt_s() * self.schedule.spread();
            self.begin_train(P.train);
        }
        if is_held_up && loss > own_loss + doubt {
            self.schedule.losses = Span::default();
            return;
        }
        if loss > own_loss + doubt {
            let sure = loss - own_loss - self.model.doubt(own_loss, sent, P.burst_max);
            self.on_excess(seen, (loss - own_loss - doubt, sure), sees_queue || queue_s > target_s, is_limited);
            return;
        }
        if own_loss > 0.02 && self.now_s >= self.schedule.verify_s && !is_limited && !is_held_up {
            self.begin_experiment(Kind::LossProbe, P.half, seen);
            return;
        }
        let grows = queue_s < target_s;
        if grows && (is_limited || is_more) {
            return;
        }
        let (arrives_per_s, is_alone) = (seen.arrives_per_s(), self.company.is_alone);
        self.apply(Step::Queue { queue_s, arrives_per_s, may_grow: grows, is_alone });
        if !is_limited && (self.policy == Policy::Low || !self.ask_rivals(queue_s)) {
            self.choose_experiment(seen, queue_s, target_s, is_more);
        }
    }

    /// The queue is nearly empty. If it was long before, others have left or the path has become faster: what was
    /// refused then is asked anew.
    fn on_empty(&mut self) {
        let schedule = &mut self.schedule;
        schedule.empty_rounds += 1;
        if schedule.empty_rounds < P.low_rounds {
            return;
        }
        // A few rounds of queue are what our own probes leave.
        if schedule.queued_rounds >= P.queued_rounds {
            (schedule.may_up_s, schedule.up_pause) = (self.now_s, 1.0);
            self.rivals.on_empty();
        }
        schedule.queued_rounds = 0;
    }

    /// Losses in a short queue are the path's own. Returns true if the queue has been long enough to tell.
    fn learn_from_short_queue(&mut self) -> bool {
        let capacity = super::law::capacity(&self.model, &self.beliefs);
        let Some((loss, sent)) = self.model.short_loss(capacity) else { return false };
        let own_loss = &mut self.beliefs.own_loss;
        if loss > *own_loss + 0.25 * self.model.doubt(loss, sent, P.burst_max) {
            *own_loss += 0.3 * (loss - *own_loss);
        }
        true
    }

    /// More is lost than the path's own, by `excess`, and by `sure` even if losses come in bursts.
    fn on_excess(&mut self, seen: &Span, (excess, sure): (f64, f64), is_queued: bool, is_limited: bool) {
        // Whoever began in a full queue takes it for the path; all that lose drain, and all find the path's delay.
        let is_shared = if is_queued { !self.company.is_alone } else { self.share() < P.alone_share };
        if is_shared && !is_limited && self.company.may_drain_at_overflow(self.now_s, &self.model) {
            self.begin_drain(seen);
            return;
        }
        let top_s = self.model.top_s();
        let base_s = self.model.base_s(seen.sent_per_s()).unwrap_or(seen.low_s);
        if seen.top_s - base_s > 0.5 * top_s && top_s > 2.0 * self.model.jitter_s() + 0.002 {
            self.beliefs.limit_s = (P.limit_part * top_s).max(0.0003);
        }
        // Above the target the window shrinks in any case; whose the loss is, is asked when the queue is short.
        if is_queued && (self.schedule.is_loss_known || self.queue_of(seen) > self.target_s()) {
            let (queue_s, arrives_per_s, is_alone) = (self.queue_of(seen), seen.arrives_per_s(), self.company.is_alone);
            self.apply(Step::Times(1.0 - excess.min(P.step_max)));
            self.apply(Step::Queue { queue_s, arrives_per_s, may_grow: false, is_alone });
            self.schedule.losses = Span::default();
        } else if self.now_s >= self.schedule.may_ask_s && !is_limited {
            self.begin_experiment(Kind::LossProbe, P.half, seen);
        } else {
            // Until it is known whose the loss is, it is ours, unless the application sends less than the window.
            if sure > 0.0 && !is_limited {
                self.apply(Step::Times(1.0 - sure.min(P.step_max)));
                self.schedule.losses = Span::default();
            }
            if self.is_drain_due() && !is_limited {
                self.begin_drain(seen);
            }
        }
    }

    fn is_drain_due(&self) -> bool {
        self.company.is_drain_due(self.now_s) || self.now_s - self.schedule.low_at_s > verify_after_s(&self.model)
    }

    fn begin_drain(&mut self, seen: &Span) {
        let part = if self.company.is_alone { P.half } else { P.drain_part };
        self.company.on_drain(self.now_s);
        self.begin_experiment(Kind::Drain, part, seen);
    }

    fn choose_experiment(&mut self, seen: &Span, queue_s: f64, target_s: f64, is_more: bool) {
        let schedule = &mut self.schedule;
        if queue_s > target_s {
            let is_high = queue_s > target_s + P.high_rtt * self.model.rtt_s();
            let stays = is_high && queue_s > P.stays * schedule.high_s;
            schedule.high_rounds = if stays { schedule.high_rounds + 1 } else { 0 };
            schedule.high_s = queue_s;
            // A queue that does not fall with the window may be none.
            if schedule.high_rounds >= P.high_rounds && self.model.train_per_s > 0.0 {
                schedule.high_rounds = 0;
                // A small share of a full queue that became only a little larger would be passed on as it came.
                let capacity = super::law::capacity(&self.model, &self.beliefs);
                let factor = 1.0 + P.pulse * (capacity / seen.sent_per_s().max(1e-9)).min(P.pulse_max);
                self.begin_experiment(Kind::Pulse, factor, seen);
                return;
            }
        } else {
            (schedule.high_rounds, schedule.high_s) = (0, 0.0);
        }
        if self.is_drain_due() {
            self.begin_drain(seen);
            return;
        }
        let ceiling = P.ceiling * self.beliefs.ceiling_per_s * self.model.rtt_s();
        let spared = self.spared_per_s().map_or(f64::INFINITY, |per_s| per_s * self.model.rtt_s());
        let has_room = P.up * self.window <= spared && P.up * self.window <= ceiling.max(P.up * P.up);
        // Jitter can hide the queue; then delivery alone tells if more passes.
        let jitter_s = self.model.jitter_s();
        let is_hidden = self.company.is_alone && jitter_s > 0.5 * target_s && queue_s < target_s + jitter_s;
        // Beside others the law grows without a probe, unless its steps are small.
        let step = P.gain * (target_s - queue_s) / (self.model.rtt_s() + queue_s);
        let asks = self.company.is_alone || step < P.asks_below;
        if asks
            && (queue_s < 0.5 * target_s || is_hidden)
            && self.now_s >= self.schedule.may_up_s
            && !is_more
            && has_room
        {
            let promised = 0.95 * self.model.train_per_s / seen.sent_per_s().max(1e-9);
            // An arm of a small window is no more than a train.
            let most = P.up_max.max(2.0 * P.arm_min / self.window).min(P.small_up_max);
            let factor = self.schedule.up_factor.max(promised.min(most)).min(ceiling / self.window).max(P.up);
            let factor = if self.company.is_alone || self.company.has_room() { factor } else { P.up };
            self.begin_experiment(Kind::ProbeUp, factor, seen);
            return;
        }
        self.choose_train(queue_s, target_s);
    }

    /// A queue that has vanished may mean a faster path, which trains show soonest.
    fn choose_train(&mut self, queue_s: f64, target_s: f64) {
        let longest_s = P.later_train_s.max(P.later_train_rtts * self.model.rtt_s());
        let schedule = &mut self.schedule;
        if queue_s > 0.5 * target_s || !self.company.is_alone {
            (schedule.train_pause_s, schedule.low_rounds) = (0.0, 0);
            schedule.queued_window = self.window;
        } else if queue_s < 0.25 * target_s && schedule.train_pause_s == 0.0 {
            // The window that made a queue makes none any more.
            let is_larger = self.window > P.vanished * schedule.queued_window + 1.0;
            schedule.low_rounds = if is_larger { schedule.low_rounds + 1 } else { 0 };
            if schedule.low_rounds >= P.low_rounds {
                (schedule.train_pause_s, schedule.train_due_s) = (P.soon_rtts * self.model.rtt_s(), self.now_s);
            }
        }
        // Small windows send one only as long as they know no capacity.
        let least = if self.model.train_per_s > 0.0 { P.later_train } else { 0.0 };
        if self.now_s >= schedule.train_due_s && self.window >= least {
            let pause_s = if schedule.train_pause_s > 0.0 { schedule.train_pause_s } else { longest_s };
            schedule.train_due_s = self.now_s + pause_s.min(longest_s) * schedule.spread();
            schedule.train_pause_s *= 2.0;
            // An unknown capacity is worth as many datagrams as in the beginning.
            let most = if self.model.train_per_s > 0.0 {
                (P.later_train_part * self.window).clamp(P.later_train, P.later_train_max).min(self.window)
            } else {
                P.train
            };
            self.begin_train(self.schedule.train_datagrams.min(most).floor());
        }
    }

    // ---- experiments ----

    /// Begins with a control arm, unless `seen` is known well and did not raise the question by its losses.
    fn begin_experiment(&mut self, kind: Kind, factor: f64, seen: &Span) {
        let suffices = seen.sent >= P.arm_min && seen.arrived_s > P.arm_gaps * self.model.gap_s();
        if kind == Kind::LossProbe || kind == Kind::ProbeUp && !suffices {
            let per_s = self.per_s;
            let count = arm_datagrams(&self.model, kind, per_s, self.window, self.schedule.more);
            self.round = (self.sent, self.sent + count);
            self.experiment = Some(Experiment { kind, factor, until: self.round.1, per_s, control: None });
        } else {
            self.begin_arm(kind, factor, *seen);
        }
    }

    fn begin_arm(&mut self, kind: Kind, factor: f64, control: Span) {
        let most = 2.0 * self.window / self.model.rtt_s();
        let per_s = factor * control.sent_per_s().clamp(0.5 * self.per_s, most.max(0.5 * self.per_s));
        let count = arm_datagrams(&self.model, kind, per_s, self.window, self.schedule.more);
        self.round = (self.sent, self.sent + count);
        self.experiment = Some(Experiment { kind, factor, until: self.round.1, per_s, control: Some(control) });
    }

    fn judge_probe_up(&mut self, factor: f64, control: &Span, seen: &Span, is_limited: bool) {
        let (queue_s, target_s) = (self.queue_of(seen), self.target_s());
        let is_hidden = self.company.is_alone && queue_s < target_s + self.model.jitter_s();
        let is_short = queue_s < target_s || is_hidden;
        let doubt = self.model.doubt(control.loss(), control.sent.min(seen.sent), P.burst_ask_max);
        let loses_more = seen.loss() > control.loss() + P.loss_more + 0.5 * doubt;
        let verdict = verdict(&self.model, control, seen);
        let has_followed = verdict == Verdict::Follows && is_short && !is_limited;
        self.company.on_probe_up(&self.model, has_followed, queue_s);
        if has_followed {
            if queue_s > target_s {
                // Delivery followed, so this delay is the path's, and no queue of ours.
                self.model.forget_base();
            }
            self.apply(Step::Times(factor));
            if self.window > self.beliefs.ceiling_per_s * self.model.rtt_s() {
                self.schedule.ceiling_times = 1.0;
            }
            let schedule = &mut self.schedule;
            schedule.up_factor = (schedule.up_factor * P.up).min(P.up_max);
            (schedule.may_up_s, schedule.up_pause, schedule.more) = (self.now_s, 1.0, 1.0);
        } else if verdict == Verdict::Open && is_short && self.schedule.more < P.more_max && !loses_more {
            self.schedule.more *= 2.0;
            self.schedule.may_up_s = self.now_s;
        } else {
            let pause_s = P.up_pause_rtts * self.schedule.spread() * self.model.smoothed_rtt_s();
            let schedule = &mut self.schedule;
            (schedule.more, schedule.up_factor) = (1.0, P.up);
            schedule.may_up_s = self.now_s + schedule.up_pause * pause_s;
            schedule.refused_per_s = self.model.train_per_s;
            schedule.up_pause = (2.0 * schedule.up_pause).min(P.pause_max);
        }
    }

    /// What arrived was all that the path takes.
    fn on_full(&mut self, per_s: f64) {
        let until_s = self.now_s + self.schedule.ceiling_times * verify_after_s(&self.model);
        (self.beliefs.ceiling_per_s, self.beliefs.ceiling_until_s) = (per_s, until_s);
        self.apply(Step::AtMost(per_s));
        let schedule = &mut self.schedule;
        schedule.ceiling_times = (2.0 * schedule.ceiling_times).min(P.pause_max);
        (schedule.full, schedule.half) = (Span::default(), Span::default());
    }

    fn judge_loss_probe(&mut self, control: &Span, seen: &Span) {
        let schedule = &mut self.schedule;
        schedule.full.pool(control, P.evidence_kept);
        schedule.half.pool(seen, P.evidence_kept);
        let (full, half) = (schedule.full, schedule.half);
        let both = (full.lost + half.lost) / (full.sent + half.sent);
        let doubt = self.model.doubt(both, full.sent * half.sent / (full.sent + half.sent), P.burst_max);
        schedule.may_ask_s = self.now_s + schedule.ask_pause * P.loss_pause_rtts * self.model.smoothed_rtt_s();
        schedule.ask_pause = 1.0;
        schedule.losses = Span::default();
        schedule.verify_s = self.now_s + schedule.verify_times * verify_after_s(&self.model);
        schedule.verify_times = 1.0;
        let verdict = verdict(&self.model, &full, &half);
        let at_most = both + self.model.doubt(both, full.sent + half.sent, P.burst_ask_max);
        self.beliefs.own_loss = self.beliefs.own_loss.min(at_most);
        let own_loss = self.beliefs.own_loss;
        let base_s = self.model.base_s(control.sent_per_s()).unwrap_or(control.low_s);
        if verdict == Verdict::Full {
            // Half as much is sent, and as much arrives.
            self.beliefs.own_loss = 0.5 * own_loss.min(half.loss());
            let delivered = control.arrives_per_s().max(seen.arrives_per_s());
            self.on_full(delivered / (1.0 - self.beliefs.own_loss));
        } else if full.loss() > half.loss() + doubt + 0.015 {
            self.beliefs.own_loss = half.loss().min(0.9);
            if self.company.is_alone || !self.is_queue_seen() {
                self.on_full(control.arrives_per_s() / (1.0 - self.beliefs.own_loss));
            } else {
                self.apply(Step::Times(1.0 - (1.5 * (full.loss() - half.loss())).clamp(0.0, P.step_max)));
                (self.schedule.full, self.schedule.half) = (Span::default(), Span::default());
            }
        } else if !self.company.tells_loss(self.share()) {
            self.apply(Step::Times(1.0 - (P.busy_yields * (full.loss() - own_loss)).clamp(0.0, P.step_max)));
            self.company.on_same_loss(full.loss(), doubt);
        } else if control.top_s - base_s > P.queued * self.target_s() {
            // Of a small share delivery follows in a full queue, too: its losses are a sign to yield.
            self.apply(Step::Times(1.0 - (full.loss() - own_loss).clamp(0.0, P.step_max)));
        } else if verdict == Verdict::Follows {
            self.beliefs.own_loss = half.loss().max(both - doubt).min(0.9);
            self.restore(control);
            // Few datagrams tell it roughly: it is asked again soon.
            if doubt < P.known_loss {
                (self.schedule.ask_pause, self.schedule.verify_times) = (P.pause_max, P.verify_times);
            }
        } else if self.schedule.more < P.more_max {
            self.schedule.more *= 2.0;
            self.schedule.may_ask_s = self.now_s;
            return;
        } else if followed(&self.model, &full, &half).is_some_and(|(part, _)| part < P.follows) {
            // All that could be asked was asked: the likelier answer counts.
            self.beliefs.own_loss = 0.5 * own_loss.min(half.loss());
            self.on_full(full.arrives_per_s().max(half.arrives_per_s()) / (1.0 - self.beliefs.own_loss));
        } else {
            self.beliefs.own_loss = own_loss.max(half.loss() - doubt).min(0.9);
        }
        (self.schedule.more, self.schedule.is_loss_known) = (1.0, true);
    }

    /// A loss has turned out to be the path's own. What was delivered lately took more datagrams than arrived, and they
    /// passed: the window is as large again, unless there is a queue.
    fn restore(&mut self, control: &Span) {
        if self.queue_of(control) < self.target_s() {
            self.apply(Step::AtLeast(P.restored * self.model.delivery() / (1.0 - self.beliefs.own_loss)));
        }
    }

    /// The queue was long enough lately to tell where it ends.
    pub(super) fn is_queue_seen(&self) -> bool {
        let capacity = super::law::capacity(&self.model, &self.beliefs);
        self.model.top_s() > (P.seen_datagrams / capacity.max(1.0)).max(P.seen_s).max(1.5 * self.model.jitter_s())
    }

    /// A pulse that arrives as fast as it was sent, with equal delays, has met no queue.
    fn judge_pulse(&mut self, arm_per_s: f64, seen: &Span) {
        let flat_s = (0.01 * self.model.rtt_s()).max(0.002) + self.model.jitter_s();
        let arrives = seen.arrives_per_s() / (1.0 - self.beliefs.own_loss);
        if seen.sent >= 8.0 && arrives > P.undispersed * arm_per_s && seen.top_s - seen.low_s < flat_s {
            self.model.forget_base();
        }
    }

    /// A queue that others keep full takes far less of a train than of paced datagrams. What was taken for the path's
    /// own loss is theirs and ours then.
    fn judge_train_losses(&mut self, from: f64, until: f64) {
        let Some((sent, lost, top_s)) = self.model.marks.around(from, until) else { return };
        self.company.on_train(sent, lost);
        let paced = self.schedule.losses;
        let (loss, usual) = (lost / sent.max(1.0), paced.loss());
        let doubt = self.model.doubt(usual, sent, P.burst_ask_max);
        let is_worse = usual > P.train_loses_more && loss > usual + 0.5 * P.train_loses_more + doubt;
        if is_worse && waits_alike(&self.model, top_s, &paced) {
            (self.company.is_busy, self.company.is_alone) = (true, false);
            self.beliefs.own_loss *= 0.5;
            (self.schedule.full, self.schedule.half) = (Span::default(), Span::default());
        }
    }

    /// Later trains tell of whom the path is, and nothing else.
    pub(super) fn judge_later_train(&mut self, last_sent: f64) {
        let (from, until) = self.train;
        if until <= from || last_sent < until {
            return;
        }
        self.train = (0.0, 0.0);
        if self.is_train_limited {
            return;
        }
        self.judge_train_losses(from, until);
        let seen = self.model.span(from, until).filter(|train| train.sent >= 3.0);
        let Some(train) = seen.filter(|train| train.arrived_s >= 2.0 * self.model.jitter_s()) else {
            // Reports tell of one arrival in some: of a longer train they tell more.
            self.schedule.train_datagrams = (2.0 * self.schedule.train_datagrams).min(P.later_train_max);
            return;
        };
        self.schedule.train_datagrams = (0.5 * self.schedule.train_datagrams).max(P.later_train);
        // Datagrams that a full queue dropped did not pass.
        let is_clean = train.loss() <= self.schedule.loss() + P.train_clean;
        let found = if is_clean { train.passes_per_s() } else { train.arrives_per_s() };
        let known = self.model.train_per_s;
        self.model.train_per_s = if known > 0.0 {
            let found = found.min(4.0 * super::law::capacity(&self.model, &self.beliefs));
            let is_clear = self.schedule.low_rounds >= P.low_rounds;
            known + (if is_clear { P.train_weight_clear } else { P.train_weight }) * (found - known)
        } else {
            found.min(train.arrives_per_s())
        };
        // The path has become faster since more was last tried in vain: that is asked at once.
        if self.model.train_per_s > P.promising * self.schedule.refused_per_s {
            (self.schedule.may_up_s, self.schedule.up_pause) = (self.now_s, 1.0);
        }
    }
}
