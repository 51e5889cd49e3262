//! A session before it is open: SYN_SENT and SYN_RECV (thesis §3.6; `spec/protocol.md` §2). It sends no data before the
//! peer's address is proven (\[open-2\]).

mod sealed;

use std::time::Duration;

use dfcp_secure::ResetTicket;
use dfcp_time::Time;
use dfcp_wire::handshake::Parameters;
use dfcp_wire::segment::{ResetReason, Segment, Syn, SynAck};
use dfcp_wire::{DatagramBuffer, Features};

use crate::error::{ConnectionError, Dropped};
use crate::session::common::Common;
use crate::session::handshake::{
    Handshake, Opener, PeerLimits, are_offered, features, offered_symbol_size, syn_options,
};
use crate::session::link::EmitError;
use crate::session::noise::Call;
use crate::session::{End, Stop};
use crate::shared::{Role, Timer, Transmit, earliest};
use crate::state::State;

/// State that exists only while a session opens.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) handshake: Handshake,
    pub(super) began_at: Time,
    pub(super) stage: Stage,
}

/// The answer that an opening session waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// SYN_SENT, plaintext: waits for a SYNACK, or for a SYN (simultaneous open).
    Called,
    /// SYN_SENT, sealed: waits for the acceptor's Noise message.
    Sealed(Box<Call>),
    /// SYN_RECV, plaintext: waits for a segment that proves the peer's address. Holds the limits declared in the peer's
    /// SYN.
    Answered(PeerLimits),
}

/// Outcome of a handshake, from which a session opens.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) peer: PeerLimits,
    /// Third message of a sealed handshake, repeated until the acceptor shows that it has arrived.
    pub(super) third: Option<Box<[u8]>>,
    /// Reset ticket to be sent to the peer; `None` in plaintext.
    pub(super) ticket: Option<Box<ResetTicket>>,
}

impl Agreed {
    fn unsealed(peer: PeerLimits) -> Self {
        Self { peer, third: None, ticket: None }
    }
}

impl Opening {
    /// Creates the state of an initiator.
    pub(super) fn initiate(now: Time, call: Option<Box<Call>>) -> Self {
        let mut handshake = Handshake::default();
        handshake.start_timer(now);
        Self { handshake, began_at: now, stage: call.map_or(Stage::Called, Stage::Sealed) }
    }

    /// Creates the state of a plaintext acceptor. [`take_syn`](Self::take_syn) then passes it the SYN.
    pub(super) fn accept(now: Time) -> Self {
        Self { handshake: Handshake::default(), began_at: now, stage: Stage::Called }
    }

    pub(super) fn state(&self) -> State {
        match self.stage {
            Stage::Called | Stage::Sealed(_) => State::SynSent,
            Stage::Answered(_) => State::SynReceived,
        }
    }

    /// Returns the end of an attempt that this side gives up. Only a plaintext initiator sends an RST. In SYN_RECV, an
    /// RST could exceed the bytes allowed toward an unproven address (\[open-11\]). A sealed peer would not believe an
    /// RST before there are keys.
    pub(super) fn given_up(&self, error: ConnectionError) -> End {
        let is_told = matches!(self.stage, Stage::Called);
        End { error: Some(error), reset: is_told.then_some(ResetReason::Unspecified) }
    }

    // ---- receiving ----

    /// Processes the peer's SYN of `bytes` bytes, or a copy of it.
    pub(super) fn take_syn(
        &mut self,
        now: Time,
        common: &mut Common,
        syn: &Opener<'_>,
        bytes: usize,
    ) -> Result<(), Dropped> {
        let (parameters, symbol_size) = modern_parameters(syn)?;
        if common.link.peer_id.is_some() {
            // Answer a copy again. A different SYN cannot change agreed values.
            if common.link.peer_id != Some(parameters.connection_id) {
                return Err(Dropped::Unexpected);
            }
            self.handshake.owe(syn.number);
            return Ok(());
        }
        common.link.peer_id = Some(parameters.connection_id);
        common.symbol_size = common.symbol_size.min(symbol_size);
        common.features =
            syn.options.map_or(Features::NONE, |offer| offer.features.intersection(features(&common.config)));
        if common.link.arrivals.received() == 0 {
            common.link.arrivals.observe(now, syn.number.into(), bytes);
        }
        // A SYN in SYN_SENT is a simultaneous open: both ends answer, as TCP does (RFC 9293 §3.5). Neither is only a
        // responder, so both repeat their SYNACK ([open-5]).
        if common.role == Role::Initiator {
            self.handshake.start_timer(now);
        }
        self.stage = Stage::Answered(PeerLimits::from(&parameters.offer));
        self.handshake.owe(syn.number);
        Ok(())
    }

