//! Experiments: another rate for some datagrams, and whether delivery follows.

use super::marks::Span;
use super::model::PathModel;
use super::params::P;

/// Question of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Half the rate: is the loss ours?
    LossProbe,
    /// A higher rate: does the path carry more?
    ProbeUp,
    /// Half the rate: what is the delay without our queue?
    Drain,
    /// A higher rate for a moment: is what looks like a queue a longer path?
    Pulse,
}

/// Another rate for some datagrams, beside what was seen at the usual rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Experiment {
    pub(super) kind: Kind,
    /// Rate as a factor of the usual one, and in datagrams per second.
    pub(super) factor: f64,
    pub(super) per_s: f64,
    /// The last datagram at that rate.
    pub(super) until: f64,
    /// Control arm at the usual rate; `None` while it is measured. The rounds that raised the question are no
    /// control: they were chosen for their loss.
    pub(super) control: Option<Span>,
}

/// Verdict on whether delivery follows the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Follows,
    Full,
    Open,
}

/// Relative error of the arrival rate of a span: two standard errors by losses, and by the gaps at its ends.
pub(super) fn arrival_error(model: &PathModel, span: &Span) -> f64 {
    let loss = span.loss().min(0.95);
    let by_loss = 0.5 * model.doubt(loss, span.sent, P.burst_max) / (1.0 - loss);
    let by_gap = 0.5 * model.gap_s().min(span.arrived_s) / span.arrived_s.max(1e-6);
    (by_loss * by_loss + by_gap * by_gap).sqrt()
}

/// Followed part of a change of the rate, and its standard error: 1 if delivery changed as the rate did, 0 if not at
/// all. `None` if the rates hardly differ.
pub(super) fn followed(model: &PathModel, control: &Span, arm: &Span) -> Option<(f64, f64)> {
    let change = arm.sent_per_s() / control.sent_per_s().max(1e-9) - 1.0;
    if change.abs() < 0.15 {
        return None;
    }
    let ratio = arm.arrives_per_s().max(1e-9) / control.arrives_per_s().max(1e-9);
    let (before, after) = (arrival_error(model, control), arrival_error(model, arm));
    let doubt = 0.5 * ratio * (before * before + after * after).sqrt() / change.abs();
    Some(((ratio - 1.0) / change, doubt))
}

/// Verdict of an arm beside its control.
pub(super) fn verdict(model: &PathModel, control: &Span, arm: &Span) -> Verdict {
    match followed(model, control, arm) {
        Some((part, doubt)) if part - doubt > P.follows => Verdict::Follows,
        Some((part, doubt)) if part + 2.0 * doubt < P.follows => Verdict::Full,
        _ => Verdict::Open,
    }
}

/// The likelier verdict, however great the doubt.
pub(super) fn likelier(model: &PathModel, control: &Span, arm: &Span) -> Verdict {
    match followed(model, control, arm) {
        Some((part, _)) if part < P.follows => Verdict::Full,
        Some(_) => Verdict::Follows,
        None => Verdict::Open,
    }
}

/// Datagrams of an arm at `per_s` beside a window, multiplied by `more` where the last verdict was open.
pub(super) fn arm_datagrams(model: &PathModel, kind: Kind, per_s: f64, window: f64, more: f64) -> f64 {
    if kind == Kind::Drain {
        return (0.25 * window).max(P.round_min).max(P.round_gaps * model.gap_s() * per_s).floor();
    }
    if kind == Kind::Pulse {
        return P.arm_min.max(per_s * model.rtt_s() / 16.0).floor();
    }
    let least_s = if kind == Kind::LossProbe { P.arm_s } else { 0.0 };
    let count = (0.5 * window).max(P.arm_min).max(least_s * per_s).max(P.arm_gaps * model.gap_s() * per_s);
    (count * more).min(count.max(4.0 * window + 64.0)).floor()
}
