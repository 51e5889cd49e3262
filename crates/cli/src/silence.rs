//! The time for which nothing has come from a peer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The silence that was known last, and when. It lasts on until more is known; of a session that has told nothing yet it is none.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Option<(Instant, Duration)>>);

impl Silence {
    /// So much is known now.
    pub(crate) fn note(&self, unheard: Duration) {
        *self.last() = Some((Instant::now(), unheard));
    }

    /// Since the last datagram.
    pub(crate) fn unheard(&self) -> Duration {
        self.last().map_or(Duration::ZERO, |(at, unheard)| unheard + at.elapsed())
    }

    fn last(&self) -> MutexGuard<'_, Option<(Instant, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silence_lasts_on_while_nothing_is_told_of_it() {
        let silence = Silence::default();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(silence.unheard(), Duration::ZERO);
        silence.note(Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(silence.unheard(), Duration::from_secs(7));
        silence.note(Duration::ZERO);
        assert_eq!(silence.unheard(), Duration::ZERO);
    }
}