    /// Processes the SYNACK that answers our SYN.
    pub(super) fn take_synack(
        &mut self,
        now: Time,
        common: &mut Common,
        &SynAck { echo, options }: &SynAck,
        number: u32,
        payload: &[u8],
    ) -> Result<Agreed, Stop> {
        if common.role == Role::Acceptor {
            return Err(Dropped::Unexpected.into());
        }
        let is_choice = options.is_none_or(|options| are_offered(options.features, &common.config));
        let answer = Some(Opener { options, number, payload }).filter(|_| is_choice);
        let (parameters, symbol_size) =
            answer.ok_or(Dropped::Unexpected).and_then(|answer| modern_parameters(&answer)).map_err(|error| {
                match error {
                    // The SYNACK requires something that we do not support ([open-16]).
                    Dropped::Unexpected => Stop::from(End::because(ConnectionError::Incompatible)),
                    malformed => malformed.into(),
                }
            })?;
        common.link.peer_id = Some(parameters.connection_id);
        if let Some(sample) = self.handshake.rtt(now, echo) {
            common.paths.active_mut().guess_rtt(sample);
        }
        common.symbol_size = common.symbol_size.min(symbol_size);
        common.features = options.map_or(Features::NONE, |chosen| chosen.features);
        self.handshake.owe(number);
        // Repeat the ACK until the acceptor responds, since the acceptor does not retransmit its SYNACK by timer.
        self.handshake.start_timer(now);
        Ok(Agreed::unsealed(PeerLimits::from(&parameters.offer)))
    }

    /// Opens a session in SYN_RECV, after a segment that names our connection id and so proves the peer's address
    /// (\[open-13\]).
    pub(super) fn proven(&mut self) -> Result<Agreed, Dropped> {
        let Stage::Answered(peer) = self.stage else { return Err(Dropped::Unexpected) };
        self.handshake.stop_timer();
        Ok(Agreed::unsealed(peer))
    }

    /// Returns true if a segment restarts the silence timer. Copies of a SYN must not prolong SYN_RECV, which waits for
    /// a proof of the peer's address.
    pub(super) fn hears(&self) -> bool {
        !matches!(self.stage, Stage::Answered(_))
    }

    // ---- time ----

    pub(super) fn next_timeout(&self, now: Time, common: &Common) -> Option<(Time, Timer)> {
        earliest([
            (Some(self.silence_ends_at(common)), Timer::Idle),
            (self.handshake.next_timeout(), Timer::Handshake),
            (self.handshake.owes().then_some(now), Timer::Answer),
            (self.doubt().map(|(until, _)| until), Timer::Doubt),
        ])
    }

    /// Ends the attempt if no answer has arrived in time.
    pub(super) fn handle_timeout(&self, now: Time, common: &Common) -> Option<End> {
        // Before the handshake is complete, `last_heard` is the time when the attempt began.
        let unanswered = || ConnectionError::HandshakeTimeout { after: now.since(common.last_heard) };
        if self.handshake.is_exhausted(now) {
            return Some(End::because(unanswered()));
        }
        if let Some((until, why)) = self.doubt()
            && now >= until
        {
            return Some(End::because(why.clone()));
        }
        (now >= self.silence_ends_at(common)).then(|| End::because(unanswered()))
    }

    /// Returns the time when silence ends the attempt (\[open-6\], \[idle-1\]).
    fn silence_ends_at(&self, common: &Common) -> Time {
        let connect_timeout = common.config.connect_timeout.filter(|_| common.role == Role::Initiator);
        common.last_heard + common.config.idle_timeout.min(connect_timeout.unwrap_or(Duration::MAX))
    }

    /// Returns an unauthenticated refusal, and the time from which it counts.
    fn doubt(&self) -> Option<(Time, &ConnectionError)> {
        match &self.stage {
            Stage::Sealed(call) => call.doubt(),
            Stage::Called | Stage::Answered(_) => None,
        }
    }

    // ---- sending ----

    /// Writes the SYN or SYNACK that is due.
    pub(super) fn next_datagram(
        &mut self,
        now: Time,
        common: &mut Common,
        out: &mut DatagramBuffer,
    ) -> Result<Option<Transmit>, EmitError> {
        if !self.handshake.is_due(now) {
            return Ok(None);
        }
        let offer = features(&common.config);
        let options = |features| Some(syn_options(common.symbol_size, features));
        let segment = match self.stage {
            Stage::Called | Stage::Sealed(_) => Segment::Syn(Syn { options: options(offer) }),
            Stage::Answered(_) => {
                Segment::SynAck(SynAck { echo: self.handshake.echo(), options: options(common.features) })
            }
        };
        self.handshake.on_answer();
        let (parameters, local_id) = (common.own_parameters(), common.link.local_id);
        let (number, length) = common.link.write_with_payload(&segment, out, |out| match &self.stage {
            Stage::Sealed(call) => call.write_syn(local_id, out),
            Stage::Called | Stage::Answered(_) => parameters.encode(out),
        })?;
        self.handshake.on_sent(now, number);
        let remote = common.paths.active().remote();
        Ok(Some(common.on_sent(now, length, None, remote)))
    }
}

/// Decodes the parameters of a modern SYN or SYNACK, and its symbol size, bytes. Fails if we do not support what it
/// requires.
pub(super) fn modern_parameters(syn: &Opener<'_>) -> Result<(Parameters, u16), Dropped> {
    let symbol_size = offered_symbol_size(syn.options).ok_or(Dropped::Unexpected)?;
    Ok((Parameters::decode(syn.payload)?, symbol_size))
}
