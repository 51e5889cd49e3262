//! The streams of a session: which there are, what they send and receive, and how what the peer says of them opens and ends
//! them (`spec/protocol.md` §3.1).

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::feedback::{Record, Records};
use dfcp_wire::segment::Ack;
use dfcp_wire::{StreamId, StreamKind};

use crate::config::Config;
use crate::error::{Dropped, PeerMisbehaved, StreamError};
use crate::path::Path;
use crate::session::recv_side::RecvSide;
use crate::session::send_side::SendSide;
use crate::session::stream_ids::{Seen, StreamIds};
use crate::shared::{PushError, Role};

/// The direction of a stream that a segment speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the peer to us.
    FromPeer,
    /// From us to the peer.
    ToPeer,
    /// Either.
    Any,
}

/// All streams of a session.
#[derive(Debug)]
pub(super) struct StreamSet {
    /// Ids of the streams that there are and may be.
    pub(super) ids: StreamIds,
    pub(super) send: Box<SendSide>,
    pub(super) recv: Box<RecvSide>,
    /// The application has wanted to open a stream, and the peer permitted none.
    wants_more: bool,
    /// The peer permits more since, and the application has not been told.
    has_new_credit: bool,
    /// We have said that we send nothing more: of what the peer still opens, our half ends at once.
    is_ending: bool,
}

impl StreamSet {
    /// Asks for proofs of decoding if it gets a secret for them.
    pub(super) fn new(config: &Config, role: Role, proofs: Option<[u8; 32]>) -> Self {
        let kernel = Kernel::detect();
        Self {
            ids: StreamIds::new(role, config.streams),
            send: Box::new(SendSide::new(config, kernel, role.opener(), proofs)),
            recv: Box::new(RecvSide::new(config, kernel, proofs.is_some(), role)),
            wants_more: false,
            has_new_credit: false,
            is_ending: false,
        }
    }

    /// Opens one of ours in an open session.
    pub(super) fn open(&mut self, kind: StreamKind) -> Result<StreamId, StreamError> {
        if self.send.is_shut_down(StreamId::FIRST) {
            return Err(StreamError::Ended);
        }
        if !self.ids.takes(kind) {
            return Err(StreamError::NotTaken);
        }
        let Some(id) = self.ids.open(kind) else {
            self.wants_more = true;
            return Err(StreamError::NoCredit);
        };
        if self.ids.peer_may_send(id) && !self.recv.open(id) {
            self.ids.close_unused(kind);
            return Err(StreamError::NoMemory);
        }
        self.send.open(id);
        Ok(id)
    }

    /// True while the application waits for the peer to permit another stream.
    pub(super) fn wants_more(&self) -> bool {
        self.wants_more
    }

    /// The application has wanted to open a stream before the peer could permit any.
    pub(super) fn want_more(&mut self) {
        self.wants_more = true;
    }

    /// The handshake tells which streams the peer permits. Also of none an application is told that waits for some: it learns that when it
    /// asks again.
    pub(super) fn on_open(&mut self, limits: dfcp_wire::StreamLimits) {
        self.ids.on_peer_limits(limits);
        self.has_new_credit |= std::mem::take(&mut self.wants_more);
    }

    /// The peer permits streams up to these ids.
    pub(super) fn on_peer_limits(&mut self, limits: dfcp_wire::StreamLimits) {
        if self.ids.on_peer_limits(limits) {
            self.has_new_credit |= std::mem::take(&mut self.wants_more);
        }
    }

    /// True, once, if the application has wanted a stream and got none, and there may be one now.
    pub(super) fn take_new_credit(&mut self) -> bool {
        std::mem::take(&mut self.has_new_credit)
    }

    /// Nothing more will be sent but what the streams have.
    pub(super) fn on_ending(&mut self) {
        self.is_ending = true;
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
                self.send.open(opened);
                if self.is_ending {
                    self.send.shut_down(now, opened);
                }
            }
        }
        Ok(())
    }

    /// Checks that the streams of a report's records are such as we send.
    pub(super) fn check_records(&mut self, records: &Records<'_>) -> Result<(), PushError> {
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
    pub(super) fn take_ack(&mut self, now: Time, path: &mut Path, ack: &Ack, number: u64) -> Result<(), PushError> {
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
                self.send.on_end_acknowledged(path, (stream, end, proof), number).map_err(PushError::Misbehaved)?;
            }
            Ack::OfReset { stream, served } => {
                self.admit_other(now, stream, Direction::ToPeer)?;
                self.send.on_reset_acknowledged(path, (stream, served), number).map_err(PushError::Misbehaved)?;
            }
            Ack::Gone { stream } => {
                self.admit_other(now, stream, Direction::ToPeer)?;
                self.send.on_gone(path, stream, number);
            }
            _ => return Err(Dropped::Unexpected.into()),
        }
        Ok(())
    }

    /// As [`admit`](Self::admit), for what the first stream does not have: it ends with the session.
    fn admit_other(&mut self, now: Time, id: StreamId, direction: Direction) -> Result<(), PushError> {
        if id == StreamId::FIRST {
            return Err(Dropped::Unexpected.into());
        }
        self.admit(now, id, direction)
    }

    /// Streams of which neither half is left make room for others. `true` if there were any: a peer that has used up its credit
    /// is to learn of that at once.
    #[must_use]
    pub(super) fn settle_gone(&mut self, now: Time) -> bool {
        let mut has_room = false;
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
            has_room = true;
        }
        if has_room {
            self.send.give_back_room();
            self.recv.give_back_room();
        }
        has_room
    }
}
