//! Datagram numbers: given out in order, a few of them never (`spec/protocol.md` \[data-5\]).
//!
//! An honest receiver cannot have seen a number which was never sent. A receiver that claims what it did not receive does
//! not know which ones these are (RFC 9000 §21.4). One that receives can infer them from the gaps; it need not guess.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// One number is skipped in each run of this length, at an unpredictable place.
const GROUP: u64 = 128;

/// Gives out the numbers of one direction's datagrams, from 0 on.
pub(crate) struct DatagramNumbers {
    next: u64,
    /// Decides which ones are skipped.
    seed: [u8; 32],
    /// The first group of which one is skipped. None is in classic, where nothing reports numbers, nor in a handshake.
    first_group: u32,
    /// The place of the number skipped in the group of `next`, if one is, so that most datagrams draw nothing.
    skipped_here: Option<u8>,
}

impl Default for DatagramNumbers {
    fn default() -> Self {
        Self { next: 0, seed: [0; 32], first_group: u32::MAX, skipped_here: None }
    }
}

impl DatagramNumbers {
    /// From the next group on, one number in each is skipped. The peer must not be able to guess the seed.
    pub(crate) fn skip_some(&mut self, seed: [u8; 32]) {
        self.seed = seed;
        self.first_group = u32::try_from(self.next / GROUP + 1).unwrap_or(u32::MAX);
    }

    /// The number of the next datagram.
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

    /// One past the last number given out.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// Numbers below `end` which were given out, or will be.
    pub(crate) fn sent_before(&self, end: u64) -> u64 {
        end - self.skipped_before(end)
    }

    /// True if `number` is never given out.
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

    /// The number skipped in this group, if one is.
    fn skipped_in(&self, group: u64) -> Option<u64> {
        self.place_in(group).map(|place| group * GROUP + u64::from(place))
    }

    /// Its place in the group.
    fn place_in(&self, group: u64) -> Option<u8> {
        // No connection sends as many datagrams without skipping any as would make the first group overflow.
        if self.first_group == u32::MAX || group < u64::from(self.first_group) {
            return None;
        }
        let mut generator = ChaCha8Rng::from_seed(self.seed);
        generator.set_word_pos(group.into());
        Some((generator.next_u32() % GROUP as u32) as u8)
    }

    /// Goes on at `number`, as after that many datagrams.
    #[cfg(test)]
    pub(crate) fn jump_to(&mut self, number: u64) {
        self.next = number;
        self.skipped_here = self.place_in(number / GROUP);
    }
}

impl std::fmt::Debug for DatagramNumbers {
    /// The seed tells a peer what to leave out.
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
