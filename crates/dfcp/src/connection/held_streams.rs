//! Streams of a connection that have handles: their waiting tasks, and how their halves ended.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::Waker;

use dfcp_proto::{Connection, StreamEvent, StreamId, StreamKind, StreamStats, Streams};
use dfcp_time::Time;

use crate::connection::send_ends::{SendEnd, SendEnds};
use crate::connection::story::{Story, StreamNews};
use crate::connection::wakers::Wakers;
use crate::error::{StreamError, shut_down_error};

/// State of the sending half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SendState {
    #[default]
    Open,
    ShutDown,
    /// The peer has confirmed every byte.
    Finished,
    /// The peer wanted no more bytes, with this code.
    Stopped(u32),
    /// This side has reset the half.
    Reset,
}

/// State of the receiving half, as far as the application has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RecvState {
    #[default]
    Open,
    End,
    /// The peer has reset the half, with this code.
    Reset(u32),
    /// This side has stopped the half.
    Stopped,
}

/// A stream that has a handle.
#[derive(Debug, Default)]
pub(super) struct Held {
    opened_by: OpenedBy,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) sends: SendState,
    pub(super) receives: RecvState,
    /// Final counters of directions that the protocol has already forgotten.
    pub(super) gone: StreamStats,
}

/// A direction of a stream, seen from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// From this side to the peer.
    Sent,
    /// From the peer to this side.
    Received,
}

/// Side that has opened a stream. For the first stream, both ends use the default `Us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OpenedBy {
    #[default]
    Us,
    Peer,
}

/// Treatment of new streams of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Incoming {
    /// They wait to be accepted.
    #[default]
    Queue,
    /// They are refused, as no handle is left to accept them.
    Refuse,
}

/// Streams of a connection that have handles, and streams of the peer that wait to be accepted.
#[derive(Debug, Default)]
pub(super) struct HeldStreams {
    /// The stream that every connection has. Most connections have no other stream, and allocate nothing for others.
    first: Held,
    others: BTreeMap<StreamId, Held>,
    incoming: Incoming,
    /// Bidirectional streams of the peer that wait to be accepted. The configuration limits their number.
    bidirectional: VecDeque<StreamId>,
    one_way: VecDeque<StreamId>,
    /// Allocation that is reused for the wakers of the next turn.
    spare: Vec<Waker>,
    /// Watches on the end of sending halves.
    pub(super) send_ends: SendEnds,
}

