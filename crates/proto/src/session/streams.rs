//! Streams of a session: what the application does with them, and how the peer's names open and end them
//! (`spec/protocol.md` §3.1).

use dfcp_time::Time;
use dfcp_wire::feedback::{Record, Records};
use dfcp_wire::segment::Ack;
use dfcp_wire::{StreamId, StreamKind};

use crate::error::{Dropped, PeerMisbehaved, StreamError};
use crate::session::recv_side::RecvEvent;
use crate::session::send_side::{Priority, SendEvent};
use crate::session::stream_ids::Seen;
use crate::session::{Phase, Session};
use crate::shared::{PushError, Read};

/// Something that an application may want to know of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer has opened it: [`Streams::accept`] has it.
    Opened(StreamId),
    /// The peer permits more streams of ours than when [`Streams::open`] had none.
    Available,
    /// There may be something to read, or it has ended or been reset.
    Readable(StreamId),
    /// There is room to write again.
    Writable(StreamId),
    /// The peer has every byte written before it was finished, and has proven it (`spec/protocol.md` \[end-8\]). That its
    /// application has read them is not said.
    Finished(StreamId),
    /// The peer wants no more of it, for its application's `error`; what was not delivered is dropped.
    Stopped {
        /// Which stream.
        stream: StreamId,
        /// The peer's application's reason.
        error: u32,
    },
}

/// The streams of a session beside its first one ([`Connection::streams`](crate::Connection::streams)): each an ordered
/// sequence of bytes with blocks, window and end of its own, so that what is lost of one holds up no other.
#[derive(Debug)]
pub struct Streams<'a>(pub(crate) &'a mut Session);

impl Streams<'_> {
    /// Opens a stream, without a round trip (`spec/protocol.md` \[stream-8\]): the peer learns of it with the first that is sent
    /// on it.
    ///
    /// # Errors
    /// [`StreamError::NoCredit`] before the handshake is done and while the peer permits no more of them, and
    /// [`StreamEvent::Available`] will follow; [`StreamError::NotTaken`] if it never permits any; [`StreamError::NoMemory`] if there
    /// is none for what the peer would send on it; [`StreamError::Ended`] after the end of the first stream or of the session, and
    /// [`StreamError::Connection`] if that ended with an error.
    pub fn open(&mut self, kind: StreamKind) -> Result<StreamId, StreamError> {
        let session = &mut *self.0;
        session.check_open()?;
        if session.send.is_shut_down(StreamId::FIRST) {
            return Err(StreamError::Ended);
        }
        if !session.ids.takes(kind) {
            return Err(StreamError::NotTaken);
        }
        let Some(id) = session.ids.open(kind) else {
            session.wants_streams = true;
            return Err(StreamError::NoCredit);
        };
        if session.ids.peer_may_send(id) && !session.recv.open(id) {
            session.ids.close_unused(kind);
            return Err(StreamError::NoMemory);
        }
        session.send.open(id, session.config.traffic);
        Ok(id)
    }

    /// The next stream which the peer has opened: bidirectional ones first, each kind in the order of its ids.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.0.recv.accept()
    }

    /// Takes as many bytes of `data` as there is room for; 0 means none, and [`StreamEvent::Writable`] will follow.
    ///
    /// # Errors
    /// The stream has been finished, reset or stopped, is not ours to write, or the session is over.
    pub fn write(&mut self, now: Time, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        let session = &mut *self.0;
        session.check_open()?;
        let taken = session.send.write(now, id, data).ok_or(StreamError::Ended)?;
        session.may_send |= taken > 0;
        Ok(taken)
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self, id: StreamId) {
        self.0.send.flush(id);
        self.0.may_send = true;
    }

    /// Ends our half of a stream: what has been written is delivered, then the peer reads its end. [`StreamEvent::Finished`]
    /// says that it has all. Has no effect on a stream that has ended.
    pub fn finish(&mut self, now: Time, id: StreamId) {
        self.0.send.shut_down(now, id);
        self.0.may_send = true;
    }

    /// Ends our half of a stream at once: what is not delivered is dropped, and the peer's reader gets `error`. Has no effect on
    /// a stream that has ended, nor on the first one, which ends with its session.
    pub fn reset(&mut self, now: Time, id: StreamId, error: u32) {
        if id != StreamId::FIRST {
            self.0.send.reset(now, id, error);
            self.0.settle_gone(now);
        }
    }

    /// Asks the peer to end its half of a stream, for the reason `error`; what still comes is discarded. Has no effect on a stream
    /// that has ended, nor on the first one.
    pub fn stop_sending(&mut self, now: Time, id: StreamId, error: u32) {
        if id != StreamId::FIRST {
            self.0.recv.stop_sending(now, id, error);
            self.0.settle_gone(now);
        }
    }

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// The peer has reset the stream, it has been read to its end or stopped before, is not ours to read, or the session is over
    /// and everything received before has been read.
    pub fn read(&mut self, now: Time, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        let session = &mut *self.0;
        let read = session.recv.read(id, out)?;
        if matches!(read, Read::Bytes(_)) {
            session.tell_of_room(now);
        }
        if read == Read::Blocked {
            session.check_open()?;
        }
        session.settle_gone(now);
        Ok(read)
    }

    /// Whether [`read`](Self::read) would return something other than `Blocked`.
    #[must_use]
    pub fn is_readable(&self, id: StreamId) -> bool {
        self.0.recv.is_readable(id) || matches!(self.0.phase, Phase::Closed(_))
    }

    /// How a stream which we send is served beside others of this session.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.0.send.set_priority(id, priority);
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        let of_sent = |(stream, event)| match event {
            SendEvent::Writable => StreamEvent::Writable(stream),
            SendEvent::Finished => StreamEvent::Finished(stream),
            SendEvent::Stopped(error) => StreamEvent::Stopped { stream, error },
        };
        let of_received = |(stream, event)| match event {
            RecvEvent::Opened => StreamEvent::Opened(stream),
            RecvEvent::Readable => StreamEvent::Readable(stream),
        };
        if std::mem::take(&mut self.0.has_new_credit) {
            return Some(StreamEvent::Available);
        }
        self.0.recv.poll_event().map(of_received).or_else(|| self.0.send.poll_event().map(of_sent))
    }
}

