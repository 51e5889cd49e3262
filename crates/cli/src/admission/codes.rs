//! The one-time codes of a listener: one at a time, and a new one when it has served.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::limits::{PAIRING_CODE_AGE_MAX, PAIRING_CODES_GUESSED_MAX};
use crate::pairing::{Code, OneTimeCode, PairingError, Refusal, pair_as_receiver};
use crate::transport::Transport;

/// Something that people have to be told about the codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// This one is good now, and why it replaces another, if it does.
    Code {
        /// To be told to one person.
        code: Code,
        /// What became of the one before.
        before: Option<Refusal>,
    },
    /// There will be no further code: too many were guessed at.
    Closed,
}

/// Makes codes, tells them to `tell`, and lets senders pair by them.
pub struct CodeDesk<F> {
    state: Mutex<State>,
    tell: F,
    once: bool,
}

#[derive(Debug)]
struct State {
    code: Arc<OneTimeCode>,
    /// Codes which became void by wrong guesses.
    guessed: u32,
    closed: bool,
}

impl<F: Fn(News) + Send + Sync> CodeDesk<F> {
    /// With its first code. With `once` a code which was used is the last one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn open(once: bool, tell: F) -> Result<Self, PairingError> {
        let (code, shown) = fresh()?;
        tell(News::Code { code: shown, before: None });
        Ok(Self { state: Mutex::new(State { code, guessed: 0, closed: false }), tell, once })
    }

    /// Whether nobody can pair any more.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Pairs with a sender over an encrypted connection with this handshake hash.
    ///
    /// # Errors
    /// They are not paired.
    pub async fn pair<T: Transport>(&self, stream: &mut T, handshake_hash: &[u8; 32]) -> Result<(), PairingError> {
        let code = Arc::clone(&self.state().code);
        let outcome = pair_as_receiver(stream, &code, handshake_hash).await;
        self.replace(&code)?;
        outcome
    }

    /// Makes a new code if `tried` is the present one and has become void.
    fn replace(&self, tried: &Arc<OneTimeCode>) -> Result<(), PairingError> {
        let mut state = self.state();
        if state.closed || !Arc::ptr_eq(&state.code, tried) {
            return Ok(());
        }
        let Some(why) = tried.void(Instant::now().into_std()) else { return Ok(()) };
        if why == Refusal::Used && self.once {
            return Ok(());
        }
        if why == Refusal::Guessed {
            state.guessed += 1;
            if state.guessed >= PAIRING_CODES_GUESSED_MAX {
                state.closed = true;
                (self.tell)(News::Closed);
                return Ok(());
            }
        }
        let (code, shown) = fresh()?;
        state.code = code;
        (self.tell)(News::Code { code: shown, before: Some(why) });
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> std::fmt::Debug for CodeDesk<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeDesk").field("state", &self.state).finish_non_exhaustive()
    }
}

fn fresh() -> Result<(Arc<OneTimeCode>, Code), PairingError> {
    let code = Code::random()?;
    let expires = (Instant::now() + PAIRING_CODE_AGE_MAX).into_std();
    Ok((Arc::new(OneTimeCode::new(code.clone(), expires)), code))
}
