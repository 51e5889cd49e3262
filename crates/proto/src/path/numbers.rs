//! Datagram numbers, assigned in order, with some numbers skipped (`spec/protocol.md` \[data-5\]).
//!
//! An honest receiver never reports a number that was not sent. A receiver that claims datagrams it did not receive
//! cannot know the skipped numbers (RFC 9000 §21.4). One that receives them can infer the skipped numbers from the
//! gaps; it gains nothing from guessing.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Length of a group of numbers. One unpredictable number of each group is skipped.
const GROUP: u64 = 128;

/// Assigns the datagram numbers of one direction, from 0 on.
pub(crate) struct DatagramNumbers {
    next: u64,
    /// Seed of the skipped numbers.
    seed: [u8; 32],
    /// First group with a skipped number. `u32::MAX` if numbers are never skipped: in the classic profile, whose
    /// reports carry no numbers, and during a handshake.
    first_group: u32,
    /// Offset of the skipped number in the group of `next`, cached so that most datagrams draw no random number.
    skipped_here: Option<u8>,
}

impl Default for DatagramNumbers {
    fn default() -> Self {
        Self { next: 0, seed: [0; 32], first_group: u32::MAX, skipped_here: None }
    }
}

impl DatagramNumbers {
    /// Starts to skip one number per group, from the next group on. The peer must not be able to guess the seed.
    pub(crate) fn skip_some(&mut self, seed: [u8; 32]) {
        self.seed = seed;
        self.first_group = u32::try_from(self.next / GROUP + 1).unwrap_or(u32::MAX);
    }

    /// Returns the number of the next datagram.
    pub(crate) fn take(&mut self) -> u64 {
        if self.next.is_multiple_of(GROUP) {
            self.skipped_here = self.place_in(self.next / GROUP);
        }
        if self.skipped_here.is_some_and(|place| self.next % GROUP == u64::from(place)) {
            self.next += 1;
            return self.take();
        }
        let number = self.next;
        self.next += 1;
        number
    }

    /// Returns the last assigned number + 1.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// Returns the number of assigned, unskipped numbers below `end`.
    pub(crate) fn sent_before(&self, end: u64) -> u64 {
        end - self.skipped_before(end)
    }

    /// Returns true if `number` is skipped.
    pub(crate) fn is_skipped(&self, number: u64) -> bool {
        self.skipped_in(number / GROUP) == Some(number)
    }

    fn skipped_before(&self, end: u64) -> u64 {
        let group = end / GROUP;
        match self.skipped_in(group) {
            Some(number) => group - u64::from(self.first_group) + u64::from(number < end),
            None => 0,
        }
    }

    /// Returns the skipped number of this group.
    fn skipped_in(&self, group: u64) -> Option<u64> {
        self.place_in(group).map(|place| group * GROUP + u64::from(place))
    }

    /// Returns the offset of the skipped number in this group.
    fn place_in(&self, group: u64) -> Option<u8> {
        // No connection sends enough datagrams to reach group `u32::MAX`.
        if self.first_group == u32::MAX || group < u64::from(self.first_group) {
            return None;
        }
        let mut generator = ChaCha8Rng::from_seed(self.seed);
        generator.set_word_pos(group.into());
        Some((generator.next_u32() % GROUP as u32) as u8)
    }

    /// Continues at `number`, as if that many datagrams had been sent.
    #[cfg(test)]
    pub(crate) fn jump_to(&mut self, number: u64) {
        self.next = number;
        self.skipped_here = self.place_in(number / GROUP);
    }
}

impl std::fmt::Debug for DatagramNumbers {
    /// Hides the seed, which would reveal the skipped numbers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramNumbers").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: u64 = 100_000;

    fn skipping(seed: u8) -> DatagramNumbers {
        let mut numbers = DatagramNumbers::default();
        numbers.skip_some([seed; 32]);
        numbers
    }

    fn sent(numbers: &mut DatagramNumbers) -> Vec<u64> {
        std::iter::repeat_with(|| numbers.take()).take_while(|&number| number < NUMBERS).collect()
    }

    #[test]
    fn one_number_in_128_is_never_sent_and_the_handshakes_all_are() {
        let mut numbers = skipping(7);
        let sent = sent(&mut numbers);
        assert!(sent.is_sorted_by(|a, b| a < b));
        assert_eq!(sent[..128], (0..128).collect::<Vec<_>>());
        let skipped = NUMBERS as usize - sent.len();
        assert!((NUMBERS as usize / 128 - 2..=NUMBERS as usize / 128).contains(&skipped), "{skipped}");
    }

    #[test]
    fn what_was_sent_is_known_without_a_list() {
        let mut numbers = skipping(8);
        let sent = sent(&mut numbers);
        let mut before = 0;
        for number in 0..2_000 {
            assert_eq!(numbers.sent_before(number), before, "{number}");
            let was_sent = sent.binary_search(&number).is_ok();
            assert_eq!(numbers.is_skipped(number), !was_sent, "{number}");
            before += u64::from(was_sent);
        }
    }

    #[test]
    fn another_seed_skips_others_and_their_places_are_spread() {
        let places = |seed| {
            let numbers = skipping(seed);
            (1..=1_000).map(|group| numbers.skipped_in(group).unwrap() % GROUP).collect::<Vec<_>>()
        };
        let (one, other) = (places(1), places(2));
        assert!(one.iter().zip(&other).filter(|(a, b)| a == b).count() < 40);
        let seen: std::collections::BTreeSet<u64> = one.into_iter().collect();
        assert!(seen.len() > 120, "{} of 128 places in 1000 groups", seen.len());
    }

    #[test]
    fn without_a_seed_all_are_sent() {
        let mut numbers = DatagramNumbers::default();
        assert_eq!(sent(&mut numbers).len(), NUMBERS as usize);
        assert_eq!((numbers.sent_before(5_000), numbers.is_skipped(300)), (5_000, false));
    }
}
