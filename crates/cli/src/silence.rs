//! Time since a peer's last datagram.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Last reported silence of a peer, and the time of the report. The silence grows until the next report; before the
/// first report it is zero.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Option<(Instant, Duration)>>);

impl Silence {
    /// Reports the current silence.
    pub(crate) fn note(&self, unheard: Duration) {
        *self.last() = Some((Instant::now(), unheard));
    }

    /// Returns the time since the peer's last datagram.
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
