//! RSTs of sessions that have ended here, kept for peers that have missed them (`spec/protocol.md` \[rst-10\]).

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use dfcp_time::Time;

use crate::endpoint::rate_limit::RateLimit;
use crate::limits;
use crate::session::closed::LastWords;

/// RSTs of sessions that this endpoint has already forgotten, by the connection id in the peer's datagrams. The oldest
/// entry makes room for a new one.
#[derive(Debug)]
pub(super) struct KeptWords {
    by_id: BTreeMap<u32, LastWords>,
    /// Expiry time and id of each entry of `by_id`, earliest first.
    kept_until: VecDeque<(Time, u32)>,
    limit: RateLimit,
}

impl KeptWords {
    /// Maximum memory of all entries, bytes.
    pub(super) const BYTES_MAX: usize = limits::LAST_WORDS_MAX * limits::LAST_WORDS_PLACE_BYTES;

    pub(super) fn new() -> Self {
        let limit = RateLimit::new(limits::STATELESS_RESETS_PER_S, limits::STATELESS_RESETS_BURST);
        Self { by_id: BTreeMap::new(), kept_until: VecDeque::new(), limit }
    }

    /// Keeps the RST of the session with local id `id`.
    pub(super) fn keep(&mut self, now: Time, id: u32, words: LastWords) {
        self.expire(now);
        if self.by_id.insert(id, words).is_some() {
            // Rare: ids are random 32-bit numbers.
            self.kept_until.retain(|&(_, kept)| kept != id);
        }
        self.kept_until.push_back((now + limits::LAST_WORDS_KEPT, id));
        if self.kept_until.len() > limits::LAST_WORDS_MAX {
            self.forget_oldest();
        }
    }

    /// Writes the RST of session `id` into `reply`, to answer a datagram of `bytes` bytes. Returns the length of the
    /// RST. It is always less than `bytes`, so two ends that have both forgotten a session soon fall silent.
    pub(super) fn answer(
        &mut self,
        now: Time,
        (remote, id): (SocketAddr, u32),
        bytes: usize,
        reply: &mut [u8],
    ) -> Option<usize> {
        self.expire(now);
        let words = self.by_id.get(&id)?.for_datagram_of(bytes)?;
        if !self.limit.permits(now, remote.into()) {
            return None;
        }
        reply.get_mut(..words.len())?.copy_from_slice(words);
        self.limit.charge(now, remote.into());
        Some(words.len())
    }

    fn expire(&mut self, now: Time) {
        while self.kept_until.front().is_some_and(|&(until, _)| until <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.kept_until.pop_front() {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::shared::DATAGRAM_BUFFER_BYTES;

    const ID: u32 = 7;

    fn words(byte: u8) -> LastWords {
        LastWords::of(&[byte; 40]).unwrap()
    }

    fn from(host: u32) -> SocketAddr {
        (host.to_be_bytes(), 5_000).into()
    }

    fn answer(kept: &mut KeptWords, now: Time, id: u32, bytes: usize) -> Option<Vec<u8>> {
        let mut reply = [0; DATAGRAM_BUFFER_BYTES];
        let length = kept.answer(now, (from(1), id), bytes, &mut reply)?;
        Some(reply[..length].to_vec())
    }

    #[test]
    fn the_words_are_repeated_for_a_minute_to_longer_datagrams_alone() {
        let mut kept = KeptWords::new();
        let begun = Time::from_s(100);
        kept.keep(begun, ID, words(9));
        assert_eq!(answer(&mut kept, begun, ID, 41), Some(vec![9; 40]));
        assert_eq!(answer(&mut kept, begun, ID, 40), None, "two ends would answer each other for ever");
        assert_eq!(answer(&mut kept, begun, ID + 1, 1_400), None, "of another session nothing is known");
        assert!(answer(&mut kept, begun + limits::LAST_WORDS_KEPT - Duration::from_millis(1), ID, 41).is_some());
        assert_eq!(answer(&mut kept, begun + limits::LAST_WORDS_KEPT, ID, 41), None);
        assert!(kept.by_id.is_empty() && kept.kept_until.is_empty());
    }

    /// Peers that open and break off endless sessions displace the oldest entries, and use bounded memory.
    #[test]
    fn any_number_of_ended_sessions_takes_bounded_memory() {
        let mut kept = KeptWords::new();
        let count = 10 * limits::LAST_WORDS_MAX as u32;
        for id in 0..count {
            kept.keep(Time::from_s(1) + Duration::from_micros(id.into()), id, words(1));
            // The same id again replaces the older RST.
            kept.keep(Time::from_s(1) + Duration::from_micros(id.into()), id, words(2));
        }
        assert_eq!((kept.by_id.len(), kept.kept_until.len()), (limits::LAST_WORDS_MAX, limits::LAST_WORDS_MAX));
        // Worst case: the tree's nodes are half empty, and the queue's capacity has just doubled.
        let places = 2 * (size_of::<(u32, LastWords)>() + size_of::<(Time, u32)>());
        assert!(places + limits::LAST_WORDS_BYTES_MAX <= limits::LAST_WORDS_PLACE_BYTES, "{places}");
        assert_eq!(answer(&mut kept, Time::from_s(2), count - 1, 100), Some(vec![2; 40]));
        assert_eq!(answer(&mut kept, Time::from_s(2), 0, 100), None);
    }

    /// An attacker that has seen an id, and forges source addresses, draws fewer bytes than it sends, and few answers.
    #[test]
    fn a_flood_draws_few_answers() {
        let mut kept = KeptWords::new();
        kept.keep(Time::from_s(1), ID, words(9));
        let (mut answers, mut from_one) = (0, 0);
        for step in 0..100_000_u32 {
            let now = Time::from_s(1) + Duration::from_micros(100) * step;
            let mut reply = [0; DATAGRAM_BUFFER_BYTES];
            let remote = from(if step % 2 == 0 { 1 } else { step });
            if let Some(length) = kept.answer(now, (remote, ID), 41, &mut reply) {
                assert!(length < 41);
                answers += 1;
                from_one += u32::from(remote == from(1));
            }
        }
        let in_ten_seconds = limits::STATELESS_RESETS_BURST + 10 * limits::STATELESS_RESETS_PER_S;
        assert!((1..=in_ten_seconds).contains(&answers), "{answers}");
        assert!(from_one <= in_ten_seconds / limits::ADDRESS_SHARE as u32 + 1, "{from_one}");
    }
}
