//! One-time codes of a listener: one is valid at a time, and a used code is replaced by a new one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dfcp_files::transport::Transport;
use tokio::time::Instant;

use crate::limits::PAIRING_CODE_AGE_MAX;
use crate::pairing::{Code, GuessTally, OneTimeCode, PairingError, Refusal, pair_as_receiver};

/// Event of the one-time codes that must be shown to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A new code is valid; `before` is the reason why it replaces the previous one.
    Code {
        /// Valid code, to be given to one person.
        code: Code,
        /// Reason why the previous code became void; `None` for the first code.
        before: Option<Refusal>,
    },
    /// No further code will be made: too many guesses were wrong.
    Closed,
}

/// Creates one-time codes, reports them through `tell`, and pairs with peers that know the current code.
pub struct CodeDesk<F: Fn(News) + Send + Sync> {
    state: Mutex<State>,
    /// Wrong guesses over all codes so far.
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
    /// Creates the first code. With `once`, a used code is not replaced.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub fn open(once: bool, tell: F) -> Result<Self, PairingError> {
        let tally = Arc::default();
        let (code, shown) = fresh(&tally)?;
        tell(News::Code { code: shown, before: None });
        Ok(Self { state: Mutex::new(State { code, closed: false }), tally, tell, once })
    }

    /// Returns true if no further peer can pair.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Pairs with a peer over the encrypted connection with this handshake hash. `has_paired` is true if the peer's key
    /// has paired before (\[once-6\]). Cancel-safe.
    ///
    /// # Errors
    /// Fails if the peer does not know the code, or the connection breaks.
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

    /// Replaces `tried` by a new code if it is the current code and is void. After too many wrong guesses over all
    /// codes, closes the desk instead.
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
        // Poisoning is harmless: every change is complete before the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Fn(News) + Send + Sync> std::fmt::Debug for CodeDesk<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeDesk").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Pairing run in progress. A run that is dropped before its end may have voided the code; dropping then replaces it.
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
