//! All streams of a session: their ids, and their sending and receiving halves. Segments of the peer open and end
//! streams here (`spec/protocol.md` §3.1).

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

/// The direction of a stream that a segment refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the peer to us.
    FromPeer,
    /// From us to the peer.
    ToPeer,
    /// Either direction.
    Any,
}

/// All streams of a session.
#[derive(Debug)]
pub(super) struct StreamSet {
    /// Ids and credit.
    pub(super) ids: StreamIds,
    pub(super) send: Box<SendSide>,
    pub(super) recv: Box<RecvSide>,
    /// The application failed to open a stream for lack of credit.
    wants_more: bool,
    /// The peer has granted more credit since, and the application has not been notified.
    has_new_credit: bool,
    /// Our FIN has been announced, so our half of streams that the peer still opens ends immediately.
    is_ending: bool,
}

impl StreamSet {
    /// Creates the streams. With a secret in `proofs`, the peer must prove that it has decoded blocks.
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

    /// Opens a stream from this side, in an open session.
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

    /// Returns true while the application waits for the peer to permit another stream.
    pub(super) fn wants_more(&self) -> bool {
        self.wants_more
    }

    /// Records that the application wanted to open a stream before the handshake was complete.
    pub(super) fn want_more(&mut self) {
        self.wants_more = true;
    }

    /// Applies the stream limits of the handshake. A waiting application is notified even if no stream is permitted:
    /// its next attempt then returns the reason.
    pub(super) fn on_open(&mut self, limits: dfcp_wire::StreamLimits) {
        self.ids.on_peer_limits(limits);
        self.has_new_credit |= std::mem::take(&mut self.wants_more);
    }

    /// Applies the total numbers of streams that the peer permits.
    pub(super) fn on_peer_limits(&mut self, limits: dfcp_wire::StreamLimits) {
        if self.ids.on_peer_limits(limits) {
            self.has_new_credit |= std::mem::take(&mut self.wants_more);
        }
    }

    /// Returns true once after an application that waited for a stream may be able to open one.
    pub(super) fn take_new_credit(&mut self) -> bool {
        std::mem::take(&mut self.has_new_credit)
    }

    /// Records that we open no more streams, and send no more on streams that the peer opens.
    pub(super) fn on_ending(&mut self) {
        self.is_ending = true;
    }

    /// Admits a stream that the peer names. If the peer may open it, this opens the stream and all earlier ones of its
    /// kind.
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
                // Treat the segment as lost: the peer will repeat it.
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

    /// Checks that the records of a report name only streams that we may send on.
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

    /// Processes an ACK that concerns a stream, from the peer's datagram `number`.
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

    /// Like [`admit`](Self::admit), for segments that the first stream does not have, since it ends with the session.
    fn admit_other(&mut self, now: Time, id: StreamId, direction: Direction) -> Result<(), PushError> {
        if id == StreamId::FIRST {
            return Err(Dropped::Unexpected.into());
        }
        self.admit(now, id, direction)
    }

    /// Releases the streams whose halves have both ended, and returns true if there were any. The peer must then get a
    /// report immediately, as it may have used up its credit.
    #[must_use]
    pub(super) fn settle_gone(&mut self, now: Time) -> bool {
        let mut has_room = false;
        while let Some((id, by_reset)) = self.recv.take_gone().or_else(|| self.send.take_gone()) {
            if self.send.has(id) || self.recv.has(id) {
                if by_reset {
                    // A reset of either half makes the whole stream count as reset.
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
