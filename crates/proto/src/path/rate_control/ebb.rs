//! Less is sent for a while, to see whose a loss is (\[auto-5\]) and what the path is like without us (\[auto-14\]).

use std::time::Duration;

use dfcp_time::Time;

use super::history::Span;
use super::path_loss::{PATH_LOSS_MAX, STANDARD_ERRORS};
use super::{Mode, RateControl, WINDOW_MIN, question, steady, target};

/// An ebb: half the rate for half a window. It is due once the base was not seen for this long.
const EBB_PART: f64 = 0.5;
const EBB_WINDOW_PART: f64 = 0.5;
const EBB_DATAGRAMS_MIN: f64 = 8.0;
/// The first part of it still shows what was before.
const EBB_SETTLES_PART: f64 = 0.1;
const EBB_AFTER_S: f64 = 5.0;
const EBB_AFTER_ROUND_TRIPS: f64 = 40.0;
/// A drain: a flow that joins a queue takes it for a part of the path. Unless the path is all its own, it sends a quarter of the rate for a
/// round trip, some round trips after the start and again as long as the least delay falls by this part of a round trip or these seconds.
const DRAIN_PART: f64 = 0.25;
const DRAIN_DATAGRAMS_MIN: f64 = 3.0;
const DRAIN_AFTER_ROUND_TRIPS: f64 = 4.0;
const FELL_ROUND_TRIP_PART: f64 = 0.02;
const FELL_MIN_S: f64 = 0.001;
/// Less is lost at half the rate by this: the loss was ours.
const EBB_FALL: f64 = 0.015;
/// Half of a smaller share than this makes little difference to a full path, so that its answer counts for less.
const DECISIVE_SHARE: f64 = 0.3;
const UNDECIDED_WEIGHT: f64 = 0.25;
/// A greater loss of the path is verified as often as an ebb is due.
const VERIFIED_LOSS: f64 = 0.03;
/// Weight of earlier answers.
const EVIDENCE_KEPT: f64 = 0.8;
const ASK_PAUSE_ROUND_TRIPS: f64 = 4.0;
/// A queue below half of this says nothing of where it ends: seconds, or datagrams.
const TOP_MIN_S: f64 = 0.002;
const TOP_MIN_DATAGRAMS: f64 = 4.0;

/// Datagrams sent, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    sent: f64,
    lost: f64,
}

impl Losses {
    fn add(&mut self, seen: Span) {
        self.sent = self.sent * EVIDENCE_KEPT + seen.sent;
        self.lost = self.lost * EVIDENCE_KEPT + seen.sent * seen.loss;
    }

    fn share(&self) -> f64 {
        self.lost / self.sent.max(1.0)
    }
}

/// Losses at the full and at half the rate since their cause was last known: one answer alone is often too little to tell.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    full: Losses,
    half: Losses,
}

impl Evidence {
    fn add(&mut self, before: Span, seen: Span) {
        self.full.add(before);
        self.half.add(seen);
    }
}

/// Half the rate for a while.
#[derive(Debug)]
pub(super) struct Ebb {
    evidence: Evidence,
    /// The last datagram of it, and the part of the rate until then.
    pub(super) end: f64,
    pub(super) part: f64,
    /// The least delay before it.
    base_s: f64,
    /// Time of a drain, which is due even if the queue was empty.
    drain_at: Option<Time>,
    /// Measurements before the ebb, if it is to tell whose the losses were.
    asked: Option<Span>,
    pub(super) may_ask_at: Time,
    /// Time from which the path's own loss is verified: it may be ours.
    verify_at: Time,
    /// Last time that the queue was nearly empty.
    pub(super) low_at: Time,
}

impl Ebb {
    pub(super) fn new(now: Time) -> Self {
        Self {
            evidence: Evidence::default(),
            end: 0.0,
            part: EBB_PART,
            base_s: 0.0,
            drain_at: None,
            asked: None,
            may_ask_at: now,
            verify_at: now,
            low_at: now,
        }
    }
}

impl RateControl {
    /// Much of what is sent is taken for lost by the path, and that was not asked lately.
    pub(super) fn is_loss_to_verify(&self, now: Time, all: Span) -> bool {
        self.path_loss.share > VERIFIED_LOSS && now >= self.ebb.verify_at && all.sent >= EBB_DATAGRAMS_MIN
    }

    /// The queue has not been empty for long, or what was taken for the path may have been a queue.
    pub(super) fn is_ebb_due(&self, now: Time) -> bool {
        self.ebb.drain_at.is_some_and(|at| now >= at) || now.since(self.ebb.low_at).as_secs_f64() > self.ebb_after_s()
    }

    fn ebb_after_s(&self) -> f64 {
        EBB_AFTER_S.max(EBB_AFTER_ROUND_TRIPS * self.history.rtt())
    }

    fn fell_min_s(&self) -> f64 {
        (FELL_ROUND_TRIP_PART * self.history.rtt()).max(FELL_MIN_S) + self.history.jitter_s()
    }

    /// The start is over.
    pub(super) fn begin_watching_base(&mut self, now: Time) {
        self.ebb.low_at = now;
        self.ebb.base_s = self.history.base();
        if !self.is_alone {
            self.drain_soon(now);
        }
    }

