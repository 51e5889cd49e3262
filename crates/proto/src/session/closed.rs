//! A closed session. Data received before can still be read, and the statistics stay.

use dfcp_time::Time;
use dfcp_wire::DatagramBuffer;
use dfcp_wire::segment::{Reset, ResetReason, Segment};

use crate::error::{ConnectionError, StreamError};
use crate::limits;
use crate::session::End;
use crate::session::common::Common;
use crate::session::link::EmitError;
use crate::session::open::Open;
use crate::shared::{Timer, Transmit};

/// The RST sent by a closed session: the datagram as it was sent, kept because it may be sent again (\[rst-10\]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords(Box<[u8]>);

impl LastWords {
    /// Keeps the RST in `datagram`. Returns `None` if it is too long to be kept.
    pub(crate) fn of(datagram: &[u8]) -> Option<Self> {
        (datagram.len() <= limits::LAST_WORDS_BYTES_MAX).then(|| Self(datagram.into()))
    }

    /// Returns the RST as an answer to a datagram of `bytes` bytes. `None` unless that datagram is longer than the RST.
    pub(crate) fn for_datagram_of(&self, bytes: usize) -> Option<&[u8]> {
        (self.0.len() < bytes).then_some(&*self.0)
    }
}

/// State of a closed session.
#[derive(Debug, Default)]
pub(super) struct Closed {
    error: Option<ConnectionError>,
    /// Reason of the RST that is still to be sent (\[rst-4\]).
    reset: Option<ResetReason>,
    /// The RST that has been sent. `None` for a session that was never open.
    last_words: Option<LastWords>,
    /// The RST is to be sent again, since the peer has sent a datagram after it.
    owes_repeat: bool,
    /// Earliest time for the next copy of the RST.
    repeats_at: Time,
    /// The open phase, kept for statistics.
    open: Option<Box<Open>>,
}

impl Closed {
    pub(super) fn new(End { error, reset }: End, open: Option<Box<Open>>) -> Self {
        Self { error, reset, last_words: None, owes_repeat: false, repeats_at: Time::ZERO, open }
    }

    /// The error; `None` if both sides closed the session.
    pub(super) fn error(&self) -> Option<&ConnectionError> {
        self.error.as_ref()
    }

    /// Returns the error for calls on streams.
    pub(super) fn stream_error(&self) -> StreamError {
        self.error.clone().map_or(StreamError::Ended, StreamError::Connection)
    }

    pub(super) fn was_open(&self) -> Option<&Open> {
        self.open.as_deref()
    }

    /// The RST that has been sent. `None` for a session that was never open.
    pub(super) fn last_words(&self) -> Option<&LastWords> {
        self.last_words.as_ref()
    }

    /// Schedules a copy of the RST after a datagram of `bytes` bytes, since the peer may have missed the RST.
    /// Rate-limited, because such datagrams are not authenticated.
    pub(super) fn on_datagram(&mut self, now: Time, bytes: usize) {
        let can_be_answered = self.last_words.as_ref().is_some_and(|words| words.for_datagram_of(bytes).is_some());
        if can_be_answered && now >= self.repeats_at {
            self.repeats_at = now + limits::LAST_WORDS_INTERVAL_MIN;
            self.owes_repeat = true;
        }
    }

    pub(super) fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        (self.reset.is_some() || self.owes_repeat).then_some((now, Timer::Reset))
    }

    pub(super) fn next_datagram(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<Transmit>, EmitError> {
        let length = if let Some(reason) = self.reset.take() {
            let length = common.link.write(&Segment::Reset(Reset { reason }), out)?;
            self.last_words = self.open.as_ref().and_then(|_| LastWords::of(out.get(..length)?));
            self.repeats_at = now + limits::LAST_WORDS_INTERVAL_MIN;
            length
        } else if std::mem::take(&mut self.owes_repeat)
            && let Some(LastWords(words)) = &self.last_words
        {
            let Some(out) = out.get_mut(..words.len()) else { return Ok(None) };
            out.copy_from_slice(words);
            words.len()
        } else {
            return Ok(None);
        };
        let remote = common.paths.active().remote();
        Ok(Some(common.on_sent(now, length, None, remote)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// [rst-10]: a flood of datagrams longer than the RST draws one copy per 100 ms; datagrams of the RST's length or
    /// shorter draw none.
    #[test]
    fn a_flood_draws_few_copies() {
        let mut closed = Closed::new(End::default(), None);
        closed.on_datagram(Time::from_s(1), 1_400);
        assert_eq!(closed.next_timeout(Time::from_s(1)), None, "no RST has left");
        closed.last_words = LastWords::of(&[1; 40]);
        let mut copies = 0;
        for step in 0..10_000 {
            let now = Time::from_s(1) + Duration::from_micros(100) * step;
            closed.on_datagram(now, 40);
            assert_eq!(closed.next_timeout(now), None);
            closed.on_datagram(now, 41);
            copies += u32::from(std::mem::take(&mut closed.owes_repeat));
        }
        assert_eq!(copies, 10);
        assert_eq!(LastWords::of(&[1; limits::LAST_WORDS_BYTES_MAX + 1]), None);
    }
}
