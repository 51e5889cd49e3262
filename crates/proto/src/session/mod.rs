//! A session of the modern profile: the state that two endpoints share. It is in one of three phases, each of which owns what exists only
//! in it: [`Opening`], [`Open`], [`Closed`]. [`Common`] is the part of all three.
//!
//! A phase gets the common part as an argument and never changes the phase: it returns what has been agreed ([`Agreed`]) or
//! how the session ends ([`End`]), and this module alone goes from one phase to the next.
//!
//! # Run loop
//!
//! Hand in what happened (`handle_datagram`, `handle_timeout`, or the application's `write`, `read`, `finish`, …),
//! then drain [`poll_transmit`](Session::poll_transmit) until it returns `None` and
//! [`poll_event`](Session::poll_event) until it does, then sleep until
//! [`next_timeout`](Session::next_timeout) or the next input. Time only ever enters as an argument.

pub(crate) mod application;
mod begin;
pub(crate) mod closed;
mod common;
pub(crate) mod handshake;
mod link;
pub(crate) mod message_calls;
mod messages;
pub(crate) mod noise;
mod open;
mod opening;
pub(crate) mod protection;
pub(crate) mod recv_side;
mod reporter;
pub(crate) mod send_side;
pub(crate) mod sharing;
pub(crate) mod stream_ids;
mod stream_set;
mod streams;
mod unsealed;

use std::net::SocketAddr;

use dfcp_secure::SealError;
use dfcp_time::Time;
use dfcp_wire::segment::{Reset, ResetReason};
use dfcp_wire::{DecodeError, Unverified};

use crate::error::{ConnectionError, Dropped};
use crate::path::ecn::Origin;
pub(crate) use crate::session::begin::Proven;
use crate::session::closed::{Closed, LastWords};
use crate::session::common::Common;
use crate::session::link::EmitError;
use crate::session::open::Open;
use crate::session::opening::{Agreed, Opening};
use crate::shared::events::{Event, EventKind};
use crate::shared::{Ports, Timer, Transmit};
use crate::state::State;

/// One end of a session.
#[derive(Debug)]
pub struct Session {
    common: Common,
    phase: Phase,
}

/// The phase of a session, with the state that exists only in it.
#[derive(Debug)]
enum Phase {
    Opening(Box<Opening>),
    Open(Box<Open>),
    Closed(Box<Closed>),
}

/// The end of a session: its error, and the RST to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct End {
    /// Why, unless both sides closed it.
    error: Option<ConnectionError>,
    /// The peer is to be told by one RST, for this reason (\[rst-4\]).
    reset: Option<ResetReason>,
}

impl End {
    /// The peer knows, or cannot be told.
    fn because(error: ConnectionError) -> Self {
        Self { error: Some(error), reset: None }
    }

    /// The peer has ended an open session (\[rst-3\], \[rst-6\]).
    fn by_peer(reset: Reset) -> Self {
        Self::because(match reset.reason {
            ResetReason::Application { error } => ConnectionError::EndedByPeer { error },
            ResetReason::PathTooNarrow => ConnectionError::PathTooNarrow,
            ResetReason::Unspecified
            | ResetReason::NotAdmitted
            | ResetReason::CannotRead
            | ResetReason::SessionUnknown => ConnectionError::Reset,
        })
    }
}

/// Why a datagram has not been taken.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// It has no effect.
    Dropped(Dropped),
    /// It ends the session. In a box, as every datagram's result would be as large.
    Ended(Box<End>),
}

impl From<Dropped> for Stop {
    fn from(dropped: Dropped) -> Self {
        Self::Dropped(dropped)
    }
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Dropped(error.into())
    }
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        Self::Ended(Box::new(end))
    }
}

/// Datagrams and time.
impl Session {
    /// Takes in a datagram which came from `origin`, and decrypts it in place. Everything invalid is dropped and counted.
    /// Returns why it was, for observers.
    pub(crate) fn handle_datagram(&mut self, now: Time, origin: Origin, datagram: &mut [u8]) -> Option<Dropped> {
        self.common.count_received(datagram.len());
        match self.take_datagram(now, origin, datagram) {
            Ok(()) => None,
            Err(Stop::Dropped(why)) => {
                self.common.counters.segments_dropped += 1;
                Some(why)
            }
            Err(Stop::Ended(end)) => {
                self.end(*end);
                None
            }
        }
    }

    fn take_datagram(&mut self, now: Time, origin: Origin, datagram: &mut [u8]) -> Result<(), Stop> {
        let header = Unverified::read(datagram)?;
        let common = &mut self.common;
        match (&mut self.phase, header) {
            // The session is here, so the question has no answer and is no fault ([rst-8]). Anybody may write one: nothing else comes of it.
            (_, Unverified::Clear(header)) if common.link.is_sealed && header.is_session_query() => Ok(()),
            (Phase::Open(open), Unverified::Sealed(header)) => open.take_sealed(now, common, origin, &header, datagram),
            (Phase::Open(open), Unverified::Clear(header)) if common.link.is_sealed => {
                open.take_clear(common, &header, datagram)
            }
            (Phase::Opening(opening), Unverified::Clear(header)) if common.link.is_sealed => {
                if let Some(agreed) = opening.take_clear(now, common, &header, datagram)? {
                    self.establish(now, agreed);
                }
                Ok(())
            }
            (Phase::Opening(_) | Phase::Open(_), Unverified::Clear(header)) if !common.link.is_sealed => {
                self.take_unsealed(now, &header, origin.ecn, datagram)
            }
            (Phase::Closed(closed), _) => {
                closed.on_datagram(now, datagram.len());
                Err(Dropped::Unexpected.into())
            }
            _ => Err(Dropped::Unexpected.into()),
        }
    }

