//! The one-time codes of a listener: one at a time, and a new one when it has served.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::limits::PAIRING_CODE_AGE_MAX;
use crate::pairing::{Code, GuessTally, OneTimeCode, PairingError, Refusal, pair_as_receiver};
use crate::transport::Transport;

/// Something that people have to be told about the codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// This one is good now, and why it replaces another, if it does.
    Code {
        /// The current code, to be told to one person.
        code: Code,
        /// Reason why the code before is void; `None` for the first.
        before: Option<Refusal>,
    },
    /// There will be no further code: too many guesses were wrong.
    Closed,
}

/// Makes codes, tells them to `tell`, and lets callers pair by them.
pub struct CodeDesk<F: Fn(News) + Send + Sync> {
    state: Mutex<State>,
    /// Over all codes.
    tally: Arc<GuessTally>,
    tell: F,
    once: bool,
}

#[derive(Debug)]
struct State {
    code: Arc<OneTimeCode>,
    closed: bool,
}

impl<F: Fn(News) + Send + Sync> CodeDesk<F> {
    /// Opens with a first code. With `once`, a used code is the last one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn open(once: bool, tell: F) -> Result<Self, PairingError> {
        let tally = Arc::default();
        let (code, shown) = fresh(&tally)?;
        tell(News::Code { code: shown, before: None });
        Ok(Self { state: Mutex::new(State { code, closed: false }), tally, tell, once })
    }

    /// True if nobody can pair any more.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Pairs with a caller over an encrypted connection with this handshake hash, which may have paired before (\[once-6\]).
    /// May be dropped at any time.
    ///
    /// # Errors
    /// They are not paired.
    pub async fn pair<T: Transport>(
        &self,
        stream: &mut T,
        handshake_hash: &[u8; 32],
        has_paired: bool,
    ) -> Result<(), PairingError> {
        let code = Arc::clone(&self.state().code);
        let run = Run { desk: self, code: &code };
        let outcome = pair_as_receiver(stream, &code, handshake_hash, has_paired).await;
        run.desk.replace(&code)?;
        outcome
    }

    /// Makes a new code if `tried` is the present one and has become void; none any more after too many wrong guesses, at
    /// whichever code.
    fn replace(&self, tried: &Arc<OneTimeCode>) -> Result<(), PairingError> {
        let mut state = self.state();
        if state.closed {
            return Ok(());
        }
        if self.tally.is_spent() {
            state.closed = true;
            (self.tell)(News::Closed);
            return Ok(());
        }
        if !Arc::ptr_eq(&state.code, tried) {
            return Ok(());
        }
        let Some(why) = tried.void(Instant::now().into_std()) else { return Ok(()) };
        if why == Refusal::Used && self.once {
            return Ok(());
        }
        let (code, shown) = fresh(&self.tally)?;
        state.code = code;
        (self.tell)(News::Code { code: shown, before: Some(why) });
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Fn(News) + Send + Sync> std::fmt::Debug for CodeDesk<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeDesk").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A run under way. Dropped before its end, it may have made the code void all the same, which must not stay the present one.
struct Run<'a, F: Fn(News) + Send + Sync> {
    desk: &'a CodeDesk<F>,
    code: &'a Arc<OneTimeCode>,
}

impl<F: Fn(News) + Send + Sync> Drop for Run<'_, F> {
    fn drop(&mut self) {
        if let Err(error) = self.desk.replace(self.code) {
            tracing::warn!(%error, "there is no further pairing code");
        }
    }
}

fn fresh(tally: &Arc<GuessTally>) -> Result<(Arc<OneTimeCode>, Code), PairingError> {
    let code = Code::random()?;
    let expires = (Instant::now() + PAIRING_CODE_AGE_MAX).into_std();
    Ok((Arc::new(OneTimeCode::new(code.clone(), expires, Arc::clone(tally))), code))
}
