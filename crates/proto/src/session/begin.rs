//! The beginning of a session, on either side.

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

/// A peer that has proven itself, as its acceptor knows it.
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
    /// Time at which the first SYNACK left.
    pub(crate) answered_at: Time,
    /// To be told to the initiator.
    pub(crate) ticket: Box<ResetTicket>,
}

impl Session {
    /// Opens a session to `remote`, with a configuration which others may share: the SYN is what
    /// [`poll_transmit`](Self::poll_transmit) returns first. `seed` must be unpredictable to others in real use, and serve once. With
    /// `reset_key` this side can prove later that it has lost the session.
    ///
    /// # Errors
    /// It is not said whom to trust.
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

    /// Answers an unsealed SYN: the session which the listening side gets. `None` if the SYN is not one which `config` can
    /// serve; [`handle_datagram`](Self::handle_datagram) takes its further copies.
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

    /// The accepting side's end of a sealed session: open from the start, or, if the key which the peer has proven is not
    /// admitted, about to tell it so (\[open-35\]).
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
        // Strangers who are turned away leave nothing in a log.
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
            // The third message was no datagram that a report could name: an ACK, repeated until a sealed datagram
            // comes, tells the initiator to stop repeating it.
            opening.handshake.start_timer(now);
        }
        let agreed = Agreed { peer: PeerLimits::from(&proven.offer), third: None, ticket: Some(proven.ticket) };
        let open = Open::new(now, &mut common, &mut opening, agreed);
        Self { common, phase: Phase::Open(Box::new(open)) }
    }

    /// Ends a session for which there is no room before it has begun, and tells its initiator, unless it has been told
    /// something else.
    pub(crate) fn refuse(&mut self) {
        let error = Some(ConnectionError::Refused);
        self.end(End { error, reset: Some(ResetReason::Unspecified) });
    }
}
