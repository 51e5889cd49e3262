//! Sliding replay window over the numbers of opened datagrams.

/// Size of the replay window: the number of datagram numbers in it, including the highest.
///
/// Equal to the distance at which `spec/protocol.md` \[data-2\] drops a datagram as too old. It covers 20 ms of full
/// datagrams at 10 Gbit/s, or 200 ms at 1 Gbit/s, which exceeds the reordering of real paths. It takes 2 KiB per
/// connection.
pub const REPLAY_WINDOW_DATAGRAMS: u64 = 16_384;

const WORDS_MAX: usize = (REPLAY_WINDOW_DATAGRAMS / 64) as usize;

/// Initial size of a window, 64-bit words: enough for a connection with little traffic.
const WORDS_MIN: usize = 4;

/// Sliding window over 64-bit datagram numbers, a ring with one bit per number.
///
/// The ring takes 32 bytes at first, and grows when it gets a number that does not fit.
///
/// Call [`check`](ReplayWindow::check) before a datagram is decrypted, and [`commit`](ReplayWindow::commit) only after
/// its tag was verified, because a forger must not move the window (`spec/security.md` \[replay-1\]).
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    highest: Option<u64>,
    /// Bits of seen numbers, at bit `number % (64 · seen.len())`. While the ring is shorter than the window, all
    /// numbers are below its length in bits.
    seen: Vec<u64>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplayWindow {
    /// Makes an empty window.
    #[must_use]
    pub fn new() -> Self {
        Self { highest: None, seen: vec![0; WORDS_MIN] }
    }

    /// Returns the highest committed number.
    #[must_use]
    pub fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Returns true if `number` may be opened: it was not seen before, and is not below the window.
    #[must_use]
    pub fn check(&self, number: u64) -> bool {
        match self.highest {
            Some(highest) if number <= highest => {
                highest - number < REPLAY_WINDOW_DATAGRAMS && self.seen[self.word(number)] & mask(number) == 0
            }
            _ => true,
        }
    }

    /// Marks `number` as seen. Returns false, without a change, if [`check`](ReplayWindow::check) refuses it.
    pub fn commit(&mut self, number: u64) -> bool {
        if !self.check(number) {
            return false;
        }
        if self.highest.is_none_or(|highest| number > highest) {
            self.make_room(number);
            self.forget_up_to(number);
            self.highest = Some(number);
        }
        let word = self.word(number);
        self.seen[word] |= mask(number);
        true
    }

    /// Extends a short ring so that each number up to `number` has its own bit. No bit moves, as all numbers so far are
    /// in the first round of the ring.
    fn make_room(&mut self, number: u64) {
        if self.seen.len() < WORDS_MAX && number / 64 >= self.seen.len() as u64 {
            let words = (number / 64).saturating_add(1).min(WORDS_MAX as u64) as usize;
            self.seen.resize(words.next_power_of_two(), 0);
        }
    }

    /// Returns the runs of numbers from `from` (which was received) down to the end of the window. Each item has the
    /// length of a received run, and the length of the missing run below it.
    pub fn runs_below(&self, from: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = self.highest.map_or(0, |highest| (highest + 1).saturating_sub(REPLAY_WINDOW_DATAGRAMS));
        let mut at = from + 1;
        std::iter::from_fn(move || {
            let came = self.count_below(at, end, true);
            let missing = self.count_below(at - came, end, false);
            at -= came + missing;
            (came > 0 && missing > 0).then_some((came, missing))
        })
    }

    /// Returns the length of the run of numbers directly below `above`, down to `end`, that were all seen (or all
    /// missed, if `seen` is false).
    fn count_below(&self, above: u64, end: u64, seen: bool) -> u64 {
        let mut at = above;
        while at > end {
            let number = at - 1;
            let word = self.seen[self.word(number)];
            // Bits from this number downwards, moved to the top of the word; leading ones continue the run.
            let bits = (if seen { word } else { !word }) << (63 - number % 64);
            let alike = u64::from(bits.leading_ones()).min(number % 64 + 1);
            at -= alike.min(at - end);
            if alike <= number % 64 {
                break;
            }
        }
        above - at
    }

    fn word(&self, number: u64) -> usize {
        // The length is a power of two, so that this frequent operation needs no division.
        (number / 64) as usize & (self.seen.len() - 1)
    }

    /// Clears the bits that are reused by the numbers above the highest one, up to `number`.
    fn forget_up_to(&mut self, number: u64) {
        let Some(highest) = self.highest else { return };
        if number - highest >= REPLAY_WINDOW_DATAGRAMS {
            self.seen.fill(0);
            return;
        }
        let mut at = highest + 1;
        while at <= number {
            let whole_word = at % 64 == 0 && number - at >= 63;
            let word = self.word(at);
            self.seen[word] &= if whole_word { 0 } else { !mask(at) };
            let Some(next) = at.checked_add(if whole_word { 64 } else { 1 }) else { return };
            at = next;
        }
    }
}

