//! Answers and requests about streams that have ended or should end (`spec/protocol.md` \[end-1\]).

use std::collections::VecDeque;

use dfcp_time::Time;
use dfcp_wire::StreamId;
use dfcp_wire::segment::Ack;

use crate::limits::{GONE_STREAMS_MAX, STREAM_ANSWERS_MAX};
use crate::session::recv_side::half::Half;
use crate::session::recv_side::stops::Stops;
use crate::shared::room::Room;
use crate::stream::recv::RecvStream;

/// Record of a receiving half that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) end: u32,
    proof: u32,
    served: u32,
    is_reset: bool,
}

impl Ended {
    /// Returns `None` for a half that has not ended.
    pub(super) fn of(stream: &RecvStream) -> Option<Self> {
        let is_reset = stream.is_reset_answered();
        let end = stream.end().filter(|_| is_reset || stream.is_finished())?;
        Some(Self { end, proof: stream.proof(), served: stream.served(), is_reset })
    }

    fn answer(self, stream: StreamId) -> Ack {
        let Self { end, proof, served, is_reset } = self;
        if is_reset { Ack::OfReset { stream, served } } else { Ack::OfFin { stream, end, proof } }
    }
}

/// Owed answers, recently ended streams, and requests to stop.
#[derive(Debug, Default)]
pub(super) struct Ends {
    answers: VecDeque<StreamId>,
    /// The most recently ended halves, oldest first.
    gone: VecDeque<(StreamId, Ended)>,
    /// Boxed, since few sessions have any.
    stops: Option<Box<Stops>>,
}

impl Ends {
    /// Schedules an answer that tells how the stream ended. One answer serves all questions that arrive before it is
    /// sent.
    pub(super) fn owe(&mut self, id: StreamId) {
        if self.answers.len() < STREAM_ANSWERS_MAX && !self.answers.contains(&id) {
            self.answers.push_back(id);
        }
    }

    /// Remembers the end of a half that is no longer kept.
    pub(super) fn on_gone(&mut self, id: StreamId, ended: Option<Ended>) {
        self.on_ended(id);
        let Some(ended) = ended else { return };
        if self.gone.len() == GONE_STREAMS_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back((id, ended));
    }

    /// Returns the remembered end of a stream that is gone.
    pub(super) fn gone_mut(&mut self, id: StreamId) -> Option<&mut Ended> {
        self.gone.iter_mut().find(|(gone, _)| *gone == id).map(|(_, ended)| ended)
    }

    /// Records that the peer has reset a remembered stream that was read to its end. From now on the answer is
    /// `OfReset`, for which the peer waits.
    pub(super) fn on_reset(&mut self, id: StreamId) {
        if let Some(ended) = self.gone_mut(id) {
            ended.is_reset = true;
        }
    }

    /// Requests the end of a stream from the peer.
    pub(super) fn stop(&mut self, now: Time, id: StreamId, error: u32) {
        self.stops.get_or_insert_default().ask(now, id, error);
    }

    pub(super) fn give_back_room(&mut self) {
        self.answers.give_back();
    }

    /// Cancels the request to stop a stream, as its end is known.
    pub(super) fn on_ended(&mut self, id: StreamId) {
        if let Some(stops) = &mut self.stops {
            stops.on_ended(id);
            self.stops.take_if(|stops| stops.is_empty());
        }
    }

    /// Returns the next answer or request to send. `half` looks up a receiving half that is still kept.
    pub(super) fn next<'a>(&mut self, now: Time, half: impl Fn(StreamId) -> Option<&'a Half>) -> Option<Ack> {
        while let Some(stream) = self.answers.pop_front() {
            let ended = match half(stream) {
                // A stream that goes on is named by reports instead.
                Some(half) => Ended::of(&half.stream).map(|ended| ended.answer(stream)),
                None => Some(self.gone_mut(stream).map_or(Ack::Gone { stream }, |ended| ended.answer(stream))),
            };
            if ended.is_some() {
                return ended;
            }
        }
        self.stops.as_mut()?.next(now)
    }

    /// Time at which [`next`](Self::next) returns something. A time in the past means now.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let answer = (!self.answers.is_empty()).then_some(Time::ZERO);
        answer.or_else(|| self.stops.as_ref()?.next_timeout())
    }
}
