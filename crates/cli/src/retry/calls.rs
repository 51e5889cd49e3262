//! Connection attempts ("calls") to the peer of a lost session. A call lasts half a minute and retransmits at least
//! every second. A further call starts only after the previous one has ended, or when the peer's name resolves to
//! another address: a suspended peer that wakes would have to do a handshake for each call.

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::schedule::Schedule;
use crate::limits::CALLS_AT_ONCE_MAX;

/// Reason why a call failed.
#[derive(Debug)]
pub struct CallFailure {
    /// True if a later call may succeed.
    pub is_transient: bool,
    /// Error for display.
    pub error: anyhow::Error,
}

/// Opens connections to the peer of a transfer.
pub trait Caller {
    /// The result of a call.
    type Connection: Send + 'static;

    /// Returns true if a new call would go to other addresses than the last call, as far as known.
    fn has_moved(&self) -> bool;

    /// Makes one call. Cancel-safe.
    fn call(&self) -> impl Future<Output = Result<Self::Connection, CallFailure>> + Send + 'static;
}

/// Calls since a session was lost.
#[derive(Debug)]
pub(super) struct Calls<T> {
    under_way: JoinSet<Result<T, CallFailure>>,
    made: u32,
    last_failure: Option<anyhow::Error>,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self { under_way: JoinSet::new(), made: 0, last_failure: None }
    }
}

impl<T> Calls<T> {
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    pub(super) fn last_failure(&self) -> Option<&anyhow::Error> {
        self.last_failure.as_ref()
    }
}

impl<T: Send + 'static> Calls<T> {
    /// Makes calls as scheduled until one succeeds, and drops the others. Cancel-safe.
    ///
    /// # Errors
    /// Returns the reason if no call can ever succeed.
    pub(super) async fn next(
        &mut self,
        caller: &impl Caller<Connection = T>,
        schedule: &mut Schedule,
    ) -> Result<T, anyhow::Error> {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.under_way.join_next() => match ended {
                    Ok(Ok(connection)) => {
                        self.under_way.abort_all();
                        return Ok(connection);
                    }
                    Ok(Err(CallFailure { is_transient: true, error })) => self.last_failure = Some(error),
                    Ok(Err(CallFailure { is_transient: false, error })) => return Err(error),
                    Err(panicked) => return Err(panicked.into()),
                },
                () = sleep_until(schedule.due(Instant::now())) => {
                    schedule.called(Instant::now());
                    let has_moved = caller.has_moved();
                    if self.under_way.is_empty() || (has_moved && self.under_way.len() < CALLS_AT_ONCE_MAX) {
                        self.made = self.made.saturating_add(1);
                        self.under_way.spawn(caller.call());
                    }
                }
            }
        }
    }
}
