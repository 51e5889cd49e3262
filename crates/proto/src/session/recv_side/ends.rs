//! Answers and requests about streams which have ended, or are to end (`spec/protocol.md` \[end-1\]).

use std::collections::VecDeque;

use dfcp_time::Time;
use dfcp_wire::StreamId;
use dfcp_wire::segment::Ack;

use crate::limits::{GONE_STREAMS_MAX, STREAM_ANSWERS_MAX};
use crate::session::recv_side::half::Half;
use crate::session::recv_side::stops::Stops;
use crate::shared::room::Room;
use crate::stream::recv::RecvStream;

/// The record of a half that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) end: u32,
    proof: u32,
    served: u32,
    is_reset: bool,
}

impl Ended {
    /// `None` for a half which has not ended.
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

/// Answers which are owed, streams which are gone, and requests to stop.
#[derive(Debug, Default)]
pub(super) struct Ends {
    answers: VecDeque<StreamId>,
    /// The latest ones.
    gone: VecDeque<(StreamId, Ended)>,
    /// Hardly any session has some.
    stops: Option<Box<Stops>>,
}

impl Ends {
    /// The peer is to be told how the stream ended. One answer serves for all questions that come before it is sent.
    pub(super) fn owe(&mut self, id: StreamId) {
        if self.answers.len() < STREAM_ANSWERS_MAX && !self.answers.contains(&id) {
            self.answers.push_back(id);
        }
    }

    /// The stream is not kept any more.
    pub(super) fn on_gone(&mut self, id: StreamId, ended: Option<Ended>) {
        self.on_ended(id);
        let Some(ended) = ended else { return };
        if self.gone.len() == GONE_STREAMS_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back((id, ended));
    }

    /// The end of a stream that is gone, if it is remembered.
    pub(super) fn gone_mut(&mut self, id: StreamId) -> Option<&mut Ended> {
        self.gone.iter_mut().find(|(gone, _)| *gone == id).map(|(_, ended)| ended)
    }

    /// The peer has given up a stream which was read to its end: that is what it waits to hear about.
    pub(super) fn on_reset(&mut self, id: StreamId) {
        if let Some(ended) = self.gone_mut(id) {
            ended.is_reset = true;
        }
    }

    /// The peer is to end the stream.
    pub(super) fn stop(&mut self, now: Time, id: StreamId, error: u32) {
        self.stops.get_or_insert_default().ask(now, id, error);
    }

    pub(super) fn give_back_room(&mut self) {
        self.answers.give_back();
    }

    /// The end of the stream is known: nothing need be asked any more.
    pub(super) fn on_ended(&mut self, id: StreamId) {
        if let Some(stops) = &mut self.stops {
            stops.on_ended(id);
            self.stops.take_if(|stops| stops.is_empty());
        }
    }

    /// The next answer or request to send; `half` finds what is kept of a stream.
    pub(super) fn next<'a>(&mut self, now: Time, half: impl Fn(StreamId) -> Option<&'a Half>) -> Option<Ack> {
        while let Some(stream) = self.answers.pop_front() {
            let ended = match half(stream) {
                // One which goes on is named by reports.
                Some(half) => Ended::of(&half.stream).map(|ended| ended.answer(stream)),
                None => Some(self.gone_mut(stream).map_or(Ack::Gone { stream }, |ended| ended.answer(stream))),
            };
            if ended.is_some() {
                return ended;
            }
        }
        self.stops.as_mut()?.next(now)
    }

    /// Time at which [`next`](Self::next) has something; a time in the past means now.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let answer = (!self.answers.is_empty()).then_some(Time::ZERO);
        answer.or_else(|| self.stops.as_ref()?.next_timeout())
    }
}
