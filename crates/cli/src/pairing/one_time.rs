//! A code that is good for one success, a few wrong guesses and a while, however many peers try it at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::code::Code;
use super::error::Refusal;
use super::tally::GuessTally;
use crate::limits::PAIRING_GUESSES_MAX;

/// A receiver's code. Share it by reference or `Arc` between all connections that may try it.
///
/// A run takes one of the guesses when it begins, before anything is sent which depends on the code, and gives it back
/// only if it ends before a confirmation came: such a run has told the peer nothing, and paths that lose connections
/// must not cost guesses. So wrong guesses and runs under way are never more than [`PAIRING_GUESSES_MAX`] together, and
/// runs side by side cannot guess more often than runs one by one. The same holds, over all codes of the receiver, for the
/// [`GuessTally`].
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
    /// `code` is good until `expires`, see [`crate::limits::PAIRING_CODE_AGE_MAX`], and while `tally`, that of all the
    /// receiver's codes, is not spent.
    #[must_use]
    pub fn new(code: Code, expires: Instant, tally: Arc<GuessTally>) -> Self {
        Self { code, expires, tally, state: Mutex::default() }
    }

    /// Reason why the code is void, if it is: then nobody need wait for it.
    #[must_use]
    pub fn void(&self, now: Instant) -> Option<Refusal> {
        self.why_void(&self.state(), now)
    }

    /// Takes one of the guesses that are left.
    ///
    /// # Errors
    /// The code is void, or [`Refusal::Busy`]: all guesses left are being made.
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
        // Every change is complete before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run under way. Dropped without [`Attempt::settle`], it gives its guess back.
#[derive(Debug)]
pub struct Attempt<'a> {
    one_time: &'a OneTimeCode,
    wrong: bool,
}

impl Attempt<'_> {
    /// The code to be guessed.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.one_time.code
    }

    /// Uses the guess: `right` tells if the peer's confirmation was. `Ok` comes once in a code's life.
    ///
    /// # Errors
    /// [`Refusal::WrongCode`]; or the code has become void while this run was under way.
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
        // `settle` has let the lock go by the time that its `self` is dropped: locals go before parameters.
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
        // Compared too late, it counts nonetheless: an expired code is no way to guess for nothing.
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
        /// Against plain counters: begin, drop, wrong and right in any order.
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
