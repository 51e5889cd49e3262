//! Id window: a message's symbols may be sent only until 8192 younger messages have been begun (`spec/protocol.md`
//! \[message-8\]).

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

use crate::limits::MESSAGE_IDS_MAX;

/// A message's symbols may leave until this number of younger messages has been begun. Receiver and ledger remember
/// twice as many ids. Even the last symbol arrives while both still know its message, because no further id is begun
/// before its fate is known.
pub(super) const WINDOW_IDS: u64 = MESSAGE_IDS_MAX as u64 / 2;
/// Distance between two time marks, ids.
const MARK_IDS: u64 = 256;
const MARKS: usize = (WINDOW_IDS / MARK_IDS) as usize;

/// Recent pace of ids: times at which messages were begun.
#[derive(Debug, Default)]
pub(super) struct IdPace {
    /// Begin times of the last ids that are multiples of [`MARK_IDS`], oldest first.
    marks: VecDeque<Time>,
}

impl IdPace {
    /// Records that message `id` is begun.
    pub(super) fn on_begin(&mut self, now: Time, id: u32) {
        if u64::from(id).is_multiple_of(MARK_IDS) {
            if self.marks.len() == MARKS {
                self.marks.pop_front();
            }
            self.marks.push_back(now);
        }
    }

    /// Returns the id window at `now`. `next_id` is the id of the next message to begin.
    pub(super) fn window(&self, now: Time, next_id: u64) -> Window {
        // A burst usually ends before the marks are full, so fewer marks do not predict the pace of messages.
        let lasts = self.marks.front().filter(|_| self.marks.len() == MARKS).map(|&first| now.since(first));
        Window { next_id, lasts }
    }
}

/// Time for which the symbols of a message may leave, limited by the age of its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    next_id: u64,
    /// Time in which [`WINDOW_IDS`] messages are begun at the present pace. `None` if too few were begun to tell.
    lasts: Option<Duration>,
}

impl Window {
    /// Returns the time for which symbols of a message begun now may leave.
    pub(super) fn lasts(self) -> Duration {
        self.lasts.unwrap_or(Duration::MAX)
    }

    /// Returns the time until which symbols of message `id` may leave, at the present pace.
    pub(super) fn closes_at(self, now: Time, id: u32) -> Time {
        let Some(lasts) = self.lasts else { return Time::MAX };
        let left = WINDOW_IDS.saturating_sub(self.next_id.saturating_sub(id.into()));
        now + lasts.mul_f64(left as f64 / WINDOW_IDS as f64)
    }

    /// Returns true if no symbol of message `id` may leave once `next_id` is begun.
    pub(super) fn is_behind(next_id: u64, id: u32) -> bool {
        next_id.saturating_sub(id.into()) >= WINDOW_IDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lasts_as_long_as_the_last_one_and_longer_after_a_pause() {
        let mut pace = IdPace::default();
        // 4 ids per millisecond.
        for id in 0..20_000_u32 {
            let now = Time::from_us(u64::from(id) * 250);
            if id < 7_000 {
                assert_eq!(pace.window(now, id.into()).lasts(), Duration::MAX, "{id}: a burst is no pace");
            }
            pace.on_begin(now, id);
        }
        let now = Time::from_ms(5_000);
        let window = pace.window(now, 20_000);
        assert!((1_950..=2_048).contains(&window.lasts().as_millis()), "{window:?}");
        let half = window.closes_at(now, 20_000 - 4_096).since(now);
        assert!((970..=1_024).contains(&half.as_millis()), "{half:?}");
        assert_eq!(window.closes_at(now, 0), now);
        assert!(pace.window(now + Duration::from_secs(60), 20_000).lasts() > Duration::from_secs(60));
        assert!(Window::is_behind(20_000, 20_000 - 8_192) && !Window::is_behind(20_000, 20_000 - 8_191));
    }
}
