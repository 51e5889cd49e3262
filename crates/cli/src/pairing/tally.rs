//! Count of wrong guesses over all codes of a receiver.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::PAIRING_WRONG_MAX;

/// Counter over all codes that one receiver makes. It also stops an attacker that guesses only twice at every code, so
/// that no code becomes void. Shared by `Arc` between the codes.
///
/// As in [`super::OneTimeCode`], a running attempt counts until it ends, so wrong guesses never exceed [`PAIRING_WRONG_MAX`].
#[derive(Debug, Default)]
pub struct GuessTally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    wrong: u32,
    under_way: u32,
}

impl GuessTally {
    /// Returns true if wrong guesses have used up all guesses, which is permanent.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.counts().wrong >= PAIRING_WRONG_MAX
    }

    /// Reserves a guess for a run; returns false if none is left. [`GuessTally::end`] must follow.
    #[must_use]
    pub(super) fn begin(&self) -> bool {
        let mut counts = self.counts();
        let left = counts.wrong + counts.under_way < PAIRING_WRONG_MAX;
        counts.under_way += u32::from(left);
        left
    }

    /// Ends a run; the guess stays used if it was `wrong`.
    pub(super) fn end(&self, wrong: bool) {
        let mut counts = self.counts();
        counts.under_way -= 1;
        counts.wrong += u32::from(wrong);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Poisoning is harmless: every change is complete before the lock is released.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
