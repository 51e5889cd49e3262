//! Creation of a session, on either side.

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_secure::{Cipher, EndpointResetKey, Established, Pattern, ResetTicket};
use dfcp_time::Time;
use dfcp_wire::Features;
use dfcp_wire::handshake::Offer;
use dfcp_wire::segment::ResetReason;

use crate::config::Config;
use crate::error::{ConfigError, ConnectionError};
use crate::session::common::Common;
use crate::session::handshake::{Opener, PeerLimits};
use crate::session::noise::Call;
use crate::session::open::Open;
use crate::session::opening::{Agreed, Opening};
use crate::session::protection::Protection;
use crate::session::{End, Phase, Session};
use crate::shared::{Ports, Role};

/// A peer that has proven its address and key, as recorded by the acceptor.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) local_id: u32,
    pub(crate) peer_id: u32,
    pub(crate) offer: Offer,
    pub(crate) symbol_size: u16,
    pub(crate) features: Features,
    pub(crate) established: Established,
    pub(crate) cipher: Cipher,
    pub(crate) admitted: bool,
    /// Time when the first SYNACK was sent.
    pub(crate) answered_at: Time,
    /// Reset ticket to be sent to the initiator.
    pub(crate) ticket: Box<ResetTicket>,
}

impl Session {
    /// Opens a session to `remote`. Other connections may share `config`. [`poll_transmit`](Self::poll_transmit)
    /// returns the SYN first. `seed` must be unpredictable to others in real use, and be used once only. With
    /// `reset_key` this side can later prove that it has lost the session.
    ///
    /// # Errors
    /// If the configuration names no trusted peer.
    pub(crate) fn initiate(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        seed: [u8; 32],
        reset_key: Option<&EndpointResetKey>,
    ) -> Result<Self, ConfigError> {
        let mut common = Common::new(now, config, ports, remote, Role::Initiator, seed);
        let (offer, local_id) = (common.own_offer(), common.link.local_id);
        let call = match common.config.credentials() {
            Some(credentials) => {
                let ticket = reset_key.map(|key| Box::new(key.issue(local_id, &seed)));
                Some(Box::new(Call::new(&common.config, credentials, local_id, &offer, ticket, &mut common.random)?))
            }
            None => None,
        };
        let opening = Opening::initiate(now, call);
        Ok(Self { common, phase: Phase::Opening(Box::new(opening)) })
    }

    /// Accepts a plaintext SYN. Returns the acceptor's session, or `None` if `config` cannot serve the SYN. Copies of
    /// the SYN go to [`handle_datagram`](Self::handle_datagram).
    #[must_use]
    pub(crate) fn accept(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        syn: &Opener<'_>,
        bytes: usize,
        seed: [u8; 32],
    ) -> Option<Self> {
        let mut common = Common::new(now, config, ports, remote, Role::Acceptor, seed);
        let mut opening = Opening::accept(now);
        opening.take_syn(now, &mut common, syn, bytes).ok()?;
        common.count_received(bytes);
        Some(Self { common, phase: Phase::Opening(Box::new(opening)) })
    }

    /// Creates the accepting side's end of a sealed session. The session is open from the start. If the key that the
    /// peer has proven is not admitted, the session is closed instead, with an RST to be sent (\[open-35\]).
    pub(crate) fn accept_sealed(
        now: Time,
        config: Arc<Config>,
        remote: SocketAddr,
        seed: [u8; 32],
        proven: Proven,
    ) -> Self {
        let ports = Ports { local: 0, remote: 0 };
        let mut common = Common::new(now, config, ports, remote, Role::Acceptor, seed);
        common.link.local_id = proven.local_id;
        common.link.peer_id = Some(proven.peer_id);
        common.symbol_size = proven.symbol_size;
        common.features = proven.features;
        let first_contact = proven.established.pattern() == Pattern::FirstContact;
        // Log no keys of strangers that are turned away.
        if let Some(key_log) = common.config.danger_key_log.as_ref().filter(|_| proven.admitted) {
            key_log.give((proven.peer_id, proven.local_id), &proven.established, proven.cipher);
        }
        common.link.keys = Some(Box::new(Protection::new(proven.established, proven.cipher)));
        let mut opening = Opening::accept(now);
        if !proven.admitted {
            let mut session = Self { common, phase: Phase::Opening(Box::new(opening)) };
            let error = Some(ConnectionError::Refused);
            session.end(End { error, reset: Some(ResetReason::NotAdmitted) });
            return session;
        }
        common.paths.active_mut().guess_rtt(now.since(proven.answered_at));
        if first_contact {
            // Reports cannot name the third message, since it was not a datagram. Repeat an ACK until a sealed datagram
            // arrives: it tells the initiator to stop repeating the third message.
            opening.handshake.start_timer(now);
        }
        let agreed = Agreed { peer: PeerLimits::from(&proven.offer), third: None, ticket: Some(proven.ticket) };
        let open = Open::new(now, &mut common, &mut opening, agreed);
        Self { common, phase: Phase::Open(Box::new(open)) }
    }

    /// Ends a session before it has begun, as there is no room for it. The initiator gets an RST, unless the session is
    /// already closed.
    pub(crate) fn refuse(&mut self) {
        let error = Some(ConnectionError::Refused);
        self.end(End { error, reset: Some(ResetReason::Unspecified) });
    }
}
