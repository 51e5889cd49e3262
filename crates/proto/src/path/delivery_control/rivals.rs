//! Flows that fill the queue whatever we do (\[auto-8\]): the probe that finds them, and the window beside them.

use std::time::Duration;

use dfcp_time::Time;

use super::DeliveryControl;
use super::law::{Step, capacity};
use super::params::P;
use crate::config::Policy;
use crate::path::rate_control::cubic::VirtualCubic;
use crate::path::rate_control::question::{self, Answer, Push, Question};
use crate::path::rate_control::rivals::{self as rivals_of, Queue};

/// Phase of the answer to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The window follows the queue.
    Follow,
    /// More is sent, to see whether others make room.
    Push,
    /// The window is that of a flow of CUBIC.
    Compete,
}

/// A push that is judged again at a later time.
#[derive(Clone, Copy, Debug)]
struct Later {
    at: Time,
    push: Push,
}

/// The probe for rivals, and our window among theirs.
#[derive(Debug)]
pub(super) struct Rivals {
    phase: Phase,
    question: Question,
    later: Option<Later>,
    /// The queue has been longer than its target since.
    long_since: Option<Time>,
    cubic: VirtualCubic,
    events: u32,
    event_after: Time,
    queue: Queue,
    low_since: Time,
    last_report: Time,
}

impl Rivals {
    pub(super) fn new(now: Time) -> Self {
        Self {
            phase: Phase::Follow,
            question: Question::new(now),
            later: None,
            long_since: None,
            cubic: VirtualCubic::new(1.0, 0.0),
            events: 0,
            event_after: now,
            queue: Queue::default(),
            low_since: now,
            last_report: now,
        }
    }

    /// True while no empty queue can be expected: the base delay is not forgotten then.
    pub(super) fn keeps_base(&self) -> bool {
        self.phase != Phase::Follow || self.question.is_open()
    }

    /// The queue has become empty: whoever was suspected of filling it is so no longer.
    pub(super) fn on_empty(&mut self) {
        self.question.suspicion = self.question.suspicion.saturating_sub(1);
    }

    pub(super) fn is_competing(&self) -> bool {
        matches!(self.phase, Phase::Compete)
    }

    pub(super) fn is_following(&self) -> bool {
        self.phase == Phase::Follow
    }

    /// Windows are counted in other datagrams.
    pub(super) fn scale(&mut self, factor: f64) {
        self.question.scale(factor);
        self.cubic.scale(factor);
    }

    pub(super) fn on_report(&mut self, now: Time) {
        self.last_report = now;
    }
}

impl DeliveryControl {
    /// Number of TCP flows that we count for.
    fn tcp_flows(&self) -> f64 {
        if self.policy == Policy::High { 2.0 } else { 1.0 }
    }

    /// A round ended with a queue of `queue_s`. Returns true if it is asked from now on whether others make room.
    pub(super) fn ask_rivals(&mut self, queue_s: f64) -> bool {
        if self.is_answered_later(queue_s) {
            self.begin_competing(queue_s);
            return true;
        }
        let (rtt_s, share, target_s) = (self.model.rtt_s(), self.share(), self.target_s());
        let capacity_per_s = capacity(&self.model, &self.beliefs);
        let jitter_s = question::PUSH_JITTERS * self.model.jitter_s();
        let longer_s = (question::PUSH_PART * rtt_s).max(question::PUSH_S).max(jitter_s);
        let is_long = queue_s > target_s + question::HIGH_PART * rtt_s + question::HIGH_S;
        match self.rivals.long_since {
            None if is_long => self.rivals.long_since = Some(self.now),
            Some(_) if queue_s < target_s => self.rivals.long_since = None,
            _ => {}
        }
        let is_small = share > 0.0 && share < question::SMALL_SHARE && queue_s > question::NEARLY * target_s;
        let queue_s = self.model.queue_within_s(rtt_s + queue_s, self.window / rtt_s);
        let now = self.now;
        let most = (question::WINDOWS_MAX * self.window).max(question::DATAGRAMS_MAX);
        if !self.rivals.question.is_due(now, is_long || is_small, rtt_s)
            || queue_s < (question::NEARLY * target_s).max(longer_s)
            || longer_s * capacity_per_s > most
        {
            return false;
        }
        self.rivals.question.push = Push { began: now, window: self.window, queue_s, longer_s };
        self.rivals.phase = Phase::Push;
        self.apply(Step::Set(self.window + longer_s * capacity_per_s));
        self.begin_round();
        true
    }

    /// The queue grew by much more than was added, and some time later it is still as long: others do not make room.
    /// Returns true if that is believed.
    fn is_answered_later(&mut self, queue_s: f64) -> bool {
        let Some(later) = self.rivals.later.filter(|later| self.now >= later.at) else { return false };
        self.rivals.later = None;
        let is_longer = queue_s > later.push.queue_s + P.ours_max * later.push.longer_s;
        if is_longer {
            let rtt_s = self.model.rtt_s();
            self.rivals.question.note(self.now, Answer::NoRoom, rtt_s, question::spread(self.sent));
        }
        is_longer && self.rivals.question.suspicion >= question::BELIEVED
    }

    /// A report has come while more is sent, or while we compete.
    pub(super) fn face_rivals(&mut self) {
        match self.rivals.phase {
            Phase::Follow => {}
            Phase::Push => self.judge_push(),
            Phase::Compete => self.compete(),
        }
    }

