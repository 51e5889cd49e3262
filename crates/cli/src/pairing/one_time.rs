//! One-time code: valid for one success, a few wrong guesses and a limited time, over all concurrent peers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::code::Code;
use super::error::Refusal;
use super::tally::GuessTally;
use crate::limits::PAIRING_GUESSES_MAX;

/// Code of a receiver, shared by all connections that may try it.
///
/// A run reserves a guess before it sends anything that depends on the code. It gives the guess back only if it ends
/// before a confirmation arrives: such a run revealed nothing, and lossy paths must not cost guesses. Wrong guesses and
/// running attempts together never exceed [`PAIRING_GUESSES_MAX`], so parallel runs gain no extra guesses. The
/// [`GuessTally`] applies the same rule over all codes of the receiver.
#[derive(Debug)]
pub struct OneTimeCode {
    code: Code,
    expires: Instant,
    tally: Arc<GuessTally>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: bool,
    wrong: u8,
    under_way: u8,
}

impl OneTimeCode {
    /// Makes `code` valid until `expires` (see [`crate::limits::PAIRING_CODE_AGE_MAX`]) and while `tally`, shared by all codes of the
    /// receiver, has guesses left.
    #[must_use]
    pub fn new(code: Code, expires: Instant, tally: Arc<GuessTally>) -> Self {
        Self { code, expires, tally, state: Mutex::default() }
    }

    /// Returns the reason why the code is void; `None` while it is valid.
    #[must_use]
    pub fn void(&self, now: Instant) -> Option<Refusal> {
        self.why_void(&self.state(), now)
    }

