//! Bytes that each sender's partial files occupy or have announced, over all sessions.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dfcp_framing::error::Failure;

use super::Id;
use crate::owner::Owner;
use crate::store::too_much;

/// Charges per sender. Without a limit, nothing is counted.
#[derive(Debug)]
pub(super) struct Claims {
    bytes_max: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<Id, Claim>,
    /// Sum of the charges per sender, bytes.
    totals: BTreeMap<Owner, u64>,
}

/// Charge for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Claim {
    owner: Owner,
    bytes: u64,
    /// True while a session of this program is writing the file.
    is_active: bool,
}

impl State {
    fn put(&mut self, id: &Id, claim: Option<Claim>) {
        let before = match claim.clone() {
            Some(claim) => self.files.insert(id.clone(), claim),
            None => self.files.remove(id),
        };
        if let Some(Claim { owner, bytes, .. }) = before
            && let Some(total) = self.totals.get_mut(&owner)
        {
            *total = total.saturating_sub(bytes);
            if *total == 0 {
                self.totals.remove(&owner);
            }
        }
        if let Some(Claim { owner, bytes, .. }) = claim.filter(|claim| claim.bytes > 0) {
            let total = self.totals.entry(owner).or_default();
            *total = total.saturating_add(bytes);
        }
    }
}

impl Claims {
    pub(super) fn new(bytes_max: Option<u64>) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    /// Charges `bytes` to `owner` for a file; returns the file's previous charge.
    ///
    /// # Errors
    /// Fails if the sender's total exceeds the limit.
    pub(super) fn claim(&self, owner: &Owner, id: &Id, bytes: u64) -> Result<Option<Claim>, Failure> {
        let Some(bytes_max) = self.bytes_max else { return Ok(None) };
        let mut state = self.state();
        let before = state.files.get(id).cloned();
        let own = before.as_ref().filter(|claim| claim.owner == *owner).map_or(0, |claim| claim.bytes);
        let others = state.totals.get(owner).copied().unwrap_or_default().saturating_sub(own);
        // A file that does not grow is always permitted.
        if bytes > own && others.saturating_add(bytes) > bytes_max {
            return Err(too_much(bytes_max));
        }
        state.put(id, Some(Claim { owner: owner.clone(), bytes, is_active: true }));
        Ok(before)
    }

    /// Restores the charge from before [`Claims::claim`].
    pub(super) fn restore(&self, id: &Id, before: Option<Claim>) {
        self.state().put(id, before);
    }

    /// Sets the charge of a file with `bytes` on the disk that no session of this program is writing.
    pub(super) fn leave(&self, owner: &Owner, id: &Id, bytes: u64) {
        if self.bytes_max.is_some() {
            self.state().put(id, Some(Claim { owner: owner.clone(), bytes, is_active: false }));
        }
    }

    /// Removes the charge of a file that is stored under its final name or no longer exists.
    pub(super) fn release(&self, id: &Id) {
        self.state().put(id, None);
    }

    /// Replaces the charges of `owner`'s inactive files by the lengths in `found`.
    pub(super) fn found(&self, owner: &Owner, found: &BTreeMap<Id, u64>) {
        if self.bytes_max.is_none() {
            return;
        }
        let mut state = self.state();
        let is_left = |claim: &Claim| claim.owner == *owner && !claim.is_active;
        let gone = state.files.iter().filter(|(id, claim)| is_left(claim) && !found.contains_key(id));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            state.put(&id, None);
        }
        for (id, bytes) in found {
            if state.files.get(id).is_none_or(|claim| !claim.is_active) {
                state.put(id, Some(Claim { owner: owner.clone(), bytes: *bytes, is_active: false }));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> Owner {
        Owner::from_fingerprint("SHA256:alice")
    }

    fn id(name: &str) -> Id {
        Id::of(&alice(), name.as_bytes())
    }

    #[test]
    fn what_one_sender_leaves_is_counted_once_and_until_it_is_gone() {
        let claims = Claims::new(Some(100));
        assert_eq!(claims.claim(&alice(), &id("f"), 60).unwrap(), None);
        assert!(claims.claim(&alice(), &id("g"), 41).is_err());
        let bob = Owner::from_fingerprint("SHA256:bob");
        claims.claim(&bob, &Id::of(&bob, b"f"), 100).unwrap();
        let before = claims.claim(&alice(), &id("f"), 80).unwrap();
        assert!(claims.claim(&alice(), &id("g"), 21).is_err());
        claims.restore(&id("f"), before);
        claims.claim(&alice(), &id("g"), 40).unwrap();
        claims.leave(&alice(), &id("g"), 10);
        claims.claim(&alice(), &id("h"), 30).unwrap();
        // State after reading the directory: one file was removed, one was left by another program, and one is active.
        claims.found(&alice(), &BTreeMap::from([(id("i"), 5), (id("f"), 1)]));
        assert!(claims.claim(&alice(), &id("g"), 6).is_err());
        claims.claim(&alice(), &id("g"), 5).unwrap();
        for name in ["f", "g", "h", "i"] {
            claims.release(&id(name));
        }
        claims.release(&Id::of(&bob, b"f"));
        let state = claims.state();
        assert!(state.files.is_empty() && state.totals.is_empty());
    }

    /// The limit may have been higher when the file was started.
    #[test]
    fn a_file_of_more_than_the_limit_may_stay_as_long_as_it_is() {
        let claims = Claims::new(Some(100));
        claims.leave(&alice(), &id("f"), 200);
        claims.claim(&alice(), &id("f"), 200).unwrap();
        assert!(claims.claim(&alice(), &id("f"), 201).is_err());
        assert!(claims.claim(&alice(), &id("g"), 1).is_err());
    }
}