    /// Loss since the round began beyond the path's own, its chance, and datagrams sent.
    fn loss_of_round(&self) -> Option<(f64, f64, f64)> {
        let seen = self.model.span(self.round.0, f64::INFINITY)?;
        let own_loss = self.beliefs.own_loss;
        let excess = 1.0 - (1.0 - seen.loss()) / (1.0 - own_loss);
        Some((excess, self.model.doubt(own_loss, seen.sent, P.burst_max), seen.sent))
    }

    fn judge_push(&mut self) {
        let (rtt_s, push) = (self.model.rtt_s(), self.rivals.question.push);
        let longest_s = rtt_s + push.queue_s + push.longer_s;
        let round_trips = self.now.since(push.began).as_secs_f64() / longest_s;
        if round_trips < question::PUSH_ROUND_TRIPS_MIN {
            return;
        }
        let Some((excess, chance, _)) = self.loss_of_round() else { return };
        let is_excess = excess > P.loss_more + chance;
        let queue_s = self.model.queue_within_s(longest_s, push.window / rtt_s);
        let mut answer = self.rivals.question.answer(queue_s, is_excess);
        let long_s = self.rivals.long_since.map_or(0.0, |since| self.now.since(since).as_secs_f64());
        let lasts = long_s > P.lasting_s.max(P.lasting_rtts * rtt_s);
        if !lasts && queue_s - push.queue_s > P.ours_max * push.longer_s {
            // Much more than we added: others add, too, and perhaps they ask as we do. Those end it as we do.
            answer = Answer::Neither;
            let longest_s = question::PUSH_ROUND_TRIPS * (rtt_s + queue_s);
            self.rivals.later = Some(Later { at: self.now + Duration::from_secs_f64(longest_s), push });
        }
        if answer != Answer::Room && !is_excess && round_trips < question::PUSH_ROUND_TRIPS {
            return;
        }
        self.rivals.question.note(self.now, answer, rtt_s, question::spread(self.sent));
        if answer == Answer::NoRoom && self.rivals.question.suspicion >= question::BELIEVED {
            self.begin_competing(queue_s);
            return;
        }
        self.rivals.phase = Phase::Follow;
        self.apply(Step::Set(push.window));
        self.begin_round();
    }

    fn begin_competing(&mut self, queue_s: f64) {
        let rtt_s = self.model.rtt_s();
        let all = capacity(&self.model, &self.beliefs) * (rtt_s + queue_s);
        let after = Duration::from_secs_f64(2.0 * self.model.smoothed_rtt_s());
        let window = self.window / self.tcp_flows();
        let rivals = &mut self.rivals;
        rivals.cubic = VirtualCubic::new(window, rivals_of::SLOW_START_PART * all);
        rivals.events = 0;
        rivals.queue = Queue { peak_s: queue_s, ..Queue::default() };
        (rivals.event_after, rivals.low_since) = (self.now + after, self.now);
        rivals.phase = Phase::Compete;
        self.begin_round();
    }

    fn compete(&mut self) {
        let (rtt_s, now) = (self.model.rtt_s(), self.now);
        let queue_s = self.model.queue_within_s((rtt_s / 4.0).max(0.002), self.window / rtt_s);
        let elapsed_s = now.since(self.rivals.last_report).as_secs_f64();
        let delivered = self.model.marks.delivery(self.model.smoothed_rtt_s(), 1.0).unwrap_or(0.0);
        let delivered = delivered / (1.0 - self.beliefs.own_loss);
        let most = rivals_of::DELIVERED_EXCEEDED * delivered * (rtt_s + queue_s) / self.tcp_flows();
        self.rivals.cubic.grow(elapsed_s, rtt_s + queue_s, most.max(2.0));
        self.rivals.queue.note(queue_s, rtt_s, elapsed_s);
        if now >= self.rivals.event_after {
            self.note_event(queue_s);
        }
        self.apply(Step::Set(self.tcp_flows() * self.rivals.cubic.window()));
        if queue_s > self.target_s().min(0.1 * rtt_s) + rivals_of::SHORT_PART * rtt_s {
            self.rivals.low_since = now;
        }
        let is_clear = now.since(self.rivals.low_since).as_secs_f64() > rivals_of::CLEAR_ROUND_TRIPS * rtt_s;
        // The policy may have become one that yields.
        if is_clear || self.rivals.events >= rivals_of::EVENTS_MAX || self.policy == Policy::Low {
            self.rivals.phase = Phase::Follow;
            self.apply(Step::Times(rtt_s / (rtt_s + queue_s)));
            self.schedule.on_low(self.now_s);
            self.begin_round();
        }
    }

    fn note_event(&mut self, queue_s: f64) {
        let Some((excess, chance, sent)) = self.loss_of_round() else { return };
        let rtt_s = self.model.rtt_s();
        let is_lossless = self.beliefs.own_loss < rivals_of::LOSSLESS;
        let is_loss = excess > rivals_of::LOSS_EXCESS + chance || is_lossless && excess * sent > rivals_of::LOST_MIN;
        let rivals = &mut self.rivals;
        if is_loss || rivals.queue.has_fallen(queue_s, rtt_s) {
            rivals.cubic.on_event();
            rivals.events += 1;
            let pause_s = rivals_of::EVENT_PAUSE_ROUND_TRIPS * (rtt_s + queue_s);
            rivals.event_after = self.now + Duration::from_secs_f64(pause_s);
            (rivals.queue.is_falling, rivals.queue.trough_s) = (true, queue_s);
            self.round.0 = self.sent;
        } else if sent > self.window {
            self.round.0 = self.model.marks.last().map_or(self.sent, |last| last.sent);
        }
    }
}