    /// Reserves one of the remaining guesses.
    ///
    /// # Errors
    /// Fails if the code is void, or with [`Refusal::Busy`] if other runs hold all remaining guesses.
    pub fn attempt(&self, now: Instant) -> Result<Attempt<'_>, Refusal> {
        let mut state = self.state();
        if let Some(refusal) = self.why_void(&state, now) {
            return Err(refusal);
        }
        if state.wrong + state.under_way >= PAIRING_GUESSES_MAX || !self.tally.begin() {
            return Err(Refusal::Busy);
        }
        state.under_way += 1;
        Ok(Attempt { one_time: self, wrong: false })
    }

    fn why_void(&self, state: &State, now: Instant) -> Option<Refusal> {
        match () {
            () if state.used => Some(Refusal::Used),
            () if state.wrong >= PAIRING_GUESSES_MAX || self.tally.is_spent() => Some(Refusal::Guessed),
            () if now >= self.expires => Some(Refusal::Expired),
            () => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Poisoning is harmless: every change is complete before the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pairing run in progress. If it is dropped without [`Attempt::settle`], its guess is given back.
#[derive(Debug)]
pub struct Attempt<'a> {
    one_time: &'a OneTimeCode,
    wrong: bool,
}

impl Attempt<'_> {
    /// Returns the code of this run.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.one_time.code
    }

    /// Ends the run and spends the guess; `right` is true if the peer's confirmation was correct. Returns `Ok` at most
    /// once per code.
    ///
    /// # Errors
    /// Fails with [`Refusal::WrongCode`], or if the code became void during the run.
    pub fn settle(mut self, right: bool, now: Instant) -> Result<(), Refusal> {
        let mut state = self.one_time.state();
        let void = self.one_time.why_void(&state, now);
        if !right {
            state.wrong += 1;
            self.wrong = true;
        }
        match void {
            Some(refusal) => Err(refusal),
            None if right => {
                state.used = true;
                Ok(())
            }
            None => Err(Refusal::WrongCode),
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // `settle` has released the lock when its `self` is dropped: locals are dropped before parameters.
        self.one_time.state().under_way -= 1;
        self.one_time.tally.end(self.wrong);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::PAIRING_WRONG_MAX;
    use proptest::prelude::*;

    const LIFE: Duration = Duration::from_secs(900);

    fn one_time() -> (OneTimeCode, Instant) {
        let now = Instant::now();
        (OneTimeCode::new(Code::from_bits(7), now + LIFE, Arc::default()), now)
    }

    /// [once-1]
    #[test]
    fn one_success_and_no_more() {
        let (code, now) = one_time();
        let (first, second) = (code.attempt(now).unwrap(), code.attempt(now).unwrap());
        assert_eq!(first.settle(true, now), Ok(()));
        assert_eq!(second.settle(true, now), Err(Refusal::Used));
        assert_eq!(code.attempt(now).err(), Some(Refusal::Used));
    }

    #[test]
    fn the_third_wrong_guess_is_the_last() {
        let (code, now) = one_time();
        for _ in 0..PAIRING_GUESSES_MAX {
            assert_eq!(code.void(now), None);
            assert_eq!(code.attempt(now).unwrap().settle(false, now), Err(Refusal::WrongCode));
        }
        assert_eq!(code.attempt(now).err(), Some(Refusal::Guessed));
    }

    /// [once-3]
    #[test]
    fn a_run_under_way_counts_until_it_ends() {
        let (code, now) = one_time();
        let runs: Vec<_> = (0..PAIRING_GUESSES_MAX).map(|_| code.attempt(now).unwrap()).collect();
        assert_eq!(code.attempt(now).err(), Some(Refusal::Busy));
        drop(runs);
        assert_eq!(code.attempt(now).unwrap().settle(true, now), Ok(()));
    }

    /// [once-4]
    #[test]
    fn it_expires_also_under_a_run() {
        let (code, now) = one_time();
        let run = code.attempt(now).unwrap();
        assert_eq!(run.settle(true, now + LIFE), Err(Refusal::Expired));
        assert_eq!(code.attempt(now + LIFE).err(), Some(Refusal::Expired));
        assert!(code.attempt(now + LIFE - Duration::from_nanos(1)).is_ok());
    }

    /// [once-5]
    #[test]
    fn wrong_guesses_count_over_all_codes_and_so_do_runs_under_way() {
        let (tally, now) = (Arc::new(GuessTally::default()), Instant::now());
        let fresh = || OneTimeCode::new(Code::from_bits(7), now + LIFE, Arc::clone(&tally));
        for _ in 2..PAIRING_WRONG_MAX {
            let code = fresh();
            assert_eq!(code.attempt(now).unwrap().settle(false, now), Err(Refusal::WrongCode));
            assert_eq!(code.attempt(now).unwrap().settle(true, now), Ok(()));
        }
        let (old, new) = (fresh(), fresh());
        let (first, second) = (old.attempt(now).unwrap(), new.attempt(now).unwrap());
        assert_eq!(new.attempt(now).err(), Some(Refusal::Busy), "the last two guesses are being made");
        // A late comparison still counts: an expired code gives no free guesses.
        assert_eq!(first.settle(false, now + LIFE), Err(Refusal::Expired));
        assert!(!tally.is_spent());
        assert_eq!(second.settle(false, now), Err(Refusal::WrongCode));
        assert!(tally.is_spent());
        assert_eq!(fresh().attempt(now).err(), Some(Refusal::Guessed));
    }

    #[test]
    fn many_threads_guess_no_more_often_than_one() {
        let (code, now) = one_time();
        let tested = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        if let Ok(run) = code.attempt(now) {
                            assert!(run.settle(false, now).is_err());
                            tested.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(tested.into_inner(), usize::from(PAIRING_GUESSES_MAX));
        assert_eq!(code.void(now), Some(Refusal::Guessed));
    }

    proptest! {
        /// Model test against plain counters: begin, drop, wrong and right in any order.
        #[test]
        fn no_order_of_events_tests_more_guesses(events in prop::collection::vec(0_u8..4, 0..60)) {
            let (code, now) = one_time();
            let (mut runs, mut tested, mut successes) = (Vec::new(), 0, 0);
            for event in events {
                if event == 0 {
                    let expected = successes == 0 && tested + runs.len() < usize::from(PAIRING_GUESSES_MAX);
                    let run = code.attempt(now);
                    prop_assert_eq!(run.is_ok(), expected);
                    runs.extend(run.ok());
                } else if let Some(run) = runs.pop() {
                    match event {
                        1 => drop(run),
                        2 => {
                            prop_assert!(run.settle(false, now).is_err());
                            tested += 1;
                        }
                        _ => successes += usize::from(run.settle(true, now).is_ok()),
                    }
                }
            }
            prop_assert!(tested <= usize::from(PAIRING_GUESSES_MAX) && successes <= 1);
        }
    }
}
