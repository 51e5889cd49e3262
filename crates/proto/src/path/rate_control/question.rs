//! Probe for elastic cross traffic (\[auto-8\]). Flows like us answer a longer queue at once and all together; CUBIC and BBR do not. No
//! level of queue or share tells them apart, so more is sent for some round trips, and the queue shows if others made room.

use std::time::Duration;

use dfcp_time::Time;

use super::{Mode, RateControl, steady};

/// It is asked when the queue exceeds its target by this part of a round trip and these seconds, or when the own share is below this
/// one although the queue is nearly as long as that share waits for; in this number of rounds and for this long.
pub(in crate::path) const HIGH_PART: f64 = 0.05;
pub(in crate::path) const HIGH_S: f64 = 0.002;
pub(in crate::path) const SMALL_SHARE: f64 = 0.35;
pub(in crate::path) const NEARLY: f64 = 0.8;
const ROUNDS: u32 = 6;
const PATIENCE_S: f64 = 2.0;
const PATIENCE_ROUND_TRIPS: f64 = 8.0;
/// Growth of the queue by a push: the greatest of this part of the round trip, these seconds, and this multiple of the jitter.
pub(in crate::path) const PUSH_PART: f64 = 0.08;
pub(in crate::path) const PUSH_S: f64 = 0.003;
pub(in crate::path) const PUSH_JITTERS: f64 = 3.0;
/// No push has more than this many windows or datagrams at once: such a capacity is an error of clocks, as over loopback.
pub(in crate::path) const WINDOWS_MAX: f64 = 8.0;
pub(in crate::path) const DATAGRAMS_MAX: f64 = 1_024.0;
/// Round trips of a push, of which the last one decides; room may be seen from the minimum on.
pub(in crate::path) const PUSH_ROUND_TRIPS: f64 = 6.0;
pub(in crate::path) const PUSH_ROUND_TRIPS_MIN: f64 = 3.0;
/// Part of the added queue that is left: below the first, others have made room; above the second, they have not; below the last,
/// something else has happened.
const ROOM_PART: f64 = 0.35;
const NO_ROOM_PART: f64 = 0.65;
const OTHER_PART: f64 = -0.5;
/// Each answer of no room raises the suspicion by so much, each of room lowers it by one, and this much is believed. While there is any,
/// it is asked again soon; without, later and later, as many who ask at once leave nobody who makes room.
pub(in crate::path) const BELIEVED: u32 = 5;
const NO_ROOM_WEIGHT: u32 = 2;
const SOON_S: f64 = 0.5;
const SOON_ROUND_TRIPS: f64 = 4.0;
const LATER_MAX_S: f64 = 64.0;

/// Reaction of others when more was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::path) enum Answer {
    Room,
    NoRoom,
    Neither,
}

/// Schedule of the probe, and its answers.
#[derive(Debug)]
pub(in crate::path) struct Question {
    rounds: u32,
    since: Time,
    may_ask_at: Time,
    later_s: f64,
    pub(in crate::path) suspicion: u32,
    pub(in crate::path) push: Push,
}

/// More is being sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::path) struct Push {
    pub(in crate::path) began: Time,
    pub(in crate::path) window: f64,
    pub(in crate::path) queue_s: f64,
    pub(in crate::path) longer_s: f64,
}

impl Question {
    pub(in crate::path) fn new(now: Time) -> Self {
        let push = Push { began: now, window: 0.0, queue_s: 0.0, longer_s: 0.0 };
        Self { rounds: 0, since: now, may_ask_at: now, later_s: PATIENCE_S, suspicion: 0, push }
    }

    /// Windows are counted in other datagrams.
    pub(in crate::path) fn scale(&mut self, factor: f64) {
        self.push.window *= factor;
    }

    /// Others are suspected of filling the queue.
    pub(in crate::path) fn is_open(&self) -> bool {
        self.suspicion > 0
    }

    /// True if a probe is due, after a round that gave rise to it or not.
    pub(in crate::path) fn is_due(&mut self, now: Time, gives_rise: bool, rtt_s: f64) -> bool {
        if !gives_rise {
            self.rounds = self.rounds.saturating_sub(2);
            return false;
        }
        if self.rounds == 0 {
            self.since = now;
        }
        self.rounds += 1;
        let patience_s = (PATIENCE_ROUND_TRIPS * rtt_s).max(PATIENCE_S);
        let is_patient = self.suspicion == 0 && now.since(self.since).as_secs_f64() < patience_s;
        self.rounds >= ROUNDS && !is_patient && now >= self.may_ask_at
    }

    /// Reaction of the others, with a queue of `queue_s` now; with `is_excess` it overflowed.
    pub(in crate::path) fn answer(&self, queue_s: f64, is_excess: bool) -> Answer {
        let left = (queue_s - self.push.queue_s) / self.push.longer_s;
        match left {
            _ if left < OTHER_PART => Answer::Neither,
            _ if left > NO_ROOM_PART => Answer::NoRoom,
            _ if is_excess || left > ROOM_PART => Answer::Neither,
            _ => Answer::Room,
        }
    }

    pub(in crate::path) fn note(&mut self, now: Time, answer: Answer, rtt_s: f64, spread: f64) {
        let soon_s = (SOON_ROUND_TRIPS * rtt_s).max(SOON_S);
        let is_open = self.suspicion > 0;
        match answer {
            Answer::NoRoom => self.suspicion += NO_ROOM_WEIGHT,
            Answer::Room => self.suspicion = self.suspicion.saturating_sub(1),
            Answer::Neither => {}
        }
        let pause_s = if is_open || self.suspicion > 0 {
            soon_s
        } else {
            self.later_s = (2.0 * self.later_s).min(LATER_MAX_S);
            self.later_s
        };
        self.may_ask_at = now + Duration::from_secs_f64(pause_s * (0.5 + spread));
    }
}

