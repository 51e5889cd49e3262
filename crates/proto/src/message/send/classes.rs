//! Classes of messages that share a plan: messages with the same deadline, target, and number of symbols.

use std::sync::Arc;
use std::time::Duration;

use dfcp_time::Time;

use crate::limits::{MESSAGE_CLASSES_MAX, MESSAGE_GROUP_MAX};
use crate::message::plan::chain::LossModel;
use crate::message::plan::{Plan, Policy, Question};

/// Relative change of an input that replaces the plan.
const CHANGE: f64 = 0.06;
/// Minimum time between two plans of a class: computing one takes milliseconds of a core.
const PLAN_PAUSE: Duration = Duration::from_millis(200);
/// Smaller absolute changes of the loss rate do not replace a plan.
const SHARE_CHANGE_MIN: f64 = 0.0003;
/// Fraction of the permitted loss that plans use. The rest covers estimation errors, and the 1 of 256 sets of K symbols
/// that cannot be decoded.
const PLANNED_PART: f64 = 0.75;
/// Memory of the mean time between messages, in messages.
const SPACING_MEMORY: f64 = 32.0;

/// Properties that all messages of a class share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) within: Duration,
    /// Share of messages that may be lost.
    pub(super) lost_max: f64,
    /// Source symbols per message.
    pub(super) k: usize,
    pub(super) may_be_grouped: bool,
}

/// Inputs of a plan that depend on the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) losses: LossModel,
    /// Time after hand-over in which symbols may leave, seconds.
    pub(super) time_s: f64,
    /// Time from sending a symbol until its fate is known, seconds.
    pub(super) round_s: f64,
    /// Transmission time of a datagram at the session's rate, seconds.
    pub(super) symbol_s: f64,
}

/// Messages of one kind, with their current plan.
#[derive(Debug)]
pub(super) struct Class {
    kind: Kind,
    used_at: Time,
    spacing_s: f64,
    plan: Option<Planned>,
    /// Accumulated share of the cheap policy. It is used, and 1 is subtracted, whenever this reaches 1.
    turn: f64,
    /// Number of the unit (group of messages) that further messages join.
    pub(super) open_unit: Option<u32>,
}

#[derive(Debug)]
struct Planned {
    question: Question,
    at: Time,
    cheap: Arc<Policy>,
    safe: Arc<Policy>,
    cheap_share: f64,
}

impl Class {
    fn new(now: Time, kind: Kind) -> Self {
        Self { kind, used_at: now, spacing_s: kind.within.as_secs_f64(), plan: None, turn: 0.0, open_unit: None }
    }

    /// Records the hand-over of a message of this kind, for the mean spacing.
    fn on_message(&mut self, now: Time) {
        // Exclude pauses: after a pause, messages usually come at the same spacing as before.
        let most_s = self.kind.within.as_secs_f64();
        let spacing_s = now.since(self.used_at).as_secs_f64();
        if spacing_s <= most_s {
            self.spacing_s += (spacing_s - self.spacing_s) / SPACING_MEMORY;
        }
        self.used_at = now;
    }

    /// Returns the policy of the next unit (group of messages). Plans again if conditions have changed.
    pub(super) fn next_policy(&mut self, now: Time, conditions: &Conditions) -> Arc<Policy> {
        let question = Question {
            losses: conditions.losses,
            k: self.kind.k,
            spacing_s: self.spacing_s,
            time_s: conditions.time_s,
            round_s: conditions.round_s,
            symbol_s: conditions.symbol_s,
            datagrams_max: if conditions.symbol_s > 0.0 { self.spacing_s / conditions.symbol_s } else { f64::INFINITY },
            group_max: if self.kind.may_be_grouped { MESSAGE_GROUP_MAX } else { 1 },
            lost_max: PLANNED_PART * self.kind.lost_max,
        };
        let is_good = |planned: &Planned| now < planned.at + PLAN_PAUSE || is_like(&planned.question, &question);
        let planned = self.plan.take().filter(is_good).unwrap_or_else(|| {
            let Plan { cheap, safe, cheap_share } = Plan::new(&question);
            Planned { question, at: now, cheap: Arc::new(cheap), safe: Arc::new(safe), cheap_share }
        });
        let planned = self.plan.insert(planned);
        self.turn += planned.cheap_share;
        if self.turn >= 1.0 {
            self.turn -= 1.0;
            return Arc::clone(&planned.cheap);
        }
        Arc::clone(&planned.safe)
    }
}

fn is_like(a: &Question, b: &Question) -> bool {
    let alike = |a: f64, b: f64, least: f64| (a - b).abs() <= (CHANGE * a.abs().max(b.abs())).max(least);
    alike(a.losses.share, b.losses.share, SHARE_CHANGE_MIN)
        && alike(a.losses.memory_s, b.losses.memory_s, 0.2 * a.losses.memory_s)
        && alike(a.spacing_s, b.spacing_s, 1e-5)
        && alike(a.time_s, b.time_s, 1e-4)
        && alike(a.round_s, b.round_s, 1e-4)
        && alike(a.symbol_s, b.symbol_s, 0.5 * a.symbol_s)
        && a.group_max == b.group_max
}

/// Classes in recent use, at most [`MESSAGE_CLASSES_MAX`].
#[derive(Debug, Default)]
pub(super) struct Classes(Vec<Class>);

impl Classes {
    /// Records the hand-over of a message, and returns the index of its class. A new class may replace the least
    /// recently used one.
    pub(super) fn on_message(&mut self, now: Time, kind: Kind) -> usize {
        let at = match self.0.iter().position(|class| class.kind == kind) {
            Some(at) => at,
            None if self.0.len() < MESSAGE_CLASSES_MAX => {
                self.0.push(Class::new(now, kind));
                self.0.len() - 1
            }
            None => {
                let oldest = self.0.iter().enumerate().min_by_key(|(_, class)| class.used_at).map_or(0, |(at, _)| at);
                self.0[oldest] = Class::new(now, kind);
                oldest
            }
        };
        self.0[at].on_message(now);
        at
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Class> {
        self.0.get_mut(at)
    }
}
