//! A session of the modern profile: the state that two endpoints share. A session is in one of three phases:
//! [`Opening`], [`Open`] or [`Closed`]. Each phase owns the state that exists only in that phase; [`Common`] exists in
//! all three.
//!
//! A phase gets the common part as an argument and never changes the phase itself. It returns the outcome of the
//! handshake ([`Agreed`]) or the end of the session ([`End`]). Only this module moves a session from one phase to the
//! next.
//!
//! # Run loop
//!
//! Pass in each event (`handle_datagram`, `handle_timeout`, or the application's `write`, `read`, `finish`, …). Then
//! drain [`poll_transmit`](Session::poll_transmit) and [`poll_event`](Session::poll_event) until they return `None`.
//! Then sleep until [`next_timeout`](Session::next_timeout) or the next input. Time only ever enters as an argument.

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

/// The end of a session: its error, and the RST that is still to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct End {
    /// The error; `None` if both sides closed the session.
    error: Option<ConnectionError>,
    /// Reason of the one RST to be sent (\[rst-4\]). `None` if no RST is sent.
    reset: Option<ResetReason>,
}

impl End {
    /// An end without an RST, as the peer already knows or cannot be notified.
    fn because(error: ConnectionError) -> Self {
        Self { error: Some(error), reset: None }
    }

    /// The end of an open session that the peer has reset (\[rst-3\], \[rst-6\]).
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

/// The reason for not accepting a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stop {
    /// The datagram has no effect.
    Dropped(Dropped),
    /// The datagram ends the session. Boxed to keep the result of every datagram small.
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
    /// Processes a datagram received from `origin`, and decrypts it in place. Invalid datagrams are dropped and
    /// counted. Returns the reason for dropping it, for observers.
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
            // The session still exists here, so a session query is valid and gets no answer ([rst-8]). It is
            // unauthenticated, so it must not have any other effect.
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

    /// Returns the latest time for the next call of [`handle_timeout`](Self::handle_timeout) and
    /// [`poll_transmit`](Self::poll_transmit), and the timer that causes it. A time in the past means now. `None` once
    /// the session is closed and owes the peer no RST.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        match &self.phase {
            Phase::Opening(opening) => opening.next_timeout(now, &self.common),
            Phase::Open(open) => open.next_timeout(now, &self.common),
            Phase::Closed(closed) => closed.next_timeout(now),
        }
    }

    /// Call this when the driver sends from another socket from now on. `is_other_host` means that the IP address has
    /// changed, so the path is another one.
    pub(crate) fn on_own_move(&mut self, now: Time, is_other_host: bool) {
        if let Phase::Open(open) = &mut self.phase {
            open.on_own_move(now, &mut self.common, is_other_host);
        }
    }

    /// Handles expired timeouts. Datagrams that have become due are sent by `poll_transmit`.
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
    /// [`DATAGRAM_BUFFER_BYTES`](crate::DATAGRAM_BUFFER_BYTES). Returns `None` if nothing can be sent before
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

    /// Returns the next event that concerns the whole session.
    pub fn poll_event(&mut self) -> Option<Event> {
        let kind = self.common.events.pop()?;
        Some(kind.with_reason(|| self.error().cloned()))
    }
}

/// Transitions between phases.
impl Session {
    /// Opens the session after the handshake.
    fn establish(&mut self, now: Time, agreed: Agreed) {
        if let Phase::Opening(opening) = &mut self.phase {
            self.phase = Phase::Open(Box::new(Open::new(now, &mut self.common, opening, agreed)));
        }
    }

    /// Ends the session. Has no effect if it is already closed.
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

    /// Returns the end of a session that this side gives up.
    fn given_up(&self, error: ConnectionError) -> End {
        match &self.phase {
            Phase::Opening(opening) => opening.given_up(error),
            Phase::Open(_) | Phase::Closed(_) => End { error: Some(error), reset: Some(ResetReason::Unspecified) },
        }
    }

    /// Ends a session that cannot write a segment which it must send.
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

    /// Local and remote port of the session.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.common.link.ports
    }

    /// Connection id in modern segments to this end.
    #[must_use]
    pub fn local_id(&self) -> u32 {
        self.common.link.local_id
    }

    /// Connection id in modern segments to the peer. `None` until known.
    pub(crate) fn peer_id(&self) -> Option<u32> {
        self.common.link.peer_id
    }

    /// Returns the error that ended the session. `None` while it is open, and after both sides have closed it.
    pub(crate) fn error(&self) -> Option<&ConnectionError> {
        match &self.phase {
            Phase::Closed(closed) => closed.error(),
            Phase::Opening(_) | Phase::Open(_) => None,
        }
    }

    /// The RST sent to the peer when the session ended. `None` before the RST is sent.
    pub(crate) fn last_words(&self) -> Option<&LastWords> {
        match &self.phase {
            Phase::Closed(closed) => closed.last_words(),
            Phase::Opening(_) | Phase::Open(_) => None,
        }
    }

    /// The peer's address. It changes after the peer has moved (`spec/protocol.md`, "Paths").
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.common.paths.active().remote()
    }

    /// Arrival time of the latest authenticated datagram from the peer. In plaintext: of the latest datagram that was
    /// accepted. Before the first one: the time when the session began.
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