    /// Latest time for the next call of [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit), with its
    /// reason; a time in the past means now. `None` once the session is closed and owes the peer no RST.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        match &self.phase {
            Phase::Opening(opening) => opening.next_timeout(now, &self.common),
            Phase::Open(open) => open.next_timeout(now, &self.common),
            Phase::Closed(closed) => closed.next_timeout(now),
        }
    }

    /// The driver sends from another socket from now on: with `is_other_host` over another path, as far as it knows.
    pub(crate) fn on_own_move(&mut self, now: Time, is_other_host: bool) {
        if let Phase::Open(open) = &mut self.phase {
            open.on_own_move(now, &mut self.common, is_other_host);
        }
    }

    /// Lets time pass: timeouts end what must end. What is due to be sent, `poll_transmit` sends.
    pub fn handle_timeout(&mut self, now: Time) {
        let end = match &mut self.phase {
            Phase::Opening(opening) => opening.handle_timeout(now, &self.common),
            Phase::Open(open) => open.handle_timeout(now, &self.common),
            Phase::Closed(_) => None,
        };
        if let Some(end) = end {
            self.end(end);
        }
    }

    /// Writes the next datagram to send at `now` into `out`, which must hold
    /// [`DATAGRAM_BUFFER_BYTES`](crate::DATAGRAM_BUFFER_BYTES); `None` if there is nothing to send before
    /// [`next_timeout`](Self::next_timeout).
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        let (out, common) = (out.first_chunk_mut()?, &mut self.common);
        let sent = match &mut self.phase {
            Phase::Opening(opening) => opening.next_datagram(now, common, out),
            Phase::Open(open) => open.next_datagram(now, common, out),
            Phase::Closed(closed) => closed.next_datagram(now, common, out),
        };
        match sent {
            Ok(transmit) => transmit,
            Err(error) => {
                self.on_emit_error(error);
                None
            }
        }
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        let kind = self.common.events.pop()?;
        Some(kind.with_reason(|| self.error().cloned()))
    }
}

/// From phase to phase.
impl Session {
    /// The handshake is done.
    fn establish(&mut self, now: Time, agreed: Agreed) {
        if let Phase::Opening(opening) = &mut self.phase {
            self.phase = Phase::Open(Box::new(Open::new(now, &mut self.common, opening, agreed)));
        }
    }

    /// The session is over, unless it was before.
    fn end(&mut self, end: End) {
        let open = match std::mem::replace(&mut self.phase, Phase::Closed(Box::default())) {
            Phase::Opening(_) => None,
            Phase::Open(open) => Some(open),
            closed @ Phase::Closed(_) => {
                self.phase = closed;
                return;
            }
        };
        self.phase = Phase::Closed(Box::new(Closed::new(end, open)));
        self.common.events.push(EventKind::Closed);
    }

    /// The end of a session that this side gives up.
    fn given_up(&self, error: ConnectionError) -> End {
        match &self.phase {
            Phase::Opening(opening) => opening.given_up(error),
            Phase::Open(_) | Phase::Closed(_) => End { error: Some(error), reset: Some(ResetReason::Unspecified) },
        }
    }

    /// Ends the session, which cannot say what it has to.
    fn on_emit_error(&mut self, error: EmitError) {
        debug_assert!(error == EmitError::Seal(SealError::Cipher), "{error}");
        self.end(match error {
            EmitError::Encode(error) => self.given_up(ConnectionError::CannotEncode(error)),
            EmitError::Code => self.given_up(ConnectionError::CannotCode),
            EmitError::Seal(_) => End::because(ConnectionError::CipherFailed),
        });
    }
}

/// Properties of the session.
impl Session {
    /// The session's state, by the thesis's names (§3.6, §3.11).
    #[must_use]
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Opening(opening) => opening.state(),
            Phase::Open(open) => open.state(),
            Phase::Closed(_) => State::Closed,
        }
    }

    /// The session's local and remote port.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.common.link.ports
    }

    /// The id which modern segments to this end carry.
    #[must_use]
    pub fn local_id(&self) -> u32 {
        self.common.link.local_id
    }

    /// The id which modern segments to the peer carry, once it is known.
    pub(crate) fn peer_id(&self) -> Option<u32> {
        self.common.link.peer_id
    }

    /// Why the session is over, unless it is not or both sides closed it.
    pub(crate) fn error(&self) -> Option<&ConnectionError> {
        match &self.phase {
            Phase::Closed(closed) => closed.error(),
            Phase::Opening(_) | Phase::Open(_) => None,
        }
    }

    /// The RST that has told the peer that the session is over, once it has left.
    pub(crate) fn last_words(&self) -> Option<&LastWords> {
        match &self.phase {
            Phase::Closed(closed) => closed.last_words(),
            Phase::Opening(_) | Phase::Open(_) => None,
        }
    }

    /// The peer's address. Changes after the peer has moved (`spec/protocol.md`, "Paths").
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.common.paths.active().remote()
    }

    /// Time of the latest datagram from the peer that authenticated, and at first of the session's beginning. In plaintext: of the latest
    /// that was not out of place.
    #[must_use]
    pub fn last_heard(&self) -> Time {
        self.common.last_heard
    }
}

#[cfg(test)]
mod many_streams_tests;
#[cfg(test)]
mod opening_tests;
#[cfg(test)]
mod sealed_tests;
#[cfg(test)]
mod test_datagrams;