impl HeldStreams {
    pub(super) fn get(&self, id: StreamId) -> Option<&Held> {
        if id == StreamId::FIRST { Some(&self.first) } else { self.others.get(&id) }
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Held> {
        if id == StreamId::FIRST { Some(&mut self.first) } else { self.others.get_mut(&id) }
    }

    /// Applies an event of a stream.
    pub(super) fn on_event(
        &mut self,
        now: Time,
        (connection, story): (&mut Connection, &mut Option<Box<Story>>),
        event: StreamEvent,
        wakers: &mut Wakers,
    ) {
        match event {
            StreamEvent::Opened(_) => self.take_opened(now, &mut connection.streams(), story, wakers),
            StreamEvent::Available => wakers.news.available = true,
            StreamEvent::Readable(id) => self.on_held(id, wakers, |held| held.reader.take()),
            StreamEvent::Writable(id) => self.on_held(id, wakers, |held| held.writer.take()),
            StreamEvent::Finished(id) => {
                tell(story, id, StreamNews::Delivered);
                self.send_ends.end(id, SendEnd::Delivered);
                self.on_held(id, wakers, |held| held.end_sending(SendState::Finished));
            }
            StreamEvent::Stopped { stream, error } => {
                tell(story, stream, StreamNews::StoppedByPeer(error));
                self.send_ends.end(stream, SendEnd::Stopped(error));
                self.on_held(stream, wakers, |held| held.end_sending(SendState::Stopped(error)));
            }
            StreamEvent::Gone { stream, stats } => {
                if let Some(held) = self.get_mut(stream) {
                    held.gone = held.gone.and(*stats);
                }
            }
            _ => self.wake_all(wakers),
        }
    }

    fn on_held(&mut self, id: StreamId, wakers: &mut Wakers, act: impl FnOnce(&mut Held) -> Option<Waker>) {
        if let Some(waker) = self.get_mut(id).and_then(act) {
            self.push_waker(waker, wakers);
        }
    }

    pub(super) fn push_waker(&mut self, waker: Waker, wakers: &mut Wakers) {
        wakers.push(waker, &mut self.spare);
    }

    fn take_opened(
        &mut self,
        now: Time,
        streams: &mut Streams<'_>,
        story: &mut Option<Box<Story>>,
        wakers: &mut Wakers,
    ) {
        while let Some(id) = streams.accept() {
            tell(story, id, StreamNews::OpenedByPeer);
            match (self.incoming, id.kind()) {
                (Incoming::Refuse, _) => refuse(now, streams, story, id),
                (Incoming::Queue, StreamKind::Bidirectional) => self.bidirectional.push_back(id),
                (Incoming::Queue, StreamKind::OneWay) => self.one_way.push_back(id),
            }
            wakers.news.opened = true;
        }
    }

    /// Wakes all waiting tasks, because the connection is over or has lost its driver.
    pub(super) fn wake_all(&mut self, wakers: &mut Wakers) {
        for held in std::iter::once(&mut self.first).chain(self.others.values_mut()) {
            for waker in [held.reader.take(), held.writer.take()].into_iter().flatten() {
                wakers.push(waker, &mut self.spare);
            }
        }
    }

    /// Refuses the peer's streams from now on, including streams that wait to be accepted.
    pub(super) fn refuse_incoming(&mut self, now: Time, connection: &mut Connection, story: &mut Option<Box<Story>>) {
        self.incoming = Incoming::Refuse;
        let mut streams = connection.streams();
        for id in self.bidirectional.drain(..).chain(self.one_way.drain(..)) {
            refuse(now, &mut streams, story, id);
        }
        while let Some(id) = streams.accept() {
            tell(story, id, StreamNews::OpenedByPeer);
            refuse(now, &mut streams, story, id);
        }
    }

    /// Queues the peer's streams from now on, until they are accepted.
    pub(super) fn take_incoming(&mut self) {
        self.incoming = Incoming::Queue;
    }

    pub(super) fn refuses_incoming(&self) -> bool {
        self.incoming == Incoming::Refuse
    }

    /// Returns the next stream of the peer that waits to be accepted.
    pub(super) fn accept(&mut self, kind: StreamKind) -> Option<StreamId> {
        let id = match kind {
            StreamKind::Bidirectional => self.bidirectional.pop_front(),
            StreamKind::OneWay => self.one_way.pop_front(),
        }?;
        self.hold(id, OpenedBy::Peer);
        Some(id)
    }

    /// Records that a stream has a handle.
    pub(super) fn hold(&mut self, id: StreamId, opened_by: OpenedBy) {
        self.others.insert(id, Held { opened_by, ..Held::default() });
    }

    /// Records that a stream's handle was dropped. A half that was shut down is still delivered; any other half ends.
    pub(super) fn let_go(
        &mut self,
        now: Time,
        connection: &mut Connection,
        story: &mut Option<Box<Story>>,
        id: StreamId,
    ) {
        self.let_go_of_half(now, connection, story, (id, Half::Sent));
        self.let_go_of_half(now, connection, story, (id, Half::Received));
        self.others.remove(&id);
    }

    /// Records that the handle of one half was dropped: the half ends now unless it was shut down or has ended.
    pub(super) fn let_go_of_half(
        &mut self,
        now: Time,
        connection: &mut Connection,
        story: &mut Option<Box<Story>>,
        (id, half): (StreamId, Half),
    ) {
        let Some(held) = self.others.get_mut(&id) else { return };
        let mut streams = connection.streams();
        let is_one_way = id.kind() == StreamKind::OneWay;
        match half {
            Half::Sent if held.sends == SendState::Open && !(is_one_way && held.opened_by == OpenedBy::Peer) => {
                held.sends = SendState::Reset;
                streams.reset(now, id, 0);
                self.send_ends.end(id, SendEnd::Reset);
                tell(story, id, StreamNews::ResetHere(0));
            }
            Half::Received if held.receives == RecvState::Open && !(is_one_way && held.opened_by == OpenedBy::Us) => {
                held.receives = RecvState::Stopped;
                streams.stop_sending(now, id, 0);
                tell(story, id, StreamNews::StoppedHere(0));
            }
            Half::Sent | Half::Received => {}
        }
    }

    /// Ends the sending half of a stream, without waiting. Returns false if it had ended before, or has no handle.
    pub(super) fn finish(&mut self, now: Time, connection: &mut Connection, id: StreamId) -> bool {
        let Some(held) = self.get_mut(id).filter(|held| held.sends == SendState::Open) else { return false };
        held.sends = SendState::ShutDown;
        connection.streams().finish(now, id);
        true
    }

    /// Returns true if this side has ended the sending half of the first stream.
    pub(super) fn is_first_ended(&self) -> bool {
        self.first.sends != SendState::Open
    }

    /// Keeps an emptied allocation for reuse.
    pub(super) fn give_back(&mut self, spare: Vec<Waker>) {
        if self.spare.capacity() == 0 {
            self.spare = spare;
        }
    }
}

impl Held {
    /// Records the end of the sending half, unless it has already ended. Returns the waker of the waiting writer.
    pub(super) fn end_sending(&mut self, how: SendState) -> Option<Waker> {
        if matches!(self.sends, SendState::Open | SendState::ShutDown) {
            self.sends = how;
        }
        self.writer.take()
    }

    /// Returns the error of a write to a half that has ended.
    pub(super) fn send_error(&self) -> Option<io::Error> {
        match self.sends {
            SendState::Open => None,
            SendState::ShutDown | SendState::Finished => Some(shut_down_error()),
            SendState::Stopped(code) => Some(StreamError::Stopped { code }.into()),
            SendState::Reset => Some(StreamError::EndedHere.into()),
        }
    }

    /// Returns the result of a read from a half that has ended.
    pub(super) fn read_end(&self) -> Option<io::Result<()>> {
        match self.receives {
            RecvState::Open => None,
            RecvState::End => Some(Ok(())),
            RecvState::Reset(code) => Some(Err(StreamError::Reset { code }.into())),
            RecvState::Stopped => Some(Err(StreamError::EndedHere.into())),
        }
    }
}

fn refuse(now: Time, streams: &mut Streams<'_>, story: &mut Option<Box<Story>>, id: StreamId) {
    streams.reset(now, id, 0);
    streams.stop_sending(now, id, 0);
    tell(story, id, StreamNews::Refused);
}

/// Logs an event of a stream if the log has a subscriber.
pub(super) fn tell(story: &mut Option<Box<Story>>, id: StreamId, news: StreamNews) {
    if let Some(story) = story {
        story.on_stream(id, news);
    }
}
