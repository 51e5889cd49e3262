//! Places of served peers, with a limit per key.
//!
//! A vanished sender keeps its place until its connection times out, half a minute later. If one key could hold all
//! places, a host with a flapping path would lock out everybody. So a key may hold three times as many places as are
//! free (dynamic thresholds of Choudhury and Hahne, 1998): of 16 places, one key gets 12, and then a second key 3.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dfcp::PublicKey;

use crate::limits::PLACES_PER_FREE_ONE;

/// Places of a server.
#[derive(Debug)]
pub struct Shares {
    places_max: usize,
    /// True if the limit per key applies.
    is_shared: bool,
    /// Key of each served peer. Peers without a key have no limit.
    taken: Mutex<Vec<Option<PublicKey>>>,
}

/// Place of a peer; dropping it frees the place.
#[derive(Debug)]
pub struct Share {
    all: Arc<Shares>,
    key: Option<PublicKey>,
}

impl Shares {
    /// Creates `places_max` places; `is_shared` applies the limit per key.
    pub fn new(places_max: usize, is_shared: bool) -> Arc<Self> {
        Arc::new(Self { places_max, is_shared, taken: Mutex::default() })
    }

    /// Takes a place for a peer with this key; `None` if no place is free, or the key's limit is reached.
    pub fn take(self: &Arc<Self>, key: Option<PublicKey>) -> Option<Share> {
        let mut taken = self.taken();
        let free = self.places_max.saturating_sub(taken.len());
        let own = taken.iter().filter(|its| key.is_some() && **its == key).count();
        let is_granted = free > 0 && (!self.is_shared || own < free.saturating_mul(PLACES_PER_FREE_ONE));
        if !is_granted {
            return None;
        }
        taken.push(key);
        Some(Share { all: Arc::clone(self), key })
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Option<PublicKey>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.all.taken();
        if let Some(place) = taken.iter().position(|its| *its == self.key) {
            taken.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use dfcp::StaticKey;

    use super::*;

    fn key(seed: u8) -> Option<PublicKey> {
        Some(StaticKey::from_seed(&[seed; 32]).public())
    }

    /// Takes places for `key` until none is left, and holds them.
    fn take_all(shares: &Arc<Shares>, key: Option<PublicKey>) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(key)).collect()
    }

    /// Regression test: sixteen vanished sessions of one key held all places for half a minute.
    #[test]
    fn one_key_leaves_places_to_others() {
        let shares = Shares::new(16, true);
        let one = take_all(&shares, key(1));
        let two = take_all(&shares, key(2));
        let three = take_all(&shares, key(3));
        assert_eq!((one.len(), two.len(), three.len()), (12, 3, 1));
        assert!(shares.take(key(4)).is_none() && shares.take(None).is_none(), "there is none left");
        drop(one);
        assert!(shares.take(key(2)).is_some());
        assert_eq!(take_all(&shares, None).len(), 12, "those without a key are not known to be one");
    }

    #[test]
    fn few_places_go_to_whoever_comes() {
        for (places, own) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
            assert_eq!(take_all(&Shares::new(places, true), key(1)).len(), own);
            assert_eq!(take_all(&Shares::new(places, false), key(1)).len(), places);
        }
    }
}
