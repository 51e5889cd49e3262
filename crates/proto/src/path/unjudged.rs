//! Losses that are no evidence about the path: of datagrams sent into a silence, to an address that the peer has left,
//! or to an unproven address (\[loss-3\]).
//!
//! A peer or path that provokes silences must not blind the loss estimates. So each cause excludes losses again only
//! after enough time with judged losses.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::{ELSEWHERE_MAX, JUDGED_MIN};

/// Reason to exclude the losses of the datagrams in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Reports have been missing for longer than the wait of \[silence-1\].
    Silence,
    /// The peer has moved to another address.
    Move,
}

/// Judgement on a report's losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Losses count, except `forgiven` datagrams. `silence` is the part of the time since the last report in which the
    /// peer's silence forbade sending.
    Judged { silence: Duration, forgiven: u64 },
    /// Losses are not evidence about the path.
    LeftOut,
}

/// Datagrams excluded from loss estimates.
#[derive(Debug, Default)]
pub(crate) struct Unjudged {
    /// Number of datagrams, counted from the session's first one, whose losses are excluded.
    until: u64,
    /// Time for which losses must still be judged before silence, or a move (second entry), excludes losses again.
    rest: [Duration; 2],
    /// Number of excluded datagrams that were lost.
    lost: u64,
    /// Numbers of datagrams sent to unproven addresses, whose fate is unknown.
    elsewhere: VecDeque<u64>,
}

impl Unjudged {
    /// Excludes all datagrams in flight; `sent` is the number sent so far. Ignored if the same cause has excluded
    /// losses too recently.
    pub(crate) fn leave_out(&mut self, cause: Cause, sent: u64) {
        let rest = &mut self.rest[cause as usize];
        if rest.is_zero() {
            (*rest, self.until) = (JUDGED_MIN, self.until.max(sent));
        }
    }

    /// Records that datagram `number` goes to an unproven address, which may not be the peer's.
    pub(crate) fn on_sent_elsewhere(&mut self, number: u64) {
        if self.elsewhere.len() == ELSEWHERE_MAX {
            self.elsewhere.pop_front();
        }
        self.elsewhere.push_back(number);
    }

    /// Takes in a report, `time` after the last one. It settles datagrams up to number `highest`; `before` datagrams
    /// were settled before, and `lost` of the new ones did not arrive. Returns the number of forgiven losses; `None` if
    /// the report's losses are excluded.
    pub(crate) fn on_report(&mut self, time: Duration, before: u64, highest: u64, lost: u64) -> Option<u64> {
        let passed = self.elsewhere.partition_point(|&number| number <= highest);
        self.elsewhere.drain(..passed);
        if before < self.until {
            self.lost = self.lost.saturating_add(lost);
            return None;
        }
        for rest in &mut self.rest {
            *rest = rest.saturating_sub(time);
        }
        let forgiven = lost.min(passed as u64);
        self.lost = self.lost.saturating_add(forgiven);
        Some(forgiven)
    }

    /// Returns the number of excluded datagrams that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_in_flight_is_left_out_and_nothing_that_was_sent_later() {
        let mut unjudged = Unjudged::default();
        assert_eq!(unjudged.on_report(SECOND, 90, 90, 1), Some(0));
        unjudged.leave_out(Cause::Silence, 100);
        assert_eq!([91, 99].map(|before| unjudged.on_report(SECOND, before, before + 5, 5)), [None; 2]);
        assert_eq!(unjudged.on_report(SECOND, 100, 110, 5), Some(0));
        assert_eq!(unjudged.lost(), 10);
    }

    #[test]
    fn silences_one_after_the_other_are_not_all_left_out() {
        let mut unjudged = Unjudged::default();
        let mut judged = 0;
        for silence in 1..=100 {
            unjudged.leave_out(Cause::Silence, silence * 10);
            judged += u64::from(unjudged.on_report(JUDGED_MIN / 4, silence * 10 - 1, silence * 10, 9).is_some());
        }
        assert_eq!(judged, 80, "one of five is left out");
    }

    #[test]
    fn a_move_in_a_silence_is_left_out_too() {
        let mut unjudged = Unjudged::default();
        unjudged.leave_out(Cause::Silence, 10);
        assert_eq!(unjudged.on_report(SECOND, 9, 10, 1), None);
        unjudged.leave_out(Cause::Move, 20);
        assert_eq!(unjudged.on_report(SECOND, 19, 20, 1), None);
        unjudged.leave_out(Cause::Move, 30);
        assert!(unjudged.on_report(SECOND, 29, 30, 1).is_some(), "but not one move after the other");
    }

    /// Attack: copies of the peer's datagrams from other addresses trigger challenges, which nobody receives.
    #[test]
    fn what_goes_to_strangers_is_no_loss_of_the_path_and_hides_none() {
        let mut unjudged = Unjudged::default();
        (0..10 * ELSEWHERE_MAX as u64).for_each(|number| unjudged.on_sent_elsewhere(number));
        assert!(unjudged.elsewhere.len() <= ELSEWHERE_MAX);
        let mut unjudged = Unjudged::default();
        [3, 5, 9].into_iter().for_each(|number| unjudged.on_sent_elsewhere(number));
        assert_eq!(unjudged.on_report(SECOND, 0, 5, 4), Some(2), "four were lost, and two of them elsewhere");
        assert_eq!(unjudged.on_report(SECOND, 6, 9, 0), Some(0), "it has arrived");
        assert_eq!(unjudged.on_report(SECOND, 10, 20, 4), Some(0));
    }
}