/// Which direction of a stream a segment speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// What the peer sends.
    FromPeer,
    /// What we send.
    ToPeer,
    /// Either.
    Any,
}

impl Session {
    fn check_open(&self) -> Result<(), StreamError> {
        match &self.phase {
            Phase::Open => Ok(()),
            Phase::SynSent | Phase::SynReceived => Err(StreamError::NoCredit),
            Phase::Closed(error) => Err(error.clone().map_or(StreamError::Ended, StreamError::Connection)),
        }
    }

    /// The peer names a stream, which opens it and all before it of its kind, if they are the peer's to open and not known yet.
    pub(super) fn admit(&mut self, now: Time, id: StreamId, direction: Direction) -> Result<(), PushError> {
        if id == StreamId::FIRST {
            return Ok(());
        }
        let has_direction = match direction {
            Direction::FromPeer => self.ids.peer_may_send(id),
            Direction::ToPeer => self.ids.we_may_send(id),
            Direction::Any => true,
        };
        if !has_direction {
            return Err(PushError::Misbehaved(PeerMisbehaved::StreamDirection { stream: id.to_word() }));
        }
        let Seen::Opens(indices) = self.ids.see(id).map_err(PushError::Misbehaved)? else { return Ok(()) };
        for opened in indices.filter_map(|index| StreamId::new(id.opener(), id.kind(), index)) {
            if !self.recv.open(opened) {
                // As if this had been lost: the peer says it again.
                self.ids.unsee(opened);
                return Err(Dropped::NoMemory.into());
            }
            if self.ids.we_may_send(opened) {
                self.send.open(opened, self.config.traffic);
                if self.closing.is_started() {
                    self.send.shut_down(now, opened);
                }
            }
        }
        Ok(())
    }

    /// What a report says of streams must be of such as we send.
    pub(super) fn check_streams_of(&mut self, records: &Records<'_>) -> Result<(), PushError> {
        for record in records.clone() {
            let Record::Stream(state, _) = record else { continue };
            if !self.ids.we_may_send(state.stream) {
                let stream = state.stream.to_word();
                return Err(PushError::Misbehaved(PeerMisbehaved::StreamDirection { stream }));
            }
            if self.ids.is_ours(state.stream) {
                self.ids.see(state.stream).map_err(PushError::Misbehaved)?;
            }
        }
        Ok(())
    }

    /// An ACK which speaks of a stream, from the peer's datagram `number`.
    pub(super) fn take_stream_ack(&mut self, now: Time, ack: &Ack, number: u64) -> Result<(), PushError> {
        match *ack {
            Ack::ResetStream { stream, error, end } => {
                self.admit_other(now, stream, Direction::FromPeer)?;
                self.recv.on_reset(stream, error, end)?;
            }
            Ack::StopSending { stream, error } => {
                self.admit_other(now, stream, Direction::ToPeer)?;
                self.send.on_stopped(now, stream, error);
            }
            Ack::OfFin { stream, end, proof } => {
                self.admit_other(now, stream, Direction::ToPeer)?;
                self.send.on_end_acknowledged((stream, end, proof), number).map_err(PushError::Misbehaved)?;
            }
            Ack::OfReset { stream, served } => {
                self.admit_other(now, stream, Direction::ToPeer)?;
                self.send.on_reset_acknowledged((stream, served), number).map_err(PushError::Misbehaved)?;
            }
            Ack::Gone { stream } => {
                self.admit_other(now, stream, Direction::ToPeer)?;
                self.send.on_gone(stream, number);
            }
            _ => return Err(Dropped::Unexpected.into()),
        }
        self.may_send = true;
        Ok(())
    }

    /// As [`admit`](Self::admit), for what the first stream does not have: it ends with the session.
    fn admit_other(&mut self, now: Time, id: StreamId, direction: Direction) -> Result<(), PushError> {
        if id == StreamId::FIRST {
            return Err(Dropped::Unexpected.into());
        }
        self.admit(now, id, direction)
    }

    /// Streams of which neither half is left make room for others.
    pub(super) fn settle_gone(&mut self, now: Time) {
        while let Some((id, by_reset)) = self.recv.take_gone().or_else(|| self.send.take_gone()) {
            if self.send.has(id) || self.recv.has(id) {
                if by_reset {
                    // Whichever half goes last, the stream counts as reset.
                    self.send.note_reset(id);
                    self.recv.note_reset(id);
                }
                continue;
            }
            self.ids.on_gone(now, id, by_reset);
            // Who has used up its credit learns of this one at once.
            self.reporter.on_own_news(now);
        }
    }

    /// Tells the peer once a good part more of the window is free than it knows of.
    pub(super) fn tell_of_room(&mut self, now: Time) {
        if self.phase == Phase::Open && self.recv.has_room_to_tell() {
            self.reporter.on_own_news(now);
        }
    }
}