impl RateControl {
    /// A round ended with a queue of `queue_s`. Returns whether it is asked from now on.
    pub(super) fn ask(&mut self, now: Time, queue_s: f64) -> bool {
        let (rtt_s, capacity_per_s) = (self.history.rtt(), self.capacity.per_s());
        let target_s = self.target_s();
        let longer_s = (PUSH_PART * rtt_s).max(PUSH_S).max(PUSH_JITTERS * self.history.jitter_s());
        let is_long = queue_s > target_s + HIGH_PART * rtt_s + HIGH_S;
        let is_small = self.per_s() < SMALL_SHARE * capacity_per_s && queue_s > NEARLY * target_s;
        let queue_s = self.history.queue_lately(rtt_s + queue_s);
        if !self.question.is_due(now, is_long || is_small, rtt_s)
            || capacity_per_s <= 0.0
            || queue_s < (NEARLY * target_s).max(longer_s)
            || longer_s * capacity_per_s > (WINDOWS_MAX * self.window).max(DATAGRAMS_MAX)
        {
            return false;
        }
        self.question.push = Push { began: now, window: self.window, queue_s, longer_s };
        self.window += longer_s * capacity_per_s;
        self.mode = Mode::Push;
        self.begin_round(steady::ROUND_PART);
        true
    }

    /// A report has come while more is sent.
    pub(super) fn judge_push(&mut self, now: Time) {
        let (rtt_s, push) = (self.history.rtt(), self.question.push);
        let longest_s = rtt_s + push.queue_s + push.longer_s;
        let round_trips = now.since(push.began).as_secs_f64() / longest_s;
        if round_trips < PUSH_ROUND_TRIPS_MIN {
            return;
        }
        let Some(seen) = self.observe() else { return };
        let doubt = self.doubt(self.path_loss.share, seen.sent);
        let (_, is_excess) = self.path_loss.excess(seen.loss, doubt);
        let queue_s = self.history.queue_lately(longest_s);
        let answer = self.question.answer(queue_s, is_excess);
        if answer != Answer::Room && !is_excess && round_trips < PUSH_ROUND_TRIPS {
            return;
        }
        self.question.note(now, answer, rtt_s, spread(self.sent));
        if answer == Answer::NoRoom && self.question.suspicion >= BELIEVED {
            self.begin_competing(now, seen);
            return;
        }
        self.window = push.window;
        self.judged = None;
        self.mode = Mode::Run;
        self.begin_round(steady::ROUND_PART);
    }
}

/// From 0 to 1, so that flows which began together do not ask together.
pub(in crate::path) fn spread(sent: f64) -> f64 {
    ((sent as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1_u64 << 24) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_S: f64 = 0.1;

    fn at(ms: u64) -> Time {
        Time::from_ms(ms)
    }

    /// The queue was 40 ms, and should become 10 ms longer.
    fn asked() -> Question {
        let push = Push { began: at(0), window: 10.0, queue_s: 0.04, longer_s: 0.01 };
        Question { push, ..Question::new(at(0)) }
    }

    #[test]
    fn what_is_left_of_the_push_is_the_answer() {
        let question = asked();
        let answers = [0.03, 0.041, 0.045, 0.047, 0.08].map(|queue_s| question.answer(queue_s, false));
        let expected = [Answer::Neither, Answer::Room, Answer::Neither, Answer::NoRoom, Answer::NoRoom];
        assert_eq!(answers, expected);
        assert_eq!(question.answer(0.041, true), Answer::Neither, "an overflow made room");
    }

    #[test]
    fn it_is_asked_after_patience_and_not_by_chance() {
        let mut question = Question::new(at(0));
        assert!((0..40).all(|i| !question.is_due(at(40 * i), true, RTT_S)), "too soon");
        assert!(question.is_due(at(2_100), true, RTT_S));
        let mut question = Question::new(at(0));
        assert!((0..1_000).all(|i| !question.is_due(at(40 * i), i % 3 == 0, RTT_S)), "one round in three");
    }

    #[test]
    fn one_answer_is_not_believed() {
        let mut question = asked();
        question.note(at(1_000), Answer::NoRoom, RTT_S, 0.5);
        assert!(question.is_open() && question.suspicion < BELIEVED);
        question.note(at(2_000), Answer::Room, RTT_S, 0.5);
        question.note(at(3_000), Answer::NoRoom, RTT_S, 0.5);
        question.note(at(4_000), Answer::Neither, RTT_S, 0.5);
        assert!(question.suspicion < BELIEVED);
        question.note(at(5_000), Answer::NoRoom, RTT_S, 0.5);
        assert_eq!(question.suspicion, BELIEVED);
        (0..5).for_each(|i| question.note(at(6_000 + i), Answer::Room, RTT_S, 0.5));
        assert!(!question.is_open());
    }

    #[test]
    fn among_those_who_make_room_it_is_asked_less_and_less_often() {
        let mut question = asked();
        let pauses = [0, 1, 2, 3, 4, 5, 6, 7].map(|_| {
            question.note(at(0), Answer::Room, RTT_S, 0.5);
            question.may_ask_at.since(at(0)).as_secs_f64()
        });
        assert!(pauses.is_sorted() && pauses[0] >= 2.0 * PATIENCE_S && pauses[7] >= LATER_MAX_S, "{pauses:?}");
    }
}
