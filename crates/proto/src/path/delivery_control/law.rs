//! The law: the only writer of the window.

use super::model::PathModel;
use super::params::P;
use crate::config::Policy;

/// Number of flows that the high policy counts as.
const HIGH_FLOWS: f64 = 2.0;
/// Part of the price that the low policy pays.
const LOW_PRICE: f64 = 0.1;

/// Beliefs that verdicts leave. Each that lowers the rate has an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beliefs {
    /// Loss that is the path's own.
    pub(super) own_loss: f64,
    /// Delivery that was all the path takes, datagrams per second, and until when it bounds the window, seconds.
    pub(super) ceiling_per_s: f64,
    pub(super) ceiling_until_s: f64,
    /// Longest target, seconds: half of the queue at an overflow.
    pub(super) limit_s: f64,
}

impl Default for Beliefs {
    fn default() -> Self {
        Self { own_loss: 0.0, ceiling_per_s: f64::INFINITY, ceiling_until_s: 0.0, limit_s: 1.0 }
    }
}

/// A verdict's demand on the window.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Follows the queue, seconds; may grow or not.
    Queue { queue_s: f64, arrives_per_s: f64, may_grow: bool, is_alone: bool },
    /// Becomes this factor of itself.
    Times(f64),
    /// Is at most what carries this many datagrams per second.
    AtMost(f64),
    /// Is at least what carries this many datagrams per second.
    AtLeast(f64),
    /// Is this many datagrams.
    Set(f64),
}

/// Rate that the path carries as far as known: what trains found or what was delivered.
pub(super) fn capacity(model: &PathModel, beliefs: &Beliefs) -> f64 {
    model.train_per_s.max(model.delivery() / (1.0 - beliefs.own_loss))
}

/// Target of the queueing delay for a window, seconds.
pub(super) fn target_s(model: &PathModel, beliefs: &Beliefs, policy: Policy, window: f64) -> f64 {
    let rtt_s = model.rtt_s();
    let per_s = window / rtt_s;
    let of_capacity_s = P.target_datagrams / per_s.max(model.train_per_s);
    let datagrams_s = (P.target_datagrams / per_s).min(P.small_target_rtt * rtt_s).max(of_capacity_s);
    let least_s = (P.target_rtt * rtt_s).max(P.target_s).max(datagrams_s);
    let flows = if policy == Policy::High { HIGH_FLOWS } else { 1.0 };
    let share = (per_s / (0.95 * flows * capacity(model, beliefs)).max(1.0)).clamp(0.01, 1.0);
    let part = if policy == Policy::Low { LOW_PRICE } else { 1.0 };
    let price = 3.0 * part * (1.0 / share.sqrt().sqrt() - 1.0);
    let price_s = P.price_s.min(P.price_rtts * rtt_s).min(0.2 * beliefs.limit_s) * price;
    let (limit_s, asked_s) = (beliefs.limit_s, least_s.min(beliefs.limit_s) + price_s);
    // Many small shares ask for more than the buffer holds: the differences between them are kept, and made smaller.
    let beyond = if asked_s > limit_s { P.beyond_limit * (1.0 - limit_s / asked_s) } else { 0.0 };
    asked_s.min(limit_s) * (1.0 + beyond) + P.target_jitter * model.jitter_s()
}

/// The next window.
pub(super) fn law(model: &PathModel, beliefs: &Beliefs, target_s: f64, window: f64, step: Step) -> f64 {
    let rtt_s = model.rtt_s();
    let passes = 1.0 - beliefs.own_loss;
    match step {
        Step::Times(factor) => window * factor,
        Step::AtMost(per_s) => window.min(per_s * rtt_s),
        Step::AtLeast(per_s) => window.max(per_s * rtt_s),
        Step::Set(datagrams) => datagrams,
        Step::Queue { queue_s, arrives_per_s, may_grow, is_alone } => {
            let step = (P.gain * (target_s - queue_s) / (rtt_s + queue_s)).clamp(-P.step_max, P.step_max);
            if step <= 0.0 {
                // Of a path that others fill, what arrives is no part that is ours.
                let floor = if is_alone { P.law_floor * arrives_per_s / passes * rtt_s } else { 0.0 };
                (window * (1.0 + step)).max(floor.min(window))
            } else if may_grow {
                let growth = if is_alone { P.law_growth } else { P.shared_growth };
                let most = growth * model.delivery() / passes * (rtt_s + queue_s);
                let grown = window + (step * window).max(P.gain * (1.0 - queue_s / target_s));
                grown.min(most.max(window)).min(P.ceiling * beliefs.ceiling_per_s * rtt_s).max(window.min(grown))
            } else {
                window
            }
        }
    }
    .max(P.window_min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty small shares ask for more than a short buffer holds: their targets stay near half of it, and a smaller
    /// share still waits longer.
    #[test]
    fn targets_of_small_shares_fit_into_a_short_buffer() {
        let mut model = PathModel::default();
        model.on_rtt(0.0, 0.1);
        model.train_per_s = 4_000.0;
        let beliefs = Beliefs { limit_s: 0.01, ..Beliefs::default() };
        let targets = [40.0, 20.0, 14.0, 7.0].map(|window| target_s(&model, &beliefs, Policy::Fair, window));
        assert!(targets.is_sorted(), "{targets:?}");
        assert!(targets[3] > 1.05 * targets[0] && targets[3] < 0.015, "{targets:?}");
    }
}