    /// The least delay has fallen if what was taken for the path was a queue of others, of which there may be more.
    pub(super) fn follow_base(&mut self, now: Time) {
        let fell_s = self.ebb.base_s - self.history.base();
        self.ebb.base_s = self.history.base();
        if fell_s > self.fell_min_s() {
            self.is_alone = false;
            if self.ebb.drain_at.is_none() {
                self.drain_soon(now);
            }
        }
    }

    /// Half the rate, to see whether less is lost then, or less to let the queue drain: all flows in it come to that together.
    pub(super) fn begin_ebb(&mut self, asked: Option<Span>) {
        self.mode = Mode::Ebb;
        self.window = self.window.max(WINDOW_MIN);
        let drains = asked.is_none() && !self.is_alone;
        let (part, window_part, least) = if drains {
            (DRAIN_PART, DRAIN_PART, DRAIN_DATAGRAMS_MIN)
        } else {
            (EBB_PART, EBB_WINDOW_PART, EBB_DATAGRAMS_MIN)
        };
        self.ebb.asked = asked;
        self.ebb.part = part;
        self.ebb.base_s = self.history.base();
        self.ebb.end = self.sent + (self.window * window_part).max(least).floor();
        self.round.from = self.sent;
        self.round.end = self.ebb.end;
    }

    /// Some round trips from now the queue is let drain, as what it was all the time is not seen.
    fn drain_soon(&mut self, now: Time) {
        let spread = question::spread(self.sent);
        let after_s = DRAIN_AFTER_ROUND_TRIPS * self.history.smoothed_rtt() * (0.5 + spread);
        self.ebb.drain_at = Some(now + Duration::from_secs_f64(after_s));
    }

    pub(super) fn judge_ebb(&mut self, now: Time, is_limited: bool) {
        self.mode = Mode::Run;
        if self.ebb.asked.is_none() {
            let fell_s = self.ebb.base_s - self.history.base();
            self.ebb.drain_at = None;
            if !self.is_alone && fell_s > self.fell_min_s() {
                self.drain_soon(now);
            }
        }
        if let Some(seen) = self.history.span(self.round.from + self.window * EBB_SETTLES_PART, self.ebb.end) {
            self.judged = self.history.last();
            self.ebb.low_at = now;
            match self.ebb.asked {
                Some(before) => self.answer(now, before, seen, is_limited),
                None if seen.queue_least_s < self.target_s() => {
                    self.path_loss.share += 0.25 * (seen.loss - self.path_loss.share);
                }
                None => {}
            }
            self.window = self.window.max(WINDOW_MIN);
        }
        self.begin_round(steady::ROUND_PART);
    }

    /// Compares what was seen `before`, at the full rate, with what was `seen` at half of it, or at the application's own rate if that is
    /// lower: less loss at the lower rate means that this flow causes some of it.
    fn answer(&mut self, now: Time, before: Span, seen: Span, is_limited: bool) {
        let loss = before.loss;
        let evidence = &mut self.ebb.evidence;
        evidence.add(before, seen);
        let (full, half) = (evidence.full.share(), evidence.half.share());
        let fall = full - half;
        // It was asked because much was lost, which may have been chance: both are counted as samples of one loss.
        let (full_sent, half_sent) = (evidence.full.sent, evidence.half.sent);
        let both = (full * full_sent + half * half_sent) / (full_sent + half_sent);
        let chance = self.doubt(both, full_sent * half_sent / (full_sent + half_sent));
        let top_min_s = TOP_MIN_S.max(self.capacity.time_s(TOP_MIN_DATAGRAMS));
        if fall > EBB_FALL + chance && is_limited {
            // Hardly less was sent, so less was lost by chance, or because others send less.
            self.ebb.evidence = Evidence::default();
        } else if fall > EBB_FALL + chance {
            if self.history.top() < top_min_s {
                self.upper_bound.on_exceeded(before.arrivals_per_s / (1.0 - half));
                self.window = self.window.min(self.upper_bound.per_s() * self.history.rtt());
            } else {
                self.window *= 1.0 - (1.5 * fall).clamp(0.0, 0.4);
            }
            self.path_loss.share = self.path_loss.share.min(half);
            self.ebb.evidence = Evidence::default();
        } else if !self.path_loss.is_busy && seen.queue_most_s < 0.5 * self.history.top().max(top_min_s) {
            let own = target::share(self.capacity.per_s(), self.per_s());
            let weight = if own < DECISIVE_SHARE { UNDECIDED_WEIGHT } else { 1.0 };
            // If no queue tells, a fall of more than a standard error is partly ours.
            let is_ours_too = self.upper_bound.is_known() && fall * STANDARD_ERRORS > chance;
            let own_loss = if is_ours_too { half } else { 0.5 * (seen.loss + loss) };
            self.path_loss.share += weight * (own_loss.min(PATH_LOSS_MAX) - self.path_loss.share);
        } else {
            self.window *= 1.0 - 0.5 * (loss - self.path_loss.share).clamp(0.0, 0.6);
            let doubt = self.doubt(loss, seen.sent);
            self.is_alone |= self.path_loss.note_same(loss, doubt);
        }
        self.ebb.verify_at = now + Duration::from_secs_f64(self.ebb_after_s());
        self.ebb.may_ask_at = now + Duration::from_secs_f64(ASK_PAUSE_ROUND_TRIPS * self.history.smoothed_rtt());
    }
}