fn mask(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Strategy for steps between numbers that reach word boundaries, the window's size and large gaps.
    fn step() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => -70_i64..70,
            2 => -17_000_i64..17_000,
            1 => prop::sample::select(vec![-16_385_i64, -16_384, -16_383, 16_383, 16_384, 16_385, 1 << 40]),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(start in prop::sample::select(vec![0_u64, 5, 1 << 28, u64::MAX - 40_000]), steps in prop::collection::vec(step(), 1..400)) {
            let mut window = ReplayWindow::new();
            let mut seen = BTreeSet::new();
            let mut at = start;
            for step in steps {
                let number = at.saturating_add_signed(step);
                let highest = seen.last().copied();
                let fits = !seen.contains(&number)
                    && highest.is_none_or(|highest: u64| number > highest || highest - number < REPLAY_WINDOW_DATAGRAMS);
                prop_assert_eq!(window.check(number), fits);
                prop_assert_eq!(window.commit(number), fits);
                if fits {
                    seen.insert(number);
                }
                prop_assert!(!window.check(number));
                prop_assert_eq!(window.highest(), seen.last().copied());
                at = at.max(number);
            }
        }
    }

    #[test]
    fn every_number_passes_once_in_any_order_within_the_window() {
        let mut window = ReplayWindow::new();
        let numbers = REPLAY_WINDOW_DATAGRAMS * 3;
        assert!((0..numbers).rev().filter(|number| number % 2 == 1).take(8000).all(|number| window.commit(number)));
        assert!((numbers - 16_000..numbers).filter(|number| number % 2 == 0).all(|number| window.commit(number)));
        assert!((0..numbers).all(|number| !window.check(number) || number < numbers - 16_000));
        assert!(!window.check(numbers - 1 - REPLAY_WINDOW_DATAGRAMS));
    }

    #[test]
    fn the_last_number_of_all_does_not_overflow() {
        let mut window = ReplayWindow::new();
        assert!(window.commit(u64::MAX - 100));
        assert!(window.commit(u64::MAX));
        assert!(!window.commit(u64::MAX));
        assert!(window.commit(u64::MAX - 1));
    }

    #[test]
    fn runs_tell_what_did_not_come() {
        let mut window = ReplayWindow::new();
        let lost = |number: u64| number % 7 == 3 || (200..290).contains(&number);
        (0..20_000).filter(|&number| !lost(number)).for_each(|number| assert!(window.commit(number)));
        let end = 20_000 - REPLAY_WINDOW_DATAGRAMS;
        let from = 19_999;
        let mut at = from + 1;
        let mut told = BTreeSet::new();
        for (came, missing) in window.runs_below(from) {
            at -= came;
            (at - missing..at).for_each(|number| assert!(told.insert(number)));
            at -= missing;
        }
        let expected: BTreeSet<_> = (end..=from).filter(|&number| lost(number)).collect();
        assert_eq!(told, expected);
        let mut short = ReplayWindow::new();
        [0, 1, 4, 5, 9].into_iter().for_each(|number| assert!(short.commit(number)));
        assert_eq!(short.runs_below(9).collect::<Vec<_>>(), [(1, 3), (2, 2)]);
        assert_eq!(short.runs_below(5).collect::<Vec<_>>(), [(2, 2)]);
        assert_eq!(short.runs_below(1).count(), 0);
    }
}
