//! The wrong guesses over all codes of a receiver's life.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::PAIRING_WRONG_MAX;

/// Counts for all codes that one receiver makes, whatever becomes of each: an attacker that guesses twice at every code and
/// never voids one is stopped like any other. Share it by `Arc` between the codes.
///
/// As in [`super::OneTimeCode`], a run under way counts until it ends, so wrong guesses are never more than
/// [`PAIRING_WRONG_MAX`].
#[derive(Debug, Default)]
pub struct GuessTally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    wrong: u32,
    under_way: u32,
}

impl GuessTally {
    /// True if no guess will ever be left again.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.counts().wrong >= PAIRING_WRONG_MAX
    }

    /// Takes a guess for a run, if one is left; to be followed by [`GuessTally::end`].
    #[must_use]
    pub(super) fn begin(&self) -> bool {
        let mut counts = self.counts();
        let left = counts.wrong + counts.under_way < PAIRING_WRONG_MAX;
        counts.under_way += u32::from(left);
        left
    }

    /// A run has ended, and has cost its guess if it was `wrong`.
    pub(super) fn end(&self, wrong: bool) {
        let mut counts = self.counts();
        counts.under_way -= 1;
        counts.wrong += u32::from(wrong);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Every change is complete before the lock is let go.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
