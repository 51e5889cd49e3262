//! Losses that say nothing of what the path carries: of what was sent into a silence, to an address that the peer has left, or to one that it
//! has yet to prove (\[loss-3\]).
//!
//! A peer or a path that makes silences must not blind what judges losses, so each kind is left out only after enough has been judged.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::{ELSEWHERE_MAX, JUDGED_MIN};

/// Why datagrams in flight are not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Reports had been missing for longer than \[silence-1\] waits.
    Silence,
    /// The peer has another port.
    Move,
}

/// Judgement on the losses of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// They are, except `forgiven` datagrams; for this part of the time since the last report nothing could be sent, because the peer was silent.
    Judged { silence: Duration, forgiven: u64 },
    /// They are not.
    LeftOut,
}

/// Datagrams that are not judged.
#[derive(Debug, Default)]
pub(crate) struct Unjudged {
    /// Count of datagrams, from the first on, that are not judged.
    until: u64,
    /// The time for which losses must still be judged before silence is left out again, and before a move is.
    rest: [Duration; 2],
    /// Datagrams that were lost of all which were left out.
    lost: u64,
    /// Numbers of datagrams that went to addresses which are not proven, and whose fate is unknown.
    elsewhere: VecDeque<u64>,
}

impl Unjudged {
    /// Of the `sent` datagrams so far, those whose fate is unknown are not judged, unless too little has been since the last time.
    pub(crate) fn leave_out(&mut self, cause: Cause, sent: u64) {
        let rest = &mut self.rest[cause as usize];
        if rest.is_zero() {
            (*rest, self.until) = (JUDGED_MIN, self.until.max(sent));
        }
    }

    /// Datagram `number` goes to an address that is not proven: whoever has named it may be no peer.
    pub(crate) fn on_sent_elsewhere(&mut self, number: u64) {
        if self.elsewhere.len() == ELSEWHERE_MAX {
            self.elsewhere.pop_front();
        }
        self.elsewhere.push_back(number);
    }

    /// A report, `time` after the one before, tells the fate of datagrams up to number `highest`, from the one on after `before` had been sent;
    /// `lost` of these did not arrive. Returns how many of them are forgiven; `None` if none of all these is judged.
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

    /// Datagrams that were lost without being judged.
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

    /// The attack: copies of the peer's datagrams from elsewhere draw challenges, which nobody receives.
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
